//! `capgate witness serve`: C2SP tlog-witness over HTTP.

use std::sync::{Arc, Mutex};

use capgate_registry::witness::{MAX_REQUEST, Refusal, Request};
use jiff::{SignedDuration, Timestamp};

use super::memory::{Memory, NotCosigned};
use super::watched::Watched;
use crate::cli::WitnessServeArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::{self, Ui};
use crate::world::http::{Asked, Given, Server};
use crate::world::signals::{Stop, Woken};

/// Requests that are served at once; others wait in the system's queue.
const WORKERS: usize = 16;

pub fn run(ui: &Ui, args: &WitnessServeArgs) -> Outcome {
    let watched = Watched::new(args)?;
    let memory = Memory::open(&args.witness)?;
    let stop = Stop::listen().map_err(|e| Failure::failed(format!("signals cannot be waited for: {e}")))?;
    let witness = memory.verifier().to_string();
    let server = Server::bind(args.listen, MAX_REQUEST)
        .map_err(|e| Failure::failed(format!("nothing can listen on {}: {e}", args.listen)))?;
    ui.line(format!("witness {witness}"));
    ui.line(format!("listening on http://{}", server.address()));
    // One at a time: what is held and what is cosigned must not come apart.
    let shared = Arc::new((watched, Mutex::new(memory)));
    let handler = Arc::new(move |asked: &Asked| answer(asked, &shared.0, &shared.1));
    server
        .start(WORKERS, handler)
        .map_err(|e| Failure::failed(format!("a thread cannot be started: {e}")))?;
    loop {
        let soon = Timestamp::now().saturating_add(SignedDuration::from_hours(1)).unwrap_or(Timestamp::MAX);
        match stop.wait(soon).map_err(|e| Failure::failed(format!("signals cannot be waited for: {e}")))? {
            Woken::Stopped => return Ok(Exit::Done),
            Woken::Time => {}
        }
    }
}

fn answer(asked: &Asked, watched: &Watched, memory: &Mutex<Memory>) -> Given {
    match (asked.method.as_str(), asked.path.as_str()) {
        ("POST", "/add-checkpoint") => {}
        (_, "/add-checkpoint") => return Given::text(405, "send it with POST"),
        _ => return Given::text(404, "there is only /add-checkpoint"),
    }
    let request = match Request::parse(&asked.body) {
        Ok(request) => request,
        Err(e) => return Given::text(400, &e.to_string()),
    };
    match cosign(&request, watched, memory) {
        Ok(line) => Given { status: 200, kind: "text/plain; charset=utf-8", body: line },
        Err(NotCosigned::Refused(refusal)) => refused(&refusal),
        Err(why @ (NotCosigned::Memory(_) | NotCosigned::Key(_))) => {
            ui::warn(format!("nothing is cosigned: {why}"));
            Given::text(500, "this witness cannot cosign now")
        }
    }
}

fn cosign(request: &Request, watched: &Watched, memory: &Mutex<Memory>) -> Result<String, NotCosigned> {
    let origin = &request.checkpoint.origin;
    let role = watched.role(origin).map_err(NotCosigned::Memory)?;
    let role = role.ok_or_else(|| Refusal::UnknownLog(origin.to_string()))?;
    // Signatures first, without the lock: what is not of the log costs others no time.
    role.verify(&request.note).map_err(Refusal::Unsigned)?;
    let mut memory =
        memory.lock().map_err(|_| NotCosigned::Memory("an earlier request ended in the middle".into()))?;
    memory.cosign(request, &role, Timestamp::now())
}

fn refused(refusal: &Refusal) -> Given {
    if let Refusal::Split { .. } = refusal {
        ui::warn(refusal.to_string());
    }
    match refusal.held_size() {
        Some(size) => Given { status: refusal.status(), kind: "text/x.tlog.size", body: format!("{size}\n") },
        None => Given::text(refusal.status(), &refusal.to_string()),
    }
}
