//! Writes the profile that a bundle supports.
//!
//! What the bundle does not say stands as `"FILL-IN: …"`, which no reader of profiles accepts, so that a draft with
//! blanks cannot be published by accident. Workloads of one combination and verdict share a profile.
//!
//! Where several sets count, the least that gives the whole gain comes first, as [`super::ladder`] says; a set that is
//! refused for its output and for nothing else makes a profile that says stock, with the failed test in it.

use super::judge::{JudgedCorrectness, JudgedWorkload, Judgement, Row, Verdict};
use super::manifest::{ClaimedSet, Manifest, Workload, shim_word};
use super::toml_writer::{self as toml, Writer};
use crate::profile::{FeatureLevel, Outcome, SCHEMA, Values, Verdict as Conclusion};

/// A profile as far as a bundle supports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its id; the file is named by it.
    pub id: String,
    /// The profile.
    pub toml: String,
    /// How many blanks are left.
    pub blanks: usize,
    /// The workloads it is made from.
    pub workloads: Vec<String>,
}

/// Drafts a profile for every combination that the bundle says something about; what was refused is left out.
pub fn draft(manifest: &Manifest, judgement: &Judgement) -> Vec<Draft> {
    let mut groups: Vec<Vec<Measured<'_>>> = Vec::new();
    for workload in &manifest.workloads {
        let Some(judged) = judgement.workloads.iter().find(|judged| judged.workload == workload.name) else {
            continue;
        };
        let Some(conclusion) = conclusion(judged) else { continue };
        let one = Measured { workload, judged, conclusion };
        match groups.iter_mut().find(|group| group.iter().all(|known| known.shares_a_profile(&one))) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.iter().filter_map(|group| write(group, judgement)).collect()
}

#[derive(Clone, Copy)]
struct Measured<'a> {
    workload: &'a Workload,
    judged: &'a JudgedWorkload,
    conclusion: Conclusion,
}

impl<'a> Measured<'a> {
    fn shares_a_profile(&self, other: &Self) -> bool {
        let (one, other_workload) = (self.workload, other.workload);
        self.conclusion == other.conclusion
            && one.program == other_workload.program
            && one.host == other_workload.host
            && one.guest == other_workload.guest
    }

    /// The sets that the conclusion rests on, in the order in which a profile should name them.
    fn sets(&self) -> Vec<&'a ClaimedSet> {
        let rests_on = |set: &&ClaimedSet| {
            let judged = self.judged.sets.iter().find(|known| known.values == set.values);
            judged.is_some_and(|judged| match self.conclusion {
                Conclusion::Override => judged.verdict == Verdict::Publishable,
                Conclusion::Stock => judged.verdict != Verdict::Refused || judged.wrong_output,
            })
        };
        let mut sets: Vec<&ClaimedSet> = self.workload.sets.iter().filter(rests_on).collect();
        if let Some(ladder) = &self.judged.ladder {
            sets.sort_by_key(|set| ladder.sets.iter().position(|placed| placed.values == set.values));
        }
        sets
    }
}

/// What a profile may conclude from a judged workload.
fn conclusion(judged: &JudgedWorkload) -> Option<Conclusion> {
    match judged.verdict {
        Verdict::Publishable => Some(Conclusion::Override),
        Verdict::Stock | Verdict::NoBenefit => Some(Conclusion::Stock),
        Verdict::Refused if judged.sets.iter().any(|set| set.wrong_output) => Some(Conclusion::Stock),
        Verdict::Refused => None,
    }
}

