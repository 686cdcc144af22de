//! The C interface, for shims that others maintain: they ask here what they may answer, and keep their own hooks.
//!
//! Every call takes anything without harm: null, a handle that was closed, a pointer that never was one. Whatever is
//! wrong, the answer is the one that changes nothing.
#![allow(unsafe_code, reason = "exports C functions; each block says why it is sound")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use capgate_guest::prefix::Prefix;
use capgate_guest::session::{Session, State};
use capgate_guest::{identity, system};
use capgate_policy::decide::{Decision, Device};
use capgate_policy::line::Stage;
use capgate_registry::profile::{APPLE_FAMILIES, Answers};
use jiff::Timestamp;

use crate::images::Images;
use crate::{BY, environment, guarded};

/// One decision about this process. Its address means nothing to anybody but these functions.
pub struct Capgate(());

/// Most decisions that are open at once.
const MOST: usize = 1_000;
/// Apple's own answers stay.
pub const CAPGATE_STOCK: c_int = 0;
/// The answers may be changed, once `capgate_device` agrees.
pub const CAPGATE_GRANTED: c_int = 1;

struct Handle {
    session: Session,
    decision: Decision,
    images: Images,
    /// At least one device was as tested, and none was not.
    is_accepted: AtomicBool,
    is_refused: AtomicBool,
    reason: CString,
    detail: CString,
    profile: CString,
}

struct Open {
    next: usize,
    handles: Vec<(usize, Arc<Handle>)>,
}

static OPEN: Mutex<Open> = Mutex::new(Open { next: 0, handles: Vec::new() });

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// The version of the library, such as "0.1.0". Never null.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What the last call in this thread that failed had to say; empty where none did. Valid until this thread's next call.
/// Never null.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_last_error() -> *const c_char {
    guarded(|| LAST_ERROR.with(|error| error.borrow().as_ptr())).unwrap_or(c"".as_ptr())
}

/// Decides about this process with the state of `prefix`, an absolute path, after the same checks that the injected
/// library makes, and logs it. Null only where that could not be done; a refusal is a decision too.
///
/// # Safety
/// `prefix` is null or a text that ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn capgate_open(prefix: *const c_char) -> *mut Capgate {
    let opened = guarded(|| {
        if prefix.is_null() {
            return Err("the prefix is null".to_owned());
        }
        // SAFETY: as promised.
        let path = unsafe { CStr::from_ptr(prefix) };
        open(Path::new(OsStr::from_bytes(path.to_bytes())))
    });
    match opened.unwrap_or_else(|| Err("something unexpected happened".to_owned())) {
        Ok(handle) => handle,
        Err(why) => {
            failed(&why);
            ptr::null_mut()
        }
    }
}

fn open(path: &Path) -> Result<*mut Capgate, String> {
    let clock = Instant::now();
    if system::is_privileged() {
        return Err("this process runs with other rights than whoever started it".to_owned());
    }
    let prefix = Prefix::at(path).map_err(|e| e.to_string())?;
    let now = Timestamp::now();
    let state = State::read(Ok(&prefix), now);
    let (program, started) = identity::of_process();
    let session = Session::new(&state, program, started, BY);
    let micros = || u64::try_from(clock.elapsed().as_micros()).unwrap_or(u64::MAX);
    let decision = session.decide(&state, environment::is_set("CAPGATE_DISABLE"), now, micros);
    let own = system::library_of(open as *const () as usize).unwrap_or_default();
    register(Handle::new(session, decision, own))
}

fn register(handle: Handle) -> Result<*mut Capgate, String> {
    let mut open = lock().ok_or("another thread did not come to an end")?;
    if open.handles.len() >= MOST {
        return Err(format!("{MOST} decisions are open; close some with capgate_close"));
    }
    // Never used again, and never an address at which something could be.
    open.next += 1;
    let id = open.next;
    open.handles.push((id, Arc::new(handle)));
    Ok(ptr::without_provenance_mut(id))
}

/// The lock, unless somebody keeps it: a child that was forked in between inherits it held, for ever.
fn lock() -> Option<MutexGuard<'static, Open>> {
    for _ in 0..100 {
        match OPEN.try_lock() {
            Ok(held) => return Some(held),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}

fn failed(why: &str) {
    LAST_ERROR.with(|error| *error.borrow_mut() = text(why));
}

/// A text without zero bytes.
fn text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

impl Handle {
    fn new(session: Session, decision: Decision, own: PathBuf) -> Self {
        let (reason, detail, profile) = match &decision {
            Decision::Grant(grant) => (String::new(), String::new(), grant.profile.to_string()),
            Decision::Stock(refusal) => (
                refusal.reason.code().to_owned(),
                refusal.detail.to_string(),
                refusal.profile.as_ref().map(ToString::to_string).unwrap_or_default(),
            ),
        };
        Self {
            session,
            decision,
            images: Images::at_start(own),
            is_accepted: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            reason: text(&reason),
            detail: text(&detail),
            profile: text(&profile),
        }
    }

    fn may_change(&self) -> bool {
        self.is_accepted.load(Ordering::Acquire) && !self.is_refused.load(Ordering::Acquire)
    }

    /// Row 14 and its line.
    fn judge(&self, name: &str, answers: Answers) -> Result<(), String> {
        let Decision::Grant(grant) = &self.decision else { return Err("nothing was granted".to_owned()) };
        let images = if grant.images.is_empty() { Vec::new() } else { self.images.that_may_touch_metal() };
        let device = Device { answers, images };
        let decision = match grant.at_device(&device) {
            Ok(()) => self.decision.clone(),
            Err(refusal) => refusal.into(),
        };
        let logged = self.session.logged(decision, Stage::Device, Some((name, &device)), Timestamp::now(), 0);
        match logged {
            Decision::Grant(_) => Ok(()),
            Decision::Stock(refusal) => Err(format!("{}: {}", refusal.reason, refusal.detail)),
        }
    }
}

/// Runs `work` with the handle, or gives `otherwise`.
fn with<T>(handle: *const Capgate, otherwise: T, work: impl FnOnce(&Handle) -> T) -> T {
    let found = || {
        let id = handle.addr();
        let found =
            lock()?.handles.iter().find(|(other, _)| *other == id).map(|(_, handle)| Arc::clone(handle));
        if found.is_none() {
            failed(if handle.is_null() { "the handle is null" } else { "the handle is not open" });
        }
        Some(work(&*found?))
    };
    guarded(found).flatten().unwrap_or(otherwise)
}

/// `CAPGATE_GRANTED` or `CAPGATE_STOCK`, as it was decided when the handle was opened.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_decision(handle: *const Capgate) -> c_int {
    with(handle, CAPGATE_STOCK, |handle| match handle.decision {
        Decision::Grant(_) => CAPGATE_GRANTED,
        Decision::Stock(_) => CAPGATE_STOCK,
    })
}

