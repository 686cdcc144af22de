//! `capgate run`: decides, says so in one line, and becomes the program.
//!
//! The preview is the evaluator's own, on the same facts and state; with capgate's library inserted, the library decides
//! again inside the process, and its word is the one that counts. Another shim asks nobody, so for one the decision is
//! logged here, and a grant follows its written line.

pub mod environment;
pub mod foreign;
pub mod program;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use capgate_guest::prefix::Prefix;
use capgate_guest::session::{Session, State};
use capgate_guest::{identity, prefix};
use capgate_policy::decide::{Correctness, Decision, Grant};
use capgate_policy::line::Stage;
use jiff::Timestamp;

use crate::cli::RunArgs;
use crate::cmd::scene::unknown_program;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use environment::Insertion;
use program::Program;

/// What is logged as the one that decided.
const BY: &str = concat!("capgate run ", env!("CARGO_PKG_VERSION"));
/// How long between two looks at a state that is waited for.
const PAUSE: Duration = Duration::from_millis(200);

pub fn run(ui: &Ui, args: &RunArgs) -> Outcome {
    let Some((name, words)) = args.program.split_first() else {
        return Err(Failure::usage("no program was given"));
    };
    let program = program::find(name)?;
    let mut command = Command::new(&program.path);
    command.arg0(name).args(words);
    for stray in environment::remove_stray(&mut command) {
        ui.warn(format!("`{stray}` was set, and is taken out: values come from the decision alone"));
    }
    match decide(args, &program) {
        Ok((insertion, said)) => {
            insertion.apply(&mut command);
            ui.details(&format!("capgate: {said}\n"));
        }
        Err(why) => {
            if args.require {
                let failure = Failure { exit: Exit::NotStarted, ..Failure::failed(format!("stock: {why}")) };
                return Err(failure.help("start it without `--require` to see Apple's own answers"));
            }
            ui.details(&format!("capgate: stock: {why}\n"));
        }
    }
    // Only a failure comes back.
    Err(program::not_started(name, &command.exec()))
}

/// The insertion that was granted and what is said of it, or why the program stays stock.
fn decide(args: &RunArgs, program: &Program) -> Result<(Insertion, String), String> {
    let clock = Instant::now();
    let prefix = find_prefix(args.prefix.as_deref());
    // A program that cannot be read is one that nobody knows, and no profile is for that.
    let identify = || match identity::of_program(&program.identified) {
        Ok(identity) => (identity, None),
        Err(e) => (unknown_program(), Some(format!("`{}` {e}", program.identified.display()))),
    };
    let (mut identity, mut unread) = identify();
    let deadline = clock + Duration::from_secs(args.wait.into());
    let (session, decision) = loop {
        let now = Timestamp::now();
        let state = match &prefix {
            Ok(prefix) => State::read(Ok(prefix), now),
            Err(why) => State::nothing(why),
        };
        let session = Session::new(&state, identity.clone(), Some(program.path.clone()), BY);
        let switched_off = std::env::var_os("CAPGATE_DISABLE").is_some_and(|value| !value.is_empty());
        let decision = state.decide(session.facts(), switched_off, now);
        if Instant::now() < deadline && may_come(&decision) {
            std::thread::sleep(PAUSE);
            continue;
        }
        // An update may have put another program there while this waited.
        let now_there = identify();
        if now_there.0 == identity {
            break (session, decision);
        }
        (identity, unread) = now_there;
    };
    let micros = || u64::try_from(clock.elapsed().as_micros()).unwrap_or(u64::MAX);
    let log = |decision| session.logged(decision, Stage::Start, None, Timestamp::now(), micros());
    let grant = match decision {
        Decision::Grant(grant) => grant,
        // The library is not inserted to be refused, so this is the place to log it.
        stock @ Decision::Stock(_) => {
            let said = said_of_stock(&log(stock));
            return Err(unread.map_or(said.clone(), |why| format!("{said}: {why}")));
        }
    };
    let not_inserted = |why: String| said_of_stock(&log(grant.not_inserted(why).into()));
    let insertion =
        prefix.and_then(|prefix| insertion(args, program, &prefix, &grant)).map_err(not_inserted)?;
    let Some(shim) = &insertion.through else {
        return Ok((insertion, said_of(&grant)));
    };
    // The other shim logs nothing, and a grant follows its written line.
    let said = format!("{}, through {}", said_of(&grant), shim.display());
    match log(Decision::Grant(grant)) {
        Decision::Grant(_) => Ok((insertion, said)),
        stock @ Decision::Stock(_) => Err(said_of_stock(&stock)),
    }
}

/// What is inserted into a program that was granted, or why nothing can be.
fn insertion(args: &RunArgs, program: &Program, prefix: &Prefix, grant: &Grant) -> Result<Insertion, String> {
    if let Some(why) = program.cut_off() {
        return Err(why);
    }
    let own = prefix.library();
    prefix::check_library(&own).map_err(|e| e.to_string())?;
    program.can_load(&own)?;
    program.takes_libraries()?;
    Ok(match &args.shim {
        None => Insertion::own(own),
        Some(shim) => Insertion::other(own, foreign::find(shim, prefix, grant, program)?, grant.values),
    })
}

/// The prefix that was named, or the one that this program stands in.
pub fn find_prefix(named: Option<&Path>) -> Result<Prefix, String> {
    let root = match named {
        Some(path) => super::prefix::plain(path).map_err(|failure| failure.message)?,
        None => own_prefix().ok_or("this program is in no prefix; name one with `--prefix`")?,
    };
    Prefix::at(&root).map_err(|e| e.to_string())
}

/// The prefix that this program stands in.
pub fn own_prefix() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?.canonicalize().ok()?;
    let folder = own.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "bin"))?;
    folder.parent().map(Path::to_owned)
}

/// Tells whether time alone may change the decision: a registry or a host statement is on its way.
fn may_come(decision: &Decision) -> bool {
    decision.reason().is_some_and(|reason| {
        let code = reason.code();
        code.starts_with("registry-") || code.starts_with("host-") || code == "clock-behind"
    })
}

fn said_of(grant: &Grant) -> String {
    let models: Vec<&str> = grant.tested_models.iter().map(|model| model.name.as_str()).collect();
    let models = if models.is_empty() { "no model that is named".to_owned() } else { models.join(", ") };
    let correctness = match grant.correctness {
        Correctness::Tested => "tested",
        Correctness::Untested => "not tested",
    };
    format!(
        "granted {} by `{}`; tested with {models}; correctness {correctness}",
        grant.values, grant.profile
    )
}

fn said_of_stock(decision: &Decision) -> String {
    match decision {
        Decision::Stock(refusal) => format!("{}: {}", refusal.reason, refusal.detail),
        Decision::Grant(_) => String::new(),
    }
}
