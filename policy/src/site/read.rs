//! From TOML to a site policy, with every problem on the way.

use std::ops::Range;

use capgate_registry::combination::Hex;
use capgate_registry::document::{self, Problem, Spanned, Table};
use capgate_registry::keys::VerifierKey;
use capgate_registry::profile::{APPLE_FAMILIES, ProfileId, THREADGROUP_MEMORIES, read_schema};
use capgate_registry::witness::{self, WitnessKey};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::{Ceiling, Conditions, Demand, DenyRule, MAX_POLICY, MODES, Mode, SitePolicy};

pub(super) fn read(toml: &[u8]) -> (Option<SitePolicy>, Vec<Problem>) {
    document::read(toml, MAX_POLICY, |root| read_root(root, toml, None))
}

pub(super) fn check(toml: &[u8], now: Timestamp) -> Vec<Problem> {
    document::read(toml, MAX_POLICY, |root| read_root(root, toml, Some(now))).1
}

fn read_root(root: &Table<'_>, toml: &[u8], now: Option<Timestamp>) -> Option<SitePolicy> {
    let schema = read_schema(root);
    let mode = root.require_word::<Mode>("mode", &MODES);
    let deny: Vec<_> = root.tables("deny").iter().filter_map(|t| read_rule(t, now)).collect();
    check_ids(root, &deny);
    let ceiling = root.table("ceiling").map(|t| read_ceiling(&t)).unwrap_or_default();
    let demand = root.table("demand").map(|t| read_demand(&t)).unwrap_or_default();
    let host_keys = read_host_keys(root);
    let witnesses = read_witnesses(root);
    let statement = root.string("statement").inspect(|path| check_path(root, path));
    let shims = root.parse_all("shims").into_iter().map(|s| s.value).collect();
    root.finish();
    check_statement(root, !host_keys.is_empty());
    schema?;
    Some(SitePolicy {
        mode: mode?.value,
        deny: deny.into_iter().map(|rule| rule.value).collect(),
        ceiling,
        demand,
        host_keys,
        witnesses: witnesses?,
        statement: statement.map(|s| s.value.to_owned()),
        shims,
        digest: Hex(Sha256::digest(toml).into()),
    })
}

fn read_rule(table: &Table<'_>, now: Option<Timestamp>) -> Option<Spanned<DenyRule>> {
    let id = table.require_parse::<ProfileId>("id");
    let reason = table.require_string("reason");
    let owner = table.require_string("owner");
    let expires = table.instant("expires");
    let when = read_conditions(table);
    table.finish();
    let id = id?;
    if when.is_empty() && !has_condition(table) {
        let message = format!("the rule `{}` has no condition, so it would deny everything", id.value);
        let help = "add a condition, or set `mode = \"off\"`".to_owned();
        table.problems().malformed(id.span.clone(), message, Some(help));
    }
    if let (Some(end), Some(now)) = (&expires, now)
        && end.value <= now
    {
        let message = format!("the rule `{}` expired and no longer denies anything", id.value);
        table.problems().rule(end.span.clone(), message, Some("remove the rule, or renew its date".into()));
    }
    let rule = DenyRule {
        id: id.value.as_str().to_owned(),
        reason: reason?.value.to_owned(),
        owner: owner?.value.to_owned(),
        expires: expires.map(|s| s.value),
        when,
    };
    Some(Spanned { value: rule, span: id.span })
}

/// A condition that is there but malformed has been reported already.
fn has_condition(table: &Table<'_>) -> bool {
    const CONDITIONS: [&str; 10] = [
        "host_chip",
        "host_os_build",
        "host_os_version",
        "guest_os_build",
        "guest_os_version",
        "workload",
        "workload_name",
        "profile",
        "apple_family_above",
        "max_threadgroup_memory_above",
    ];
    CONDITIONS.iter().any(|key| table.has(key))
}

fn read_conditions(table: &Table<'_>) -> Conditions {
    Conditions {
        host_chip: table.parse("host_chip").map(|s| s.value),
        host_os_build: table.parse("host_os_build").map(|s| s.value),
        host_os_version: table.parse("host_os_version").map(|s| s.value),
        guest_os_build: table.parse("guest_os_build").map(|s| s.value),
        guest_os_version: table.parse("guest_os_version").map(|s| s.value),
        workload: table.parse("workload").map(|s| s.value),
        workload_name: table.string("workload_name").map(|s| s.value.to_owned()),
        profile: table.parse("profile").map(|s| s.value),
        apple_family_above: below(table, "apple_family_above", *APPLE_FAMILIES.end()),
        max_threadgroup_memory_above: below(table, "max_threadgroup_memory_above", most_memory()),
    }
}

/// A condition `above` something that no set can exceed would look like a rule and never deny.
fn below(table: &Table<'_>, key: &'static str, most: u64) -> Option<u64> {
    let limit = table.integer(key)?;
    if limit.value >= most {
        let message =
            format!("`{key} = {}` never holds: no value above {most} is ever reported", limit.value);
        table.problems().malformed(limit.span, message, Some(format!("give a number below {most}")));
        return None;
    }
    Some(limit.value)
}

fn most_memory() -> u64 {
    THREADGROUP_MEMORIES.into_iter().max().unwrap_or_default()
}

fn check_ids(root: &Table<'_>, rules: &[Spanned<DenyRule>]) {
    for (i, rule) in rules.iter().enumerate() {
        if rules.iter().take(i).any(|earlier| earlier.value.id == rule.value.id) {
            let message = format!("two rules have the id `{}`", rule.value.id);
            let help = "give each an id of its own: the log names rules by it".to_owned();
            root.problems().malformed(rule.span.clone(), message, Some(help));
        }
    }
}

