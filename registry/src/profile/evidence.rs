//! What was judged: the part of a bundle that a profile keeps.

use jiff::civil::Date;

use super::bounds::Values;
use crate::combination::Sha256Digest;
use crate::document::{Spanned, Table};

/// What a piece of evidence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceKind {
    /// How fast it is.
    Speed,
    /// Whether the answers are right.
    Correctness,
}

/// Words of [`EvidenceKind`].
pub const KINDS: [(&str, EvidenceKind); 2] =
    [("speed", EvidenceKind::Speed), ("correctness", EvidenceKind::Correctness)];

/// The injected library that the arm ran with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShimName {
    /// capgate's own.
    Capgate,
    /// Lume's.
    Lume,
    /// Tart's.
    Tart,
    /// Anka's.
    Anka,
    /// Lunchpail's.
    Lunchpail,
}

/// Words of [`ShimName`].
pub const SHIMS: [(&str, ShimName); 5] = [
    ("capgate", ShimName::Capgate),
    ("lume", ShimName::Lume),
    ("tart", ShimName::Tart),
    ("anka", ShimName::Anka),
    ("lunchpail", ShimName::Lunchpail),
];

/// How a test of correctness ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every answer was right.
    Pass,
    /// At least one was not.
    Fail,
}

/// Words of [`Outcome`].
pub const OUTCOMES: [(&str, Outcome); 2] = [("pass", Outcome::Pass), ("fail", Outcome::Fail)];

/// The shim and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shim {
    /// Whose it is.
    pub name: ShimName,
    /// SHA-256 of the library.
    pub sha256: Sha256Digest,
}

/// The model that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// SHA-256 of its file, where it is one file.
    pub sha256: Option<Sha256Digest>,
    /// Its revision in the place it came from, where that is how it was named.
    pub revision: Option<String>,
}

/// One arm's samples of one test, in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arm {
    /// Samples.
    pub n: u64,
    /// Median rate in tokens per second.
    pub median: f64,
    /// Coefficient of variation of the rates: standard deviation over mean.
    pub cv: f64,
}

/// One test, such as `pp512`, in every arm.
#[derive(Debug, Clone, PartialEq)]
pub struct TestResult {
    /// Its name.
    pub name: String,
    /// Without any override.
    pub stock: Arm,
    /// With the override; absent only in evidence that names no set.
    pub changed: Option<Arm>,
    /// On the bare host.
    pub host: Option<Arm>,
    /// Without the GPU, in the guest.
    pub cpu: Option<Arm>,
}

/// One judged piece of evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// What it is about.
    pub kind: EvidenceKind,
    /// The set it tested; `None` only in evidence for stock.
    pub values: Option<Values>,
    /// The library it ran with.
    pub shim: Option<Shim>,
    /// SHA-256 of the bundle's SHA256SUMS.
    pub bundle: Sha256Digest,
    /// Where the bundle can be read.
    pub source: String,
    /// Day of the newest sample.
    pub measured: Date,
    /// The model.
    pub model: Option<Model>,
    /// Speed, test by test.
    pub tests: Vec<TestResult>,
    /// How correctness was tested, for example `test-backend-ops`.
    pub method: Option<String>,
    /// How the test of correctness ended.
    pub outcome: Option<Outcome>,
    /// Codes of the warnings that the judge gave.
    pub warnings: Vec<String>,
}

impl Evidence {
    /// Fewest samples of any arm of any test; 0 when there is no test. Where the evidence names values, a test without
    /// an arm that ran with them has none.
    pub fn fewest_samples(&self) -> u64 {
        let changed = |test: &TestResult| match (test.changed, self.values) {
            (Some(arm), _) => Some(arm.n),
            (None, Some(_)) => Some(0),
            (None, None) => None,
        };
        let arms = self.tests.iter().flat_map(|test| [Some(test.stock.n), changed(test)]).flatten();
        arms.min().unwrap_or(0)
    }
}

pub(super) fn read(table: &Table<'_>) -> Option<Spanned<Evidence>> {
    let kind = table.require_word("kind", &KINDS);
    let values = table.table("override").and_then(|t| read_values(&t));
    let shim = table.table("shim").and_then(|t| read_shim(&t));
    let bundle = table.require_string("bundle").and_then(|s| read_bundle(table, &s));
    let source = table.require_string("source").inspect(|s| check_source(table, s));
    let measured = table.date("measured");
    if !table.has("measured") {
        table.missing("measured");
    }
    let model = table.table("model").and_then(|t| read_model(&t));
    let tests: Vec<TestResult> = table.tables("test").iter().filter_map(read_test).collect();
    let method = table.string("method").map(|s| s.value.to_owned());
    let outcome = table.word("outcome", &OUTCOMES).map(|s| s.value);
    let warnings = table.strings("warnings").into_iter().map(|s| s.value.to_owned()).collect();
    table.finish();
    let kind = kind?;
    check_kind(table, kind.value, &tests, method.is_some() && outcome.is_some());
    Some(Spanned {
        span: table.span(),
        value: Evidence {
            kind: kind.value,
            values,
            shim,
            bundle: bundle?,
            source: source?.value.to_owned(),
            measured: measured?.value,
            model,
            tests,
            method,
            outcome,
            warnings,
        },
    })
}

