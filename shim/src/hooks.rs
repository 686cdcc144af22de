//! The two answers: replaced on a device's own class before it is set up, switched on once it was judged.
//!
//! A replacement belongs to a slot, which remembers what it replaced: with a class in between, the lower replacement
//! forwards to the upper one, and that to Apple's.
#![allow(
    unsafe_code,
    reason = "calls methods through their implementations; each block says why it is sound"
)]

use std::cell::Cell;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;

use capgate_guest::session::Session;
use capgate_policy::decide::{Decision, Device, Grant, Refusal};
use capgate_policy::line::Stage;
use capgate_registry::profile::{APPLE_FAMILIES, Answers};
use jiff::Timestamp;

use crate::devices::Devices;
use crate::images::Images;
use crate::runtime::{NIL, Pointer, Runtime, load_metal};
use crate::{guarded, voice};

type Init = unsafe extern "C" fn(Pointer, Pointer) -> Pointer;
type SupportsFamily = unsafe extern "C" fn(Pointer, Pointer, isize) -> u8;
type ThreadgroupMemory = unsafe extern "C" fn(Pointer, Pointer) -> usize;

/// Most classes of devices that one process makes; macOS 26 has fewer than ten.
const SLOTS: usize = 16;
/// Most device lines of one process. Devices beyond that stay stock, silently.
const MOST_LINES: usize = 256;

/// What the replacements of one class replaced.
struct Slot {
    class: AtomicPtr<c_void>,
    supports_family: AtomicPtr<c_void>,
    threadgroup_memory: AtomicPtr<c_void>,
    /// Only one of the two could be replaced, so neither is ever switched on.
    is_half: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self {
            class: AtomicPtr::new(NIL),
            supports_family: AtomicPtr::new(NIL),
            threadgroup_memory: AtomicPtr::new(NIL),
            is_half: AtomicBool::new(false),
        }
    }
}

/// Everything that is needed to judge a device.
struct Hooks {
    runtime: Runtime,
    session: Session,
    grant: Grant,
    images: Images,
    supports_family: Pointer,
    threadgroup_memory: Pointer,
}

