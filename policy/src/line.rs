//! One decision as it is logged, by whoever decides.

use capgate_registry::combination::Sha256Digest;
use capgate_registry::record::View;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decide::{Decision, Device};
use crate::facts::{Fact, Facts, Program, Source};
use crate::host::HostState;

/// The moment of a decision: a process that is granted has a second line, with the same id, for each device it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Somebody only asked.
    Lookup,
    /// A process starts.
    Start,
    /// It makes a device: row 14.
    Device,
}

/// One line. Facts that are not known are null; one that could not be read as what it should be begins with
/// `malformed:`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When.
    pub time: Timestamp,
    /// Id of the decision.
    pub decision: String,
    /// The moment.
    pub stage: Stage,
    /// `grant` or `stock`.
    pub outcome: String,
    /// Why stock.
    pub reason: Option<String>,
    /// The facts behind the reason, in words.
    pub detail: Option<String>,
    /// The profile that it is about.
    pub profile: Option<String>,
    /// Granted Apple family.
    pub apple_family_max: Option<u64>,
    /// Granted threadgroup memory, in bytes.
    pub max_threadgroup_memory: Option<u64>,
    /// The host's chip.
    pub host_chip: Option<String>,
    /// Build of the host's macOS.
    pub host_os_build: Option<String>,
    /// Build of the guest's macOS.
    pub guest_os_build: Option<String>,
    /// The guest's model.
    pub guest_model: Option<String>,
    /// The program's SHA-256.
    pub workload_sha256: Option<String>,
    /// The program's code directory hash.
    pub workload_cdhash: Option<String>,
    /// `statement` or `file`: what names the host's macOS.
    pub host_source: String,
    /// The name of the device, where one is made.
    pub device: Option<String>,
    /// Its own Apple family, before anything is replaced.
    pub device_apple_family: Option<u64>,
    /// Its own threadgroup memory, in bytes.
    pub device_max_threadgroup_memory: Option<u64>,
    /// The machine, as a digest of its own id.
    pub machine: Option<String>,
    /// Process that asked.
    pub pid: u32,
    /// User that it runs as.
    pub uid: u32,
    /// Path of the program.
    pub program: Option<String>,
    /// Origin of the registry.
    pub registry_origin: Option<String>,
    /// Version of its snapshot.
    pub registry_version: Option<u64>,
    /// Root of that snapshot.
    pub registry_root: Option<String>,
    /// SHA-256 of the site policy.
    pub policy: Option<String>,
    /// What decided.
    pub by: String,
    /// Microseconds spent.
    pub micros: u64,
}

/// Everything about a decision that is not in the decision.
#[derive(Debug)]
pub struct Circumstances<'a> {
    /// When.
    pub time: Timestamp,
    /// The moment.
    pub stage: Stage,
    /// The name of the device that is made, and what it says by itself.
    pub device: Option<(&'a str, &'a Device)>,
    /// The facts.
    pub facts: &'a Facts,
    /// What is known of the host.
    pub host: &'a HostState,
    /// The registry, where it can be believed.
    pub registry: Option<&'a View>,
    /// SHA-256 of the site policy.
    pub policy: Option<Sha256Digest>,
    /// Path of the program.
    pub program: Option<String>,
    /// Microseconds spent.
    pub micros: u64,
    /// The machine.
    pub machine: Option<String>,
    /// The process that asks.
    pub pid: u32,
    /// The user that it runs as.
    pub uid: u32,
    /// What decides, and its version.
    pub by: &'a str,
    /// Id of the decision.
    pub id: String,
}

impl Line {
    /// The line of a decision.
    pub fn new(decision: &Decision, about: &Circumstances<'_>) -> Self {
        let values = decision.values();
        let refusal = match decision {
            Decision::Grant(_) => None,
            Decision::Stock(refusal) => Some(refusal),
        };
        let profile = decision.grant().map(|grant| &grant.profile);
        let profile = profile.or(refusal.and_then(|refusal| refusal.profile.as_ref()));
        let (host_os_build, guest_model) = place(about);
        let Program { sha256, cdhash, .. } = &about.facts.program;
        Self {
            time: about.time,
            decision: about.id.clone(),
            stage: about.stage,
            outcome: if values.is_some() { "grant" } else { "stock" }.to_owned(),
            reason: decision.reason().map(|reason| reason.code().to_owned()),
            detail: refusal.map(|refusal| refusal.detail.to_string()),
            profile: profile.map(ToString::to_string),
            apple_family_max: values.map(|values| values.apple_family_max),
            max_threadgroup_memory: values.map(|values| values.max_threadgroup_memory),
            host_chip: text(&about.facts.host_chip),
            host_os_build,
            guest_os_build: text(&about.facts.guest_os_build),
            guest_model,
            workload_sha256: text(sha256),
            workload_cdhash: text(cdhash),
            host_source: about.facts.host_source().to_owned(),
            device: about.device.map(|(name, _)| name.to_owned()),
            device_apple_family: about.device.and_then(|(_, device)| device.answers.apple_family),
            device_max_threadgroup_memory: about
                .device
                .map(|(_, device)| device.answers.max_threadgroup_memory),
            machine: about.machine.clone(),
            pid: about.pid,
            uid: about.uid,
            program: about.program.clone(),
            registry_origin: about.registry.map(|view| view.origin.clone()),
            registry_version: about.registry.map(|view| view.version),
            registry_root: about.registry.map(|view| format!("sha256:{}", view.root)),
            policy: about.policy.map(|digest| format!("sha256:{digest}")),
            by: about.by.to_owned(),
            micros: about.micros,
        }
    }
}

/// Build of the host's macOS and the guest's model, from whatever names them.
fn place(about: &Circumstances<'_>) -> (Option<String>, Option<String>) {
    match (&about.facts.source, about.host) {
        (Source::File { host_os_build }, _) => (text(host_os_build), None),
        (Source::Machine { guest_model, .. }, HostState::Signed(statement)) => {
            (Some(statement.os.build.to_string()), text(guest_model))
        }
        (Source::Machine { guest_model, .. }, _) => (None, text(guest_model)),
    }
}

fn text<T: ToString>(fact: &Fact<T>) -> Option<String> {
    match fact {
        Fact::Known(value) => Some(value.to_string()),
        Fact::Missing => None,
        Fact::Malformed(why) => Some(format!("malformed: {why}")),
    }
}
