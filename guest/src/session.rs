//! One decision, from the state of a prefix and the facts of machine and program to its line in the log.

use std::path::PathBuf;

use capgate_policy::decide::{self, Decision, Device, Input, decide};
use capgate_policy::facts::{Facts, Program};
use capgate_policy::host::{HostState, MAX_STATEMENT};
use capgate_policy::line::{Circumstances, Line, Stage};
use capgate_policy::site::{MAX_POLICY, SiteDoubt, SitePolicy};
use capgate_registry::combination::{Hex, Sha256Digest};
use capgate_registry::document::{Problem, position};
use capgate_registry::latest;
use capgate_registry::log::CHECKPOINT;
use capgate_registry::merkle::Hash;
use capgate_registry::proof::{self, Proof};
use capgate_registry::reader::{Anchor, Reader, Seen, trust_path, version_floor};
use capgate_registry::record::{Doubt, Lookup, View};
use capgate_registry::seen;
use capgate_registry::store::Store;
use capgate_registry::witness::Quorum;
use jiff::Timestamp;

use crate::prefix::{Prefix, Unsafe};
use crate::{facts, log, system, trial};

/// Largest pin that is read, in bytes: `sha256:`, 64 digits, LF.
const MAX_PIN: u64 = 72;

/// What a prefix holds, each part read once and judged.
#[derive(Debug)]
pub struct State {
    /// The verified registry, or why it cannot be believed.
    pub registry: Result<Reader, Doubt>,
    /// The site policy, or why it cannot be used.
    pub site: Result<Option<SitePolicy>, SiteDoubt>,
    /// The host statement.
    pub host: HostState,
    /// What was verified before.
    pub seen: Option<decide::Seen>,
    /// Why nothing can be logged, or where the log is.
    pub log: Result<PathBuf, String>,
}

impl State {
    /// Reads the state of a prefix. A prefix that failed its checks is a state in which nothing can be believed.
    pub fn read(prefix: Result<&Prefix, &Unsafe>, now: Timestamp) -> Self {
        let prefix = match prefix {
            Ok(prefix) => prefix,
            Err(e) => return Self::nothing(&e.to_string()),
        };
        let seen = read_seen(prefix);
        let site = read_site(prefix);
        let demand = site.as_ref().ok().and_then(Option::as_ref).and_then(|site| site.witnesses.as_ref());
        let registry = read_pin(prefix).and_then(|pin| {
            let seen = seen.clone()?.unwrap_or_default();
            let anchor = Anchor { pin, seen, now };
            let registry = prefix.registry();
            let opened = match Reader::open_witnessed(&registry, &anchor, demand) {
                Err(missing @ Doubt::Missing(_)) if was_never_there(&registry) => {
                    read_proof(prefix, &anchor, demand).unwrap_or(Err(missing))
                }
                opened => opened,
            };
            opened.and_then(|reader| trial::check(prefix, reader))
        });
        let host = read_host(prefix, &registry, &site);
        let log = prefix.log(system::user()).map_err(|e| e.to_string());
        let seen = seen
            .ok()
            .flatten()
            .and_then(|seen| Some(decide::Seen { version: floor(&seen, &registry), time: seen.time? }));
        Self { registry, site, host, seen, log }
    }

    /// A state in which nothing can be believed, for one reason.
    pub fn nothing(why: &str) -> Self {
        Self {
            registry: Err(Doubt::Unreadable(why.to_owned())),
            site: Ok(None),
            host: HostState::Missing,
            seen: None,
            log: Err(why.to_owned()),
        }
    }

    /// Decides with these facts.
    pub fn decide(&self, facts: &Facts, switched_off: bool, now: Timestamp) -> Decision {
        decide(&Input {
            switched_off,
            registry: self.registry.as_ref().map(|reader| reader as &dyn Lookup),
            site: self.site.as_ref().map(Option::as_ref),
            facts,
            host: &self.host,
            now,
            seen: self.seen,
        })
    }
}

/// The lowest version that is no rollback, as the registry itself was judged.
fn floor(seen: &Seen, registry: &Result<Reader, Doubt>) -> u64 {
    match registry {
        Ok(reader) => version_floor(seen, reader.chain(), reader.latest()),
        Err(_) => seen.version,
    }
}

/// A registry of which a part is lost is damaged, and is not passed over for an older proof.
fn was_never_there(registry: &dyn Store) -> bool {
    let parts = [latest::PATH, CHECKPOINT, &trust_path(1)];
    parts.iter().all(|part| registry.open(part).is_err_and(|e| e.is_not_found()))
}

/// Where no registry is installed, a proof may answer for one program, under the same rules.
fn read_proof(prefix: &Prefix, anchor: &Anchor, demand: Option<&Quorum>) -> Option<Result<Reader, Doubt>> {
    const NAME: &str = "proof";
    let bytes = match prefix.read(NAME, proof::MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(e) if e.missing => return None,
        Err(e) => return Some(Err(doubt(&e))),
    };
    let parsed =
        Proof::parse(&bytes).map_err(|e| Doubt::Malformed(format!("`{}` {e}", prefix.state(NAME).display())));
    Some(parsed.and_then(|proof| Reader::open_witnessed(&proof, anchor, demand)))
}

fn doubt(e: &Unsafe) -> Doubt {
    if e.missing { Doubt::Missing(e.to_string()) } else { Doubt::Unreadable(e.to_string()) }
}

