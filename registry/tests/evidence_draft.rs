//! Drafts: lint-clean where the bundle says everything, with counted blanks where it does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod bundles;

use std::path::PathBuf;

use capgate_registry::evidence::{draft, judge};
use capgate_registry::profile::{self, Verdict};

use bundles::Folder;

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn drafts(bundle: &str) -> Option<Vec<draft::Draft>> {
    let shared =
        std::env::var_os("CAPGATE_SHARED").map_or_else(|| workspace().join("../shared"), PathBuf::from);
    let path = shared.join("evidence").join(bundle);
    if !path.is_dir() {
        eprintln!("skipped: {} does not exist", path.display());
        return None;
    }
    let manifest = std::fs::read(workspace().join(format!("tests/evidence/{bundle}.toml"))).unwrap();
    let (manifest, judgement) = judge::check(&Folder(path), Some(&manifest)).unwrap();
    Some(draft::draft(&manifest, &judgement))
}

#[test]
fn the_published_bundles_give_profiles_without_a_problem() {
    for (bundle, ids) in [
        (
            "2026-08-09-m1-ultra",
            &["m1-ultra-25g76-25f84-llama-bench-b10167", "m1-ultra-25g76-25f84-mlx-lm-0-31-3"][..],
        ),
        ("2026-08-10-m1-ultra-gemma4", &["m1-ultra-25g76-25f84-llama-bench-b10167"]),
        ("2026-08-11-m1-ultra-muse-glimmer-64g", &["m1-ultra-25g76-25f84-llama-bench-b10359"]),
    ] {
        let Some(drafts) = drafts(bundle) else { return };
        let found: Vec<&str> = drafts.iter().map(|draft| draft.id.as_str()).collect();
        assert_eq!(found, ids);
        for draft in drafts {
            let (profile, problems) = profile::lint(draft.toml.as_bytes());
            assert_eq!((problems, draft.blanks), (vec![], 0), "{}", draft.toml);
            let profile = profile.unwrap();
            assert_eq!(profile.id.as_str(), draft.id);
            let is_stock = draft.id.contains("mlx");
            assert_eq!(profile.verdict, if is_stock { Verdict::Stock } else { Verdict::Override });
            assert_eq!(profile.evidence.iter().map(|evidence| evidence.tests.len()).sum::<usize>(), 2);
        }
    }
}
