//! A grant: what may be reported, and what it stands on.

use capgate_registry::combination::{Key, Sha256Digest};
use capgate_registry::profile::{
    Acknowledgement, Answers, EvidenceKind, Image, Outcome, OverrideSet, Profile, ProfileId, Shim, Values,
    is_interpreter,
};
use capgate_registry::record::View;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::find::Chosen;

/// Whether the answers were tested, not only the speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Correctness {
    /// A test of correctness with the same values passed.
    Tested,
    /// There was none.
    Untested,
}

/// A model that the values were tested with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestedModel {
    /// Its name.
    pub name: String,
    /// SHA-256 of its file, where it is one file.
    #[serde(serialize_with = "as_text")]
    pub sha256: Option<Sha256Digest>,
    /// Its revision, where that is how it was named.
    pub revision: Option<String>,
}

fn as_text<S: Serializer>(digest: &Option<Sha256Digest>, serializer: S) -> Result<S::Ok, S::Error> {
    digest.map(|digest| digest.to_string()).serialize(serializer)
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The values, both or neither.
    pub values: Values,
    /// The profile that lists them.
    pub profile: ProfileId,
    /// The key that it was found under.
    pub key: Key,
    /// The models that they were tested with.
    pub tested_models: Vec<TestedModel>,
    /// Whether answers were tested.
    pub correctness: Correctness,
    /// Uses of the program that no test covered.
    pub not_covered: Vec<String>,
    /// What is said aloud: acknowledgements, the judge's warnings, `correctness-untested`, `registry-expires-soon`.
    pub warnings: Vec<String>,
    /// The libraries that it was tested with.
    pub shims: Vec<Shim>,
    /// The device's own answers that it was tested against.
    pub stock: Answers,
    /// Images that may touch Metal; empty when they were not recorded.
    pub images: Vec<Image>,
    /// Whether the profile says aloud that they were not recorded, and may: an interpreter's never may.
    pub images_may_be_unrecorded: bool,
}

pub(super) fn build(chosen: &Chosen, values: Values, view: &View, now: Timestamp) -> Grant {
    let profile = chosen.profile();
    let acknowledges: Vec<Acknowledgement> = profile
        .overrides
        .iter()
        .filter(|set| set.values == values)
        .flat_map(|set| set.acknowledges.iter().copied())
        .collect();
    let passed = profile
        .evidence_for(values)
        .any(|item| item.kind == EvidenceKind::Correctness && item.outcome == Some(Outcome::Pass));
    let correctness = if passed { Correctness::Tested } else { Correctness::Untested };
    let mut warnings: Vec<String> = acknowledges.iter().map(|said| said.word().to_owned()).collect();
    warnings.extend(profile.evidence_for(values).flat_map(|item| item.warnings.iter().cloned()));
    if correctness == Correctness::Untested {
        warnings.push("correctness-untested".to_owned());
    }
    if view.nearly_expired(now) {
        warnings.push("registry-expires-soon".to_owned());
    }
    warnings.sort_unstable();
    warnings.dedup();
    Grant {
        values,
        profile: profile.id.clone(),
        key: chosen.key,
        tested_models: models(chosen, values),
        correctness,
        not_covered: profile.workload.not_covered.clone(),
        warnings,
        shims: profile.evidence_for(values).filter_map(|item| item.shim.clone()).collect(),
        stock: profile.guest.stock,
        images: profile.workload.images.clone(),
        images_may_be_unrecorded: unrecorded_is_said(profile),
    }
}

/// Every set must say it. If one set's word were enough, a site rule that removes the other sets could turn row 14's
/// refusal into a grant.
fn unrecorded_is_said(profile: &Profile) -> bool {
    let said = |set: &OverrideSet| set.acknowledges.contains(&Acknowledgement::ImagesUnrecorded);
    profile.overrides.iter().all(said) && !is_interpreter(&profile.workload.name)
}

fn models(chosen: &Chosen, values: Values) -> Vec<TestedModel> {
    let mut models: Vec<TestedModel> = Vec::new();
    for model in chosen.profile().evidence_for(values).filter_map(|item| item.model.as_ref()) {
        let tested =
            TestedModel { name: model.name.clone(), sha256: model.sha256, revision: model.revision.clone() };
        if !models.contains(&tested) {
            models.push(tested);
        }
    }
    models
}