/// The pin: the digest of the first trust note, on one line.
pub fn read_pin(prefix: &Prefix) -> Result<Hash, Doubt> {
    const NAME: &str = "root.note";
    let bytes = prefix.read(NAME, MAX_PIN).map_err(|e| doubt(&e))?;
    let text = std::str::from_utf8(&bytes).ok();
    let digits = text.and_then(|text| text.strip_prefix("sha256:")).and_then(|text| text.strip_suffix('\n'));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let path = prefix.state(NAME);
        Doubt::Malformed(format!("`{}` is not one line of `sha256:` and 64 digits", path.display()))
    })
}

fn read_seen(prefix: &Prefix) -> Result<Option<Seen>, Doubt> {
    const NAME: &str = "seen";
    match prefix.read(NAME, seen::MAX_BYTES as u64) {
        Ok(bytes) => Seen::parse(&bytes).map(Some).map_err(|problems| {
            Doubt::Malformed(format!("`{}` {}", prefix.state(NAME).display(), first(&bytes, &problems)))
        }),
        Err(e) if e.missing => Ok(None),
        Err(e) => Err(doubt(&e)),
    }
}

/// No site policy means no rule. One that exists and cannot be used is a doubt.
pub fn read_site(prefix: &Prefix) -> Result<Option<SitePolicy>, SiteDoubt> {
    const NAME: &str = "site.toml";
    match prefix.read(NAME, MAX_POLICY as u64) {
        Ok(bytes) => SitePolicy::parse(&bytes).map(Some).map_err(|problems| {
            let path = prefix.state(NAME);
            SiteDoubt::Malformed(format!("`{}` {}", path.display(), first(&bytes, &problems)))
        }),
        Err(e) if e.missing => Ok(None),
        Err(e) => Err(SiteDoubt::Unreadable(e.to_string())),
    }
}

fn first(bytes: &[u8], problems: &[Problem]) -> String {
    problems.first().map_or_else(String::new, |problem| {
        format!("line {}: {}", position(bytes, problem.span.start).0, problem.message)
    })
}

fn read_host(
    prefix: &Prefix,
    registry: &Result<Reader, Doubt>,
    site: &Result<Option<SitePolicy>, SiteDoubt>,
) -> HostState {
    // Without an origin nothing could be verified, and without a registry nothing is asked.
    let Ok(reader) = registry else { return HostState::Missing };
    let keys = site.as_ref().ok().and_then(Option::as_ref).map_or(&[][..], |site| &site.host_keys);
    match prefix.read("host.note", MAX_STATEMENT as u64 * 2) {
        Ok(bytes) => HostState::verify(&bytes, keys, reader.chain().origin()),
        Err(e) if e.missing => HostState::Missing,
        Err(e) => HostState::Unreadable(e.to_string()),
    }
}

/// One decision about one program, and everything that its lines say.
#[derive(Debug, Clone)]
pub struct Session {
    facts: Facts,
    host: HostState,
    view: Option<View>,
    policy: Option<Sha256Digest>,
    log: Result<PathBuf, String>,
    program: Option<String>,
    machine: Option<String>,
    id: String,
    by: &'static str,
}

impl Session {
    /// Prepares a decision about `program`, which was started from `path`. Nothing of the state stays open in it.
    pub fn new(state: &State, program: Program, path: Option<PathBuf>, by: &'static str) -> Self {
        Self {
            facts: facts::of_machine(program),
            host: state.host.clone(),
            view: state.registry.as_ref().ok().map(|reader| reader.view().clone()),
            policy: state.site.as_ref().ok().and_then(Option::as_ref).map(|site| site.digest),
            log: state.log.clone(),
            program: path.map(|path| path.to_string_lossy().into_owned()),
            machine: facts::machine(),
            id: system::random().map(|bytes| Hex(bytes).to_string()).unwrap_or_default(),
            by,
        }
    }

    /// The id of the decision, on each of its lines.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The facts of machine and program.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Decides and logs: a grant follows its written line.
    pub fn decide(
        &self,
        state: &State,
        switched_off: bool,
        now: Timestamp,
        micros: impl FnOnce() -> u64,
    ) -> Decision {
        let decision = state.decide(&self.facts, switched_off, now);
        self.logged(decision, Stage::Start, None, now, micros())
    }

    /// Logs a decision; a grant that cannot be logged is none.
    pub fn logged(
        &self,
        decision: Decision,
        stage: Stage,
        device: Option<(&str, &Device)>,
        now: Timestamp,
        micros: u64,
    ) -> Decision {
        let line = Line::new(
            &decision,
            &Circumstances {
                time: now,
                stage,
                device,
                facts: &self.facts,
                host: &self.host,
                registry: self.view.as_ref(),
                policy: self.policy,
                program: self.program.clone(),
                micros,
                machine: self.machine.clone(),
                pid: std::process::id(),
                uid: system::user(),
                by: self.by,
                id: self.id.clone(),
            },
        );
        let written = match &self.log {
            // Without an id the lines of one decision could not be told from those of another.
            Ok(_) if self.id.is_empty() => Err("the system gives no random bytes for an id".to_owned()),
            Ok(path) => log::append(path, &line).map_err(|e| format!("`{}` {e}", path.display())),
            Err(e) => Err(e.clone()),
        };
        decision.after_log(written)
    }
}
