//! Who may sign what: the roots of trust and their chain.
//!
//! `trust/N.note` holds version N. Version 1 is pinned by the SHA-256 of its bytes; version N+1 counts only when it is
//! signed by the root thresholds of both N and N+1. The three roles share no key, so that no single online key can
//! grant: the registry key says what is in force, publishers say what may be granted, root says who they are.
//!
//! A log entry is judged by the version in force at its index. A publisher's key that is known to be in foreign hands is
//! named as compromised with the index from which it counts no longer, whatever the version in force there said.

mod chain;

use jiff::{SignedDuration, Timestamp};

use crate::document::{self, Problem, Table};
use crate::keys::VerifierKey;
use crate::note::{Note, NoteError, Origin};
use crate::profile::SCHEMA;

pub use chain::{Chain, Publishers, TrustError};

/// Largest trust document, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;
/// Most versions that a chain may have.
pub const MAX_VERSIONS: u64 = 1_000;

/// Keys of one role and how many of them must sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// How many distinct keys must sign.
    pub threshold: usize,
    /// The keys.
    pub keys: Vec<VerifierKey>,
}

impl Role {
    /// Checks a note against this role's threshold and names the signers, sorted.
    pub fn verify(&self, note: &Note) -> Result<Vec<String>, NoteError> {
        self.verify_at_least(note, self.threshold)
    }

    /// Checks that at least one key of this role signed.
    pub fn verify_any(&self, note: &Note) -> Result<Vec<String>, NoteError> {
        self.verify_at_least(note, 1)
    }

    fn verify_at_least(&self, note: &Note, threshold: usize) -> Result<Vec<String>, NoteError> {
        signers(note, &self.keys, threshold)
    }
}

/// Names of the distinct keys that signed, sorted; fewer than `threshold` are an error.
fn signers(note: &Note, keys: &[VerifierKey], threshold: usize) -> Result<Vec<String>, NoteError> {
    let signers = note.verify(keys, threshold)?;
    let mut names: Vec<String> = signers.iter().map(|key| key.name().to_owned()).collect();
    names.sort();
    Ok(names)
}

/// A key in foreign hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compromised {
    /// The key.
    pub key: VerifierKey,
    /// Log entries from this index on do not count its signature.
    pub from: u64,
}

/// One version of the trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// Its version, from 1.
    pub version: u64,
    /// Log entries from this index on are judged by it.
    pub log_index: u64,
    /// When it was made.
    pub issued: Timestamp,
    /// Until when it counts.
    pub expires: Timestamp,
    /// Who may change the trust.
    pub root: Role,
    /// Who may publish and revoke profiles.
    pub publisher: Role,
    /// Who may say what is in force. Each key is named by the registry's origin.
    pub registry: Role,
    /// Keys whose signatures count no longer, from an index on that may lie before this version took force.
    pub compromised: Vec<Compromised>,
}

impl Trust {
    /// Reads one version.
    pub fn parse(toml: &[u8], origin: &Origin) -> Result<Self, Vec<Problem>> {
        let (trust, problems) = document::read(toml, MAX_BYTES, |root| read_root(root, origin));
        trust.ok_or(problems)
    }

    /// The bytes to sign.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "schema = \"{SCHEMA}\"\nversion = {}\nlog_index = {}\nissued = {}\nexpires = {}\n",
            self.version, self.log_index, self.issued, self.expires
        );
        for (name, role) in self.roles() {
            let keys: Vec<String> = role.keys.iter().map(|key| format!("  \"{key}\",\n")).collect();
            text += &format!("\n[{name}]\nthreshold = {}\nkeys = [\n{}]\n", role.threshold, keys.concat());
        }
        for Compromised { key, from } in &self.compromised {
            text += &format!("\n[[compromised]]\nkey = \"{key}\"\nfrom = {from}\n");
        }
        text
    }

    /// Tells whether it ends within 30 days: time enough to gather the signatures of the next version.
    pub fn nearly_expired(&self, now: Timestamp) -> bool {
        self.expires.duration_since(now) < SignedDuration::from_hours(30 * 24)
    }

    /// Tells whether a key that an earlier version named as compromised is so here, from that index or an earlier one on.
    fn remembers(&self, known: &Compromised) -> bool {
        let is_it = |other: &Compromised| other.key == known.key && other.from <= known.from;
        self.compromised.iter().any(is_it)
    }

    /// Name and keys of each role.
    pub fn roles(&self) -> [(&'static str, &Role); 3] {
        [("root", &self.root), ("publisher", &self.publisher), ("registry", &self.registry)]
    }
}

