//! Rows 2 to 4: what must be believed and known before anything is looked up.

use capgate_registry::combination::{Chip, Workload};
use capgate_registry::os::Build;
use capgate_registry::record::{Lookup, View};

use super::{Input, Refusal};
use crate::facts::{Fact, Facts, MacAddress, Program, Sha256Trust, Source};
use crate::host::HostStatement;
use crate::reason::Reason;
use crate::site::{SiteDoubt, SitePolicy};

/// The facts, all of them known.
pub(super) struct Machine<'a> {
    pub host_chip: &'a Chip,
    pub guest_os: &'a Build,
    pub identities: Vec<Workload>,
    pub place: Place<'a>,
}

/// What only one source of facts knows.
pub(super) enum Place<'a> {
    Guest { model: &'a str, mac_addresses: &'a Fact<Vec<MacAddress>> },
    File { host_os: &'a Build },
}

/// What is known of the host.
pub(super) struct Host<'a> {
    pub os_build: &'a Build,
    pub statement: Option<&'a HostStatement>,
}

/// Row 2. Whoever opened the registry has judged these dates too; a decision that is given an old one still says so.
pub(super) fn believe<'a>(input: &Input<'a>) -> Result<&'a dyn Lookup, Refusal> {
    let registry = input.registry.map_err(|doubt| Refusal::new(Reason::from(doubt), doubt.to_string()))?;
    let view = registry.view();
    let now = input.now;
    // The clock first: with a wrong one, no other date means anything.
    let verified = input.seen.map_or(view.issued, |seen| seen.time.max(view.issued));
    if now < verified {
        return Err(Refusal::new(
            Reason::ClockBehind,
            format!("it is {now}, and a signature of {verified} was verified"),
        ));
    }
    if let Some(seen) = input.seen.filter(|seen| view.version < seen.version) {
        let detail = format!("snapshot {} is here, {} was verified before", view.version, seen.version);
        return Err(Refusal::new(Reason::RegistryRollback, detail));
    }
    if view.expires <= now {
        return Err(Refusal::new(Reason::RegistryExpired, format!("it expired at {}", view.expires)));
    }
    match input.site {
        Ok(site) => witnessed(registry, site),
        Err(doubt @ SiteDoubt::Unreadable(_)) => Err(Refusal::new(Reason::SiteUnreadable, doubt.to_string())),
        Err(doubt @ SiteDoubt::Malformed(_)) => Err(Refusal::new(Reason::SiteMalformed, doubt.to_string())),
    }
}

/// Whoever opened the registry counted the cosignatures; one who was not told to is found here.
fn witnessed<'a>(registry: &'a dyn Lookup, site: Option<&SitePolicy>) -> Result<&'a dyn Lookup, Refusal> {
    let demand = site.and_then(|site| site.witnesses.as_ref());
    if demand.is_none() || registry.view().witnessed.as_ref() == demand {
        return Ok(registry);
    }
    Err(Refusal::new(Reason::RegistryUnwitnessed, "its cosignatures were not counted"))
}

/// Row 3.
pub(super) fn machine(facts: &Facts) -> Result<Machine<'_>, Refusal> {
    if let Source::Machine { virtual_machine, .. } = &facts.source {
        let missing = Reason::FactVirtualMachineMissing;
        let virtual_machine =
            known(virtual_machine, "virtual machine", missing, Reason::FactVirtualMachineMalformed)?;
        if !virtual_machine {
            return Err(Refusal::new(Reason::FactNotAGuest, "this is not a virtual machine"));
        }
    }
    let host_chip =
        known(&facts.host_chip, "host chip", Reason::FactHostChipMissing, Reason::FactHostChipMalformed)?;
    let guest_os = known(
        &facts.guest_os_build,
        "guest OS build",
        Reason::FactGuestOsBuildMissing,
        Reason::FactGuestOsBuildMalformed,
    )?;
    let place = match &facts.source {
        Source::File { host_os_build } => Place::File {
            host_os: known(
                host_os_build,
                "host OS build",
                Reason::FactHostOsBuildMissing,
                Reason::FactHostOsBuildMalformed,
            )?,
        },
        Source::Machine { guest_model, mac_addresses, .. } => Place::Guest {
            model: known(
                guest_model,
                "guest model",
                Reason::FactGuestModelMissing,
                Reason::FactGuestModelMalformed,
            )?,
            mac_addresses,
        },
    };
    Ok(Machine { host_chip, guest_os, identities: identities(&facts.program)?, place })
}

fn known<'f, T>(fact: &'f Fact<T>, name: &str, missing: Reason, malformed: Reason) -> Result<&'f T, Refusal> {
    match fact {
        Fact::Known(value) => Ok(value),
        Fact::Missing => Err(Refusal::new(missing, format!("the {name} is not known"))),
        Fact::Malformed(why) => Err(Refusal::new(malformed, why.as_str())),
    }
}

/// A malformed identity is a doubt even where the other one is known: something is wrong with what was read.
fn identities(program: &Program) -> Result<Vec<Workload>, Refusal> {
    let malformed = |why: &String| Refusal::new(Reason::FactWorkloadMalformed, why.as_str());
    if let Fact::Malformed(why) = &program.sha256 {
        return Err(malformed(why));
    }
    if let Fact::Malformed(why) = &program.cdhash {
        return Err(malformed(why));
    }
    let identities: Vec<Workload> = program.identities().collect();
    if !identities.is_empty() {
        return Ok(identities);
    }
    let unproven = program.sha256.known().is_some() && program.sha256_trust == Sha256Trust::Unproven;
    let detail = if unproven {
        "the SHA-256 is not proven to be the running program's, and its cdhash is not known"
    } else {
        "no identity of the program is known"
    };
    Err(Refusal::new(Reason::FactWorkloadMissing, detail))
}

/// Row 4. A facts file stands in for the statement.
pub(super) fn host<'a>(input: &Input<'a>, machine: &Machine<'a>, view: &View) -> Result<Host<'a>, Refusal> {
    let mac_addresses = match machine.place {
        Place::File { host_os } => return Ok(Host { os_build: host_os, statement: None }),
        Place::Guest { mac_addresses, .. } => mac_addresses,
    };
    let statement = input.host.signed()?;
    statement.check_time(input.now)?;
    statement.check_chip(machine.host_chip)?;
    statement.check_guest(mac_addresses)?;
    if view.version < statement.least_version {
        let detail = format!("it demands snapshot {}, {} is here", statement.least_version, view.version);
        return Err(Refusal::new(Reason::HostNewerSnapshot, detail));
    }
    Ok(Host { os_build: &statement.os.build, statement: Some(statement) })
}
