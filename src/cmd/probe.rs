//! `capgate probe`: what this machine is.

use crate::exit::{Exit, Outcome};
use crate::ui::table::facts;
use crate::ui::{Ui, number};
use crate::world::machine::{self, Linux, Machine};

pub fn run(ui: &Ui) -> Outcome {
    let machine = machine::read();
    if ui.is_json() {
        ui.json(&machine);
    } else {
        print(ui, &machine);
    }
    Ok(Exit::Done)
}

fn print(ui: &Ui, machine: &Machine) {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let virtual_machine = match machine.virtual_machine {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    ui.stdout(&facts([
        ("chip", text(&machine.chip)),
        ("model", text(&machine.model)),
        ("virtual machine", virtual_machine.to_owned()),
        ("OS", format!("{} {}", text(&machine.os), text(&machine.os_version))),
        ("OS build", text(&machine.os_build)),
        ("kernel", format!("{} ({})", text(&machine.kernel), machine.arch)),
        ("processors", text(&machine.processors.map(|count| count.to_string()))),
        ("memory", text(&machine.memory.map(bytes))),
    ]));
    if !machine.mac_addresses.is_empty() {
        ui.stdout(&facts([("MAC addresses", machine.mac_addresses.join(", "))]));
    }
    if let Some(linux) = &machine.linux {
        print_linux(ui, linux);
    }
    for note in &machine.notes {
        ui.line(format!("note: {note}"));
    }
}

fn print_linux(ui: &Ui, linux: &Linux) {
    let limits = linux.limits;
    let version = limits.version.map_or_else(|| "unknown".to_owned(), |version| format!("version {version}"));
    let optional = |size: Option<u64>, none: &str| size.map_or_else(|| none.to_owned(), bytes);
    let processors =
        limits.processors.map_or_else(|| "no limit".to_owned(), |limit| format!("{limit:.2} processors"));
    let pages = linux.huge_pages.map_or_else(|| "unknown".to_owned(), |pages| pages.to_string());
    ui.stdout(&facts([
        ("control group", version),
        ("memory limit", optional(limits.memory, "no limit")),
        ("processor limit", processors),
        ("/dev/shm", optional(linux.shared_memory, "unknown")),
        ("huge pages", format!("{pages} of {}", optional(linux.huge_page_size, "unknown size"))),
        ("transparent", linux.transparent_huge_pages.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("CPU flags", linux.cpu_flags.join(" ")),
    ]));
}

fn bytes(value: u64) -> String {
    format!("{} bytes", number(value))
}
