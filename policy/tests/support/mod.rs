//! One world in which everything is right: the guest, its host, its registry. Tests change one thing and decide.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::sync::LazyLock;

use capgate_policy::decide::{Decision, Device, Input, LoadedImage, Seen, decide};
use capgate_policy::facts::{Fact, Facts, Program, Sha256Trust, Source};
use capgate_policy::host::{HostState, HostStatement};
use capgate_policy::site::{SiteDoubt, SitePolicy};
use capgate_registry::combination::{CdHash, Hex, Key, Sha256Digest};
use capgate_registry::os::Os;
use capgate_registry::profile::{Answers, FeatureLevel, Profile, Revocation, Severity};
use capgate_registry::record::{Doubt, Lookup, Published, Record, View};
use jiff::Timestamp;

pub const PROFILE: &str = include_str!("profile.toml");
pub const SHA256: &str = "28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7";
pub const CDHASH: &str = "1111111111111111111111111111111111111111";

static TESTED: LazyLock<Profile> = LazyLock::new(|| Profile::parse(PROFILE.as_bytes()).unwrap());
/// Keys of the tested combination: under the SHA-256, under the cdhash.
static KEYS: LazyLock<[Key; 2]> = LazyLock::new(|| TESTED.keys().try_into().unwrap());

/// What stands under one of the two keys of the tested combination.
#[derive(Debug, Clone, Default)]
pub struct Shelf {
    pub published: Vec<Published>,
    pub doubt: Option<Doubt>,
    /// The record claims to stand under this key instead.
    pub key: Option<Key>,
}

#[derive(Debug, Clone)]
pub struct Registry {
    pub view: View,
    pub shelves: [Shelf; 2],
}

impl Lookup for Registry {
    fn lookup(&self, key: &Key) -> Result<Option<Record>, Doubt> {
        let at = KEYS.iter().position(|known| known == key);
        let Some(shelf) = at.map(|at| &self.shelves[at]) else { return Ok(None) };
        match &shelf.doubt {
            Some(doubt) => Err(doubt.clone()),
            None if shelf.published.is_empty() => Ok(None),
            None => Ok(Some(Record { key: shelf.key.unwrap_or(*key), published: shelf.published.clone() })),
        }
    }

    fn view(&self) -> &View {
        &self.view
    }
}

#[derive(Debug, Clone)]
pub struct World {
    pub switched_off: bool,
    pub registry_doubt: Option<Doubt>,
    pub registry: Registry,
    pub site_doubt: Option<SiteDoubt>,
    pub site: Option<SitePolicy>,
    pub facts: Facts,
    pub host: HostState,
    pub now: Timestamp,
    pub seen: Option<Seen>,
    pub log: Result<(), String>,
    pub device: Device,
}

pub fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub fn published(profile: Profile) -> Published {
    Published { index: 0, profile, signers: vec!["alice".into(), "bob".into()], revoked: None }
}

pub fn revocation(profile: &Profile) -> Revocation {
    Revocation { revokes: profile.id.clone(), reason: "wrong output".into(), severity: Severity::Harmful }
}

pub fn statement() -> HostStatement {
    HostStatement {
        chip: "Apple M1 Ultra".parse().unwrap(),
        os: Os { version: "26.6.1".parse().unwrap(), build: "25G76".parse().unwrap() },
        feature_level: FeatureLevel::Unrestricted,
        mac_addresses: vec!["5e:12:ab:00:34:f0".parse().unwrap()],
        least_version: 7,
        issued: time("2026-11-20T11:50:00Z"),
        expires: time("2026-11-20T12:50:00Z"),
    }
}

/// The machine that the tested combination describes.
pub fn machine() -> Source {
    Source::Machine {
        virtual_machine: Fact::Known(true),
        guest_model: Fact::Known("VirtualMac2,1".into()),
        mac_addresses: Fact::Known(vec!["5e:12:ab:00:34:f0".parse().unwrap()]),
    }
}

/// The same host, named by a facts file.
pub fn file() -> Source {
    Source::File { host_os_build: Fact::Known("25G76".parse().unwrap()) }
}

pub fn sha256() -> Sha256Digest {
    SHA256.parse().unwrap()
}

pub fn cdhash() -> CdHash {
    CDHASH.parse().unwrap()
}

impl World {
    /// Everything is right: a grant of 1009 / 65536.
    pub fn tested() -> Self {
        let shelf = Shelf { published: vec![published(TESTED.clone())], doubt: None, key: None };
        Self {
            switched_off: false,
            registry_doubt: None,
            registry: Registry { view: view(), shelves: [shelf.clone(), shelf] },
            site_doubt: None,
            site: None,
            facts: Facts {
                host_chip: Fact::Known("Apple M1 Ultra".parse().unwrap()),
                guest_os_build: Fact::Known("25F84".parse().unwrap()),
                program: Program {
                    sha256: Fact::Known(sha256()),
                    sha256_trust: Sha256Trust::SameBytes,
                    cdhash: Fact::Known(cdhash()),
                },
                source: machine(),
            },
            host: HostState::Signed(statement()),
            now: time("2026-11-20T12:00:00Z"),
            seen: Some(Seen { version: 7, time: time("2026-11-20T11:55:00Z") }),
            log: Ok(()),
            device: Device {
                answers: Answers { apple_family: Some(1005), max_threadgroup_memory: 32768 },
                images: vec![LoadedImage {
                    name: "libggml-metal.so".into(),
                    sha256: Some(Hex([0x22; 32])),
                    cdhash: None,
                }],
            },
        }
    }

    /// Changes every published profile alike.
    pub fn change_profiles(&mut self, change: impl Fn(&mut Profile)) {
        self.change_published(|published| change(&mut published.profile));
    }

    pub fn change_published(&mut self, change: impl Fn(&mut Published)) {
        self.registry.shelves.iter_mut().flat_map(|shelf| &mut shelf.published).for_each(change);
    }

    /// Rows 1 to 12.
    pub fn decide(&self) -> Decision {
        decide(&Input {
            switched_off: self.switched_off,
            registry: match &self.registry_doubt {
                None => Ok(&self.registry),
                Some(doubt) => Err(doubt),
            },
            site: match &self.site_doubt {
                None => Ok(self.site.as_ref()),
                Some(doubt) => Err(doubt),
            },
            facts: &self.facts,
            host: &self.host,
            now: self.now,
            seen: self.seen,
        })
    }

    /// Rows 1 to 14.
    pub fn run(&self) -> Decision {
        let decision = self.decide().after_log(self.log.clone());
        match decision.grant().map(|grant| grant.at_device(&self.device)) {
            Some(Err(refusal)) => refusal.into(),
            _ => decision,
        }
    }
}

fn view() -> View {
    View {
        origin: "example.org/gpu".into(),
        version: 7,
        root: Hex([9; 32]),
        size: 1,
        log_size: 1,
        trust_version: 1,
        issued: time("2026-11-15T00:00:00Z"),
        expires: time("2026-12-15T00:00:00Z"),
        witnessed: None,
    }
}

/// Reads a site policy; `rules` follows the two lines that every policy has.
pub fn site(rules: &str) -> SitePolicy {
    let text = format!("schema = \"1.0.0\"\nmode = \"enforce\"\n{rules}\n");
    SitePolicy::parse(text.as_bytes()).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
}
