//! The decision: one table, first match wins.
//!
//! ```text
//!  row  check                                                              reason
//!    1  switched off, by variable or site policy                           disabled
//!    2  registry or site policy not to be believed; the clock behind       registry-… clock-behind site-…
//!    3  a fact missing or malformed; not a guest                           fact-…
//!    4  host statement missing, out of date, of another host or guest      host-…
//!    5  a deny rule of the site                                            site-denied
//!    6  no profile for the combination                                     no-profile
//!    7  revoked; several live                                              revoked ambiguous
//!    8  tested, and stock is what is wanted                                verdict-stock
//!    9  outside the hard bounds; tested with another digest of the         out-of-bounds profile-differs
//!       program, or on another model or feature level
//!   10  no evidence, or not acknowledged; the site's demands on evidence   evidence-… unacknowledged
//!   11  no tested set within the site's ceilings                           site-ceiling
//!   12  the site only observes                                             observed
//!   13  the line could not be written          [`Decision::after_log`]     log-unwritable
//!   14  images and device, when it is made     [`Grant::at_device`]        image-… device-differs
//! ```
//!
//! Rows 5, 10 and 11 judge each tested set by itself. A row is the reason once it has removed the last set that the
//! rows before it had left; of the sets that no row removed, the first in the profile's own order is granted. So the
//! reason is the row that the best set got to, and no rule of a site can bring back a set that another rule removed.

mod device;
mod find;
mod grant;
mod outcome;
mod sets;
mod state;

use capgate_registry::profile::Values;
use capgate_registry::record::{Doubt, Lookup};
use jiff::Timestamp;

use crate::facts::Facts;
use crate::host::HostState;
use crate::reason::Reason;
use crate::site::{Mode, Scene, SiteDoubt, SitePolicy, Subject};

pub use device::{Device, LoadedImage};
pub use grant::{Correctness, Grant, TestedModel};
pub use outcome::{Decision, Refusal};

/// The newest things that this prefix has ever verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Version of a snapshot.
    pub version: u64,
    /// The latest time that a verified signature named.
    pub time: Timestamp,
}

/// Everything that a decision depends on.
pub struct Input<'a> {
    /// Whether `CAPGATE_DISABLE` is set.
    pub switched_off: bool,
    /// The verified registry, or why there is none to believe.
    pub registry: Result<&'a dyn Lookup, &'a Doubt>,
    /// The site policy; `None` where the prefix has none, which means `enforce` without any rule.
    pub site: Result<Option<&'a SitePolicy>, &'a SiteDoubt>,
    /// What is known of machine and program.
    pub facts: &'a Facts,
    /// The host statement. Not looked at when the facts come from a file.
    pub host: &'a HostState,
    /// The time.
    pub now: Timestamp,
    /// What was verified before, where anything was.
    pub seen: Option<Seen>,
}

/// Decides what a process may see.
pub fn decide(input: &Input<'_>) -> Decision {
    match judge(input) {
        Ok(grant) => Decision::Grant(Box::new(grant)),
        Err(refusal) => Decision::Stock(Box::new(refusal)),
    }
}

/// The table. Each `?` is a row that matched.
fn judge(input: &Input<'_>) -> Result<Grant, Refusal> {
    // 1. Off means that nothing is even looked at, whatever state it is in.
    let site = input.site.ok().flatten();
    let mode = site.map_or(Mode::Enforce, |site| site.mode);
    if input.switched_off {
        return Err(Refusal::new(Reason::Disabled, "`CAPGATE_DISABLE` is set"));
    }
    if mode == Mode::Off {
        return Err(Refusal::new(Reason::Disabled, "the site policy says `mode = \"off\"`"));
    }
    // 2. Nothing below means anything unless registry, site policy and clock can be believed.
    let registry = state::believe(input)?;
    // 3. An unknown fact matches nothing.
    let machine = state::machine(input.facts)?;
    // 4. The guest cannot see its host's macOS by itself.
    let host = state::host(input, &machine, registry.view())?;
    // 2 again. Only now is the combination known, and a record that is not what was signed is still row 2's.
    let found = find::find(registry, &machine, host.os_build)?;
    // 5. Deny rules about machine, program or profile. Those about values come with the sets below: while any set is
    //    left, they have not denied.
    let scene = Scene {
        host_chip: machine.host_chip,
        host_os: host.os_build,
        host_version: host.statement.map(|s| &s.os.version),
        guest_os: machine.guest_os,
        identities: &machine.identities,
        profiles: found.profiles().collect(),
    };
    let deny = sets::Deny { rules: site.map_or(&[], |site| &site.deny), scene: &scene, now: input.now };
    deny.check(Subject::Anything)?;
    let resolved = found.resolve();
    let chosen = resolved.as_ref().ok();
    let allowed = chosen.map(|chosen| deny.remove_sets(chosen)).transpose()?;
    // 6, 7, 8. Exactly one live profile, and it wants an override.
    let chosen = resolved?;
    // 9. Bounds are judged over the whole profile: one impossible set makes all its sets doubtful.
    sets::check_bounds(&chosen)?;
    chosen.check_program(&machine)?;
    sets::check_tested_on(&chosen, &machine, host.statement)?;
    // 10 and 11. What is left of the sets.
    let allowed = allowed.unwrap_or_default();
    let allowed = sets::keep_demanded(allowed, &chosen, site, input.now)?;
    let values = sets::first_within_ceiling(&allowed, &chosen, site)?;
    // 12. Everything passed; an observing site wants to know, not to change anything.
    if mode == Mode::Observe {
        return Err(observed(&chosen, values));
    }
    Ok(grant::build(&chosen, values, registry.view(), input.now))
}

fn observed(chosen: &find::Chosen, values: Values) -> Refusal {
    let detail = format!("`{values}` would have been granted");
    Refusal { withheld: Some(values), ..chosen.refuse(Reason::Observed, detail) }
}
