//! What programs are answered.
#![allow(
    unsafe_code,
    reason = "calls methods through their implementations; each block says why it is sound"
)]

use std::cell::Cell;
use std::num::TryFromIntError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use capgate_registry::profile::{APPLE_FAMILIES, Values};

use super::classes::{self, SLOTS};
use super::{HOOKS, Hooks, judge};
use crate::devices::Devices;
use crate::guarded;
use crate::runtime::Pointer;

/// `supportsFamily:` takes an NSInteger and returns a BOOL.
pub type SupportsFamily = unsafe extern "C-unwind" fn(Pointer, Pointer, isize) -> u8;
/// `maxThreadgroupMemoryLength` returns an NSUInteger.
pub type ThreadgroupMemory = unsafe extern "C-unwind" fn(Pointer, Pointer) -> usize;

/// `dealloc` takes and returns nothing.
pub type Dealloc = unsafe extern "C-unwind" fn(Pointer, Pointer);

static DEVICES: Devices = Devices::new();
static CEILING: AtomicU64 = AtomicU64::new(0);
static MEMORY: AtomicUsize = AtomicUsize::new(0);

/// What devices that are switched on answer.
pub fn set(values: Values) -> Result<(), TryFromIntError> {
    MEMORY.store(usize::try_from(values.max_threadgroup_memory)?, Ordering::Release);
    CEILING.store(values.apple_family_max, Ordering::Release);
    Ok(())
}

/// Switches a device on; `false` where there is no room for another.
pub fn switch_on(device: Pointer) -> bool {
    DEVICES.insert(device)
}

/// Switches a device off, if it was on.
pub fn switch_off(device: Pointer) {
    DEVICES.remove(device);
}

/// Stands for `supportsFamily:`: the original's answer, or yes to an Apple family within the ceiling.
///
/// What an original asks of its own device is answered as it always was, so that nothing follows from a raised answer
/// but that answer.
unsafe extern "C-unwind" fn supports_family<const N: usize>(
    device: Pointer,
    selector: Pointer,
    family: isize,
) -> u8 {
    let asking = Asking::begin();
    let own = own_family::<N>(device, selector, family);
    let Some(asking) = asking else { return own };
    let ceiling = CEILING.load(Ordering::Acquire);
    let within = u64::try_from(family).is_ok_and(|family| {
        APPLE_FAMILIES.contains(&family) && family <= ceiling && is_on::<N>(device, &asking)
    });
    if within { 1 } else { own }
}

/// Stands for `maxThreadgroupMemoryLength`: the larger of the original's answer and the tested one.
unsafe extern "C-unwind" fn threadgroup_memory<const N: usize>(device: Pointer, selector: Pointer) -> usize {
    let asking = Asking::begin();
    let own = own_memory::<N>(device, selector);
    let Some(asking) = asking else { return own };
    if is_on::<N>(device, &asking) { own.max(MEMORY.load(Ordering::Acquire)) } else { own }
}

/// Stands for `dealloc`: whatever is made at the same place later is another device.
unsafe extern "C-unwind" fn dealloc<const N: usize>(device: Pointer, selector: Pointer) {
    switch_off(device);
    let original = classes::dealloc::<N>();
    if !original.is_null() {
        // SAFETY: stored before the replacement was put in its place, from a method of this type.
        unsafe { std::mem::transmute::<Pointer, Dealloc>(original)(device, selector) };
    }
}

fn own_family<const N: usize>(device: Pointer, selector: Pointer, family: isize) -> u8 {
    let original = classes::supports_family::<N>();
    if original.is_null() {
        return 0;
    }
    // SAFETY: stored before the replacement was put in its place, from a method of this type.
    unsafe { std::mem::transmute::<Pointer, SupportsFamily>(original)(device, selector, family) }
}

fn own_memory<const N: usize>(device: Pointer, selector: Pointer) -> usize {
    let original = classes::threadgroup_memory::<N>();
    if original.is_null() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { std::mem::transmute::<Pointer, ThreadgroupMemory>(original)(device, selector) }
}

/// Tells whether a device is switched on and its own answers are still those that it was judged by: its class may set
/// it up further once `_MTLDevice` has done its part.
///
/// An exception of an original passes through here, so nothing here may catch it.
fn is_on<const N: usize>(device: Pointer, _asking: &Asking) -> bool {
    if !DEVICES.contains(device) {
        return false;
    }
    let Some(hooks) = HOOKS.get() else { return false };
    let stock = hooks.grant.stock;
    let top = stock.apple_family.unwrap_or(0);
    let same_families = APPLE_FAMILIES.into_iter().all(|family| {
        let asked = isize::try_from(family).unwrap_or(0);
        (own_family::<N>(device, hooks.supports_family, asked) != 0) == (family <= top)
    });
    let memory = own_memory::<N>(device, hooks.threadgroup_memory);
    let same = same_families && u64::try_from(memory) == Ok(stock.max_threadgroup_memory);
    if !same {
        DEVICES.remove(device);
        let _ = guarded(|| changed(hooks, device));
    }
    same
}

/// A device changed its own answers after it was judged.
fn changed(hooks: &Hooks, device: Pointer) {
    // SAFETY: the receiver of a message is an object.
    let class = unsafe { hooks.runtime.class_of(device) };
    let name = class.map_or_else(String::new, |class| hooks.runtime.name(class));
    let why = format!("`{name}` changed its own answers after it was made");
    judge::report(&hooks.session, None, Err(hooks.grant.without_device(why)));
}

thread_local! {
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Held while a device's own answers are asked in this thread; where somebody holds it already, only they are wanted.
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

/// Those of one slot.
type Replacements = (SupportsFamily, ThreadgroupMemory, Dealloc);

macro_rules! replacements {
    ($($slot:literal)+) => { [$((supports_family::<$slot>, threadgroup_memory::<$slot>, dealloc::<$slot>)),+] };
}

pub const REPLACEMENTS: [Replacements; SLOTS] = replacements!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
