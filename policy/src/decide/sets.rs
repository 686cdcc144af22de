//! Rows 5 and 9 to 11: which tested sets are left.

use capgate_registry::profile::{
    Acknowledgement, Evidence, EvidenceKind, FeatureLevel, Outcome, Profile, Values, must_acknowledge,
};
use jiff::Timestamp;
use jiff::tz::Offset;

use super::Refusal;
use super::find::Chosen;
use super::state::{Machine, Place};
use crate::host::HostStatement;
use crate::reason::Reason;
use crate::site::{Demand, DenyRule, Scene, SitePolicy, Subject};

/// The site's deny rules and what they are held against.
pub(super) struct Deny<'a> {
    pub rules: &'a [DenyRule],
    pub scene: &'a Scene<'a>,
    pub now: Timestamp,
}

impl<'a> Deny<'a> {
    /// Row 5 for whatever is not about values.
    pub(super) fn check(&self, subject: Subject) -> Result<(), Refusal> {
        self.first(subject).map_or(Ok(()), |rule| Err(denied(rule)))
    }

    /// Row 5 for values: the sets that no rule removes. It denies when it removes the last one.
    pub(super) fn remove_sets(&self, chosen: &Chosen) -> Result<Vec<Values>, Refusal> {
        let mut left = Vec::new();
        let mut denying: Option<&DenyRule> = None;
        for set in &chosen.profile().overrides {
            match self.first(Subject::Set(set.values)) {
                None => left.push(set.values),
                Some(rule) => denying = Some(denying.map_or(rule, |other| by_id(other, rule))),
            }
        }
        match denying {
            Some(rule) if left.is_empty() => Err(Refusal {
                profile: Some(chosen.profile().id.clone()),
                key: Some(chosen.key),
                ..denied(rule)
            }),
            _ => Ok(left),
        }
    }

    /// Of the rules that deny, the one whose id sorts first: their order in the file means nothing.
    fn first(&self, subject: Subject) -> Option<&'a DenyRule> {
        self.rules.iter().filter(|rule| rule.denies(self.scene, subject, self.now)).reduce(by_id)
    }
}

fn by_id<'r>(a: &'r DenyRule, b: &'r DenyRule) -> &'r DenyRule {
    if b.id < a.id { b } else { a }
}

fn denied(rule: &DenyRule) -> Refusal {
    let detail = format!("rule `{}` of {}: {}", rule.id, rule.owner, rule.reason);
    Refusal { rule: Some(rule.id.as_str().into()), ..Refusal::new(Reason::SiteDenied, detail) }
}

/// Row 9, the hard bounds.
pub(super) fn check_bounds(chosen: &Chosen) -> Result<(), Refusal> {
    match chosen.profile().overrides.iter().find(|set| !set.values.within_bounds()) {
        None => Ok(()),
        Some(set) => {
            let detail = format!("`{}` lies outside the hard bounds", set.values);
            Err(chosen.refuse(Reason::OutOfBounds, detail))
        }
    }
}

/// Row 9, what no key holds: the guest's model, and the host preference where both sides recorded it. A facts file says
/// nothing about either.
pub(super) fn check_tested_on(
    chosen: &Chosen,
    machine: &Machine<'_>,
    statement: Option<&HostStatement>,
) -> Result<(), Refusal> {
    let profile = chosen.profile();
    if let Place::Guest { model, .. } = machine.place
        && model != profile.guest.model
    {
        let detail = format!("tested on guest model `{}`, this is `{model}`", profile.guest.model);
        return Err(chosen.refuse(Reason::ProfileDiffers, detail));
    }
    let recorded = |level: FeatureLevel| level != FeatureLevel::Unrecorded;
    let tested = profile.host.feature_level;
    match statement.map(|s| s.feature_level) {
        Some(level) if recorded(level) && recorded(tested) && level != tested => {
            let detail = "the host's feature level is not the one that was tested";
            Err(chosen.refuse(Reason::ProfileDiffers, detail))
        }
        _ => Ok(()),
    }
}

