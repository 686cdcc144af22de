//! The machine and the prefix: state, registry, statement, other shims, and what still runs.

use std::collections::BTreeMap;
use std::path::Path;

use capgate_guest::prefix::{Prefix, check_library};
use capgate_guest::session::State;
use capgate_policy::decide::Decision;
use capgate_policy::facts::Facts;
use capgate_policy::host::HostState;
use capgate_registry::record::Lookup;
use jiff::Timestamp;

use super::check::Check;
use crate::cmd::run::environment;
use crate::decision_log;
use crate::world::{file, process};

/// Largest decision log that is read for the processes that still run, in bytes.
const MAX_LOG: u64 = 256 << 20;

/// Looks at everything that does not depend on a program.
pub fn look(prefix: &Prefix, state: &State, now: Timestamp, checks: &mut Vec<Check>) {
    checks.push(library(prefix));
    checks.push(registry(state, now));
    checks.push(site(state));
    checks.push(statement(state, now));
    checks.push(match &state.log {
        Ok(path) => Check::ok("log", format!("decisions go to `{}`", path.display())),
        Err(why) => {
            Check::failed("log", why.as_str(), "correct its owner and mode, or install the prefix again")
        }
    });
    checks.push(other_shims());
    if let Ok(path) = &state.log {
        checks.extend(running(state, path));
    }
}

fn library(prefix: &Prefix) -> Check {
    match check_library(&prefix.library()) {
        Ok(()) => {
            Check::ok("prefix", format!("`{}` and its library are safe to use", prefix.root().display()))
        }
        Err(e) => {
            Check::failed("prefix", e.to_string(), "correct its owner and mode, or install the prefix again")
        }
    }
}

fn registry(state: &State, now: Timestamp) -> Check {
    match &state.registry {
        Err(doubt) => Check::failed(
            "registry",
            doubt.to_string(),
            "put the published registry there again; `capgate verify` names what is wrong with one",
        ),
        Ok(reader) if reader.view().nearly_expired(now) => {
            let text = format!("it expires {}", reader.view().expires);
            Check::warning("registry", text, "its maintainer runs `capgate renew`")
        }
        Ok(reader) => {
            let view = reader.view();
            let text = format!("`{}`, version {}, until {}", view.origin, view.version, view.expires);
            Check::ok("registry", text)
        }
    }
}

fn site(state: &State) -> Check {
    match &state.site {
        Ok(Some(_)) => Check::ok("site policy", "it is understood"),
        Ok(None) => Check::warning(
            "site policy",
            "there is none, so no host key is known and no statement counts",
            "write etc/capgate/site.toml with `host_keys`",
        ),
        Err(doubt) => Check::failed("site policy", doubt.to_string(), "run `capgate policy check` on it"),
    }
}

fn statement(state: &State, now: Timestamp) -> Check {
    const NAME: &str = "host statement";
    let fix = "have the host run `capgate host attest --watch`, and the guest `capgate host verify --accept`";
    match &state.host {
        HostState::Signed(statement) if statement.expires <= now => {
            Check::failed(NAME, format!("it expired {}", statement.expires), fix)
        }
        HostState::Signed(statement) if now < statement.issued => {
            let fix = "set the clocks of host and guest";
            Check::failed(NAME, format!("it was issued {}, which is not yet", statement.issued), fix)
        }
        HostState::Signed(statement) => {
            let text = format!("{} {}, until {}", statement.chip, statement.os.build, statement.expires);
            Check::ok(NAME, text)
        }
        HostState::Missing => Check::failed(NAME, "there is none", fix),
        HostState::Unreadable(why) | HostState::Malformed(why) | HostState::WrongSigner(why) => {
            Check::failed(NAME, why.as_str(), fix)
        }
    }
}

fn other_shims() -> Check {
    let active = environment::active();
    if active.is_empty() {
        return Check::ok("other shims", "none is active");
    }
    let text = format!("set here: {}", active.join(", "));
    Check::failed("other shims", text, "unset them: what another shim answers was not decided by anybody")
}

/// The decision that `capgate run` would make.
pub fn profile(state: &State, facts: &Facts, now: Timestamp) -> Check {
    const NAME: &str = "profile";
    match state.decide(facts, false, now) {
        Decision::Grant(grant) => Check::ok(NAME, format!("`{}` grants {}", grant.profile, grant.values)),
        Decision::Stock(refusal) => {
            let text = format!("{}: {}", refusal.reason, refusal.detail);
            Check::failed(NAME, text, refusal.reason.advice())
        }
    }
}

/// Processes that still run with answers that were granted under a profile that was revoked since.
fn running(state: &State, log: &Path) -> Vec<Check> {
    const NAME: &str = "running processes";
    let Ok(reader) = &state.registry else { return Vec::new() };
    let Ok(bytes) = file::read(log, MAX_LOG) else {
        return vec![Check::ok(NAME, "nothing was granted to this user yet")];
    };
    let records = reader.records().filter_map(Result::ok).flat_map(|record| record.published);
    let revoked: BTreeMap<String, String> = records
        .filter_map(|published| Some((published.profile.id.to_string(), published.revoked?.reason)))
        .collect();
    let (lines, _) = decision_log::read(&bytes);
    let mut found = Vec::new();
    for line in lines.iter().filter(|line| line.outcome == "grant") {
        let Some(reason) = line.profile.as_ref().and_then(|profile| revoked.get(profile)) else { continue };
        if process::is_running(line.pid, line.program.as_deref(), line.time)
            && !found.iter().any(|(pid, _)| *pid == line.pid)
        {
            found.push((line.pid, format!("`{}` ({reason})", line.profile.as_deref().unwrap_or_default())));
        }
    }
    if found.is_empty() {
        return vec![Check::ok(NAME, "none runs under a profile that was revoked since")];
    }
    let warn = |(pid, what): (u32, String)| {
        let text = format!("process {pid} was granted under {what}, which was revoked since");
        Check::warning(NAME, text, "end it and start it again; it then sees Apple's own answers")
    };
    found.into_iter().map(warn).collect()
}
