//! Rules of one profile that go beyond its form: bounds, what must be said aloud, what evidence must name.

use std::ops::Range;

use super::{Acknowledgement, Evidence, EvidenceKind, OverrideSet, Profile, Values, Verdict};
use crate::document::Table;

/// Programs that run other people's code: their own digest says nothing about what talks to Metal.
pub const INTERPRETERS: [&str; 22] = [
    "bash",
    "bun",
    "deno",
    "ipython",
    "java",
    "javaw",
    "julia",
    "lua",
    "luajit",
    "node",
    "nodejs",
    "osascript",
    "perl",
    "php",
    "pypy",
    "python",
    "pythonw",
    "r",
    "rscript",
    "ruby",
    "sh",
    "zsh",
];

/// Where the parts of the profile stand, in the order of the profile's own lists.
pub(super) struct Places<'t, 'd> {
    pub root: &'t Table<'d>,
    pub sets: Vec<Range<usize>>,
    pub evidence: Vec<Range<usize>>,
}

pub(super) fn check(profile: &Profile, places: &Places<'_, '_>) {
    check_verdict(profile, places);
    check_guest(profile, places);
    check_supersedes(profile, places);
    for (set, span) in profile.overrides.iter().zip(&places.sets) {
        check_set(profile, set, span, places);
    }
    check_evidence(profile, places);
}

fn rule(places: &Places<'_, '_>, span: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
    places.root.problems().rule(span, message, Some(help.into()));
}

fn check_verdict(profile: &Profile, places: &Places<'_, '_>) {
    let span = places.root.span_of("verdict");
    match profile.verdict {
        // A set that is there and malformed is reported for that.
        Verdict::Override
            if profile.overrides.is_empty()
                && !(places.root.has("override") && places.root.problems().any_malformed()) =>
        {
            rule(
                places,
                span,
                "verdict `override` without a tested set",
                "add [[override]], or conclude `stock`",
            );
        }
        Verdict::Stock if !profile.overrides.is_empty() => {
            rule(
                places,
                span,
                "verdict `stock` with override sets",
                "remove [[override]], or conclude `override`",
            );
        }
        _ => {}
    }
    // A digest that is written but malformed has been reported already.
    let digests =
        places.root.table("workload").is_some_and(|table| table.has("sha256") || table.has("cdhash"));
    if profile.verdict == Verdict::Override && !digests {
        let message = "an override needs the workload's `sha256` or `cdhash`";
        rule(
            places,
            places.root.span_of("workload"),
            message,
            "hash the executable: `capgate lookup --workload PATH`",
        );
    }
}

fn check_guest(profile: &Profile, places: &Places<'_, '_>) {
    if !profile.guest.model.starts_with("VirtualMac") {
        let message = format!("guest model `{}` is not a virtual Mac", profile.guest.model);
        rule(
            places,
            places.root.span_of("guest"),
            message,
            "give `hw.model` of the guest, such as `VirtualMac2,1`",
        );
    }
}

fn check_supersedes(profile: &Profile, places: &Places<'_, '_>) {
    if profile.supersedes.as_ref() == Some(&profile.id) {
        let span = places.root.span_of("supersedes");
        rule(places, span, "a profile cannot supersede itself", "give the new profile an id of its own");
    }
}

fn check_set(profile: &Profile, set: &OverrideSet, span: &Range<usize>, places: &Places<'_, '_>) {
    if !set.values.within_bounds() {
        let message = format!("`{}` lies outside the hard bounds", set.values);
        rule(
            places,
            span.clone(),
            message,
            "families 1001 to 1010 and threadgroup memory 32768 or 65536 only",
        );
    }
    let same = profile.overrides.iter().filter(|other| other.values == set.values).count();
    if same > 1 {
        rule(places, span.clone(), format!("`{}` is listed {same} times", set.values), "list each set once");
    }
    if raises_nothing(profile, set.values) {
        let message = format!("`{}` raises neither of the guest's own answers", set.values);
        rule(places, span.clone(), message, "leave the set out, or conclude `stock`");
    }
    for wanted in must_acknowledge(profile, set.values) {
        if !set.acknowledges.contains(&wanted) {
            let message = format!("`{}` does not acknowledge `{}`", set.values, wanted.word());
            rule(
                places,
                span.clone(),
                message,
                format!("add `\"{}\"` to acknowledges: {}", wanted.word(), why(wanted)),
            );
        }
    }
    for &given in &set.acknowledges {
        if !must_acknowledge(profile, set.values).contains(&given) {
            let message = format!("`{}` acknowledges `{}`, which is not so", set.values, given.word());
            rule(places, span.clone(), message, "remove the word");
        }
    }
    if set.acknowledges.contains(&Acknowledgement::ImagesUnrecorded) && is_interpreter(&profile.workload.name)
    {
        let message =
            format!("`{}` runs other code: its images cannot stay unrecorded", profile.workload.name);
        rule(places, span.clone(), message, "list every image that may touch Metal in [[workload.image]]");
    }
}

