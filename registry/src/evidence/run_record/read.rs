//! From JSON to a record, or the first thing that is wrong with it.

use jiff::Timestamp;

use super::fields::{At, Read, Wrong};
use super::mask::{Mask, Rule};
use super::{
    Capabilities, Exit, FileRecord, FileRole, Gpu, HostSystem, Library, Linux, Loaded, MOST_BYTES, Machine,
    Rollback, Run, RunRecord, SCHEMA, System, Systems, Unknown, Variable, samples,
};
use crate::evidence::json::{self, End};
use crate::evidence::probe::Answer;

/// Tells whether a file means to be a record, of whatever version, sound or not.
pub fn is_one(bytes: &[u8]) -> bool {
    let start = bytes.get(..bytes.len().min(256)).unwrap_or_default();
    start.trim_ascii_start().starts_with(b"{")
        && String::from_utf8_lossy(start).contains("\"capgate run-record ")
}

/// Reads a record.
///
/// Errors: more than [`MOST_BYTES`], no JSON, another schema, a member that is missing, unknown, of another type or
/// outside its bounds. The error names the member.
pub fn read(bytes: &[u8]) -> Result<RunRecord, Wrong> {
    if bytes.len() > MOST_BYTES {
        return Err(Wrong::new("the record", format!("has more than the {MOST_BYTES} bytes of one")));
    }
    let value = match json::value(bytes) {
        (Some(value), End::Complete(end)) => {
            let rest = bytes.get(end..).unwrap_or_default();
            if !rest.trim_ascii().is_empty() {
                return Err(Wrong::new(format!("byte {end}"), "text follows the record"));
            }
            value
        }
        (_, End::Malformed(why)) => return Err(Wrong::new("the record", format!("is no JSON: {why}"))),
        _ => return Err(Wrong::new(format!("byte {}", bytes.len()), "the record stops before its end")),
    };
    record(&At { place: String::new(), value: &value }).map_err(|wrong| {
        if wrong.place.is_empty() { Wrong { place: "the record".to_owned(), ..wrong } } else { wrong }
    })
}

fn record(at: &At<'_>) -> Read<RunRecord> {
    let fields = at.object()?;
    // First, so that a later version is told from a broken record.
    let schema = fields.at("schema")?;
    if schema.text()? != SCHEMA {
        return Err(Wrong::new(schema.place.clone(), format!("is `{}`, not `{SCHEMA}`", schema.text()?)));
    }
    let record = RunRecord {
        recorder: fields.text("recorder")?,
        complete: fields.at("complete")?.truth()?,
        machine: machine(&fields.at("machine")?)?,
        os: systems(&fields.at("os")?)?,
        capabilities: capabilities(&fields.at("capabilities")?)?,
        files: fields.list("files", file)?,
        run: run(&fields.at("run")?)?,
        unknown: fields.list("unknown", unknown)?,
        notes: fields.texts("notes")?,
    };
    fields.finish()?;
    if record.complete != record.run.exit.is_some() {
        return Err(Wrong::new("run.exit", "a complete record says how the program ended, no other does"));
    }
    Ok(record)
}

fn machine(at: &At<'_>) -> Read<Machine> {
    let fields = at.object()?;
    let machine = Machine {
        chip: fields.maybe_text("chip")?,
        model: fields.maybe_text("model")?,
        virtual_machine: fields.maybe_truth("virtual_machine")?,
        arch: fields.text("arch")?,
        processors: fields.maybe_whole("processors")?,
        memory: fields.maybe_whole("memory")?,
        id: fields.maybe_text("id")?,
    };
    fields.finish().map(|()| machine)
}

fn systems(at: &At<'_>) -> Read<Systems> {
    let fields = at.object()?;
    let systems = Systems { here: system(&fields.at("here")?)?, host: fields.at("host")?.known(host)? };
    fields.finish().map(|()| systems)
}

fn system(at: &At<'_>) -> Read<System> {
    let fields = at.object()?;
    let system = System {
        name: fields.maybe_text("name")?,
        version: fields.maybe_text("version")?,
        build: fields.maybe_text("build")?,
        kernel: fields.maybe_text("kernel")?,
    };
    fields.finish().map(|()| system)
}

fn host(at: &At<'_>) -> Read<HostSystem> {
    let fields = at.object()?;
    let host = HostSystem {
        chip: fields.text("chip")?,
        version: fields.text("version")?,
        build: fields.text("build")?,
        feature_level: fields.text("feature_level")?,
        issued: fields.at("issued")?.parse()?,
        expires: fields.at("expires")?.parse()?,
    };
    fields.finish().map(|()| host)
}

fn capabilities(at: &At<'_>) -> Read<Capabilities> {
    let fields = at.object()?;
    let capabilities = Capabilities {
        metal: fields.list("metal", answer)?,
        linux: fields.at("linux")?.known(linux)?,
        libraries: fields.list("libraries", library)?,
    };
    fields.finish().map(|()| capabilities)
}

