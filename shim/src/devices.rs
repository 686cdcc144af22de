//! The devices whose answers were switched on. Read on every answer, so without a lock.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::runtime::{NIL, Pointer};

/// Most devices of one process; the next one stays stock.
pub const MOST: usize = 64;

/// A set of devices, by their addresses.
pub struct Devices {
    places: [AtomicPtr<std::ffi::c_void>; MOST],
    used: AtomicUsize,
}

impl Devices {
    pub const fn new() -> Self {
        Self { places: [const { AtomicPtr::new(NIL) }; MOST], used: AtomicUsize::new(0) }
    }

    /// Tells whether its answers are switched on.
    pub fn contains(&self, device: Pointer) -> bool {
        !device.is_null() && self.places().any(|place| place.load(Ordering::Acquire) == device)
    }

    /// Switches its answers on; `false` where there is no place left.
    pub fn insert(&self, device: Pointer) -> bool {
        for (at, place) in self.places.iter().enumerate() {
            if place.compare_exchange(NIL, device, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.used.fetch_max(at + 1, Ordering::AcqRel);
                return true;
            }
        }
        false
    }

    /// Switches its answers off: a new device stands where an old one was.
    pub fn remove(&self, device: Pointer) {
        for place in self.places() {
            let _ = place.compare_exchange(device, NIL, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn places(&self) -> impl Iterator<Item = &AtomicPtr<std::ffi::c_void>> {
        self.places.iter().take(self.used.load(Ordering::Acquire))
    }
}
