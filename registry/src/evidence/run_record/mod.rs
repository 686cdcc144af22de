//! The run record: what one run of a program was, on what, and what it saw at its start.
//!
//! Five parts, as JSON: `machine`, `os`, `capabilities`, `files`, `run`. A value that could not be known is `null`, and
//! `unknown` says why; nothing is guessed. Secrets are taken out before anything is written ([`mask`]), and `run.masked`
//! names the place and the rule. The schema is docs/schema/run-record.schema.json; [`read()`] is stricter where a schema
//! cannot be.
//!
//! [`diff`] says in what two runs differ, the most suspicious first.

pub mod diff;
mod fields;
pub mod mask;
mod read;
pub mod samples;
pub mod variables;
mod walk;
mod write;

use jiff::Timestamp;
use serde::Serialize;

use crate::combination::{CdHash, Sha256Digest};
use mask::Mask;

pub use fields::Wrong;
pub use read::{is_one, read};

/// The version of the format, the first member of every record.
pub const SCHEMA: &str = "capgate run-record v1";
/// Most bytes of a record.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Most items of any list in it.
pub const MOST_ITEMS: usize = 20_000;

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRecord {
    /// What wrote it: `capgate 0.1.0`.
    pub recorder: String,
    /// False in what is written before the program ends, so that a recorder that was killed leaves no lie.
    pub complete: bool,
    /// Hardware, or virtual hardware.
    pub machine: Machine,
    /// Operating systems.
    pub os: Systems,
    /// What the program could see as it started.
    pub capabilities: Capabilities,
    /// The files it was made of.
    pub files: Vec<FileRecord>,
    /// The run itself.
    pub run: Run,
    /// What is not known, and why.
    pub unknown: Vec<Unknown>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// Hardware, or what a virtual machine shows for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub chip: Option<String>,
    /// The machine's model.
    pub model: Option<String>,
    /// Whether it is virtual.
    pub virtual_machine: Option<bool>,
    /// Architecture.
    pub arch: String,
    /// Processors that the system runs on.
    pub processors: Option<u64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// A digest of the machine's own id.
    pub id: Option<String>,
}

/// The system here, and the host's where this is a guest whose host signed a statement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Systems {
    /// The one the program ran on.
    pub here: System,
    /// The host's, from its statement.
    pub host: Option<HostSystem>,
}

/// An operating system.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct System {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its build.
    pub build: Option<String>,
    /// Its kernel.
    pub kernel: Option<String>,
}

/// What a host signed of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostSystem {
    /// Its chip.
    pub chip: String,
    /// Its version.
    pub version: String,
    /// Its build.
    pub build: String,
    /// The host preference: `unrestricted`, `default` or `unrecorded`.
    pub feature_level: String,
    /// When it was signed.
    #[serde(serialize_with = "super::as_text")]
    pub issued: Timestamp,
    /// Until when it counts.
    #[serde(serialize_with = "super::as_text")]
    pub expires: Timestamp,
}

/// What a program could see as it started.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Capabilities {
    /// Answers of Metal devices, as a probe printed them.
    pub metal: Vec<super::probe::Answer>,
    /// What only Linux has.
    pub linux: Option<Linux>,
    /// Images that the loader picked.
    pub libraries: Vec<Library>,
}

/// Capabilities of a process on Linux.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Linux {
    /// Flags of the first processor in `/proc/cpuinfo`, sorted.
    pub cpu_flags: Vec<String>,
    /// Vector and matrix instructions that the processor itself and the kernel allow this process, sorted.
    pub cpu_usable: Vec<String>,
    /// Features that `GLIBC_TUNABLES` hides from the loader and the C library.
    pub cpu_masked: Vec<String>,
    /// Version of the control groups.
    pub cgroup_version: Option<u64>,
    /// Processor time that the control group allows, in processors.
    pub cpu_limit: Option<f64>,
    /// Memory that the control group allows, in bytes.
    pub memory_limit: Option<u64>,
    /// Processors that the process may run on.
    pub affinity: Option<u64>,
    /// Size of `/dev/shm` in bytes.
    pub shared_memory: Option<u64>,
    /// Huge pages that are set aside.
    pub huge_pages: Option<u64>,
    /// Size of a huge page in bytes.
    pub huge_page_size: Option<u64>,
    /// Mode of transparent huge pages.
    pub transparent_huge_pages: Option<String>,
    /// GPUs that are there as devices.
    pub gpus: Vec<Gpu>,
}