fn answer(at: &At<'_>) -> Read<Answer> {
    let fields = at.object()?;
    let answer = Answer {
        section: fields.maybe_text("section")?,
        device: fields.maybe_text("device")?,
        family: fields.maybe_whole("family")?,
        supports_family: fields.maybe_truth("supports_family")?,
        max_threadgroup_memory: fields.maybe_whole("max_threadgroup_memory")?,
    };
    fields.finish().map(|()| answer)
}

fn linux(at: &At<'_>) -> Read<Linux> {
    let fields = at.object()?;
    let linux = Linux {
        cpu_flags: fields.texts("cpu_flags")?,
        cpu_usable: fields.texts("cpu_usable")?,
        cpu_masked: fields.texts("cpu_masked")?,
        cgroup_version: fields.maybe_whole("cgroup_version")?,
        cpu_limit: fields.maybe_number("cpu_limit")?,
        memory_limit: fields.maybe_whole("memory_limit")?,
        affinity: fields.maybe_whole("affinity")?,
        shared_memory: fields.maybe_whole("shared_memory")?,
        huge_pages: fields.maybe_whole("huge_pages")?,
        huge_page_size: fields.maybe_whole("huge_page_size")?,
        transparent_huge_pages: fields.maybe_text("transparent_huge_pages")?,
        gpus: fields.list("gpus", gpu)?,
    };
    fields.finish().map(|()| linux)
}

fn gpu(at: &At<'_>) -> Read<Gpu> {
    let fields = at.object()?;
    let gpu = Gpu { device: fields.text("device")?, name: fields.maybe_text("name")? };
    fields.finish().map(|()| gpu)
}

fn library(at: &At<'_>) -> Read<Library> {
    let fields = at.object()?;
    let library = Library {
        name: fields.text("name")?,
        path: fields.text("path")?,
        version: fields.maybe_text("version")?,
        build_id: fields.maybe_text("build_id")?,
        loaded: fields.at("loaded")?.word(&Loaded::WORDS)?,
    };
    fields.finish().map(|()| library)
}

fn file(at: &At<'_>) -> Read<FileRecord> {
    let fields = at.object()?;
    let file = FileRecord {
        role: fields.at("role")?.word(&FileRole::WORDS)?,
        path: fields.text("path")?,
        size: fields.maybe_whole("size")?,
        sha256: fields.at("sha256")?.known(At::parse)?,
        cdhash: fields.at("cdhash")?.known(At::parse)?,
        cached: fields.at("cached")?.truth()?,
    };
    fields.finish().map(|()| file)
}

fn run(at: &At<'_>) -> Read<Run> {
    let fields = at.object()?;
    let run = Run {
        command: fields.texts("command")?,
        directory: fields.text("directory")?,
        environment: fields.list("environment", variable)?,
        other_variables: fields.at("other_variables")?.whole()?,
        masked: fields.list("masked", mask)?,
        started: fields.at("started")?.parse::<Timestamp>()?,
        seconds: fields.maybe_number("seconds")?,
        exit: fields.at("exit")?.known(exit)?,
        samples: fields.list("samples", samples::read)?,
        rollback: rollback(&fields.at("rollback")?)?,
    };
    fields.finish()?;
    if run.command.is_empty() {
        return Err(Wrong::new(format!("{}.command", at.place), "names no program"));
    }
    Ok(run)
}

fn variable(at: &At<'_>) -> Read<Variable> {
    let fields = at.object()?;
    let variable = Variable { name: fields.text("name")?, value: fields.text("value")? };
    fields.finish().map(|()| variable)
}

fn mask(at: &At<'_>) -> Read<Mask> {
    let fields = at.object()?;
    let rules = Rule::ALL.map(|rule| (rule.name(), rule));
    let mask = Mask { place: fields.text("place")?, rule: fields.at("rule")?.word(&rules)? };
    fields.finish().map(|()| mask)
}

fn exit(at: &At<'_>) -> Read<Exit> {
    let fields = at.object()?;
    let number = |name| {
        let at = fields.at(name)?;
        u8::try_from(at.whole()?).map_err(|_| Wrong::new(at.place, "is above 255"))
    };
    let is_signal = at.value.as_object().is_some_and(|object| object.get("signal").is_some());
    let exit = if is_signal { Exit::Signal(number("signal")?) } else { Exit::Code(number("code")?) };
    fields.finish().map(|()| exit)
}

fn rollback(at: &At<'_>) -> Read<Rollback> {
    let fields = at.object()?;
    let rollback = Rollback { unset: fields.texts("unset")?, leave_out: fields.texts("leave_out")? };
    fields.finish().map(|()| rollback)
}

fn unknown(at: &At<'_>) -> Read<Unknown> {
    let fields = at.object()?;
    let unknown = Unknown { what: fields.text("what")?, why: fields.text("why")? };
    fields.finish().map(|()| unknown)
}