// SAFETY: the pointers are the runtime's selectors, which any thread may use.
unsafe impl Send for Hooks {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Hooks {}

static HOOKS: OnceLock<Hooks> = OnceLock::new();
static INSTALLED: AtomicBool = AtomicBool::new(false);
static ORIGINAL_INIT: AtomicPtr<c_void> = AtomicPtr::new(NIL);
static SLOT: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
/// Held while a class is given its replacements.
static PREPARING: Mutex<()> = Mutex::new(());
static DEVICES: Devices = Devices::new();
static CEILING: AtomicU64 = AtomicU64::new(0);
static MEMORY: AtomicUsize = AtomicUsize::new(0);
static LINES: AtomicUsize = AtomicUsize::new(0);

/// Puts the library in the way of every device that is made from now on. A second time changes nothing.
pub fn install(session: Session, grant: Grant, own: PathBuf) {
    if INSTALLED.swap(true, Ordering::AcqRel) {
        return;
    }
    if let Err(why) = try_install(&session, &grant, own) {
        report(&session, None, Err(grant.without_device(why)));
    }
}

fn try_install(session: &Session, grant: &Grant, own: PathBuf) -> Result<(), String> {
    // Those that are there before Metal is asked for; whatever comes later is looked at when a device is made.
    let images = Images::at_start(own);
    if !load_metal() {
        return Err("Metal cannot be loaded".to_owned());
    }
    let runtime = Runtime::find().ok_or("the Objective-C runtime is not complete")?;
    let selector = |name| runtime.selector(name).ok_or("the Objective-C runtime gives no selector");
    let init = selector(c"initGPUFamilySupport")?;
    let class = runtime.class(c"_MTLDevice").ok_or("there is no class `_MTLDevice`")?;
    let method = runtime.method(class, init).ok_or("`_MTLDevice` has no `initGPUFamilySupport`")?;
    if !runtime.owns(class, method) {
        return Err("`_MTLDevice` inherits `initGPUFamilySupport`".to_owned());
    }
    expect_types(&runtime, method, &["v@:", "@@:"], "initGPUFamilySupport")?;
    let original = runtime.implementation(method).ok_or("`initGPUFamilySupport` has no implementation")?;
    let hooks = Hooks {
        runtime,
        session: session.clone(),
        grant: grant.clone(),
        images,
        supports_family: selector(c"supportsFamily:")?,
        threadgroup_memory: selector(c"maxThreadgroupMemoryLength")?,
    };
    let memory = usize::try_from(grant.values.max_threadgroup_memory).map_err(|e| e.to_string())?;
    CEILING.store(grant.values.apple_family_max, Ordering::Release);
    MEMORY.store(memory, Ordering::Release);
    ORIGINAL_INIT.store(original, Ordering::Release);
    HOOKS.set(hooks).map_err(|_| "it was installed twice")?;
    let new: Init = init_gpu_family_support;
    // SAFETY: the types of the method were compared above.
    unsafe { runtime.replace(method, new as Pointer) };
    Ok(())
}

/// What is called with other types than it has would read or return garbage.
fn expect_types(runtime: &Runtime, method: Pointer, expected: &[&str], name: &str) -> Result<(), String> {
    let types = runtime.types(method);
    if expected.contains(&types.as_str()) {
        return Ok(());
    }
    Err(format!("`{name}` has the types `{types}`, not `{}`", expected.first().unwrap_or(&"")))
}

/// Stands for `-[_MTLDevice initGPUFamilySupport]`.
unsafe extern "C" fn init_gpu_family_support(device: Pointer, selector: Pointer) -> Pointer {
    let prepared = guarded(|| {
        DEVICES.remove(device);
        HOOKS.get().map(|hooks| (hooks, prepare(hooks, device)))
    });
    let original = ORIGINAL_INIT.load(Ordering::Acquire);
    if original.is_null() {
        return NIL;
    }
    // SAFETY: stored before this function was put in its place, from a method of this type.
    let result = unsafe { std::mem::transmute::<Pointer, Init>(original)(device, selector) };
    if let Some(Some((hooks, prepared))) = prepared {
        let _ = guarded(|| switch_on(hooks, device, prepared));
    }
    result
}

/// Gives the device's own class both replacements, which forward until the device is switched on.
fn prepare(hooks: &Hooks, device: Pointer) -> Result<Pointer, String> {
    let runtime = &hooks.runtime;
    // SAFETY: the receiver of a message is an object.
    let class = unsafe { runtime.class_of(device) }.ok_or("the device has no class")?;
    let _held = hold().ok_or("another thread did not come to an end with a device")?;
    if let Some(slot) = SLOT.iter().find(|slot| slot.class.load(Ordering::Acquire) == class) {
        let half = slot.is_half.load(Ordering::Acquire);
        return if half { Err("only one of its answers could be replaced".to_owned()) } else { Ok(class) };
    }
    let find = |selector, name: &str, types: &[&str]| {
        let class_name = || runtime.name(class);
        let method =
            runtime.method(class, selector).ok_or_else(|| format!("`{}` has no `{name}`", class_name()))?;
        expect_types(runtime, method, types, name)?;
        let original = runtime
            .implementation(method)
            .ok_or_else(|| format!("`{name}` of `{}` has no implementation", class_name()))?;
        Ok::<_, String>((method, original))
    };
    // Both are found before either is replaced.
    let (supports, supports_original) =
        find(hooks.supports_family, "supportsFamily:", &["B@:q", "c@:q", "C@:q", "C@:l", "B@:l"])?;
    let (memory, memory_original) =
        find(hooks.threadgroup_memory, "maxThreadgroupMemoryLength", &["Q@:", "L@:"])?;
    let free = SLOT.iter().zip(REPLACEMENTS).find(|(slot, _)| slot.class.load(Ordering::Acquire).is_null());
    let (slot, (new_supports, new_memory)) = free.ok_or("there are too many classes of devices")?;
    slot.supports_family.store(supports_original, Ordering::Release);
    slot.threadgroup_memory.store(memory_original, Ordering::Release);
    // From here on the slot is taken: a replacement that was put in place stays, and forwards.
    slot.class.store(class, Ordering::Release);
    for (selector, method, new, name) in [
        (hooks.supports_family, supports, new_supports as Pointer, "supportsFamily:"),
        (hooks.threadgroup_memory, memory, new_memory as Pointer, "maxThreadgroupMemoryLength"),
    ] {
        // SAFETY: the types of both methods were compared above. Only a class that owns the method has it changed: a
        // changed method of a parent would be its other children's too.
        let done = unsafe {
            if runtime.owns(class, method) {
                runtime.replace(method, new).is_some()
            } else {
                runtime.add(class, selector, new, method)
            }
        };
        if !done {
            slot.is_half.store(true, Ordering::Release);
            return Err(format!("`{name}` of `{}` cannot be replaced", runtime.name(class)));
        }
    }
    Ok(class)
}

/// The lock, unless somebody keeps it: a child that was forked in between inherits it held, for ever.
fn hold() -> Option<MutexGuard<'static, ()>> {
    for _ in 0..100 {
        match PREPARING.try_lock() {
            Ok(held) => return Some(held),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}

/// Row 14, its line, the switch, and both answers read back as the program will read them.
fn switch_on(hooks: &Hooks, device: Pointer, prepared: Result<Pointer, String>) {
    let class = match prepared {
        Ok(class) => class,
        Err(why) => return report(&hooks.session, None, Err(hooks.grant.without_device(why))),
    };
    let name = hooks.runtime.name(class);
    let ask = Ask { hooks, class, device };
    let Some(answers) = ask.answers() else {
        return report(&hooks.session, None, Err(hooks.grant.without_device("it does not answer")));
    };
    let images = if hooks.grant.images.is_empty() { Vec::new() } else { hooks.images.that_may_touch_metal() };
    let found = Device { answers, images };
    if let Err(refusal) = hooks.grant.at_device(&found) {
        return report(&hooks.session, Some((&name, &found)), Err(refusal));
    }
    let Decision::Grant(grant) = logged(&hooks.session, Some((&name, &found)), Ok(&hooks.grant)) else {
        return;
    };
    if !DEVICES.insert(device) || !ask.is_as_granted(&answers) {
        DEVICES.remove(device);
        let refusal = grant.without_device("its answers could not be changed, or not read back");
        return report(&hooks.session, Some((&name, &found)), Err(refusal));
    }
    voice::enabled(&name, &grant);
}

/// Logs and says what became of a device that stays stock.
fn report(session: &Session, device: Option<(&str, &Device)>, outcome: Result<&Grant, Refusal>) {
    let _ = logged(session, device, outcome);
}

fn logged(session: &Session, device: Option<(&str, &Device)>, outcome: Result<&Grant, Refusal>) -> Decision {
    let decision = match outcome {
        Ok(grant) => Decision::Grant(Box::new(grant.clone())),
        Err(refusal) => Decision::from(refusal),
    };
    let line = LINES.fetch_add(1, Ordering::Relaxed);
    let decision = if line < MOST_LINES {
        session.logged(decision, Stage::Device, device, Timestamp::now(), 0)
    } else {
        decision.after_log(Err("this process has made too many devices"))
    };
    if let Decision::Stock(refusal) = &decision
        && line < MOST_LINES
    {
        voice::stock(refusal, session.id());
    }
    decision
}

/// Asks a device as a program does, by messages.
struct Ask<'a> {
    hooks: &'a Hooks,
    class: Pointer,
    device: Pointer,
}

impl Ask<'_> {
    fn supports(&self, family: u64) -> Option<bool> {
        let selector = self.hooks.supports_family;
        let found = self.hooks.runtime.dispatch(self.class, selector)?;
        let family = isize::try_from(family).ok()?;
        // SAFETY: the types of the method were compared when its replacement was put in place.
        Some(unsafe {
            std::mem::transmute::<Pointer, SupportsFamily>(found)(self.device, selector, family) != 0
        })
    }

