//! The two answers: replaced on a device's own class before it is set up, switched on once it was judged.
#![allow(unsafe_code, reason = "replaces a method; each block says why it is sound")]

mod answers;
mod classes;
mod judge;

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use capgate_guest::session::Session;
use capgate_policy::decide::Grant;

use crate::guarded;
use crate::images::Images;
use crate::runtime::{NIL, Pointer, Runtime, load_metal};

/// An Objective-C exception may pass through: it is between the original and whoever made the device.
type Init = unsafe extern "C-unwind" fn(Pointer, Pointer) -> Pointer;

/// Everything that is needed to judge a device.
struct Hooks {
    runtime: Runtime,
    session: Session,
    grant: Grant,
    images: Images,
    supports_family: Pointer,
    threadgroup_memory: Pointer,
    dealloc: Pointer,
}

// SAFETY: the pointers are the runtime's selectors, which any thread may use.
unsafe impl Send for Hooks {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Hooks {}

static HOOKS: OnceLock<Hooks> = OnceLock::new();
static INSTALLED: AtomicBool = AtomicBool::new(false);
static ORIGINAL_INIT: AtomicPtr<c_void> = AtomicPtr::new(NIL);

/// Puts the library in the way of every device that is made from now on. A second time changes nothing.
pub fn install(session: Session, grant: Grant, own: PathBuf) {
    if INSTALLED.swap(true, Ordering::AcqRel) {
        return;
    }
    if let Err(why) = try_install(&session, &grant, own) {
        judge::report(&session, None, Err(grant.without_device(why)));
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
    if !runtime.owns(class, init, method) {
        return Err("`_MTLDevice` inherits `initGPUFamilySupport`".to_owned());
    }
    classes::expect_types(&runtime, method, &["v@:", "@@:"], "initGPUFamilySupport")?;
    let original = runtime.implementation(method).ok_or("`initGPUFamilySupport` has no implementation")?;
    let hooks = Hooks {
        runtime,
        session: session.clone(),
        grant: grant.clone(),
        images,
        supports_family: selector(c"supportsFamily:")?,
        threadgroup_memory: selector(c"maxThreadgroupMemoryLength")?,
        dealloc: selector(c"dealloc")?,
    };
    answers::set(grant.values).map_err(|e| e.to_string())?;
    ORIGINAL_INIT.store(original, Ordering::Release);
    HOOKS.set(hooks).map_err(|_| "it was installed twice")?;
    let new: Init = init_gpu_family_support;
    // SAFETY: the types of the method were compared above.
    unsafe { runtime.replace(method, new as Pointer) };
    Ok(())
}

/// Stands for `-[_MTLDevice initGPUFamilySupport]`.
unsafe extern "C-unwind" fn init_gpu_family_support(device: Pointer, selector: Pointer) -> Pointer {
    let prepared = guarded(|| {
        answers::switch_off(device);
        HOOKS.get().map(|hooks| (hooks, classes::prepare(hooks, device)))
    });
    let original = ORIGINAL_INIT.load(Ordering::Acquire);
    if original.is_null() {
        return NIL;
    }
    // SAFETY: stored before this function was put in its place, from a method of this type.
    let result = unsafe { std::mem::transmute::<Pointer, Init>(original)(device, selector) };
    if let Some(Some((hooks, prepared))) = prepared {
        judge::switch_on(hooks, device, prepared);
    }
    result
}