fn write(group: &[Measured<'_>], judgement: &Judgement) -> Option<Draft> {
    let first = group.first()?;
    let id = id(first.workload);
    let mut out = Writer::default();
    head(&mut out, first, &id);
    host_and_guest(&mut out, first.workload);
    program(&mut out, group);
    if first.conclusion == Conclusion::Override {
        overrides(&mut out, group);
    }
    for measured in group {
        evidence(&mut out, measured, judgement);
    }
    let (toml, blanks) = out.finish();
    Some(Draft { id, toml, blanks, workloads: group.iter().map(|one| one.workload.name.clone()).collect() })
}

/// `m1-ultra-25g76-25f84-llama-bench-b10167`
fn id(workload: &Workload) -> String {
    let chip = workload.host.chip.as_str().trim_start_matches("Apple ");
    let (host, guest) = (workload.host.os.build.as_str(), workload.guest.os.build.as_str());
    let text = format!("{chip} {host} {guest} {} {}", workload.program.name, workload.program.version);
    let words =
        text.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut id = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    id.truncate(80);
    id.trim_end_matches('-').to_owned()
}

fn head(out: &mut Writer, measured: &Measured<'_>, id: &str) {
    let workload = measured.workload;
    out.text("schema", &SCHEMA.to_string());
    out.text("id", id);
    out.text("verdict", if measured.conclusion == Conclusion::Override { "override" } else { "stock" });
    let program = &workload.program;
    let (guest, chip) = (&workload.guest.os.version, &workload.host.chip);
    out.text("summary", &format!("{} {}, macOS {guest} guest on an {chip}", program.name, program.version));
}

fn host_and_guest(out: &mut Writer, workload: &Workload) {
    let (host, guest) = (&workload.host, &workload.guest);
    out.table("[host]");
    out.text("chip", host.chip.as_str());
    out.raw("os", &os(&host.os));
    out.number_or_blank(
        "apple_family",
        host.apple_family,
        "the Apple family that the host's own GPU reports",
    );
    let memory = "maxThreadgroupMemoryLength of the host's own GPU";
    out.number_or_blank("max_threadgroup_memory", host.max_threadgroup_memory, memory);
    out.text(
        "feature_level",
        match host.feature_level {
            FeatureLevel::Unrestricted => "unrestricted",
            FeatureLevel::Default => "default",
            FeatureLevel::Unrecorded => "unrecorded",
        },
    );
    out.table("[guest]");
    out.raw("os", &os(&guest.os));
    out.text_or_blank("model", guest.model.as_deref(), "hw.model of the guest, such as VirtualMac2,1");
    out.table("[guest.stock]");
    if let Some(family) = guest.stock_family {
        out.raw("apple_family", &family.to_string());
    }
    out.number_or_blank("max_threadgroup_memory", guest.stock_memory, "the guest's original answer");
}

fn os(os: &crate::os::Os) -> String {
    format!(
        "{{ version = {}, build = {} }}",
        toml::quoted(os.version.as_str()),
        toml::quoted(os.build.as_str())
    )
}

fn program(out: &mut Writer, group: &[Measured<'_>]) {
    let Some(first) = group.first() else { return };
    let program = &first.workload.program;
    out.table("[workload]");
    out.text("name", &program.name);
    out.text("version", &program.version);
    match (program.sha256, program.cdhash) {
        (None, None) if first.conclusion == Conclusion::Override => {
            out.blank("sha256", "SHA-256 of the executable")
        }
        (sha256, cdhash) => {
            sha256.iter().for_each(|digest| out.text("sha256", &digest.to_string()));
            cdhash.iter().for_each(|digest| out.text("cdhash", &digest.to_string()));
        }
    }
    let mut not_covered: Vec<&str> =
        group.iter().flat_map(|one| &one.workload.not_covered).map(String::as_str).collect();
    not_covered.sort_unstable();
    not_covered.dedup();
    if !not_covered.is_empty() {
        out.raw("not_covered", &toml::list(&not_covered));
    }
    for image in &program.images {
        out.table("[[workload.image]]");
        out.text("name", &image.name);
        image.cdhash.iter().for_each(|digest| out.text("cdhash", &digest.to_string()));
        image.sha256.iter().for_each(|digest| out.text("sha256", &digest.to_string()));
    }
}

/// Every set once.
fn overrides(out: &mut Writer, group: &[Measured<'_>]) {
    let mut seen: Vec<Values> = Vec::new();
    for (workload, set) in group.iter().flat_map(|one| one.sets().into_iter().map(|set| (one.workload, set)))
    {
        if seen.contains(&set.values) {
            continue;
        }
        seen.push(set.values);
        out.table("[[override]]");
        out.raw("apple_family_max", &set.values.apple_family_max.to_string());
        out.raw("max_threadgroup_memory", &set.values.max_threadgroup_memory.to_string());
        out.raw("acknowledges", &toml::list(&acknowledged(workload, set.values)));
    }
}

/// What a profile has to say aloud about a set; a host answer that nobody recorded counts as exceeded.
fn acknowledged(workload: &Workload, values: Values) -> Vec<&'static str> {
    let host = &workload.host;
    let above_family = host.apple_family.is_none_or(|family| values.apple_family_max > family);
    let above_memory =
        host.max_threadgroup_memory.is_none_or(|memory| values.max_threadgroup_memory > memory);
    let said = [
        (above_family, "above-host-family"),
        (above_memory, "above-host-memory"),
        (workload.program.images.is_empty(), "images-unrecorded"),
    ];
    said.into_iter().filter_map(|(applies, word)| applies.then_some(word)).collect()
}

fn evidence(out: &mut Writer, measured: &Measured<'_>, judgement: &Judgement) {
    let sets = measured.sets();
    if sets.is_empty() {
        speed(out, measured, None, judgement);
    }
    for set in sets {
        // A program that was run for its output alone was not measured.
        if !measured.workload.is_output_only() {
            speed(out, measured, Some(set), judgement);
        }
        let is_it = |tested: &&JudgedCorrectness| {
            tested.workload == measured.workload.name && tested.values == Some(set.values)
        };
        if let Some(tested) = judgement.correctness.iter().find(is_it) {
            correctness(out, measured, set, tested, judgement);
        }
    }
}

fn speed(out: &mut Writer, measured: &Measured<'_>, set: Option<&ClaimedSet>, judgement: &Judgement) {
    about(out, "speed", measured, set, judgement);
    let warnings = judgement.warning_codes(&measured.workload.name);
    if !warnings.is_empty() {
        out.raw("warnings", &toml::list(&warnings));
    }
    tests(out, measured.workload, set.map(|set| set.values), &judgement.rows);
}

/// Nothing where nothing settles whether the answers are right.
fn correctness(
    out: &mut Writer,
    measured: &Measured<'_>,
    set: &ClaimedSet,
    tested: &JudgedCorrectness,
    judgement: &Judgement,
) {
    let Some(outcome) = tested.outcome else { return };
    about(out, "correctness", measured, Some(set), judgement);
    out.text("method", &tested.method());
    out.text("outcome", if outcome == Outcome::Pass { "pass" } else { "fail" });
}

/// What every piece of evidence says: of what kind it is, what it tested, where it can be read, which model.
fn about(
    out: &mut Writer,
    kind: &str,
    measured: &Measured<'_>,
    set: Option<&ClaimedSet>,
    judgement: &Judgement,
) {
    let workload = measured.workload;
    out.table("[[evidence]]");
    out.text("kind", kind);
    if let Some(set) = set {
        let (family, memory) = (set.values.apple_family_max, set.values.max_threadgroup_memory);
        out.raw("override", &format!("{{ apple_family_max = {family}, max_threadgroup_memory = {memory} }}"));
        shim(out, set);
    }
    out.text_or_blank(
        "bundle",
        judgement.bundle.as_deref(),
        "sha256: and the digest of the bundle's SHA256SUMS",
    );
    out.text_or_blank(
        "source",
        judgement.source.as_deref(),
        "the https:// address where the bundle can be read",
    );
    match measured.judged.measured {
        Some(day) => out.raw("measured", &day.to_string()),
        None => out.blank("measured", "the day of the newest sample, as a bare date"),
    }
    let model = &workload.model;
    let name = toml::quoted(&model.name);
    let which = match (&model.sha256, &model.revision) {
        (Some(digest), _) => format!("{{ name = {name}, sha256 = \"{digest}\" }}"),
        (None, Some(revision)) => format!("{{ name = {name}, revision = {} }}", toml::quoted(revision)),
        (None, None) => {
            format!("{{ name = {name}, sha256 = {} }}", out.blank_value("SHA-256 of the model file"))
        }
    };
    out.raw("model", &which);
}

fn shim(out: &mut Writer, set: &ClaimedSet) {
    let name = set.shim.map(|shim| toml::quoted(shim_word(shim)));
    let name = name.unwrap_or_else(|| out.blank_value("capgate, lume, tart, anka or lunchpail"));
    let digest = set.shim_sha256.map(|digest| toml::quoted(&digest.to_string()));
    let digest = digest.unwrap_or_else(|| out.blank_value("SHA-256 of the injected library"));
    out.raw("shim", &format!("{{ name = {name}, sha256 = {digest} }}"));
}

fn tests(out: &mut Writer, workload: &Workload, values: Option<Values>, rows: &[Row]) {
    let of = |test: &str, arm: &str| {
        let is_it = |row: &&Row| row.workload == workload.name && row.test == test && row.arm == arm;
        rows.iter().filter(is_it).find(|row| row.values.is_none() || row.values == values)
    };
    let stock = rows.iter().filter(|row| row.workload == workload.name && row.arm == "stock");
    for row in stock.filter(|row| values.is_none() || of(&row.test, "override").is_some()) {
        out.table("[[evidence.test]]");
        out.text("name", &row.test);
        for arm in ["stock", "override", "host", "cpu"] {
            if let Some(row) = of(&row.test, arm).filter(|row| arm != "override" || row.values == values) {
                let (median, cv) = (toml::number(row.median), toml::number(row.cv.unwrap_or_default()));
                out.raw(arm, &format!("{{ n = {}, median = {median}, cv = {cv} }}", row.n));
            }
        }
    }
}
