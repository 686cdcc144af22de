//! `registry/tests/museum/README.md`.

use std::fmt::Write;

use super::case::Says;
use super::{Case, Group, Honest};

const INTRODUCTION: &str = "\
# A museum of hostile registries

One folder for each way to attack those who read a registry, as the attacker would serve it: `registry/`, or the file
`registry.proof`. `case.toml` says what the attack is, what the attacker holds beside the place where the files are served,
the reader that meets it (pinned root, clock, what it has seen), and what becomes of it:

- `[lookup]`: the reason for which nothing is granted, as `capgate lookup` names it, and words of the message;
- `[verify]`: the file that `capgate verify` names, and words of the fault;
- `[sync]`: the error of `capgate sync` into the copy that `copy` names. A copy that refuses stays as it was.

Where one of the three accepts, the attack is not in what it reads: a lookup reads no log, and sync computes tiles and
snapshot itself. What it accepts is then exactly what is honest. Where that is not so, `limit` says why.

Each case has a twin that the same reader accepts, so that nothing but the attack can be the reason.

`registry/tests/museum.rs` judges the folders as they stand here, and `tests/museum.rs` asks the decision and the commands.
`CAPGATE_BLESS=1 cargo test -p capgate-registry --test museum` makes every byte of them anew, this file included, from TEST
keys whose seeds stand in `registry/tests/curator/honest.rs`. Cases that say `made_by_test` are made for each test, since
they are too large to keep, or alive. `tests/museum.rs` also puts pipes, endless files, links and folders in the place of
each file, and no command waits for them.

Try one:

```sh
cd registry/tests/museum/superseded-returns
capgate verify registry --root \"$(sed -n 's/^root = \"\\(.*\\)\"/\\1/p' case.toml)\" --now 2026-12-07T00:00:00Z
```
";

pub fn readme(honest: &[Honest], groups: &[Group]) -> String {
    let mut text = INTRODUCTION.to_owned();
    text += "\n## Before the attack\n\n| registry | |\n|---|---|\n";
    for honest in honest {
        let _ = writeln!(text, "| [{0}]({0}) | {1} |", honest.name, honest.about);
    }
    for group in groups {
        let _ = write!(
            text,
            "\n## {}\n\n| case | attack | attacker holds | lookup | verify | sync |\n|---|---|---|---|---|---|\n",
            group.heading
        );
        for case in &group.cases {
            text += &row(case);
        }
    }
    let count: usize = groups.iter().map(|group| group.cases.len()).sum();
    let _ = write!(text, "\n{count} cases.\n");
    text
}

fn row(case: &Case) -> String {
    let told = &case.told;
    let deceived = if told.limit.is_some() { " (a limit)" } else { "" };
    let lookup = said(Some(&told.lookup), "grants ");
    format!(
        "| [{0}]({0}) | {1} | {2} | {lookup}{deceived} | {3} | {4} |\n",
        case.name,
        told.attack,
        told.holds,
        said(told.verify.as_ref(), ""),
        said(told.sync.as_ref(), "takes ")
    )
}

fn said(says: Option<&Says>, accepting: &str) -> String {
    match says {
        None => "–".to_owned(),
        Some(Says::Refuses { by, .. }) => format!("`{}`", shortened(by)),
        Some(Says::Accepts(what)) => format!("{accepting}{what}"),
    }
}

/// A snapshot's name without most of its root.
fn shortened(file: &str) -> String {
    match file.split_once('-') {
        Some((start, root)) if file.ends_with(".snap") => format!("{start}-{}….snap", &root[..8]),
        _ => file.to_owned(),
    }
}
