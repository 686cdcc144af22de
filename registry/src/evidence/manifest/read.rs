//! From TOML to a manifest, with every problem on the way.

use super::{
    Arm, ClaimedSet, File, Guest, Host, MOST_BYTES, Manifest, Part, Program, Role, Tester, Workload,
};
use crate::combination::Sha256Digest;
use crate::document::{self, Problem, Table};
use crate::evidence::sums;
use crate::os::{Os, Version};
use crate::profile::{FeatureLevel, Image, Model, ShimName, Values, Verdict};

const VERDICTS: [(&str, Verdict); 2] = [("override", Verdict::Override), ("stock", Verdict::Stock)];
pub(super) const FEATURE_LEVELS: [(&str, FeatureLevel); 3] = [
    ("unrestricted", FeatureLevel::Unrestricted),
    ("default", FeatureLevel::Default),
    ("unrecorded", FeatureLevel::Unrecorded),
];
const SHIMS: [(&str, ShimName); 5] = [
    ("capgate", ShimName::Capgate),
    ("lume", ShimName::Lume),
    ("tart", ShimName::Tart),
    ("anka", ShimName::Anka),
    ("lunchpail", ShimName::Lunchpail),
];
pub(super) const ROLES: [(&str, Role); 5] = [
    ("log", Role::Log),
    ("probe", Role::Probe),
    ("environment", Role::Environment),
    ("correctness", Role::Correctness),
    ("record", Role::Record),
];

/// An arm as the manifest names it; which override is meant is settled once all sets are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Stock,
    Override,
    Host,
    Cpu,
    Control,
}

const ARMS: [(&str, Word); 5] = [
    ("stock", Word::Stock),
    ("override", Word::Override),
    ("host", Word::Host),
    ("cpu", Word::Cpu),
    ("control", Word::Control),
];
const SCORED: [(&str, Word); 4] =
    [("stock", Word::Stock), ("override", Word::Override), ("host", Word::Host), ("cpu", Word::Cpu)];

pub(super) fn manifest(toml: &[u8]) -> (Option<Manifest>, Vec<Problem>) {
    document::read(toml, MOST_BYTES, |root| {
        check_schema(root);
        let source = root.string("source").map(|source| source.value.to_owned());
        let tables = root.tables("workload");
        if tables.is_empty() {
            let help = "add one [[workload]] for each verdict".to_owned();
            root.problems().malformed(root.span(), "the bundle has no workload", Some(help));
        }
        let workloads: Vec<Workload> = tables.iter().filter_map(workload).collect();
        check_names(&tables, &workloads);
        root.finish();
        Some(Manifest { source, workloads })
    })
}

fn check_schema(root: &Table<'_>) {
    let Some(schema) = root.require_parse::<semver::Version>("schema") else { return };
    if schema.value != semver::Version::new(1, 0, 0) {
        let message = format!("schema {} is not known", schema.value);
        root.problems().malformed(
            schema.span,
            message,
            Some("write `1.0.0`, or use a newer capgate".to_owned()),
        );
    }
}

