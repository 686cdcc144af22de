//! `bundle.toml`: what each file of a bundle is, and which combination was measured.
//!
//! ```toml
//! schema = "1.0.0"
//! source = "https://…"                      # where the bundle can be read
//!
//! [[workload]]                              # one for each verdict
//! name = "tinyllama"                        # unique in the bundle
//! verdict = "override"                      # sought: override | stock
//! program = { name = "llama-bench", version = "b10167", sha256 = "28fa…" }
//! model = { name = "tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf", sha256 = "9fec…" }
//! host = { chip = "Apple M1 Ultra", os = { version = "26.6.1", build = "25G76" }, apple_family = 1007, max_threadgroup_memory = 32768 }
//! guest = { os = { version = "26.5.2", build = "25F84" }, model = "VirtualMac2,1", stock = { apple_family = 1005, max_threadgroup_memory = 32768 } }
//!
//! [[workload.file]]                         # samples of an arm: stock | override | host | cpu; or control
//! path = "stock.json"
//! arm = "stock"
//!
//! [[workload.file]]
//! path = "override.json"
//! arm = "override"
//! claims = { apple_family_max = 1009, max_threadgroup_memory = 65536 }
//! shim = { name = "lume", sha256 = "515b…" }
//!
//! [[workload.file]]                         # log | probe | environment | correctness | record, and the arm it belongs to
//! path = "override.stderr"
//! role = "log"
//! of = "override"
//!
//! [[workload.file]]
//! path = "override.ops"
//! role = "correctness"
//! of = "override"
//! program = { name = "test-backend-ops", version = "b10167", sha256 = "0f3a…" }   # what printed it, where that is known
//! ```
//!
//! A workload without samples is a program that was run for its output alone: it has a log and an output
//! (`role = "correctness"`) of each arm, and those of an override name `claims` and `shim`.
//!
//! A file that is `control` is kept and never scored. An arm may consist of several files; samples of the same test
//! are pooled in the order they were measured. Facts that nobody recorded are left out: the judge warns of them and a
//! draft leaves a blank.

mod read;
mod write;

use jiff::civil::Date;

use crate::combination::{CdHash, Chip, Sha256Digest};
use crate::document::Problem;
use crate::os::Os;
use crate::profile::{FeatureLevel, Image, Model, ShimName, Values, Verdict};

pub(in crate::evidence) use read::{guest as read_guest, host as read_host};
pub(in crate::evidence) use write::{guest as guest_table, host as host_table};

/// The name of a manifest inside its bundle.
pub const FILE_NAME: &str = "bundle.toml";
/// Most bytes of a manifest.
pub const MOST_BYTES: usize = 256 * 1024;

/// What a bundle holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Where the bundle can be read.
    pub source: Option<String>,
    /// What was measured, one for each verdict.
    pub workloads: Vec<Workload>,
}

/// One program with one model on one combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its name in the bundle.
    pub name: String,
    /// The verdict that the evidence is meant to support.
    pub sought: Verdict,
    /// The program.
    pub program: Program,
    /// The model.
    pub model: Model,
    /// The Mac.
    pub host: Host,
    /// The virtual machine.
    pub guest: Guest,
    /// The day of the measurement, where the files do not say it.
    pub measured: Option<Date>,
    /// Uses that were not tested.
    pub not_covered: Vec<String>,
    /// The sets that override arms claim, in the order of their first file.
    pub sets: Vec<ClaimedSet>,
    /// The files.
    pub files: Vec<File>,
}

/// The program that was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version, as its makers write it.
    pub version: String,
    /// SHA-256 of the executable.
    pub sha256: Option<Sha256Digest>,
    /// Code directory hash of the executable.
    pub cdhash: Option<CdHash>,
    /// Images that may touch Metal; empty where they were not recorded.
    pub images: Vec<Image>,
}

/// The Mac, as far as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its chip.
    pub chip: Chip,
    /// Its system.
    pub os: Os,
    /// The Apple family that its own GPU reports.
    pub apple_family: Option<u64>,
    /// The threadgroup memory that its own GPU reports, in bytes.
    pub max_threadgroup_memory: Option<u64>,
    /// The host preference while it was measured.
    pub feature_level: FeatureLevel,
}

/// The virtual machine, as far as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Its system.
    pub os: Os,
    /// `hw.model`.
    pub model: Option<String>,
    /// The original Apple family; older guests have none.
    pub stock_family: Option<u64>,
    /// The original threadgroup memory, in bytes.
    pub stock_memory: Option<u64>,
}