/// Each kind has its own findings, and a profile without them says nothing.
fn check_kind(table: &Table<'_>, kind: EvidenceKind, tests: &[TestResult], judged: bool) {
    match kind {
        EvidenceKind::Speed if tests.is_empty() => {
            let help =
                "add [[evidence.test]] with name and stock; `capgate evidence draft` writes it".to_owned();
            table.problems().rule(table.span(), "speed evidence names no test", Some(help));
        }
        EvidenceKind::Correctness if !judged => {
            let help = "add `method` and `outcome = \"pass\"` or `\"fail\"`".to_owned();
            table.problems().rule(table.span(), "correctness evidence lacks method or outcome", Some(help));
        }
        _ => {}
    }
}

/// Reads a set of values; bounds are a rule, not a matter of form.
pub(super) fn read_values(table: &Table<'_>) -> Option<Values> {
    let values = take_values(table);
    table.finish();
    values
}

pub(super) fn take_values(table: &Table<'_>) -> Option<Values> {
    let family = table.require_integer("apple_family_max");
    let memory = table.require_integer("max_threadgroup_memory");
    Some(Values { apple_family_max: family?.value, max_threadgroup_memory: memory?.value })
}

fn read_shim(table: &Table<'_>) -> Option<Shim> {
    let name = table.require_word("name", &SHIMS);
    let sha256 = table.require_parse("sha256");
    table.finish();
    Some(Shim { name: name?.value, sha256: sha256?.value })
}

fn read_bundle(table: &Table<'_>, text: &Spanned<&str>) -> Option<Sha256Digest> {
    let digest = text.value.strip_prefix("sha256:").map(str::parse);
    match digest {
        Some(Ok(digest)) => Some(digest),
        Some(Err(e)) => {
            table.problems().malformed(text.span.clone(), format!("`bundle`: the digest {e}"), None);
            None
        }
        None => {
            let help = "write `sha256:` and the digest of the bundle's SHA256SUMS".to_owned();
            table.problems().malformed(text.span.clone(), "`bundle` is not a digest", Some(help));
            None
        }
    }
}

fn check_source(table: &Table<'_>, source: &Spanned<&str>) {
    if !source.value.starts_with("https://") {
        let help = "name the https:// address where the bundle can be read".to_owned();
        table.problems().rule(
            source.span.clone(),
            format!("`source` cannot be `{}`", source.value),
            Some(help),
        );
    }
}

fn read_model(table: &Table<'_>) -> Option<Model> {
    let name = table.require_string("name");
    let sha256 = table.parse("sha256").map(|s| s.value);
    let revision = table.string("revision").map(|s| s.value.to_owned());
    if !table.has("sha256") && !table.has("revision") {
        let help = "give `sha256` of the model file, or `revision` where it is many files".to_owned();
        table.problems().rule(table.span(), "the model is named, but not which one exactly", Some(help));
    }
    table.finish();
    Some(Model { name: name?.value.to_owned(), sha256, revision })
}

fn read_test(table: &Table<'_>) -> Option<TestResult> {
    let name = table.require_string("name");
    let stock = table.require_table("stock").and_then(|t| read_arm(&t));
    let changed = table.table("override").and_then(|t| read_arm(&t));
    let host = table.table("host").and_then(|t| read_arm(&t));
    let cpu = table.table("cpu").and_then(|t| read_arm(&t));
    table.finish();
    Some(TestResult { name: name?.value.to_owned(), stock: stock?, changed, host, cpu })
}

fn read_arm(table: &Table<'_>) -> Option<Arm> {
    let n = table.require_integer("n");
    let median = table.require_number("median");
    let cv = table.require_number("cv");
    table.finish();
    let arm = Arm { n: n?.value, median: median?.value, cv: cv?.value };
    if arm.n == 0 || arm.median <= 0.0 || arm.cv < 0.0 {
        let message = "an arm needs at least one sample, a median above 0 and a spread of 0 or more";
        table.problems().malformed(table.span(), message, None);
        return None;
    }
    Some(arm)
}