fn check_names(tables: &[Table<'_>], workloads: &[Workload]) {
    if workloads.len() != tables.len() {
        return;
    }
    for (index, (workload, table)) in workloads.iter().zip(tables).enumerate() {
        if workloads.iter().take(index).any(|earlier| earlier.name == workload.name) {
            let message = format!("two workloads are named `{}`", workload.name);
            table.problems().malformed(table.span_of("name"), message, None);
        }
    }
}

fn workload(table: &Table<'_>) -> Option<Workload> {
    let name = table.require_string("name").map(|name| name.value.to_owned());
    let sought = table.require_word("verdict", &VERDICTS).map(|word| word.value);
    let program = table.require_table("program").and_then(|inner| program(&inner));
    let model = table.require_table("model").and_then(|inner| model(&inner));
    let host = table.require_table("host").and_then(|inner| host(&inner));
    let guest = table.require_table("guest").and_then(|inner| guest(&inner));
    let measured = table.date("measured").map(|date| date.value);
    let not_covered = table.strings("not_covered").into_iter().map(|text| text.value.to_owned()).collect();
    let tables = table.tables("file");
    if tables.is_empty() {
        table.problems().malformed(
            table.span(),
            "the workload has no file",
            Some("add [[workload.file]]".to_owned()),
        );
    }
    let sets = sets(&tables);
    let files: Vec<File> = tables.iter().filter_map(|inner| file(inner, &sets)).collect();
    check_paths(&tables, &files);
    table.finish();
    Some(Workload {
        name: name?,
        sought: sought?,
        program: program?,
        model: model?,
        host: host?,
        guest: guest?,
        measured,
        not_covered,
        sets,
        files,
    })
}

/// A file is one thing: the same bytes cannot speak for two arms.
fn check_paths(tables: &[Table<'_>], files: &[File]) {
    if files.len() != tables.len() {
        return;
    }
    for (index, (file, table)) in files.iter().zip(tables).enumerate() {
        if files.iter().take(index).any(|earlier| earlier.path == file.path) {
            let message = format!("`{}` is listed twice in one workload", file.path);
            table.problems().malformed(table.span_of("path"), message, None);
        }
    }
}

fn program(table: &Table<'_>) -> Option<Program> {
    let name = table.require_string("name");
    let version = table.require_string("version");
    let sha256 = table.parse("sha256").map(|digest| digest.value);
    let cdhash = table.parse("cdhash").map(|digest| digest.value);
    let images = table.tables("image").iter().filter_map(image).collect();
    table.finish();
    Some(Program { name: name?.value.to_owned(), version: version?.value.to_owned(), sha256, cdhash, images })
}

fn image(table: &Table<'_>) -> Option<Image> {
    let name = table.require_string("name");
    let cdhash = table.parse("cdhash").map(|digest| digest.value);
    let sha256 = table.parse("sha256").map(|digest| digest.value);
    table.finish();
    Some(Image { name: name?.value.to_owned(), cdhash, sha256 })
}

fn model(table: &Table<'_>) -> Option<Model> {
    let name = table.require_string("name");
    let sha256 = table.parse("sha256").map(|digest| digest.value);
    let revision = table.string("revision").map(|text| text.value.to_owned());
    table.finish();
    Some(Model { name: name?.value.to_owned(), sha256, revision })
}

pub(in crate::evidence) fn host(table: &Table<'_>) -> Option<Host> {
    let chip = table.require_parse("chip");
    let os = table.require_table("os").and_then(|inner| os(&inner));
    let apple_family = table.integer("apple_family").map(|number| number.value);
    let max_threadgroup_memory = table.integer("max_threadgroup_memory").map(|number| number.value);
    let level = table.word("feature_level", &FEATURE_LEVELS);
    table.finish();
    let feature_level = level.map_or(FeatureLevel::Unrecorded, |word| word.value);
    Some(Host { chip: chip?.value, os: os?, apple_family, max_threadgroup_memory, feature_level })
}

pub(in crate::evidence) fn guest(table: &Table<'_>) -> Option<Guest> {
    let os = table.require_table("os").and_then(|inner| os(&inner));
    let model = table.string("model").map(|text| text.value.to_owned());
    let mut guest = Guest { os: os?, model, stock_family: None, stock_memory: None };
    if let Some(stock) = table.table("stock") {
        guest.stock_family = stock.integer("apple_family").map(|number| number.value);
        guest.stock_memory = stock.integer("max_threadgroup_memory").map(|number| number.value);
        stock.finish();
    }
    table.finish();
    Some(guest)
}

fn os(table: &Table<'_>) -> Option<Os> {
    let version = table.require_parse::<Version>("version");
    let build = table.require_parse("build");
    table.finish();
    let (version, build) = (version?, build?.value);
    if let Err(error) = version.value.agrees_with(&build) {
        let help = Some("read both from the same `sw_vers`".to_owned());
        table.problems().malformed(version.span, error.to_string(), help);
        return None;
    }
    Some(Os { version: version.value, build })
}

/// The sets that override arms claim, each once.
fn sets(tables: &[Table<'_>]) -> Vec<ClaimedSet> {
    let mut sets: Vec<ClaimedSet> = Vec::new();
    for table in tables {
        let is_override = |key: &'static str| table.string(key).is_some_and(|arm| arm.value == "override");
        if !(is_override("arm") || is_override("of") && table.has("shim")) {
            continue;
        }
        let Some(values) = claims(table) else { continue };
        let (shim, shim_sha256) = shim(table);
        let set = ClaimedSet { values, shim, shim_sha256 };
        match sets.iter().find(|known| known.values == values) {
            None => sets.push(set),
            Some(known) if *known == set => {}
            Some(_) => {
                let help =
                    "measure one set with one shim; list another shim's files as a workload of its own"
                        .to_owned();
                let message = format!("two override files claim `{values}` with different shims");
                table.problems().malformed(table.span_of("shim"), message, Some(help));
            }
        }
    }
    sets
}

fn claims(table: &Table<'_>) -> Option<Values> {
    let inner = table.table("claims")?;
    let family = inner.require_integer("apple_family_max");
    let memory = inner.require_integer("max_threadgroup_memory");
    inner.finish();
    Some(Values { apple_family_max: family?.value, max_threadgroup_memory: memory?.value })
}

fn shim(table: &Table<'_>) -> (Option<ShimName>, Option<Sha256Digest>) {
    let Some(inner) = table.table("shim") else { return (None, None) };
    let name = inner.require_word("name", &SHIMS).map(|word| word.value);
    let sha256 = inner.parse("sha256").map(|digest| digest.value);
    inner.finish();
    (name, sha256)
}

fn file(table: &Table<'_>, sets: &[ClaimedSet]) -> Option<File> {
    let path = table.require_string("path");
    let arm = table.word("arm", &ARMS);
    let role = table.word("role", &ROLES);
    let of = table.word("of", &SCORED);
    let part = match (arm, role) {
        (Some(arm), None) if arm.value == Word::Control => Some(Part::Control),
        (Some(arm), None) => settle(table, "arm", arm.value, sets).map(Part::Samples),
        (None, Some(role)) => {
            let needs_one = matches!(role.value, Role::Log | Role::Correctness);
            match of {
                Some(of) => settle(table, "of", of.value, sets).map(|arm| Part::Item(role.value, Some(arm))),
                None if needs_one && !table.has("of") => {
                    table.missing("of");
                    None
                }
                None => Some(Part::Item(role.value, None)),
            }
        }
        _ if table.has("arm") != table.has("role") => None,
        _ => {
            let help = "give `arm` for samples, or `role` for anything else".to_owned();
            table.problems().malformed(table.span(), "a file needs either `arm` or `role`", Some(help));
            None
        }
    };
    let is_correctness = matches!(part, Some(Part::Item(Role::Correctness, _)));
    let program = if is_correctness { table.table("program").and_then(|inner| tester(&inner)) } else { None };
    table.finish();
    let path = path?;
    match sums::inside(path.value) {
        Ok(path) => Some(File { path, part: part?, program }),
        Err(why) => {
            let help = "name a file inside the bundle".to_owned();
            table.problems().malformed(path.span, format!("`{}` {why}", path.value), Some(help));
            None
        }
    }
}

fn tester(table: &Table<'_>) -> Option<Tester> {
    let name = table.require_string("name");
    let version = table.string("version").map(|text| text.value.to_owned());
    let sha256 = table.parse("sha256").map(|digest| digest.value);
    table.finish();
    Some(Tester { name: name?.value.to_owned(), version, sha256 })
}

/// Which arm a word means; an override is the one of its claims, or the only one there is.
fn settle(table: &Table<'_>, key: &str, word: Word, sets: &[ClaimedSet]) -> Option<Arm> {
    let arm = match word {
        Word::Stock => Arm::Stock,
        Word::Host => Arm::Host,
        Word::Cpu => Arm::Cpu,
        Word::Control => return None,
        Word::Override => return settle_override(table, key, sets),
    };
    if table.has("claims") || table.has("shim") {
        let help = "only override arms claim values and name a shim".to_owned();
        table.problems().malformed(
            table.span(),
            format!("`{key}` is not `override`, yet claims something"),
            Some(help),
        );
    }
    Some(arm)
}

fn settle_override(table: &Table<'_>, key: &str, sets: &[ClaimedSet]) -> Option<Arm> {
    // `claims` and `shim` of samples were read with the sets; asking again keeps them known here.
    let claimed = if table.has("claims") { Some(claims(table)?) } else { None };
    let _known = table.table("shim");
    if key == "arm" {
        if claimed.is_none() {
            table.missing("claims");
        }
        return claimed.map(Arm::Override);
    }
    match (claimed, sets) {
        (Some(values), sets) if sets.iter().any(|set| set.values == values) => Some(Arm::Override(values)),
        (Some(values), _) => {
            let message = format!("no override arm claims `{values}`");
            table.problems().malformed(table.span_of("claims"), message, None);
            None
        }
        (None, [only]) => Some(Arm::Override(only.values)),
        (None, []) => {
            table.problems().malformed(table.span_of(key_of(key)), "there is no override arm", None);
            None
        }
        (None, _) => {
            let help = "add `claims = { … }` of the arm that is meant".to_owned();
            table.problems().malformed(
                table.span_of(key_of(key)),
                "there are several override arms",
                Some(help),
            );
            None
        }
    }
}

fn key_of(key: &str) -> &'static str {
    if key == "arm" { "arm" } else { "of" }
}
