//! From TOML to a profile, with every problem on the way.

use semver::Version as SchemaVersion;

use super::evidence::{read as read_evidence, take_values};
use super::rules;
use super::{
    ACKNOWLEDGEMENTS, Answers, FEATURE_LEVELS, Guest, Host, Image, MAX_BYTES, OverrideSet, Profile, SCHEMA,
    VERDICTS, Workload,
};
use crate::document::{self, Problem, Spanned, Table};
use crate::os::{Os, Version, VersionError};

pub(super) fn read(toml: &[u8]) -> (Option<Profile>, Vec<Problem>) {
    document::read(toml, MAX_BYTES, read_root)
}

fn read_root(root: &Table<'_>) -> Option<Profile> {
    let schema = read_schema(root);
    let id = root.require_parse("id");
    let verdict = root.require_word("verdict", &VERDICTS);
    let summary = root.require_string("summary");
    let supersedes = root.parse("supersedes").map(|s| s.value);
    let host = root.require_table("host").and_then(|t| read_host(&t));
    let guest = root.require_table("guest").and_then(|t| read_guest(&t));
    let workload = root.require_table("workload").and_then(|t| read_workload(&t));
    let sets: Vec<Spanned<OverrideSet>> = root.tables("override").iter().filter_map(read_set).collect();
    let evidence: Vec<_> = root.tables("evidence").iter().filter_map(read_evidence).collect();
    root.finish();
    let profile = Profile {
        schema: schema?,
        id: id?.value,
        verdict: verdict?.value,
        summary: summary?.value.to_owned(),
        supersedes,
        host: host?,
        guest: guest?,
        workload: workload?,
        overrides: sets.iter().map(|s| s.value.clone()).collect(),
        evidence: evidence.iter().map(|s| s.value.clone()).collect(),
    };
    let places = rules::Places {
        root,
        sets: sets.into_iter().map(|s| s.span).collect(),
        evidence: evidence.into_iter().map(|s| s.span).collect(),
    };
    rules::check(&profile, &places);
    Some(profile)
}

/// The schema must be one this program understands in full: a newer one may mean something else by the same words.
pub fn read_schema(root: &Table<'_>) -> Option<SchemaVersion> {
    let schema = root.require_parse::<SchemaVersion>("schema")?;
    let same_major = schema.value.major == SCHEMA.major && schema.value.pre.is_empty();
    if same_major && schema.value <= SCHEMA {
        return Some(schema.value);
    }
    let (message, help) = if schema.value > SCHEMA {
        (format!("schema {} is newer than {SCHEMA}", schema.value), "use a newer capgate".to_owned())
    } else {
        (format!("schema {} was never published", schema.value), format!("write `{SCHEMA}`"))
    };
    root.problems().malformed(schema.span, message, Some(help));
    None
}

fn read_host(table: &Table<'_>) -> Option<Host> {
    let chip = table.require_parse("chip");
    let os = table.require_table("os").and_then(|t| read_os(&t));
    let answers = take_answers(table);
    let feature_level = table.require_word("feature_level", &FEATURE_LEVELS);
    table.finish();
    Some(Host { chip: chip?.value, os: os?, answers: answers?, feature_level: feature_level?.value })
}

fn read_guest(table: &Table<'_>) -> Option<Guest> {
    let os = table.require_table("os").and_then(|t| read_os(&t));
    let model = table.require_string("model");
    let stock = table.require_table("stock").and_then(|t| {
        let answers = take_answers(&t);
        t.finish();
        answers
    });
    table.finish();
    Some(Guest { os: os?, model: model?.value.to_owned(), stock: stock? })
}

fn take_answers(table: &Table<'_>) -> Option<Answers> {
    // Guests of older systems name no Apple family at all.
    let apple_family = table.integer("apple_family").map(|s| s.value);
    let memory = table.require_integer("max_threadgroup_memory");
    Some(Answers { apple_family, max_threadgroup_memory: memory?.value })
}

/// Reads a table of `version` and `build`, which must agree.
pub fn read_os(table: &Table<'_>) -> Option<Os> {
    let version = table.require_parse::<Version>("version");
    let build = table.require_parse("build");
    table.finish();
    let (version, build) = (version?, build?.value);
    if let Err(e) = version.value.agrees_with(&build) {
        let help = match &e {
            VersionError::Disagrees { .. } => "read both from the same `sw_vers`",
            _ => "read it from `sw_vers`",
        };
        table.problems().malformed(version.span, e.to_string(), Some(help.to_owned()));
        return None;
    }
    Some(Os { version: version.value, build })
}

fn read_workload(table: &Table<'_>) -> Option<Workload> {
    let name = table.require_string("name");
    let version = table.require_string("version");
    let sha256 = table.parse("sha256").map(|s| s.value);
    let cdhash = table.parse("cdhash").map(|s| s.value);
    let not_covered = table.strings("not_covered").into_iter().map(|s| s.value.to_owned()).collect();
    let images = table.tables("image").iter().filter_map(read_image).collect();
    table.finish();
    Some(Workload {
        name: name?.value.to_owned(),
        version: version?.value.to_owned(),
        sha256,
        cdhash,
        not_covered,
        images,
    })
}

fn read_image(table: &Table<'_>) -> Option<Image> {
    let name = table.require_string("name");
    let cdhash = table.parse("cdhash").map(|s| s.value);
    let sha256 = table.parse("sha256").map(|s| s.value);
    if !table.has("cdhash") && !table.has("sha256") {
        table.problems().malformed(table.span(), "an image needs `cdhash` or `sha256`", None);
    }
    table.finish();
    Some(Image { name: name?.value.to_owned(), cdhash, sha256 })
}

fn read_set(table: &Table<'_>) -> Option<Spanned<OverrideSet>> {
    let values = take_values(table);
    let acknowledges = table.words("acknowledges", &ACKNOWLEDGEMENTS).into_iter().map(|s| s.value).collect();
    table.finish();
    Some(Spanned { value: OverrideSet { values: values?, acknowledges }, span: table.span() })
}
