//! What of a record is compared, and how suspicious it is where it differs.

use crate::evidence::run_record::mask::Rule;
use crate::evidence::run_record::{Capabilities, Linux, Machine, Run, RunRecord, Systems};

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Not there, or not known.
    Unknown,
    /// A text.
    Text(String),
    /// A number of which only its size matters, with how it is shown.
    Number(f64),
    /// A set of words.
    Set(Vec<String>),
}

impl Value {
    pub(super) fn shown(&self) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) if number.is_infinite() => Some("no limit".to_owned()),
            Self::Number(number) => Some(number.to_string()),
            Self::Set(words) => Some(words.join(" ")),
        }
    }
}

/// One thing that a record says.
#[derive(Debug, Clone)]
pub(super) struct Fact {
    pub code: &'static str,
    pub part: &'static str,
    pub what: String,
    pub value: Value,
    pub weight: u32,
    /// Whether it tells something that the other record does not have it: a variable that is not set, for example.
    pub absent_is_a_fact: bool,
}

/// Instructions whose absence makes arithmetic slow.
const VECTOR: [&str; 14] = [
    "avx", "fma", "f16c", "sse4", "ssse3", "amx", "sve", "sme", "asimd", "neon", "bf16", "i8mm", "fp16",
    "dotprod",
];
/// Shared memory that many programs find too small: what container engines give.
const SMALL_SHARED_MEMORY: u64 = 64 << 20;

/// Everything that is compared.
pub(super) fn of(record: &RunRecord) -> Vec<Fact> {
    let mut facts = Facts::default();
    ended(record, &mut facts);
    capabilities(&record.capabilities, &mut facts);
    files(record, &mut facts);
    run(&record.run, &mut facts);
    systems(&record.os, &mut facts);
    machine(&record.machine, &mut facts);
    facts.0
}

#[derive(Default)]
struct Facts(Vec<Fact>);

impl Facts {
    fn add(
        &mut self,
        part: &'static str,
        code: &'static str,
        what: impl Into<String>,
        value: Value,
        weight: u32,
    ) {
        self.0.push(Fact { code, part, what: what.into(), value, weight, absent_is_a_fact: false });
    }

    /// The same for what tells something by not being there.
    fn add_or_absent(
        &mut self,
        part: &'static str,
        code: &'static str,
        what: impl Into<String>,
        value: Value,
        weight: u32,
    ) {
        self.0.push(Fact { code, part, what: what.into(), value, weight, absent_is_a_fact: true });
    }
}

fn text(value: Option<impl ToString>) -> Value {
    value.map_or(Value::Unknown, |value| Value::Text(value.to_string()))
}

#[allow(clippy::cast_precision_loss, reason = "sizes are compared as multiples of each other")]
fn number(value: Option<u64>) -> Value {
    value.map_or(Value::Unknown, |value| Value::Number(value as f64))
}

fn ended(record: &RunRecord, facts: &mut Facts) {
    facts.add("run", "exit", "how it ended", text(record.run.exit), 1000);
}

fn capabilities(capabilities: &Capabilities, facts: &mut Facts) {
    const PART: &str = "capabilities";
    for answer in &capabilities.metal {
        let of = |name: &str| {
            let section = answer.section.as_deref().unwrap_or("Metal");
            let family = answer.family.map_or_else(String::new, |family| format!(" {family}"));
            format!("{section}: {name}{family}")
        };
        facts.add(PART, "metal-family", of("family"), text(answer.supports_family), 960);
        let memory = number(answer.max_threadgroup_memory);
        facts.add(PART, "metal-memory", of("threadgroup memory beside family"), memory, 955);
        facts.add(PART, "metal-device", of("device beside family"), text(answer.device.as_ref()), 950);
    }
    if let Some(linux) = &capabilities.linux {
        self::linux(linux, facts);
    }
    for library in &capabilities.libraries {
        let version = library.version.as_ref().map_or_else(String::new, |version| format!(" ({version})"));
        let value = Value::Text(format!("{}{version}", library.path));
        facts.add_or_absent(PART, "library", library.name.clone(), value, 840);
    }
}

