//! Who may sign what: the roots of trust and their chain.
//!
//! `trust/N.note` holds version N. Version 1 is pinned by the SHA-256 of its bytes; version N+1 counts only when it is
//! signed by the root thresholds of both N and N+1. The three roles share no key, so that no single online key can
//! grant: the registry key says what is in force, publishers say what may be granted, root says who they are.

use jiff::Timestamp;

use crate::document::{self, Problem, Table};
use crate::keys::VerifierKey;
use crate::merkle::Hash;
use crate::note::{self, Kind, Note, NoteError, Origin};
use crate::profile::SCHEMA;

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
        let signers = note.verify(&self.keys, threshold)?;
        let mut names: Vec<String> = signers.iter().map(|key| key.name().to_owned()).collect();
        names.sort();
        Ok(names)
    }
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
        text
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
    if trust.expires <= trust.issued {
        root.problems().malformed(root.span_of("expires"), "expires before it was issued", None);
    }
}

/// Says why a chain of trust does not hold.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The first root is another one.
    #[error("the first root is sha256:{found}, not sha256:{pinned}")]
    NotPinned {
        /// Digest that the reader was given.
        pinned: Hash,
        /// Digest of the file.
        found: Hash,
    },
    /// A version does not hold.
    #[error("trust/{version}.note: {what}")]
    Version {
        /// Which one.
        version: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A version is not signed by those who must.
    #[error("trust/{version}.note: {source}")]
    Signature {
        /// Which one.
        version: u64,
        /// What is wrong.
        #[source]
        source: NoteError,
    },
}

/// What vouches for the first version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// The pin and its own root keys.
    Signed,
    /// The pin.
    Pinned,
}

/// Every version of the trust, verified from the pinned one on.
#[derive(Debug, Clone)]
pub struct Chain {
    origin: Origin,
    current: Trust,
    earlier: Vec<Trust>,
}

impl Chain {
    /// Verifies the notes of versions 1, 2, … in order. `pin` is the SHA-256 of the first note's bytes.
    pub fn open<'n>(notes: impl IntoIterator<Item = &'n [u8]>, pin: &Hash) -> Result<Self, TrustError> {
        Self::open_from(notes, pin, First::Signed)
    }

    /// The same for one who only reads, in less time: whoever believes the pin believes the bytes of the first note, so
    /// that its own signatures add nothing. Those who publish or audit hold it to its threshold.
    pub fn open_pinned<'n>(
        notes: impl IntoIterator<Item = &'n [u8]>,
        pin: &Hash,
    ) -> Result<Self, TrustError> {
        Self::open_from(notes, pin, First::Pinned)
    }

    fn open_from<'n>(
        notes: impl IntoIterator<Item = &'n [u8]>,
        pin: &Hash,
        first: First,
    ) -> Result<Self, TrustError> {
        let mut chain: Option<Self> = None;
        for (version, bytes) in (1..).zip(notes) {
            chain = Some(match chain {
                None => Self::first(bytes, pin, first)?,
                Some(chain) => chain.next(version, bytes)?,
            });
        }
        chain.ok_or_else(|| wrong(1, "is missing"))
    }

    fn first(bytes: &[u8], pin: &Hash, by: First) -> Result<Self, TrustError> {
        let found = Hash::of(bytes);
        if found != *pin {
            return Err(TrustError::NotPinned { pinned: *pin, found });
        }
        let note = Note::parse(bytes).map_err(|source| TrustError::Signature { version: 1, source })?;
        let origin = note::origin_of(note.text(), Kind::Trust).and_then(|text| Ok(Origin::parse(text)?));
        let origin = origin.map_err(|source| TrustError::Signature { version: 1, source })?;
        let trust = read_version(1, &note, &origin)?;
        if by == First::Signed {
            verify(1, &note, &trust.root)?;
        }
        if trust.log_index != 0 {
            return Err(wrong(1, "must judge the log from index 0 on"));
        }
        Ok(Self { origin, current: trust, earlier: Vec::new() })
    }

    fn next(mut self, version: u64, bytes: &[u8]) -> Result<Self, TrustError> {
        let note = Note::parse(bytes).map_err(|source| TrustError::Signature { version, source })?;
        let trust = read_version(version, &note, &self.origin)?;
        verify(version, &note, &self.current.root)?;
        verify(version, &note, &trust.root)?;
        if trust.log_index < self.current.log_index {
            return Err(wrong(version, "takes force before the version it follows"));
        }
        self.earlier.push(std::mem::replace(&mut self.current, trust));
        Ok(self)
    }

    /// Whose registry this is.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The newest version.
    pub fn current(&self) -> &Trust {
        &self.current
    }

    /// The version before the newest.
    pub fn previous(&self) -> Option<&Trust> {
        self.earlier.last()
    }

    /// The version by which the log entry at `index` is judged.
    pub fn at(&self, index: u64) -> &Trust {
        let newest_first = std::iter::once(&self.current).chain(self.earlier.iter().rev());
        newest_first.clone().find(|trust| trust.log_index <= index).unwrap_or(&self.current)
    }
}

fn read_version(version: u64, note: &Note, origin: &Origin) -> Result<Trust, TrustError> {
    let body = note::body(note.text(), Kind::Trust, origin)
        .map_err(|source| TrustError::Signature { version, source })?;
    let trust = Trust::parse(body.as_bytes(), origin).map_err(|problems| {
        let first = problems.first().map_or_else(String::new, |p| p.message.clone());
        wrong(version, &first)
    })?;
    if trust.version == version {
        Ok(trust)
    } else {
        Err(wrong(version, &format!("says that it is version {}", trust.version)))
    }
}

fn verify(version: u64, note: &Note, role: &Role) -> Result<(), TrustError> {
    role.verify(note).map(drop).map_err(|source| TrustError::Signature { version, source })
}

fn wrong(version: u64, what: &str) -> TrustError {
    TrustError::Version { version, what: what.to_owned() }
}
