//! The constructor: runs before `main` of a process that the library was inserted into.
#![allow(unsafe_code, reason = "the loader finds a constructor by its section")]

use std::time::Instant;

use capgate_guest::prefix::Prefix;
use capgate_guest::session::{Session, State};
use capgate_guest::{identity, system};
use capgate_policy::decide::Decision;
use capgate_policy::host::HostState;
use jiff::Timestamp;

use crate::environment::{self, Inserted};
use crate::{BY, guarded, hooks, voice};

// SAFETY: the section holds pointers to functions without arguments, which the loader calls once each. (glibc passes
// three arguments, which a function without any ignores.)
#[used]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func,mod_init_funcs"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    let _ = guarded(start);
}

/// Does nothing where the library was merely linked or opened, for its C interface.
fn start() {
    let clock = Instant::now();
    // What is caught is not to be printed either. The hook is that of this library's own copy of the runtime.
    std::panic::set_hook(Box::new(|_| {}));
    let Some(own) = system::library_of(constructor as *const () as usize) else { return };
    let Some(inserted) = Inserted::read(&own) else { return };
    // What another shim is told was decided by `capgate run`; this library is there to keep its children clean.
    let is_helper = inserted.clean();
    if is_helper {
        return;
    }
    voice::listen();
    let now = Timestamp::now();
    let prefix = if system::is_privileged() { Err(None) } else { Prefix::of_library(&own).map_err(Some) };
    let state = match &prefix {
        Ok(prefix) => State::read(Ok(prefix), now),
        Err(Some(e)) => State::read(Err(e), now),
        Err(None) => State::nothing("this process runs with other rights than whoever started it"),
    };
    let switched_off = environment::is_set("CAPGATE_DISABLE");
    // A file is hashed only where its digest could matter.
    let is_stock = switched_off || state.registry.is_err() || state.site.is_err();
    let unread = is_stock || !matches!(state.host, HostState::Signed(_));
    let (program, path) = if unread { identity::of_process_unread() } else { identity::of_process() };
    let session = Session::new(&state, program, path, BY);
    let decision = session.decide(&state, switched_off, now, || micros(&clock));
    voice::decided(&decision, session.id());
    if let Decision::Grant(grant) = decision {
        hooks::install(session, *grant, own);
    }
}

fn micros(clock: &Instant) -> u64 {
    u64::try_from(clock.elapsed().as_micros()).unwrap_or(u64::MAX)
}