    fn memory(&self) -> Option<u64> {
        let selector = self.hooks.threadgroup_memory;
        let found = self.hooks.runtime.dispatch(self.class, selector)?;
        // SAFETY: as above.
        let length =
            unsafe { std::mem::transmute::<Pointer, ThreadgroupMemory>(found)(self.device, selector) };
        u64::try_from(length).ok()
    }

    /// The highest Apple family that it names, and its threadgroup memory.
    fn answers(&self) -> Option<Answers> {
        let mut apple_family = None;
        for family in APPLE_FAMILIES {
            if self.supports(family)? {
                apple_family = Some(family);
            }
        }
        Some(Answers { apple_family, max_threadgroup_memory: self.memory()? })
    }

    /// Every Apple family up to the ceiling, none beyond it that was not there before, and the memory.
    fn is_as_granted(&self, before: &Answers) -> bool {
        let values = self.hooks.grant.values;
        let top = before.apple_family.unwrap_or(0).max(values.apple_family_max);
        let families = APPLE_FAMILIES.into_iter().all(|family| self.supports(family) == Some(family <= top));
        families && self.memory() == Some(before.max_threadgroup_memory.max(values.max_threadgroup_memory))
    }
}

/// Stands for `supportsFamily:`: the original's answer, or yes to an Apple family within the ceiling.
unsafe extern "C" fn supports_family<const N: usize>(
    device: Pointer,
    selector: Pointer,
    family: isize,
) -> u8 {
    let own = own_family::<N>(device, selector, family);
    let ceiling = CEILING.load(Ordering::Acquire);
    let within = u64::try_from(family)
        .is_ok_and(|family| APPLE_FAMILIES.contains(&family) && family <= ceiling && is_on::<N>(device));
    if within { 1 } else { own }
}

