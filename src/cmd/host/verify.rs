//! `capgate host verify`: who signed a statement, what it says, and whether it counts here and now.

use std::path::Path;

use capgate_guest::facts;
use capgate_guest::prefix::Prefix;
use capgate_policy::decide::Refusal;
use capgate_policy::facts::{Fact, Source};
use capgate_policy::host::{HostState, HostStatement, MAX_STATEMENT};
use capgate_policy::reason::Reason;
use capgate_registry::keys::VerifierKey;
use capgate_registry::note::{Note, Origin};
use capgate_registry::profile::FEATURE_LEVELS;
use jiff::Timestamp;
use serde::Serialize;

use super::accept::{Accepted, accept};
use super::read_host_key;
use crate::cli::HostVerifyArgs;
use crate::cmd::prefix;
use crate::cmd::scene::unknown_program;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::table::facts as lines;
use crate::ui::{BAD, GOOD, Ui, styled};
use crate::world::{clock, file};

#[derive(Serialize)]
struct Report {
    file: String,
    counts: bool,
    reason: Option<Reason>,
    detail: Option<String>,
    signer: Option<String>,
    origin: String,
    statement: Option<Said>,
    this_chip: Option<bool>,
    accepted: Option<String>,
}

impl Report {
    fn new(file: String, by: &Believed, refusal: Option<&Refusal>) -> Self {
        Self {
            file,
            counts: refusal.is_none(),
            reason: refusal.map(|refusal| refusal.reason),
            detail: refusal.map(|refusal| refusal.detail.to_string()),
            signer: None,
            origin: by.origin.to_string(),
            statement: None,
            this_chip: None,
            accepted: None,
        }
    }
}

#[derive(Serialize)]
struct Said {
    chip: String,
    os_version: String,
    os_build: String,
    feature_level: &'static str,
    mac_addresses: Vec<String>,
    least_version: u64,
    issued: String,
    expires: String,
}

/// Whose signature counts, and for which registry.
pub struct Believed {
    pub keys: Vec<VerifierKey>,
    pub origin: Origin,
}

pub fn run(ui: &Ui, args: &HostVerifyArgs) -> Outcome {
    let now = clock::now(args.now);
    let prefix = args.prefix.as_deref().map(prefix::installed).transpose()?;
    let by = believed(args, prefix.as_ref())?;
    let shown = args.file.display();
    let bytes = file::read_shared(&args.file, MAX_STATEMENT as u64 * 2)
        .map_err(|e| Failure::failed(format!("`{shown}` cannot be read: {e}")))?;
    let state = HostState::verify(&bytes, &by.keys, &by.origin);
    let (this_chip, judged) = judge(&state, &bytes, now);
    let mut report = Report::new(shown.to_string(), &by, judged.as_ref().err());
    report.signer = signer(&bytes, &by.keys);
    report.this_chip = this_chip;
    report.statement = state.signed().ok().map(said);
    let mut refused = None;
    if let (Some(prefix), Ok(statement), Ok(()), true) = (&prefix, state.signed(), &judged, args.accept) {
        let new = Accepted { bytes: &bytes, statement, signer: report.signer.as_deref() };
        match about_this_machine(this_chip).and_then(|()| accept(prefix, &new, &by, now)) {
            Ok(path) => report.accepted = Some(path),
            Err(failure) => refused = Some(failure),
        }
    }
    // What is refused says why, and that it would count elsewhere is no news then.
    if refused.is_none() || ui.is_json() {
        print(ui, &report);
    }
    match (judged, refused) {
        (Err(refusal), _) => {
            ui.hint(refusal.reason.advice());
            Ok(Exit::Invalid)
        }
        (Ok(()), Some(failure)) => Err(failure),
        (Ok(()), None) => Ok(Exit::Done),
    }
}

/// Puts a statement that counts into the prefix, and says why one does not.
pub fn carry(file: &Path, prefix: &Prefix, now: Timestamp) -> Result<(), Failure> {
    let by = Believed { keys: prefix::host_keys(prefix)?, origin: prefix::origin(prefix)? };
    let bytes = file::read_shared(file, MAX_STATEMENT as u64 * 2)
        .map_err(|e| Failure::failed(format!("`{}` cannot be read: {e}", file.display())))?;
    let state = HostState::verify(&bytes, &by.keys, &by.origin);
    let (this_chip, judged) = judge(&state, &bytes, now);
    judged.map_err(|refusal| Failure::invalid(format!("{}: {}", refusal.reason.code(), refusal.detail)))?;
    let statement = state.signed().map_err(|refusal| Failure::invalid(refusal.detail))?;
    let signer = signer(&bytes, &by.keys);
    about_this_machine(this_chip)?;
    let new = Accepted { bytes: &bytes, statement, signer: signer.as_deref() };
    accept(prefix, &new, &by, now).map(drop)
}

