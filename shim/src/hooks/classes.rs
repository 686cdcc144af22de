//! The classes of devices: each is given both replacements once, on itself alone.
//!
//! A replacement belongs to a slot, which remembers what it replaced: with a class in between, the lower replacement
//! forwards to the upper one, and that to Apple's.
#![allow(unsafe_code, reason = "replaces methods; each block says why it is sound")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use super::Hooks;
use super::answers::REPLACEMENTS;
use crate::runtime::{NIL, Pointer, Runtime};

/// Most classes of devices that one process makes; macOS 26 has fewer than ten.
pub const SLOTS: usize = 16;

static SLOT: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
/// Held while a class is given its replacements.
static PREPARING: Mutex<()> = Mutex::new(());

/// What the replacements of one class replaced.
struct Slot {
    class: AtomicPtr<c_void>,
    supports_family: AtomicPtr<c_void>,
    threadgroup_memory: AtomicPtr<c_void>,
    dealloc: AtomicPtr<c_void>,
    /// Only one of the two could be replaced, so neither is ever switched on.
    is_half: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self {
            class: AtomicPtr::new(NIL),
            supports_family: AtomicPtr::new(NIL),
            threadgroup_memory: AtomicPtr::new(NIL),
            dealloc: AtomicPtr::new(NIL),
            is_half: AtomicBool::new(false),
        }
    }
}

/// Gives the device's own class both replacements, which forward until the device is switched on.
pub fn prepare(hooks: &Hooks, device: Pointer) -> Result<Pointer, String> {
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
    let (slot, (new_supports, new_memory, new_dealloc)) =
        free.ok_or("there are too many classes of devices")?;
    // A class that cannot be told when a device goes away would keep its place for whatever comes after it.
    let dealloc = find(hooks.dealloc, "dealloc", &["v@:"])?;
    slot.dealloc.store(dealloc.1, Ordering::Release);
    slot.supports_family.store(supports_original, Ordering::Release);
    slot.threadgroup_memory.store(memory_original, Ordering::Release);
    // From here on the slot is taken: a replacement that was put in place stays, and forwards.
    slot.class.store(class, Ordering::Release);
    for (selector, method, new, name) in [
        (hooks.dealloc, dealloc.0, new_dealloc as Pointer, "dealloc"),
        (hooks.supports_family, supports, new_supports as Pointer, "supportsFamily:"),
        (hooks.threadgroup_memory, memory, new_memory as Pointer, "maxThreadgroupMemoryLength"),
    ] {
        // SAFETY: the types of both methods were compared above. Only a class that owns the method has it changed: a
        // changed method of a parent would be its other children's too.
        let done = unsafe {
            if runtime.owns(class, selector, method) {
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

/// What is called with other types than it has would read or return garbage.
pub fn expect_types(runtime: &Runtime, method: Pointer, expected: &[&str], name: &str) -> Result<(), String> {
    let types = runtime.types(method);
    if expected.contains(&types.as_str()) {
        return Ok(());
    }
    Err(format!("`{name}` has the types `{types}`, not `{}`", expected.first().unwrap_or(&"")))
}

/// What slot `N` forwards `supportsFamily:` to; nil only before it is in use.
pub fn supports_family<const N: usize>() -> Pointer {
    SLOT.get(N).map_or(NIL, |slot| slot.supports_family.load(Ordering::Acquire))
}

/// What slot `N` forwards `maxThreadgroupMemoryLength` to; nil only before it is in use.
pub fn threadgroup_memory<const N: usize>() -> Pointer {
    SLOT.get(N).map_or(NIL, |slot| slot.threadgroup_memory.load(Ordering::Acquire))
}

/// What slot `N` forwards `dealloc` to; nil only before it is in use.
pub fn dealloc<const N: usize>() -> Pointer {
    SLOT.get(N).map_or(NIL, |slot| slot.dealloc.load(Ordering::Acquire))
}