/// Row 10: what every set needs, whatever the site says, then each kind of demand in turn. Each check keeps or removes a
/// set by itself, so that a rule of the site which removes others cannot bring one back.
pub(super) fn keep_demanded(
    mut sets: Vec<Values>,
    chosen: &Chosen,
    site: Option<&SitePolicy>,
    now: Timestamp,
) -> Result<Vec<Values>, Refusal> {
    let none = Demand::default();
    let demand = site.map_or(&none, |site| &site.demand);
    let evidence = |values| Judged { items: chosen.profile().evidence_for(values).collect(), demand };
    sets.retain(|&values| !evidence(values).items.is_empty());
    if sets.is_empty() {
        return Err(chosen.refuse(Reason::EvidenceMissing, "no evidence names a set that is left"));
    }
    let before = sets.clone();
    sets.retain(|&values| silent(chosen.profile(), values).is_none());
    if sets.is_empty() {
        let unsaid = before.iter().find_map(|&values| Some((values, silent(chosen.profile(), values)?)));
        let detail = unsaid.map(|(values, word)| format!("`{values}` does not say `{}`", word.word()));
        return Err(chosen.refuse(Reason::Unacknowledged, detail.unwrap_or_default()));
    }
    // A failed test counts with or without a demand: wrong answers were seen with these very values.
    sets.retain(|&values| evidence(values).correct());
    if sets.is_empty() {
        return Err(chosen.refuse(Reason::EvidenceCorrectness, "no set has passed a test of correctness"));
    }
    sets.retain(|&values| evidence(values).sampled().next().is_some() || demand.samples.is_none());
    if sets.is_empty() {
        let least = demand.samples.unwrap_or_default();
        return Err(chosen.refuse(Reason::EvidenceSamples, format!("no set has {least} samples in each arm")));
    }
    sets.retain(|&values| evidence(values).fresh(now));
    if sets.is_empty() {
        let most = demand.max_age_days.unwrap_or_default();
        return Err(
            chosen.refuse(Reason::EvidenceAge, format!("no set was measured in the last {most} days"))
        );
    }
    check_signers(chosen, demand)?;
    Ok(sets)
}

/// What these values must say aloud and do not. Where they are listed twice, each entry must say it.
fn silent(profile: &Profile, values: Values) -> Option<Acknowledgement> {
    let mut sets = profile.overrides.iter().filter(|set| set.values == values);
    let wanted = must_acknowledge(profile, values);
    sets.find_map(|set| wanted.iter().copied().find(|word| !set.acknowledges.contains(word)))
}

/// The evidence about one set, and what is demanded of it.
struct Judged<'a> {
    items: Vec<&'a Evidence>,
    demand: &'a Demand,
}

impl Judged<'_> {
    fn correct(&self) -> bool {
        let failed = self.outcomes().any(|(_, outcome)| outcome == Outcome::Fail);
        !failed && (!self.demand.correctness || self.passes().next().is_some())
    }

    fn outcomes(&self) -> impl Iterator<Item = (&Evidence, Outcome)> {
        let tests = self.items.iter().filter(|item| item.kind == EvidenceKind::Correctness);
        tests.filter_map(|item| Some((*item, item.outcome?)))
    }

    fn passes(&self) -> impl Iterator<Item = &Evidence> {
        self.outcomes().filter(|&(_, outcome)| outcome == Outcome::Pass).map(|(item, _)| item)
    }

    /// Speed evidence with enough samples in its poorest arm. One piece is enough: more evidence never counts against
    /// a set.
    fn sampled(&self) -> impl Iterator<Item = &Evidence> {
        let least = self.demand.samples.unwrap_or(0);
        let speed = self.items.iter().copied().filter(|item| item.kind == EvidenceKind::Speed);
        speed.filter(move |item| item.fewest_samples() >= least)
    }

    /// What is demanded must be young: the speed evidence that has enough samples, and the passed test of correctness.
    fn fresh(&self, now: Timestamp) -> bool {
        let Some(most) = self.demand.max_age_days else { return true };
        let young = |item: &Evidence| age_in_days(item, now).is_some_and(|age| age <= most);
        self.sampled().any(young) && (!self.demand.correctness || self.passes().any(young))
    }
}

/// Days since the evidence was measured. `None` for the future; one day of it is a time zone ahead of UTC.
fn age_in_days(item: &Evidence, now: Timestamp) -> Option<u64> {
    let today = Offset::UTC.to_datetime(now).date();
    let days = today.duration_since(item.measured).as_hours() / 24;
    if days == -1 { Some(0) } else { u64::try_from(days).ok() }
}

fn check_signers(chosen: &Chosen, demand: &Demand) -> Result<(), Refusal> {
    let counts = |name: &&String| demand.signers.is_empty() || demand.signers.contains(*name);
    let mut signers: Vec<&String> = chosen.published.signers.iter().filter(counts).collect();
    signers.sort_unstable();
    signers.dedup();
    let found = u64::try_from(signers.len()).unwrap_or(u64::MAX);
    if found >= demand.min_signers {
        return Ok(());
    }
    let detail = format!("signed by {found} of the {} publishers that are demanded", demand.min_signers);
    Err(chosen.refuse(Reason::EvidenceSigners, detail))
}

/// Row 11: the first set within the ceilings, in the profile's own order.
pub(super) fn first_within_ceiling(
    sets: &[Values],
    chosen: &Chosen,
    site: Option<&SitePolicy>,
) -> Result<Values, Refusal> {
    let ceiling = site.map(|site| site.ceiling).unwrap_or_default();
    sets.iter().copied().find(|&values| ceiling.allows(values)).ok_or_else(|| {
        let all: Vec<String> = sets.iter().map(|values| format!("`{values}`")).collect();
        chosen.refuse(Reason::SiteCeiling, format!("left to choose from: {}", all.join(", ")))
    })
}
