//! What a decision is about, gathered: registry, site policy, facts, host statement.

mod answer;
pub mod program;

use std::io;
use std::path::Path;

use capgate_policy::decide::{Decision, Input, Seen, decide};
use capgate_policy::facts::{
    Fact, Facts, MAX_FACTS, MacAddress, Program, Source, guest_model, parse_facts_file,
};
use capgate_policy::host::{HostState, MAX_STATEMENT};
use capgate_policy::nearest::{Wanted, nearest};
use capgate_policy::site::{MAX_POLICY, SiteDoubt, SitePolicy};
use capgate_registry::combination::Chip;
use capgate_registry::profile::Profile;
use capgate_registry::reader::Reader;
use capgate_registry::record::{Doubt, Lookup, View};
use jiff::Timestamp;

use super::opened;
use crate::cli::SceneArgs;
use crate::exit::Failure;
use crate::ui::problem::{Weight, render};
use crate::ui::{Ui, count};
use crate::world::folder::Folder;
use crate::world::machine::{self, Machine};
use crate::world::{clock, file};

pub use answer::{Answer, NearestData, part_words};

/// Everything that a decision depends on.
pub struct Scene {
    /// The registry, or why it cannot be believed.
    pub registry: Result<Reader, Doubt>,
    /// The site policy, or why it cannot be used.
    pub site: Result<Option<SitePolicy>, SiteDoubt>,
    /// Facts of machine and program.
    pub facts: Facts,
    /// The host statement.
    pub host: HostState,
    /// Path or name of the program, where it was given as a file.
    pub program: Option<String>,
    /// The time.
    pub now: Timestamp,
    /// What a prefix remembers of earlier times.
    pub seen: Option<Seen>,
}

impl Scene {
    /// Gathers it. What is doubtful becomes part of the decision; only what was named and is not there fails.
    pub fn gather(ui: &Ui, args: &SceneArgs, workload: Option<&str>) -> Result<Self, Failure> {
        let now = clock::now(args.registry.now);
        let path = &args.registry.registry;
        let site = args.policy.as_deref().map(|path| site(ui, path)).transpose().map(Option::flatten);
        let demand = site.as_ref().ok().and_then(Option::as_ref).and_then(|site| site.witnesses.as_ref());
        let registry = if path.is_file() {
            opened::proof(path, args.registry.root, now, demand)
        } else if path.is_dir() {
            opened::open_witnessed(&Folder::new(path), args.registry.root, now, demand)
        } else {
            Err(Doubt::Missing(format!("there is no folder `{}`", path.display())))
        };
        if let Ok(reader) = &registry {
            opened::warn_of_expiry(ui, reader.latest(), now, &args.registry.registry);
        }
        let mut facts = match &args.facts {
            Some(path) => facts_file(ui, path)?,
            None => of_machine(&machine::read()),
        };
        let named = workload.map(program::identify).transpose()?;
        let (program, path) = named.unzip();
        if let Some(program) = program {
            facts.program = program;
        }
        let origin = registry.as_ref().ok().map(|reader| reader.chain().origin());
        let host = match (&args.host_note, origin) {
            (Some(path), Some(origin)) => {
                let keys =
                    site.as_ref().ok().and_then(Option::as_ref).map_or(&[][..], |site| &site.host_keys);
                match file::read(path, MAX_STATEMENT as u64 * 2) {
                    Ok(bytes) => HostState::verify(&bytes, keys, origin),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => HostState::Missing,
                    Err(e) => HostState::Unreadable(e.to_string()),
                }
            }
            _ => HostState::Missing,
        };
        Ok(Self { registry, site, facts, host, program: path.flatten(), now, seen: None })
    }

    /// Decides.
    pub fn decide(&self) -> Decision {
        let switched_off = std::env::var_os("CAPGATE_DISABLE").is_some_and(|value| !value.is_empty());
        decide(&Input {
            switched_off,
            registry: self.registry.as_ref().map(|reader| reader as &dyn Lookup),
            site: self.site.as_ref().map(Option::as_ref),
            facts: &self.facts,
            host: &self.host,
            now: self.now,
            seen: self.seen,
        })
    }

    /// Decides, and finds the nearest profile where the program stays stock.
    pub fn answer(&self) -> Answer {
        self.answer_with(self.decide())
    }

    /// Finds the nearest profile to a decision.
    pub fn answer_with(&self, decision: Decision) -> Answer {
        let nearest = if decision.grant().is_some() { None } else { self.nearest() };
        Answer { decision, nearest }
    }

    fn nearest(&self) -> Option<NearestData> {
        let reader = self.registry.as_ref().ok()?;
        let live = reader.records().filter_map(Result::ok).flat_map(|record| record.published);
        let profiles: Vec<Profile> = live.filter(|p| p.revoked.is_none()).map(|p| p.profile).collect();
        let name = self.program.as_deref().map(Path::new).and_then(Path::file_name);
        let wanted =
            Wanted::new(&self.facts, &self.host, name.map(|name| name.to_string_lossy().into_owned()));
        nearest(&wanted, &profiles).map(|found| NearestData::new(&found))
    }

    /// Which registry was asked.
    pub fn view(&self) -> Option<&View> {
        self.registry.as_ref().ok().map(Lookup::view)
    }
}

/// Reads a site policy; one with problems is shown, and is no policy at all.
fn site(ui: &Ui, path: &Path) -> Result<Option<SitePolicy>, SiteDoubt> {
    let bytes = file::read(path, MAX_POLICY as u64)
        .map_err(|e| SiteDoubt::Unreadable(format!("`{}`: {e}", path.display())))?;
    SitePolicy::parse(&bytes).map(Some).map_err(|problems| {
        ui.details(&render(&path.display().to_string(), &bytes, &problems, Weight::Error));
        SiteDoubt::Malformed(format!("`{}` has {}", path.display(), count(problems.len(), "problem")))
    })
}

/// Reads a facts file.
pub fn facts_file(ui: &Ui, path: &Path) -> Result<Facts, Failure> {
    let name = path.display().to_string();
    let bytes = file::read(path, MAX_FACTS as u64)
        .map_err(|e| Failure::failed(format!("the facts file `{name}` cannot be read: {e}")))?;
    parse_facts_file(&bytes).map_err(|problems| {
        ui.details(&render(&name, &bytes, &problems, Weight::Error));
        Failure::invalid(format!("the facts file `{name}` has {}", count(problems.len(), "problem")))
    })
}

/// What this machine says of itself, as facts. A program is added where one is named.
fn of_machine(machine: &Machine) -> Facts {
    let addresses: Result<Vec<MacAddress>, _> =
        machine.mac_addresses.iter().map(|text| text.parse()).collect();
    let mac_addresses = match addresses {
        Ok(addresses) if addresses.is_empty() => Fact::Missing,
        Ok(addresses) => Fact::Known(addresses),
        Err(e) => Fact::Malformed(format!("{e}")),
    };
    Facts {
        host_chip: Fact::read(machine.chip.as_deref(), Chip::from_guest),
        guest_os_build: Fact::read(machine.os_build.as_deref(), str::parse),
        program: unknown_program(),
        source: Source::Machine {
            virtual_machine: machine.virtual_machine.map_or(Fact::Missing, Fact::Known),
            guest_model: guest_model(machine.model.as_deref()),
            mac_addresses,
        },
    }
}

/// A program of which nothing is known.
pub fn unknown_program() -> Program {
    Program {
        sha256: Fact::Missing,
        sha256_trust: capgate_policy::facts::Sha256Trust::Asked,
        cdhash: Fact::Missing,
    }
}
