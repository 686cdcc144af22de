//! Row 14: each device as it is made, its line in the log, and both answers read back.
#![allow(
    unsafe_code,
    reason = "calls methods through their implementations; each block says why it is sound"
)]

use std::sync::atomic::{AtomicUsize, Ordering};

use capgate_guest::session::Session;
use capgate_policy::decide::{Decision, Device, Grant, Refusal};
use capgate_policy::line::Stage;
use capgate_registry::profile::{APPLE_FAMILIES, Answers};
use jiff::Timestamp;

use super::answers::{self, SupportsFamily, ThreadgroupMemory};
use super::{Hooks, limits_come_later};
use crate::runtime::Pointer;
use crate::voice;

/// Most device lines of one process. Devices beyond that stay stock, silently.
const MOST_LINES: usize = 256;

static LINES: AtomicUsize = AtomicUsize::new(0);

/// Row 14, its line, and the switch. What Metal then asks while it makes the device, it is answered as in the test.
///
/// A device whose limits are read later does not know its memory yet. Until then its memory stays as it is, and
/// [`finish`] judges it.
pub fn switch_on(hooks: &Hooks, device: Pointer, prepared: Result<Pointer, String>) {
    let class = match prepared {
        Ok(class) => class,
        Err(why) => return report(&hooks.session, None, Err(hooks.grant.without_device(why))),
    };
    let name = hooks.runtime.name(class);
    let ask = Ask { hooks, class, device };
    let Some(own) = ask.answers() else {
        return report(&hooks.session, None, Err(hooks.grant.without_device("it does not answer")));
    };
    let images = if hooks.grant.images.is_empty() { Vec::new() } else { hooks.images.that_may_touch_metal() };
    let found = Device { answers: own, images };
    let is_half_made = own.max_threadgroup_memory == 0 && limits_come_later();
    let judged =
        if is_half_made { hooks.grant.at_half_made_device(&found) } else { hooks.grant.at_device(&found) };
    if let Err(refusal) = judged {
        return report(&hooks.session, Some((&name, &found)), Err(refusal));
    }
    let Decision::Grant(grant) = logged(&hooks.session, Some((&name, &found)), Ok(&hooks.grant)) else {
        return;
    };
    if !answers::switch_on(device) || !ask.is_as_granted(is_half_made) {
        answers::switch_off(device);
        let refusal = grant.without_device("its answers could not be changed, or not read back");
        return report(&hooks.session, Some((&name, &found)), Err(refusal));
    }
    if !is_half_made {
        voice::enabled(&name, &grant);
    }
}

/// A device that was switched on while it was being made now knows its memory: judged and read back as a whole.
pub fn finish(hooks: &Hooks, device: Pointer) {
    if !answers::is_switched_on(device) {
        return;
    }
    // SAFETY: the receiver of a message is an object.
    let Some(class) = (unsafe { hooks.runtime.class_of(device) }) else { return answers::switch_off(device) };
    let name = hooks.runtime.name(class);
    if (Ask { hooks, class, device }).is_as_granted(false) {
        return voice::enabled(&name, &hooks.grant);
    }
    // Where an answer changed, asking has switched it off and said so already.
    if answers::is_switched_on(device) {
        answers::switch_off(device);
        let refusal = hooks.grant.without_device(format!("`{name}` does not know its threadgroup memory"));
        report(&hooks.session, None, Err(refusal));
    }
}

/// Logs and says what became of a device that stays stock.
pub fn report(session: &Session, device: Option<(&str, &Device)>, outcome: Result<&Grant, Refusal>) {
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

    /// Every Apple family up to the ceiling and none beyond it that was not there before; the memory too, once there
    /// is one.
    fn is_as_granted(&self, is_half_made: bool) -> bool {
        let (values, stock) = (self.hooks.grant.values, self.hooks.grant.stock);
        let top = stock.apple_family.unwrap_or(0).max(values.apple_family_max);
        let memory = stock.max_threadgroup_memory.max(values.max_threadgroup_memory);
        let families = APPLE_FAMILIES.into_iter().all(|family| self.supports(family) == Some(family <= top));
        families && self.memory() == Some(if is_half_made { 0 } else { memory })
    }
}
