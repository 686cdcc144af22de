//! Rows 6 to 8: what the registry holds about this combination.

use capgate_registry::combination::{Combination, Key, Workload};
use capgate_registry::os::Build;
use capgate_registry::profile::{Profile, Verdict};
use capgate_registry::record::{Lookup, Published, Record};

use super::Refusal;
use super::state::Machine;
use crate::reason::Reason;

/// The records under every identity of the program.
pub(super) struct Found {
    records: Vec<Record>,
    keys: Vec<Key>,
}

/// The one profile that speaks for the combination.
pub(super) struct Chosen {
    pub key: Key,
    pub published: Published,
}

impl Chosen {
    pub(super) fn profile(&self) -> &Profile {
        &self.published.profile
    }

    /// Row 9. A digest that both sides know must agree. A file may hold several programs, one for each kind of
    /// processor, so a profile that was found by the file's SHA-256 need not be about the one that runs.
    pub(super) fn check_program(&self, machine: &Machine<'_>) -> Result<(), Refusal> {
        let tested = &self.profile().workload;
        for &here in &machine.identities {
            let there = match here {
                Workload::Sha256(_) => tested.sha256.map(Workload::Sha256),
                Workload::CdHash(_) => tested.cdhash.map(Workload::CdHash),
            };
            if let Some(there) = there.filter(|&there| there != here) {
                let detail = format!("tested with `{there}`, this program is `{here}`");
                return Err(self.refuse(Reason::ProfileDiffers, detail));
            }
        }
        Ok(())
    }

    pub(super) fn refuse(&self, reason: Reason, detail: impl Into<Box<str>>) -> Refusal {
        Refusal {
            profile: Some(self.profile().id.clone()),
            key: Some(self.key),
            ..Refusal::new(reason, detail)
        }
    }
}

/// Looks up every identity. The key is recomputed from each profile: a search is a hint, never a proof.
pub(super) fn find(registry: &dyn Lookup, machine: &Machine<'_>, host_os: &Build) -> Result<Found, Refusal> {
    let mut found = Found { records: Vec::new(), keys: Vec::new() };
    for &workload in &machine.identities {
        let key = Combination {
            host_chip: machine.host_chip.clone(),
            host_os: host_os.clone(),
            guest_os: machine.guest_os.clone(),
            workload,
        }
        .key();
        let record = registry.lookup(&key).map_err(|doubt| Refusal {
            key: Some(key),
            ..Refusal::new(Reason::from(&doubt), doubt.to_string())
        })?;
        if let Some(record) = &record {
            check_record(record, key)?;
        }
        found.records.extend(record.filter(|record| !record.published.is_empty()));
        found.keys.push(key);
    }
    Ok(found)
}

fn check_record(record: &Record, key: Key) -> Result<(), Refusal> {
    let is_about = |profile: &Profile| profile.combinations().iter().any(|c| c.key() == key);
    if record.key == key && record.published.iter().all(|p| is_about(&p.profile)) {
        return Ok(());
    }
    let detail = "the registry was changed: a record is not about the key that it stands under";
    Err(Refusal { key: Some(key), ..Refusal::new(Reason::RegistryCorrupt, detail) })
}

impl Found {
    /// Every profile that was found, revoked ones included.
    pub(super) fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.records.iter().flat_map(|record| &record.published).map(|published| &published.profile)
    }

    /// Rows 6, 7 and 8.
    pub(super) fn resolve(&self) -> Result<Chosen, Refusal> {
        // 6. Nothing under any identity.
        if self.records.is_empty() {
            let key = self.keys.first().copied();
            let detail = "the registry holds no profile for this combination";
            return Err(Refusal { key, ..Refusal::new(Reason::NoProfile, detail) });
        }
        // 7. Revoked under one identity is revoked, whatever stands under the other.
        for record in &self.records {
            if let (None, Some(last)) = (live(record).next(), record.published.last()) {
                let why = last.revoked.as_ref().map_or("", |revocation| revocation.reason.as_str());
                let chosen = Chosen { key: record.key, published: last.clone() };
                return Err(chosen.refuse(Reason::Revoked, format!("`{}`: {why}", last.profile.id)));
            }
        }
        if let Some(record) = self.records.iter().find(|record| live(record).count() > 1) {
            return Err(ambiguous(record.key, live(record)));
        }
        let mut each = self.records.iter().filter_map(|record| Some((record.key, live(record).next()?)));
        // 8. Stock under one identity is stock, whatever stands under the other. A profile without a single set asks
        //    for nothing either.
        if let Some((key, published)) = each.clone().find(|(_, published)| wants_stock(&published.profile)) {
            let chosen = Chosen { key, published: published.clone() };
            let detail = format!("`{}`: {}", published.profile.id, published.profile.summary);
            return Err(chosen.refuse(Reason::VerdictStock, detail));
        }
        // 7 again. Two identities that lead to two different profiles are as ambiguous as two under one key.
        let lives: Vec<&Published> = each.clone().map(|(_, published)| published).collect();
        match each.next() {
            Some((key, first)) if lives.iter().all(|published| *published == first) => {
                Ok(Chosen { key, published: first.clone() })
            }
            Some((key, _)) => Err(ambiguous(key, lives.into_iter())),
            None => Err(Refusal::new(Reason::NoProfile, "the registry holds no live profile")),
        }
    }
}

fn live(record: &Record) -> impl Iterator<Item = &Published> {
    record.published.iter().filter(|published| published.revoked.is_none())
}

fn wants_stock(profile: &Profile) -> bool {
    profile.verdict == Verdict::Stock || profile.overrides.is_empty()
}

fn ambiguous<'p>(key: Key, lives: impl Iterator<Item = &'p Published>) -> Refusal {
    let ids: Vec<String> = lives.map(|published| format!("`{}`", published.profile.id)).collect();
    Refusal { key: Some(key), ..Refusal::new(Reason::Ambiguous, format!("live: {}", ids.join(", "))) }
}