/// A set of values that override arms claim, and the shim they ran with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedSet {
    /// The values.
    pub values: Values,
    /// Whose shim.
    pub shim: Option<ShimName>,
    /// SHA-256 of the shim.
    pub shim_sha256: Option<Sha256Digest>,
}

/// One file and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path in the bundle.
    pub path: String,
    /// What it is.
    pub part: Part,
    /// The program that printed it; named for correctness alone, which other programs test than the measured one.
    pub program: Option<Tester>,
}

/// A program that tested correctness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tester {
    /// Its name.
    pub name: String,
    /// Its version, as its makers write it.
    pub version: Option<String>,
    /// SHA-256 of its executable.
    pub sha256: Option<Sha256Digest>,
}

impl std::fmt::Display for Tester {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.name)?;
        if let Some(version) = &self.version {
            write!(out, " {version}")?;
        }
        self.sha256.map_or(Ok(()), |digest| write!(out, " sha256:{digest}"))
    }
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Samples of an arm.
    Samples(Arm),
    /// Something that says more about an arm, or about all.
    Item(Role, Option<Arm>),
    /// Kept, never scored.
    Control,
}

/// One way a test was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arm {
    /// In the guest, with the original answers.
    Stock,
    /// In the guest, with these values.
    Override(Values),
    /// On the Mac itself.
    Host,
    /// In the guest, without the GPU.
    Cpu,
}

/// What a file without samples is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A program's stderr.
    Log,
    /// A capability probe's answers.
    Probe,
    /// A description of a machine.
    Environment,
    /// Output of a test of correctness.
    Correctness,
    /// What a run was, as `capgate record` writes it.
    Record,
}

impl Arm {
    /// Its name in manifests and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Override(_) => "override",
            Self::Host => "host",
            Self::Cpu => "cpu",
        }
    }

    /// Tells whether it runs in the guest.
    pub fn is_guest(self) -> bool {
        self != Self::Host
    }
}

impl std::fmt::Display for Arm {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Override(values) => write!(out, "override {values}"),
            _ => out.write_str(self.name()),
        }
    }
}

impl Manifest {
    /// Reads a manifest, or says every problem in it.
    pub fn parse(toml: &[u8]) -> Result<Self, Vec<Problem>> {
        let (manifest, problems) = read::manifest(toml);
        manifest.ok_or(problems)
    }
}

impl Workload {
    /// The files that hold samples of an arm.
    pub fn samples(&self, arm: Arm) -> impl Iterator<Item = &str> {
        self.files.iter().filter(move |file| file.part == Part::Samples(arm)).map(|file| file.path.as_str())
    }

    /// The files of a role, and the arms they belong to.
    pub fn items(&self, wanted: Role) -> impl Iterator<Item = (&str, Option<Arm>)> {
        self.files.iter().filter_map(move |file| match file.part {
            Part::Item(role, of) if role == wanted => Some((file.path.as_str(), of)),
            _ => None,
        })
    }

    /// Tells whether it is a program that was run for its output alone, and has no samples.
    pub fn is_output_only(&self) -> bool {
        self.arms().is_empty() && self.items(Role::Correctness).next().is_some()
    }

    /// Every arm that any file belongs to, in the order of [`arms`](Self::arms).
    pub fn named_arms(&self) -> Vec<Arm> {
        let mut arms: Vec<Arm> = self
            .files
            .iter()
            .filter_map(|file| match file.part {
                Part::Samples(arm) | Part::Item(_, Some(arm)) => Some(arm),
                Part::Item(_, None) | Part::Control => None,
            })
            .collect();
        arms.sort_unstable();
        arms.dedup();
        arms
    }

    /// The program that printed a file, where the manifest names it.
    pub fn tester(&self, path: &str) -> Option<&Tester> {
        self.files.iter().find(|file| file.path == path)?.program.as_ref()
    }

    /// Every arm that has samples: stock, the overrides in their order, host, cpu.
    pub fn arms(&self) -> Vec<Arm> {
        let sets = self.sets.iter().map(|set| Arm::Override(set.values));
        let all = std::iter::once(Arm::Stock).chain(sets).chain([Arm::Host, Arm::Cpu]);
        all.filter(|arm| self.samples(*arm).next().is_some()).collect()
    }
}

/// The word for a shim's makers.
pub fn shim_word(shim: ShimName) -> &'static str {
    match shim {
        ShimName::Capgate => "capgate",
        ShimName::Lume => "lume",
        ShimName::Tart => "tart",
        ShimName::Anka => "anka",
        ShimName::Lunchpail => "lunchpail",
    }
}