fn read_root(root: &Table<'_>, origin: &Origin) -> Option<Trust> {
    let schema = root.require_string("schema");
    if let Some(schema) = schema.filter(|s| s.value != SCHEMA.to_string()) {
        let message = format!("schema `{}` is not `{SCHEMA}`", schema.value);
        root.problems().malformed(schema.span, message, Some("use a newer capgate".into()));
    }
    let version = root.require_integer("version");
    let log_index = root.require_integer("log_index");
    let issued = root.require_instant("issued");
    let expires = root.require_instant("expires");
    let trust = Trust {
        root: read_role(root, "root")?,
        publisher: read_role(root, "publisher")?,
        registry: read_role(root, "registry")?,
        compromised: read_compromised(root),
        version: version?.value,
        log_index: log_index?.value,
        issued: issued?.value,
        expires: expires?.value,
    };
    root.finish();
    check(&trust, origin, root);
    Some(trust)
}

fn read_role(root: &Table<'_>, name: &'static str) -> Option<Role> {
    let table = root.require_table(name)?;
    let threshold = table.require_integer("threshold");
    let mut keys = Vec::new();
    for text in table.strings("keys") {
        match VerifierKey::parse(text.value) {
            Ok(key) => keys.push(key),
            Err(e) => table.problems().malformed(text.span, format!("`{name}.keys`: {e}"), None),
        }
    }
    table.finish();
    Some(Role { threshold: usize::try_from(threshold?.value).ok()?, keys })
}

fn read_compromised(root: &Table<'_>) -> Vec<Compromised> {
    let mut found = Vec::new();
    for table in root.tables("compromised") {
        let (key, from) = (table.require_string("key"), table.require_integer("from"));
        table.finish();
        let (Some(key), Some(from)) = (key, from) else { continue };
        match VerifierKey::parse(key.value) {
            Ok(key) => found.push(Compromised { key, from: from.value }),
            Err(e) => table.problems().malformed(key.span, format!("`compromised.key`: {e}"), None),
        }
    }
    found
}

fn check(trust: &Trust, origin: &Origin, root: &Table<'_>) {
    let mut seen: Vec<(&str, &[u8; 32])> = Vec::new();
    for (name, role) in trust.roles() {
        let span = root.span_of(name);
        if role.threshold == 0 || role.threshold > role.keys.len() {
            let message = format!("`{name}` wants {} signatures of {} keys", role.threshold, role.keys.len());
            root.problems().malformed(span.clone(), message, None);
        }
        for key in &role.keys {
            if let Some((other, _)) = seen.iter().find(|(_, public)| *public == key.public()) {
                let message =
                    format!("the key `{}` stands under `{other}` and again under `{name}`", key.name());
                root.problems().malformed(
                    span.clone(),
                    message,
                    Some("give each role keys of its own".into()),
                );
            }
            seen.push((name, key.public()));
        }
    }
    for key in trust.registry.keys.iter().filter(|key| key.name() != origin.as_str()) {
        let message = format!("the registry key `{}` is not named `{origin}`", key.name());
        root.problems().malformed(root.span_of("registry"), message, None);
    }
    check_compromised(trust, root);
    if trust.expires <= trust.issued {
        root.problems().malformed(root.span_of("expires"), "expires before it was issued", None);
    }
}

fn check_compromised(trust: &Trust, root: &Table<'_>) {
    for (at, Compromised { key, .. }) in trust.compromised.iter().enumerate() {
        let name = key.name();
        let holds = |role: &Role| role.keys.iter().any(|other| other.public() == key.public());
        if let Some((role, _)) = trust.roles().into_iter().find(|(_, role)| holds(role)) {
            let message = format!("the key `{name}` is compromised and stands under `{role}`");
            root.problems().malformed(root.span_of("compromised"), message, Some("take it out".into()));
        }
        if trust.compromised.iter().take(at).any(|other| other.key.public() == key.public()) {
            let message = format!("the key `{name}` is named as compromised twice");
            root.problems().malformed(root.span_of("compromised"), message, None);
        }
    }
}
