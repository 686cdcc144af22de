//! The machine and its systems, as far as they say what they are.

use std::path::{Path, PathBuf};

use capgate_guest::prefix::Prefix;
use capgate_guest::session::State;
use capgate_guest::system;
use capgate_registry::evidence::run_record::{HostSystem, Linux, Machine, System, Systems, Unknown};
use capgate_registry::profile::FEATURE_LEVELS;
use jiff::Timestamp;

use super::recorder::unknown;
use crate::cmd::prefix::plain;
use crate::cmd::run::own_prefix;
use crate::world::{gpus, instructions, machine};

/// What a run has around it: everything of a record that does not depend on the program.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Hardware, or virtual hardware.
    pub machine: Machine,
    /// The system here and the host's.
    pub os: Systems,
    /// What Linux allows this process, and so its children.
    pub linux: Option<Linux>,
    /// What is not known, and why.
    pub unknown: Vec<Unknown>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// Reads it; `prefix` holds the host statement, and without one the prefix that this program stands in.
pub fn of_this_machine(prefix: Option<&Path>) -> Surroundings {
    let mut found = machine::read();
    // What decides about a program asks the kernel itself, and a record must not say otherwise.
    let asked = |name| system::sysctl_text(name);
    found.chip = asked(c"machdep.cpu.brand_string").or(found.chip);
    found.os_build = asked(c"kern.osversion").or(found.os_build);
    let count = |count: Option<usize>| count.and_then(|count| u64::try_from(count).ok());
    let mut around = Surroundings {
        machine: Machine {
            chip: found.chip,
            model: found.model,
            virtual_machine: found.virtual_machine,
            arch: found.arch.to_owned(),
            processors: count(found.processors),
            memory: found.memory,
            id: machine::id(),
        },
        linux: found.linux.map(linux),
        notes: found.notes,
        ..Surroundings::default()
    };
    around.os.here =
        System { name: found.os, version: found.os_version, build: found.os_build, kernel: found.kernel };
    match host(prefix) {
        Ok(host) => around.os.host = Some(host),
        // A host that is not virtual has none of its own.
        Err(_) if around.machine.virtual_machine == Some(false) && prefix.is_none() => {}
        Err(why) => around.unknown.push(unknown("os.host", why)),
    }
    around.notes.extend(gpus::nvidia_driver(Path::new("/")));
    around.say_what_is_missing();
    around
}

impl Surroundings {
    fn say_what_is_missing(&mut self) {
        let (machine, here) = (&self.machine, &self.os.here);
        let known = [
            ("machine.chip", machine.chip.is_some()),
            ("machine.model", machine.model.is_some()),
            ("machine.virtual_machine", machine.virtual_machine.is_some()),
            ("machine.processors", machine.processors.is_some()),
            ("machine.memory", machine.memory.is_some()),
            ("machine.id", machine.id.is_some()),
            ("os.here.name", here.name.is_some()),
            ("os.here.version", here.version.is_some()),
            // Linux has no builds.
            ("os.here.build", here.build.is_some() || cfg!(target_os = "linux")),
            ("os.here.kernel", here.kernel.is_some()),
        ];
        let missing = known.into_iter().filter(|(_, is_known)| !is_known);
        self.unknown.extend(missing.map(|(what, _)| unknown(what, "the system does not say")));
    }
}

fn linux(found: machine::Linux) -> Linux {
    Linux {
        cpu_flags: found.cpu_flags,
        cpu_usable: instructions::usable(),
        cpu_masked: Vec::new(),
        cgroup_version: found.limits.version.map(u64::from),
        cpu_limit: found.limits.processors,
        memory_limit: found.limits.memory,
        affinity: found.affinity,
        shared_memory: found.shared_memory,
        huge_pages: found.huge_pages,
        huge_page_size: found.huge_page_size,
        transparent_huge_pages: found.transparent_huge_pages,
        gpus: gpus::visible(Path::new("/")),
    }
}

/// The host statement in the prefix, or why there is none that can be believed.
fn host(prefix: Option<&Path>) -> Result<HostSystem, String> {
    let root: PathBuf = match prefix {
        Some(path) => plain(path).map_err(|failure| failure.message)?,
        None => own_prefix().ok_or("no prefix holds a host statement; name one with `--prefix`")?,
    };
    let prefix = Prefix::at(&root).map_err(|e| e.to_string())?;
    let now = Timestamp::now();
    let state = State::read(Ok(&prefix), now);
    let refused = |e: capgate_policy::decide::Refusal| format!("{}: {}", e.reason, e.detail);
    let statement = state.host.signed().map_err(refused)?;
    statement.check_time(now).map_err(refused)?;
    let level = FEATURE_LEVELS.iter().find(|(_, level)| *level == statement.feature_level);
    Ok(HostSystem {
        chip: statement.chip.to_string(),
        version: statement.os.version.to_string(),
        build: statement.os.build.to_string(),
        feature_level: level.map_or("unrecorded", |(word, _)| word).to_owned(),
        issued: statement.issued,
        expires: statement.expires,
    })
}