/// Stands for `maxThreadgroupMemoryLength`: the larger of the original's answer and the tested one.
unsafe extern "C" fn threadgroup_memory<const N: usize>(device: Pointer, selector: Pointer) -> usize {
    let own = own_memory::<N>(device, selector);
    if is_on::<N>(device) { own.max(MEMORY.load(Ordering::Acquire)) } else { own }
}

fn own_family<const N: usize>(device: Pointer, selector: Pointer, family: isize) -> u8 {
    let original = original::<N>(|slot| &slot.supports_family);
    if original.is_null() {
        return 0;
    }
    // SAFETY: stored before the replacement was put in its place, from a method of this type.
    unsafe { std::mem::transmute::<Pointer, SupportsFamily>(original)(device, selector, family) }
}

fn own_memory<const N: usize>(device: Pointer, selector: Pointer) -> usize {
    let original = original::<N>(|slot| &slot.threadgroup_memory);
    if original.is_null() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { std::mem::transmute::<Pointer, ThreadgroupMemory>(original)(device, selector) }
}

/// Tells whether a device is switched on and its own answers are still those that it was judged by: its class may set
/// it up further once `_MTLDevice` has done its part.
fn is_on<const N: usize>(device: Pointer) -> bool {
    if !DEVICES.contains(device) {
        return false;
    }
    // Below another replacement, or where an original asks its own device, its own answers are wanted.
    let Some(_asking) = Asking::begin() else { return false };
    let same = guarded(|| {
        let hooks = HOOKS.get()?;
        let top = hooks.grant.stock.apple_family.unwrap_or(0);
        let family = |family| {
            let own = own_family::<N>(device, hooks.supports_family, isize::try_from(family).ok()?);
            ((own != 0) == (family <= top)).then_some(())
        };
        APPLE_FAMILIES.into_iter().try_for_each(family)?;
        let memory = u64::try_from(own_memory::<N>(device, hooks.threadgroup_memory)).ok()?;
        (memory == hooks.grant.stock.max_threadgroup_memory).then_some(())
    });
    if same.flatten().is_none() {
        DEVICES.remove(device);
        let _ = guarded(|| HOOKS.get().map(|hooks| changed(hooks, device)));
        return false;
    }
    true
}

/// A device changed its own answers after it was judged.
fn changed(hooks: &Hooks, device: Pointer) {
    // SAFETY: the receiver of a message is an object.
    let class = unsafe { hooks.runtime.class_of(device) };
    let name = class.map_or_else(String::new, |class| hooks.runtime.name(class));
    let why = format!("`{name}` changed its own answers after it was made");
    report(&hooks.session, None, Err(hooks.grant.without_device(why)));
}

thread_local! {
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Held while a device's own answers are asked in this thread.
struct Asking;

impl Asking {
    fn begin() -> Option<Self> {
        (!ASKING.replace(true)).then(|| Self)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.set(false);
    }
}

fn original<const N: usize>(of: impl Fn(&Slot) -> &AtomicPtr<c_void>) -> Pointer {
    SLOT.get(N).map_or(NIL, |slot| of(slot).load(Ordering::Acquire))
}

type Replacements = (SupportsFamily, ThreadgroupMemory);

macro_rules! replacements {
    ($($slot:literal)+) => { [$((supports_family::<$slot>, threadgroup_memory::<$slot>)),+] };
}

const REPLACEMENTS: [Replacements; SLOTS] = replacements!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
