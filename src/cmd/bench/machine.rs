//! Host and guest: what the machine says, what its host signed, and what a file adds.

use std::path::Path;

use capgate_guest::session::State;
use capgate_guest::{facts, system};
use capgate_policy::facts::{Fact, Source};
use capgate_policy::host::HostState;
use capgate_registry::evidence::bench::machine::{MOST_BYTES, Machine};
use capgate_registry::evidence::manifest::{Guest, Host};
use capgate_registry::os::{Os, Version};
use capgate_registry::profile::FeatureLevel;

use super::from::Followed;
use crate::cli::BenchArgs;
use crate::cmd::run::{find_prefix, own_prefix};
use crate::cmd::scene::unknown_program;
use crate::exit::Failure;
use crate::ui::problem::{Weight, render};
use crate::ui::{Ui, count};
use crate::world::{clock, file};

/// What is known of host and guest. What the machine and its host say stands; a file fills what they leave open.
pub fn read(ui: &Ui, args: &BenchArgs, followed: Option<&Followed>) -> Result<Machine, Failure> {
    let named = args.machine.as_deref().map(|path| of_file(ui, path)).transpose()?.unwrap_or_default();
    let seen = here(args);
    let host = join_hosts(seen.host, named.host, followed)?.ok_or_else(no_host)?;
    let guest = join_guests(seen.guest, named.guest, followed)?;
    if guest.is_none() && !args.host {
        return Err(Failure::failed("this is no guest that says what it is")
            .help("name a file with the tables `host` and `guest` by `--machine`"));
    }
    Ok(Machine { host: Some(host), guest })
}

/// Builds of host and guest as far as this machine says them now.
pub fn builds(args: &BenchArgs) -> [Option<String>; 2] {
    let seen = here(args);
    [seen.host.map(|host| host.os.build.to_string()), seen.guest.map(|guest| guest.os.build.to_string())]
}

pub fn no_host() -> Failure {
    Failure::failed("nobody says which host this is: no host statement can be believed here").help(
        "name the installed prefix with `--prefix`, or a file with the tables `host` and `guest` by `--machine`",
    )
}

fn of_file(ui: &Ui, path: &Path) -> Result<Machine, Failure> {
    let shown = path.display().to_string();
    let bytes = file::read(path, MOST_BYTES as u64)
        .map_err(|e| Failure::failed(format!("`{shown}` cannot be read: {e}")))?;
    Machine::parse(&bytes).map_err(|problems| {
        ui.details(&render(&shown, &bytes, &problems, Weight::Error));
        Failure::invalid(format!("`{shown}` has {}", count(problems.len(), "problem")))
    })
}

/// What this machine says itself: a Mac of itself, a guest of itself and, by its statement, of its host.
fn here(args: &BenchArgs) -> Machine {
    let facts = facts::of_machine(unknown_program());
    let Some(os) = own_os() else { return Machine::default() };
    let Source::Machine { virtual_machine, guest_model, .. } = &facts.source else {
        return Machine::default();
    };
    match virtual_machine {
        Fact::Known(false) => {
            let chip = system::sysctl_text(c"machdep.cpu.brand_string").and_then(|text| text.parse().ok());
            let host = chip.map(|chip| Host {
                chip,
                os,
                apple_family: None,
                max_threadgroup_memory: None,
                feature_level: FeatureLevel::Unrecorded,
            });
            Machine { host, guest: None }
        }
        Fact::Known(true) => {
            let guest =
                Guest { os, model: guest_model.known().cloned(), stock_family: None, stock_memory: None };
            Machine { host: stated(args), guest: Some(guest) }
        }
        _ => Machine::default(),
    }
}

fn own_os() -> Option<Os> {
    let version: Version = system::sysctl_text(c"kern.osproductversion")?.parse().ok()?;
    let build = system::sysctl_text(c"kern.osversion")?.parse().ok()?;
    version.agrees_with(&build).ok()?;
    Some(Os { version, build })
}

/// The host, as the statement in the installed prefix says and its signature bears out.
fn stated(args: &BenchArgs) -> Option<Host> {
    if args.prefix.is_none() && own_prefix().is_none() {
        return None;
    }
    let prefix = find_prefix(args.prefix.as_deref()).ok()?;
    let now = clock::now(args.now);
    let HostState::Signed(statement) = State::read(Ok(&prefix), now).host else { return None };
    statement.check_time(now).ok()?;
    Some(Host {
        chip: statement.chip.clone(),
        os: statement.os.clone(),
        apple_family: None,
        max_threadgroup_memory: None,
        feature_level: statement.feature_level,
    })
}

fn join_hosts(
    seen: Option<Host>,
    named: Option<Host>,
    followed: Option<&Followed>,
) -> Result<Option<Host>, Failure> {
    if let (Some(seen), Some(named)) = (&seen, &named) {
        contradict("host's chip", seen.chip.as_str(), named.chip.as_str())?;
        contradict("host's build", seen.os.build.as_str(), named.os.build.as_str())?;
    }
    let filled =
        named.clone().map(|host| (host.apple_family, host.max_threadgroup_memory, host.feature_level));
    let Some(mut host) = seen.or(named) else { return Ok(None) };
    if let Some((family, memory, level)) = filled {
        host.apple_family = host.apple_family.or(family);
        host.max_threadgroup_memory = host.max_threadgroup_memory.or(memory);
        if host.feature_level == FeatureLevel::Unrecorded {
            host.feature_level = level;
        }
    }
    if let Some(followed) = followed.filter(|followed| followed.host.chip == host.chip) {
        // What a chip's GPU answers on the Mac itself, as the published profile has it.
        host.apple_family = host.apple_family.or(followed.host.apple_family);
        host.max_threadgroup_memory = host.max_threadgroup_memory.or(followed.host.max_threadgroup_memory);
    }
    Ok(Some(host))
}

fn join_guests(
    seen: Option<Guest>,
    named: Option<Guest>,
    followed: Option<&Followed>,
) -> Result<Option<Guest>, Failure> {
    if let (Some(seen), Some(named)) = (&seen, &named) {
        contradict("guest's build", seen.os.build.as_str(), named.os.build.as_str())?;
    }
    let filled = named.clone();
    let Some(mut guest) = seen.or(named) else { return Ok(None) };
    let published = followed.map(|followed| &followed.guest);
    for other in filled.as_ref().into_iter().chain(published) {
        guest.model = guest.model.or_else(|| other.model.clone());
        guest.stock_family = guest.stock_family.or(other.stock_family);
        guest.stock_memory = guest.stock_memory.or(other.stock_memory);
    }
    Ok(Some(guest))
}

fn contradict(what: &str, seen: &str, named: &str) -> Result<(), Failure> {
    if seen == named {
        return Ok(());
    }
    Err(Failure::invalid(format!("the {what} is `{seen}`, and the file of `--machine` says `{named}`"))
        .help("leave out of the file what the machine says itself"))
}
