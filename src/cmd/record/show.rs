//! `capgate record show`: a record for people.

use capgate_registry::evidence::run_record::{Linux, RunRecord};

use super::read;
use crate::cli::RecordShowArgs;
use crate::exit::{Exit, Outcome};
use crate::ui::table::{Rows, facts};
use crate::ui::{Ui, number, visible};

pub fn run(ui: &Ui, args: &RecordShowArgs) -> Outcome {
    let record = read(&args.file)?;
    if ui.is_json() {
        // What was read, not what the file holds: a reader gets one spelling.
        ui.stdout(&record.to_json());
    } else {
        print(ui, &record);
    }
    Ok(Exit::Done)
}

fn print(ui: &Ui, record: &RunRecord) {
    if !record.complete {
        ui.warn("this was written before the program ended, by a recorder that did not come to its end");
    }
    machine(ui, record);
    if let Some(linux) = &record.capabilities.linux {
        capabilities(ui, linux);
    }
    for answer in &record.capabilities.metal {
        let shown = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        ui.stdout(&facts([
            ("Metal device", shown(answer.device.clone())),
            ("family", shown(answer.family.map(|family| family.to_string()))),
            ("supported", shown(answer.supports_family.map(|is| is.to_string()))),
            ("threadgroup", shown(answer.max_threadgroup_memory.map(bytes))),
        ]));
    }
    libraries(ui, record);
    files(ui, record);
    run_itself(ui, record);
    for unknown in &record.unknown {
        ui.line(visible(&format!("unknown: {}: {}", unknown.what, unknown.why)));
    }
    for note in &record.notes {
        ui.line(visible(&format!("note: {note}")));
    }
}

fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(|| "unknown".to_owned())
}

fn machine(ui: &Ui, record: &RunRecord) {
    let (machine, here) = (&record.machine, &record.os.here);
    let count = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let is_virtual = match machine.virtual_machine {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let build = here.build.as_ref().map_or_else(String::new, |build| format!(" ({build})"));
    let host = record.os.host.as_ref().map_or_else(
        || "unknown".to_owned(),
        |host| {
            format!("{}, {} ({}), feature level {}", host.chip, host.version, host.build, host.feature_level)
        },
    );
    ui.stdout(&facts([
        ("chip", text(machine.chip.as_ref())),
        ("model", text(machine.model.as_ref())),
        ("virtual machine", is_virtual.to_owned()),
        ("processors", count(machine.processors)),
        ("memory", machine.memory.map_or_else(|| "unknown".to_owned(), bytes)),
        ("OS", format!("{} {}{build}", text(here.name.as_ref()), text(here.version.as_ref()))),
        ("kernel", format!("{} ({})", text(here.kernel.as_ref()), machine.arch)),
        ("host", host),
    ]));
}

fn capabilities(ui: &Ui, linux: &Linux) {
    let size = |size: Option<u64>, none: &str| size.map_or_else(|| none.to_owned(), bytes);
    let count = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let list = |words: &[String]| if words.is_empty() { "none".to_owned() } else { words.join(" ") };
    let limit =
        linux.cpu_limit.map_or_else(|| "no limit".to_owned(), |limit| format!("{limit:.2} processors"));
    let gpus: Vec<String> = linux
        .gpus
        .iter()
        .map(|gpu| {
            gpu.name.as_ref().map_or_else(|| gpu.device.clone(), |name| format!("{} ({name})", gpu.device))
        })
        .collect();
    ui.stdout(&facts([
        ("processor limit", limit),
        ("memory limit", size(linux.memory_limit, "no limit")),
        ("may run on", format!("{} processors", count(linux.affinity))),
        ("/dev/shm", size(linux.shared_memory, "unknown")),
        (
            "huge pages",
            format!("{} of {}", count(linux.huge_pages), size(linux.huge_page_size, "unknown size")),
        ),
        ("transparent", text(linux.transparent_huge_pages.as_ref())),
        ("instructions", list(&linux.cpu_usable)),
        ("masked", list(&linux.cpu_masked)),
        ("GPUs", list(&gpus)),
    ]));
}

fn libraries(ui: &Ui, record: &RunRecord) {
    let mut rows = Rows::new(&["library", "version", "loaded", "path"]);
    for library in &record.capabilities.libraries {
        let loaded = capgate_registry::evidence::run_record::Loaded::WORDS;
        let word = loaded.iter().find(|(_, when)| *when == library.loaded).map_or("", |(word, _)| word);
        let version = library.version.as_deref().unwrap_or("-");
        rows.row([library.name.as_str(), version, word, library.path.as_str()]);
    }
    if !rows.is_empty() {
        ui.line("");
        ui.stdout(&rows.render());
    }
}

fn files(ui: &Ui, record: &RunRecord) {
    let mut rows = Rows::new(&["file", "bytes", "sha256", "path"]);
    for file in &record.files {
        let size = file.size.map_or_else(|| "-".to_owned(), number);
        let digest = file.sha256.map_or_else(|| "unknown".to_owned(), |digest| digest.to_string());
        rows.row([file.role.name(), &size, &digest, &file.path]);
    }
    if !rows.is_empty() {
        ui.line("");
        ui.stdout(&rows.right(&[1]).render());
    }
}

fn run_itself(ui: &Ui, record: &RunRecord) {
    let run = &record.run;
    ui.line("");
    let took = run.seconds.map_or_else(|| "unknown".to_owned(), |seconds| format!("{seconds:.3} s"));
    let exit = run.exit.map_or_else(|| "unknown".to_owned(), |exit| exit.to_string());
    ui.stdout(&facts([
        ("command", run.command.join(" ")),
        ("folder", run.directory.clone()),
        ("started", run.started.to_string()),
        ("took", took),
        ("ended with", exit),
    ]));
    for variable in &run.environment {
        ui.line(visible(&format!("{}={}", variable.name, variable.value)));
    }
    ui.line(format!("{} other variables, not recorded", run.other_variables));
    for mask in &run.masked {
        ui.line(visible(&format!("masked: {} (rule `{}`)", mask.place, mask.rule)));
    }
    let mut rows = Rows::new(&["test", "n", "median", "least", "most", "spread"]);
    for samples in &run.samples {
        let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.4}"));
        let spread = samples.cv.map_or_else(|| "-".to_owned(), |cv| format!("{:.2} %", cv * 100.0));
        rows.row([
            samples.test.clone(),
            samples.n.to_string(),
            rate(samples.median),
            rate(samples.least),
            rate(samples.most),
            spread,
        ]);
    }
    if !rows.is_empty() {
        ui.stdout(&rows.right(&[1, 2, 3, 4, 5]).render());
    }
    let rollback = &run.rollback;
    if rollback.unset.is_empty() && rollback.leave_out.is_empty() {
        ui.line("rollback: nothing here changes what a device answers");
    }
    for name in &rollback.unset {
        ui.line(visible(&format!("rollback: unset {name}")));
    }
    for library in &rollback.leave_out {
        ui.line(visible(&format!("rollback: leave out {library}")));
    }
}

fn bytes(value: u64) -> String {
    format!("{} bytes", number(value))
}