fn linux(linux: &Linux, facts: &mut Facts) {
    const PART: &str = "capabilities";
    // No limit is more than any limit.
    let limit = |limit: Option<f64>| Value::Number(limit.unwrap_or(f64::INFINITY));
    #[allow(clippy::cast_precision_loss, reason = "sizes are compared as multiples of each other")]
    let memory = linux.memory_limit.map(|bytes| bytes as f64);
    let gpus = linux.gpus.iter().map(|gpu| match &gpu.name {
        Some(name) => format!("{} ({name})", gpu.device),
        None => gpu.device.clone(),
    });
    facts.add(PART, "gpus", "visible GPUs", Value::Set(gpus.collect()), 945);
    facts.add(PART, "cpu-limit", "processor time of the control group", limit(linux.cpu_limit), 940);
    let is_vector = |flag: &&String| VECTOR.iter().any(|start| flag.starts_with(start));
    let (vector, other): (Vec<&String>, Vec<&String>) = linux.cpu_flags.iter().partition(is_vector);
    let set = |flags: Vec<&String>| Value::Set(flags.into_iter().cloned().collect());
    facts.add(PART, "vector-instructions", "vector instructions that the kernel lists", set(vector), 935);
    facts.add(
        PART,
        "usable-instructions",
        "vector instructions that work",
        Value::Set(linux.cpu_usable.clone()),
        934,
    );
    facts.add(
        PART,
        "masked-instructions",
        "instructions that a variable hides",
        Value::Set(linux.cpu_masked.clone()),
        933,
    );
    facts.add(PART, "affinity", "processors that it may run on", number(linux.affinity), 930);
    facts.add(PART, "memory-limit", "memory of the control group", limit(memory), 925);
    let is_small = linux.shared_memory.is_some_and(|size| size <= SMALL_SHARED_MEMORY);
    // The weight is that of the record that is named first, so a small one elsewhere is found by its own code.
    facts.add(PART, "shared-memory", "size of /dev/shm", number(linux.shared_memory), 620);
    facts.add(
        PART,
        "small-shared-memory",
        "/dev/shm has 64 MiB or less",
        Value::Text(is_small.to_string()),
        920,
    );
    facts.add(PART, "huge-pages", "huge pages set aside", number(linux.huge_pages), 450);
    facts.add(PART, "huge-page-size", "size of a huge page", number(linux.huge_page_size), 445);
    let transparent = text(linux.transparent_huge_pages.as_ref());
    facts.add(PART, "transparent-huge-pages", "transparent huge pages", transparent, 440);
    facts.add(PART, "cpu-flags", "other flags of the processor", set(other), 300);
}

fn files(record: &RunRecord, facts: &mut Facts) {
    for file in &record.files {
        use crate::evidence::run_record::FileRole::{
            Argument, Executable, Image, Probe, Program, Samples, VmImage,
        };
        let (code, weight) = match file.role {
            Program => ("program", 830),
            Executable => ("executable", 829),
            Argument if is_model(&file.path) => ("model", 820),
            Argument => ("argument-file", 790),
            Image => ("image", 810),
            VmImage => ("vm-image", 800),
            Probe => ("probe", 350),
            // Two runs never measure the same.
            Samples => continue,
        };
        // Files are told apart by name: the same model in another folder is the same model.
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let value = text(file.sha256.map(|digest| format!("sha256:{digest}")));
        if file.role == Image {
            facts.add(PART_FILES, code, name, value, weight);
        } else {
            facts.add_or_absent(PART_FILES, code, name, value, weight);
        }
    }
}

/// Tells whether a file holds weights, by its name.
fn is_model(path: &str) -> bool {
    const ENDS: [&str; 8] = [".gguf", ".ggml", ".safetensors", ".bin", ".npz", ".pt", ".pth", ".onnx"];
    ENDS.iter().any(|end| path.ends_with(end))
}