fn about_this_machine(this_chip: Option<bool>) -> Result<(), Failure> {
    if this_chip.is_some() {
        return Ok(());
    }
    let message = "this machine does not say which chip it has, so the statement may be about another host";
    Err(Failure::failed(message)
        .help("`--accept` is for the guest; `capgate probe` shows what it says of itself"))
}

fn believed(args: &HostVerifyArgs, prefix: Option<&Prefix>) -> Result<Believed, Failure> {
    let (keys, origin) = match prefix {
        Some(prefix) => {
            (prefix::host_keys(prefix)?, args.origin.clone().map_or_else(|| prefix::origin(prefix), Ok)?)
        }
        None => {
            let keys = args.host_key.iter().map(|path| read_host_key(path)).collect::<Result<_, _>>()?;
            // clap demands it with `--host-key`.
            (keys, args.origin.clone().ok_or_else(|| Failure::usage("`--origin` is missing"))?)
        }
    };
    Ok(Believed { keys, origin })
}

/// Judges as a decision does. The first part tells whether it is about this machine's chip, where that is known.
fn judge(state: &HostState, bytes: &[u8], now: Timestamp) -> (Option<bool>, Result<(), Refusal>) {
    let statement = match state.signed() {
        Ok(statement) => statement,
        Err(mut refusal) => {
            if refusal.reason == Reason::HostWrongSigner {
                refusal.detail = format!("{}; {}", refusal.detail, claimed(bytes)).into();
            }
            return (None, Err(refusal));
        }
    };
    let own = facts::of_machine(unknown_program());
    let chip = own.host_chip.known().map(|chip| statement.check_chip(chip));
    let guest = match &own.source {
        // Only a guest can be one of those that it names.
        Source::Machine { virtual_machine: Fact::Known(true), mac_addresses, .. } => {
            statement.check_guest(mac_addresses)
        }
        _ => Ok(()),
    };
    let is_own = chip.as_ref().map(Result::is_ok);
    (is_own, statement.check_time(now).and(chip.unwrap_or(Ok(()))).and(guest))
}

/// The names that stand in signatures which nobody here can check.
fn claimed(bytes: &[u8]) -> String {
    let Ok(note) = Note::parse(bytes) else { return "it cannot be read".to_owned() };
    let names: Vec<String> = note.signatures().iter().map(|s| format!("`{}`", s.name())).collect();
    format!("it names {}", names.join(", "))
}

/// The host whose signature counts.
pub fn signer(bytes: &[u8], keys: &[VerifierKey]) -> Option<String> {
    let note = Note::parse(bytes).ok()?;
    let signers = note.verify(keys, 1).ok()?;
    signers.first().map(|key| key.name().to_owned())
}

fn said(statement: &HostStatement) -> Said {
    let level = FEATURE_LEVELS.iter().find(|(_, level)| *level == statement.feature_level);
    Said {
        chip: statement.chip.to_string(),
        os_version: statement.os.version.to_string(),
        os_build: statement.os.build.to_string(),
        feature_level: level.map_or("unrecorded", |(word, _)| word),
        mac_addresses: statement.mac_addresses.iter().map(ToString::to_string).collect(),
        least_version: statement.least_version,
        issued: statement.issued.to_string(),
        expires: statement.expires.to_string(),
    }
}

fn print(ui: &Ui, report: &Report) {
    if ui.is_json() {
        return ui.json(report);
    }
    if let Some(said) = &report.statement {
        let guests = said.mac_addresses.join(", ");
        ui.stdout(&lines([
            ("signed by", report.signer.clone().unwrap_or_default()),
            ("registry", report.origin.clone()),
            ("chip", said.chip.clone()),
            ("macOS", format!("{} ({})", said.os_version, said.os_build)),
            ("feature level", said.feature_level.to_owned()),
            ("guests", if guests.is_empty() { "every one that can read it".to_owned() } else { guests }),
            (
                "snapshot",
                if said.least_version == 0 {
                    "any version".to_owned()
                } else {
                    format!("version {} or newer", said.least_version)
                },
            ),
            ("issued", said.issued.clone()),
            ("expires", said.expires.clone()),
        ]));
    }
    match (&report.reason, &report.detail) {
        (Some(reason), Some(detail)) => {
            ui.line(styled(
                BAD,
                format!("it does not count: {}: {}", reason.code(), crate::ui::visible(detail)),
            ));
        }
        _ if report.this_chip.is_some() => {
            ui.line(styled(GOOD, "it counts now, and is about this machine's chip"))
        }
        _ => ui.line(styled(GOOD, "it counts now; this machine does not say which chip it has")),
    }
    if let Some(path) = &report.accepted {
        ui.line(format!("accepted: {}", Path::new(path).display()));
    }
}