fn read_ceiling(table: &Table<'_>) -> Ceiling {
    let family = table.integer("apple_family_max");
    let memory = table.integer("max_threadgroup_memory");
    table.finish();
    let problem = |s: &Spanned<u64>, help: &str| {
        let message = format!("`{}` is no value that is ever reported", s.value);
        table.problems().malformed(s.span.clone(), message, Some(help.to_owned()));
    };
    if let Some(s) = family.as_ref().filter(|s| !APPLE_FAMILIES.contains(&s.value)) {
        problem(s, "give an Apple family from 1001 to 1010");
    }
    if let Some(s) = memory.as_ref().filter(|s| !THREADGROUP_MEMORIES.contains(&s.value)) {
        problem(s, "give 32768 or 65536");
    }
    if family.is_none() && memory.is_none() {
        nothing(table, table.span(), "ceiling");
    }
    Ceiling { apple_family_max: family.map(|s| s.value), max_threadgroup_memory: memory.map(|s| s.value) }
}

fn nothing(table: &Table<'_>, span: Range<usize>, what: &str) {
    let message = format!("`{what}` demands nothing");
    table.problems().malformed(span, message, Some("remove it, or say what it is to demand".into()));
}

fn read_demand(table: &Table<'_>) -> Demand {
    let correctness = table.boolean("correctness").is_some_and(|s| s.value);
    let samples = table.integer("samples");
    let max_age_days = table.integer("max_age_days").map(|s| s.value);
    let signers = table.strings("signers");
    let min_signers = table.integer("min_signers");
    table.finish();
    for (key, number) in [("samples", &samples), ("min_signers", &min_signers)] {
        if let Some(zero) = number.as_ref().filter(|n| n.value == 0) {
            nothing(table, zero.span.clone(), key);
        }
    }
    for (i, signer) in signers.iter().enumerate() {
        if signers.iter().take(i).any(|earlier| earlier.value == signer.value) {
            let message = format!("`signers` names `{}` twice", signer.value);
            table.problems().malformed(signer.span.clone(), message, None);
        }
    }
    if table.has("signers") && signers.is_empty() {
        nothing(table, table.span_of("signers"), "signers");
    }
    let names = u64::try_from(signers.len()).unwrap_or(u64::MAX);
    if let Some(most) = min_signers.as_ref().filter(|n| names > 0 && n.value > names) {
        let message = format!("`min_signers = {}`, but `signers` names only {names}", most.value);
        table.problems().malformed(most.span.clone(), message, Some("nothing could ever be granted".into()));
    }
    Demand {
        correctness,
        samples: samples.map(|s| s.value),
        max_age_days,
        // Names without a number mean: at least one of them.
        min_signers: min_signers.map_or(u64::from(names > 0), |s| s.value),
        signers: signers.into_iter().map(|s| s.value.to_owned()).collect(),
    }
}

fn read_host_keys(root: &Table<'_>) -> Vec<VerifierKey> {
    let keys = root.parse_all::<VerifierKey>("host_keys");
    for (i, key) in keys.iter().enumerate() {
        if keys.iter().take(i).any(|earlier| earlier.value.public() == key.value.public()) {
            let message = format!("`host_keys` names the key of `{}` twice", key.value.name());
            root.problems().malformed(key.span.clone(), message, None);
        }
    }
    keys.into_iter().map(|s| s.value).collect()
}

/// `None` where what stands there is malformed; a policy without either key demands nothing.
#[allow(clippy::option_option, reason = "malformed, absent and present are three things")]
fn read_witnesses(root: &Table<'_>) -> Option<Option<witness::Quorum>> {
    let keys = root.parse_all::<WitnessKey>("witness_keys");
    let threshold = root.integer("witness_threshold");
    match (root.has("witness_keys"), threshold) {
        (false, None) if !root.has("witness_threshold") => Some(None),
        (true, Some(threshold)) => {
            let keys = keys.into_iter().map(|key| key.value).collect();
            let problem = |e| {
                root.problems().malformed(threshold.span.clone(), format!("`witness_threshold`: {e}"), None)
            };
            witness::Quorum::new(keys, threshold.value).map_err(problem).ok().map(Some)
        }
        (false, threshold) => {
            let message = "`witness_threshold` demands witnesses, but none is named";
            let span = threshold.map_or_else(|| root.span_of("witness_threshold"), |found| found.span);
            root.problems().malformed(span, message, Some("add `witness_keys = [\"…\"]`".into()));
            None
        }
        (true, None) => {
            let message = "`witness_keys` names witnesses, but not how many of them must have cosigned";
            let help = Some("add `witness_threshold = 1`, or more".into());
            root.problems().malformed(root.span_of("witness_keys"), message, help);
            None
        }
    }
}

fn check_path(root: &Table<'_>, path: &Spanned<&str>) {
    let sound = path.value.starts_with('/') && !path.value.split('/').any(|part| part == "..");
    if !sound {
        let message = format!("`statement` must be an absolute path without `..`, not `{}`", path.value);
        root.problems().malformed(path.span.clone(), message, None);
    }
}

fn check_statement(root: &Table<'_>, any_key: bool) {
    if root.has("statement") && !root.has("host_keys") && !any_key {
        let message = "`statement` names a path, but no host key can verify what is there";
        let help = "add `host_keys = [\"…\"]` with the host's public key".to_owned();
        root.problems().rule(root.span_of("statement"), message, Some(help));
    }
}