const PART_FILES: &str = "files";

fn run(run: &Run, facts: &mut Facts) {
    const PART: &str = "run";
    for (option, value) in options(&run.command) {
        facts.add_or_absent(PART, "argument", option, Value::Text(value), 750);
    }
    for leave_out in &run.rollback.leave_out {
        facts.add_or_absent(
            PART,
            "inserted-library",
            leave_out.clone(),
            Value::Text("inserted".to_owned()),
            900,
        );
    }
    for variable in &run.environment {
        let name = variable.name.as_str();
        let (code, weight) = if run.rollback.unset.iter().any(|unset| unset == name) {
            ("capability-variable", 905)
        } else if matches!(name, "PATH" | "HOME" | "LANG" | "TMPDIR" | "PWD" | "SHELL" | "TERM") {
            ("place-variable", 150)
        } else {
            ("variable", 700)
        };
        facts.add_or_absent(PART, code, name, Value::Text(variable.value.clone()), weight);
    }
    for rule in Rule::ALL {
        let mut places: Vec<String> =
            run.masked.iter().filter(|mask| mask.rule == rule).map(|mask| mask.place.clone()).collect();
        places.sort();
        facts.add(PART, "masked", format!("what the rule `{rule}` took out"), Value::Set(places), 120);
    }
    facts.add(PART, "directory", "where it ran", Value::Text(run.directory.clone()), 100);
}

/// The command line as options with their values: `-t 8` is one, and so is `--threads=8`. What stands alone is counted.
fn options(command: &[String]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut words = command.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        let is_option = |word: &str| {
            word.starts_with('-') && !word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
        };
        let (name, value) = match word.split_once('=').filter(|_| is_option(word)) {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None if is_option(word) => {
                let value = words.next_if(|next| !is_option(next));
                (word.clone(), value.map_or_else(|| "given".to_owned(), Clone::clone))
            }
            None => (format!("word {}", found.len() + 1), word.clone()),
        };
        match found.iter_mut().find(|(known, _)| *known == name) {
            // An option that is given twice.
            Some((_, values)) => *values = format!("{values} {value}"),
            None => found.push((name, value)),
        }
    }
    found
}

fn systems(os: &Systems, facts: &mut Facts) {
    const PART: &str = "os";
    if let Some(host) = &os.host {
        facts.add(PART, "host-chip", "the host's chip", Value::Text(host.chip.clone()), 690);
        facts.add(
            PART,
            "feature-level",
            "the host's feature level",
            Value::Text(host.feature_level.clone()),
            685,
        );
        let system = Value::Text(format!("{} ({})", host.version, host.build));
        facts.add(PART, "host-os", "the host's system", system, 680);
    }
    let here = &os.here;
    let said: Vec<&str> =
        [&here.name, &here.version, &here.build].into_iter().flatten().map(String::as_str).collect();
    let system = if said.is_empty() { Value::Unknown } else { Value::Text(said.join(" ")) };
    facts.add(PART, "os", "the system", system, 670);
    facts.add(PART, "kernel", "the kernel", text(here.kernel.as_ref()), 400);
}

fn machine(machine: &Machine, facts: &mut Facts) {
    const PART: &str = "machine";
    facts.add(PART, "chip", "the processor", text(machine.chip.as_ref()), 695);
    facts.add(PART, "processors", "processors of the system", number(machine.processors), 692);
    facts.add(PART, "virtual-machine", "whether it is virtual", text(machine.virtual_machine), 691);
    facts.add(PART, "memory", "memory of the system", number(machine.memory), 500);
    facts.add(PART, "architecture", "the architecture", Value::Text(machine.arch.clone()), 694);
    facts.add(PART, "model-name", "the machine's model", text(machine.model.as_ref()), 480);
    facts.add(PART, "machine-id", "which machine it is", text(machine.id.as_ref()), 90);
}