fn raises_nothing(profile: &Profile, values: Values) -> bool {
    let stock = profile.guest.stock;
    stock.apple_family.is_some_and(|family| values.apple_family_max <= family)
        && values.max_threadgroup_memory <= stock.max_threadgroup_memory
}

/// What these values of the profile must say aloud. A host family that nobody recorded counts as exceeded.
pub fn must_acknowledge(profile: &Profile, values: Values) -> Vec<Acknowledgement> {
    let host = profile.host.answers;
    let above_family = host.apple_family.is_none_or(|family| values.apple_family_max > family);
    let above_memory = values.max_threadgroup_memory > host.max_threadgroup_memory;
    let unrecorded = profile.workload.images.is_empty();
    [
        (above_family, Acknowledgement::AboveHostFamily),
        (above_memory, Acknowledgement::AboveHostMemory),
        (unrecorded, Acknowledgement::ImagesUnrecorded),
    ]
    .into_iter()
    .filter_map(|(applies, word)| applies.then_some(word))
    .collect()
}

fn why(word: Acknowledgement) -> &'static str {
    match word {
        Acknowledgement::AboveHostFamily => "the ceiling lies above what the host's own GPU reports",
        Acknowledgement::AboveHostMemory => "the memory lies above what the host's own GPU reports",
        Acknowledgement::ImagesUnrecorded => "no [[workload.image]] says which code talks to Metal",
    }
}

/// Tells whether a program's name is an interpreter's: `python`, `python3.13t`, `/usr/bin/node`, `Rscript`. Anything may
/// follow a version, so that `python3-intel64` is one; a name too many only has to list its images.
pub fn is_interpreter(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    INTERPRETERS.iter().any(|word| {
        let rest = file.strip_prefix(word).map(|rest| rest.trim_start_matches(['.', '-', '_']));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

fn check_evidence(profile: &Profile, places: &Places<'_, '_>) {
    for (set, span) in profile.overrides.iter().zip(&places.sets) {
        if profile.evidence_for(set.values).next().is_none() {
            let message = format!("no evidence names `{}`", set.values);
            rule(
                places,
                span.clone(),
                message,
                "add [[evidence]] with exactly these values, or remove the set",
            );
        }
    }
    if profile.verdict == Verdict::Stock && profile.evidence.is_empty() {
        let span = places.root.span_of("verdict");
        rule(
            places,
            span,
            "a conclusion without evidence",
            "add [[evidence]]: `capgate evidence draft` writes it",
        );
    }
    for (item, span) in profile.evidence.iter().zip(&places.evidence) {
        check_arms(item, span, places);
        let listed =
            item.values.is_none_or(|values| profile.overrides.iter().any(|set| set.values == values));
        match (profile.verdict, item.values) {
            (Verdict::Override, None) => {
                rule(places, span.clone(), "evidence names no override set", "add `override = { … }`");
            }
            (Verdict::Override, Some(values)) if !listed => {
                let message = format!("evidence names `{values}`, which is not listed");
                rule(places, span.clone(), message, "add the set to [[override]], or remove the evidence");
            }
            _ => {}
        }
    }
}

/// Whatever the verdict: evidence that names values was measured with them, in each of its tests.
fn check_arms(item: &Evidence, span: &Range<usize>, places: &Places<'_, '_>) {
    let Some(values) = item.values.filter(|_| item.kind == EvidenceKind::Speed) else { return };
    for test in item.tests.iter().filter(|test| test.changed.is_none()) {
        let message = format!("test `{}` was not run with `{values}`, which the evidence names", test.name);
        rule(places, span.clone(), message, "add `override = { n, median, cv }` to the test, or remove it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack: an interpreter under another of its names, so that its images may stay unrecorded.
    #[test]
    fn interpreters_are_known_by_every_name_they_are_installed_under() {
        let names = "python python3 python3.12 python3.13t pythonw pythonw3.11 python3-intel64 ipython ipython3 pypy3 \
                     pypy3.10 node node22 nodejs Rscript R /usr/bin/node /opt/Python/Python lua5.4 luajit-2.1 javaw \
                     PYTHON3.13T python-3.12 perl5.34-arm64";
        for name in names.split(' ') {
            assert!(is_interpreter(name), "{name}");
        }
        let names = "llama-bench llama-cli mlx-lm nodebench pythonic rust runner shader-bench ollama perlin \
                     /usr/bin/python3/llama-bench 3python";
        for name in names.split(' ') {
            assert!(!is_interpreter(name), "{name}");
        }
    }
}