/// A GPU that a process can see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Gpu {
    /// Its device file.
    pub device: String,
    /// Its driver or model, as the kernel names it.
    pub name: Option<String>,
}

/// When an image was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loaded {
    /// With the program.
    Start,
    /// Later, seen in the running process.
    Later,
    /// It stands where the program may open it later; nobody saw it loaded.
    Maybe,
}

impl Loaded {
    /// Every word with its meaning.
    pub const WORDS: [(&'static str, Self); 3] =
        [("start", Self::Start), ("later", Self::Later), ("maybe", Self::Maybe)];
}

/// An image that the loader picked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Library {
    /// The name it goes by: its soname, or its file name.
    pub name: String,
    /// Its file, links followed.
    pub path: String,
    /// Its version, where the file says one.
    pub version: Option<String>,
    /// The id that its linker gave it.
    pub build_id: Option<String>,
    /// When.
    pub loaded: Loaded,
}

/// What a file was to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileRole {
    /// The file that was started.
    Program,
    /// The file whose code ran, where it is another one.
    Executable,
    /// A loaded image.
    Image,
    /// A model or another file that the command line names.
    Argument,
    /// The image of the virtual machine.
    VmImage,
    /// The capability probe.
    Probe,
    /// Raw samples.
    Samples,
}

impl FileRole {
    /// Every word with its meaning.
    pub const WORDS: [(&'static str, Self); 7] = [
        ("program", Self::Program),
        ("executable", Self::Executable),
        ("image", Self::Image),
        ("argument", Self::Argument),
        ("vm-image", Self::VmImage),
        ("probe", Self::Probe),
        ("samples", Self::Samples),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, role)| *role == self).map_or("", |(word, _)| word)
    }
}

/// A file that the run was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRecord {
    /// What it was.
    pub role: FileRole,
    /// Where it was.
    pub path: String,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Its SHA-256; `unknown` says why there is none.
    #[serde(serialize_with = "optional_text")]
    pub sha256: Option<Sha256Digest>,
    /// Its code directory hash, where it is signed as Mach-O files are.
    #[serde(serialize_with = "optional_text")]
    pub cdhash: Option<CdHash>,
    /// Whether the digest was computed at an earlier run and the file's stamp is still the same.
    pub cached: bool,
}

/// The run itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// The command line, secrets masked.
    pub command: Vec<String>,
    /// The folder it ran in.
    pub directory: String,
    /// Variables that matter, by name; secrets masked.
    pub environment: Vec<Variable>,
    /// How many other variables there were; they are not recorded.
    pub other_variables: u64,
    /// What was masked, and by which rule.
    pub masked: Vec<Mask>,
    /// When it started.
    #[serde(serialize_with = "super::as_text")]
    pub started: Timestamp,
    /// How long it ran, in seconds by a clock that is never set.
    pub seconds: Option<f64>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// What it measured.
    pub samples: Vec<samples::Samples>,
    /// What would make it stock again.
    pub rollback: Rollback,
}

/// A variable of the environment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// With a status.
    Code(u8),
    /// By a signal.
    Signal(u8),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(out, "status {code}"),
            Self::Signal(signal) => write!(out, "signal {signal}"),
        }
    }
}

/// What to undo for Apple's own answers. Nothing persists: a fresh process without it is stock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Rollback {
    /// Variables to unset.
    pub unset: Vec<String>,
    /// Inserted libraries to leave out, each behind its variable: `LD_PRELOAD /opt/lib/x.so`.
    pub leave_out: Vec<String>,
}

/// Something that is not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unknown {
    /// What: `os.host`, `capabilities.metal`, `files /models/m.gguf`.
    pub what: String,
    /// Why.
    pub why: String,
}

fn optional_text<T: std::fmt::Display, S: serde::Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}
