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

use super::Hooks;
use super::answers::{self, SupportsFamily, ThreadgroupMemory};
use crate::runtime::Pointer;
use crate::{guarded, voice};

/// Most device lines of one process. Devices beyond that stay stock, silently.
const MOST_LINES: usize = 256;

static LINES: AtomicUsize = AtomicUsize::new(0);

/// Row 14, its line, the switch, and both answers read back as the program will read them.
///
/// Whatever asks the device stands outside of what is guarded: an exception of its own code passes through.
pub fn switch_on(hooks: &Hooks, device: Pointer, prepared: Result<Pointer, String>) {
    let class = match prepared {
        Ok(class) => class,
        Err(why) => {
            let _ = guarded(|| report(&hooks.session, None, Err(hooks.grant.without_device(why))));
            return;
        }
    };
    let ask = Ask { hooks, class, device };
    let own = ask.answers();
    let judged = guarded(|| judge(hooks, class, own));
    let Some(Some((name, found))) = judged else { return };
    let is_on = answers::switch_on(device) && own.is_some_and(|own| ask.is_as_granted(&own));
    if !is_on {
        answers::switch_off(device);
    }
    let _ = guarded(|| {
        if is_on {
            return voice::enabled(&name, &hooks.grant);
        }
        let refusal = hooks.grant.without_device("its answers could not be changed, or not read back");
        report(&hooks.session, Some((&name, &found)), Err(refusal));
    });
}

/// The device's name and what was judged, where the grant stands and its line is written.
fn judge(hooks: &Hooks, class: Pointer, own: Option<Answers>) -> Option<(String, Device)> {
    let name = hooks.runtime.name(class);
    let Some(answers) = own else {
        report(&hooks.session, None, Err(hooks.grant.without_device("it does not answer")));
        return None;
    };
    let images = if hooks.grant.images.is_empty() { Vec::new() } else { hooks.images.that_may_touch_metal() };
    let found = Device { answers, images };
    if let Err(refusal) = hooks.grant.at_device(&found) {
        report(&hooks.session, Some((&name, &found)), Err(refusal));
        return None;
    }
    match logged(&hooks.session, Some((&name, &found)), Ok(&hooks.grant)) {
        Decision::Grant(_) => Some((name, found)),
        Decision::Stock(_) => None,
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

    /// Every Apple family up to the ceiling, none beyond it that was not there before, and the memory.
    fn is_as_granted(&self, before: &Answers) -> bool {
        let values = self.hooks.grant.values;
        let top = before.apple_family.unwrap_or(0).max(values.apple_family_max);
        let families = APPLE_FAMILIES.into_iter().all(|family| self.supports(family) == Some(family <= top));
        families && self.memory() == Some(before.max_threadgroup_memory.max(values.max_threadgroup_memory))
    }
}