/// The code of the reason for stock answers, such as "no-profile"; empty for a grant, "not-open" for what is no open
/// handle. Valid until the handle is closed. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_reason(handle: *const Capgate) -> *const c_char {
    with(handle, c"not-open".as_ptr(), |handle| handle.reason.as_ptr())
}

/// The facts behind the reason, for people. Valid until the handle is closed. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_detail(handle: *const Capgate) -> *const c_char {
    with(handle, c"".as_ptr(), |handle| handle.detail.as_ptr())
}

/// The id of the profile that it is about; empty where there is none. Valid until the handle is closed. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_profile(handle: *const Capgate) -> *const c_char {
    with(handle, c"".as_ptr(), |handle| handle.profile.as_ptr())
}

/// The granted Apple family, such as 1009; 0 for stock.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_apple_family_max(handle: *const Capgate) -> u64 {
    with(handle, 0, |handle| handle.decision.values().map_or(0, |values| values.apple_family_max))
}

/// The granted threadgroup memory in bytes; 0 for stock.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_max_threadgroup_memory(handle: *const Capgate) -> u64 {
    with(handle, 0, |handle| handle.decision.values().map_or(0, |values| values.max_threadgroup_memory))
}

/// Judges a device as it is made, by its own answers: the highest Apple family that it names (0 for none) and its
/// threadgroup memory in bytes. Logs it. `CAPGATE_GRANTED` where the answers may be changed; once one device was
/// refused, none is changed any more.
///
/// # Safety
/// `name` is null or a text that ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn capgate_device(
    handle: *const Capgate,
    name: *const c_char,
    apple_family: u64,
    max_threadgroup_memory: u64,
) -> c_int {
    with(handle, CAPGATE_STOCK, |handle| {
        let name = if name.is_null() {
            String::new()
        } else {
            // SAFETY: as promised.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().chars().take(100).collect()
        };
        let apple_family = (apple_family != 0).then_some(apple_family);
        match handle.judge(&name, Answers { apple_family, max_threadgroup_memory }) {
            Ok(()) => {
                handle.is_accepted.store(true, Ordering::Release);
                if handle.may_change() { CAPGATE_GRANTED } else { CAPGATE_STOCK }
            }
            Err(why) => {
                handle.is_refused.store(true, Ordering::Release);
                failed(&why);
                CAPGATE_STOCK
            }
        }
    })
}

/// What `supportsFamily:` may answer for `family` on a device whose own answer is `own`: 0 or 1. An own answer that is not
/// what the profile was tested against stays.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_supports_family(handle: *const Capgate, family: i64, own: c_int) -> c_int {
    let own = c_int::from(own != 0);
    with(handle, own, |handle| {
        let Decision::Grant(grant) = &handle.decision else { return own };
        let Some(asked) = u64::try_from(family).ok().filter(|family| APPLE_FAMILIES.contains(family)) else {
            return own;
        };
        let as_tested = (own != 0) == (asked <= grant.stock.apple_family.unwrap_or(0));
        let within = handle.may_change() && as_tested && asked <= grant.values.apple_family_max;
        if within { 1 } else { own }
    })
}

/// What `maxThreadgroupMemoryLength` may answer on a device whose own answer is `own` bytes: `own` itself where that is not
/// what the profile was tested against.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_threadgroup_memory(handle: *const Capgate, own: u64) -> u64 {
    with(handle, own, |handle| match &handle.decision {
        Decision::Grant(grant) if handle.may_change() && own == grant.stock.max_threadgroup_memory => {
            own.max(grant.values.max_threadgroup_memory)
        }
        _ => own,
    })
}

/// Closes a decision. From then on its handle is none, and its texts are gone.
#[unsafe(no_mangle)]
pub extern "C" fn capgate_close(handle: *mut Capgate) {
    let closed = guarded(|| {
        let Some(mut open) = lock() else { return false };
        let before = open.handles.len();
        open.handles.retain(|(id, _)| *id != handle.addr());
        before != open.handles.len()
    });
    if closed != Some(true) {
        let _ = guarded(|| failed("the handle is not open"));
    }
}
