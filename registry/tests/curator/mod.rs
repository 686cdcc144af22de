//! The museum's curator: makes every case from fixed TEST keys, and says what each reader makes of it.

pub mod case;
mod content;
mod freshness;
pub mod honest;
pub mod judge;
mod keys;
mod kinds;
pub mod mixes;
mod points;
mod proofs;
pub mod readme;
mod records;
mod sizes;
mod texts;
pub mod thief;
mod tiles;
mod trust;

use capgate_registry::merkle::Hash;
use capgate_registry::reader::Seen;
use jiff::Timestamp;

use crate::support::Memory;
use case::{Says, Told};
use honest::{History, day};

/// A registry before any attack, which every case has for its twin.
pub struct Honest {
    pub name: &'static str,
    pub about: &'static str,
    pub store: Memory,
    pub root: Hash,
}

/// A hostile registry and what becomes of it.
pub struct Case {
    pub name: &'static str,
    pub store: Memory,
    /// This file never comes.
    pub silent: Option<&'static str>,
    /// A proof in place of a registry.
    pub proof: Option<Vec<u8>>,
    pub told: Told,
}

/// A group of cases under one heading.
pub struct Group {
    pub heading: &'static str,
    pub cases: Vec<Case>,
}

/// Every case.
pub fn groups(history: &History) -> Vec<Group> {
    let group = |heading, cases| Group { heading, cases };
    vec![
        group("Files that somebody else serves", content::cases(history)),
        group("Old, frozen, and the clock", freshness::cases(history)),
        group("Keys", keys::cases(history)),
        group("Trust", trust::cases(history)),
        group("Notes in another's place", kinds::cases(history)),
        group("Records", records::cases(history)),
        group("Tiles", tiles::cases(history)),
        group("Inclusion", proofs::cases(history)),
        group("Texts and numbers", texts::cases(history)),
        group("Sizes", sizes::cases(history)),
        group("Ed25519 at its edges", points::cases(history)),
    ]
}

/// Begins a case: nothing is held, the reader is on day 7 and has seen nothing.
pub fn case(history: &History, name: &'static str, attack: &str, store: Memory) -> Case {
    let unknown = Says::Refuses { by: String::new(), says: String::new() };
    let told = Told {
        attack: attack.to_owned(),
        holds: "nothing".to_owned(),
        twin: "honest".to_owned(),
        twin_now: None,
        root: history.root,
        now: day(7),
        seen: Seen::default(),
        made_by_test: false,
        lookup: unknown.clone(),
        verify: Some(unknown.clone()),
        sync: Some(unknown),
        copy: "honest-before".to_owned(),
        limit: None,
    };
    Case { name, store, silent: None, proof: None, told }
}

impl Case {
    /// Too large to keep.
    pub fn made_by_test(mut self) -> Self {
        self.told.made_by_test = true;
        self
    }

    /// What the attacker has to hold.
    pub fn holds(mut self, what: &str) -> Self {
        self.told.holds = what.to_owned();
        self
    }

    pub fn now(mut self, now: Timestamp) -> Self {
        self.told.now = now;
        self
    }

    pub fn seen(mut self, seen: Seen) -> Self {
        self.told.seen = seen;
        self
    }

    pub fn twin(mut self, twin: &str) -> Self {
        self.told.twin = twin.to_owned();
        self
    }

    pub fn twin_now(mut self, now: Timestamp) -> Self {
        self.told.twin_now = Some(now);
        self
    }

    /// What the copy holds before.
    pub fn copy(mut self, copy: &str) -> Self {
        self.told.copy = copy.to_owned();
        self
    }

    /// The code, and words of the message.
    pub fn lookup(mut self, reason: &str, says: &str) -> Self {
        self.told.lookup = refuses(reason, says);
        self
    }

    /// The lookup is not reached by the attack, and grants what it granted before.
    pub fn lookup_grants(mut self, id: &str) -> Self {
        self.told.lookup = Says::Accepts(id.to_owned());
        self
    }

    /// The lookup of a reader that has nothing else is deceived.
    pub fn lookup_deceived(mut self, id: &str, why: &str) -> Self {
        self.told.limit = Some(why.to_owned());
        self.lookup_grants(id)
    }

    /// The file at fault, and words of the message.
    pub fn verify(mut self, file: &str, says: &str) -> Self {
        self.told.verify = Some(refuses(file, says));
        self
    }

    /// What `verify` is shown is sound by itself.
    pub fn verify_holds(mut self) -> Self {
        self.told.verify = Some(Says::Accepts("no fault".to_owned()));
        self
    }

    /// The kind of error, and words of the message.
    pub fn sync(mut self, kind: &str, says: &str) -> Self {
        self.told.sync = Some(refuses(kind, says));
        self
    }

    /// The attack is not in what is fetched; the copy is sound afterwards.
    pub fn sync_heals(mut self, version: u64) -> Self {
        self.told.sync = Some(Says::Accepts(format!("version {version}")));
        self
    }
}

fn refuses(by: &str, says: &str) -> Says {
    Says::Refuses { by: by.to_owned(), says: says.to_owned() }
}
