//! C2SP signed notes: text, a blank line, signatures; the one format in which anything is signed here.
//!
//! ```text
//! # capgate profile v1 example.org/gpu          domain: kind, version, origin
//! schema = "1.0.0"                              body: TOML
//!
//! — example.org/alice 7sHkAAAA…=                em dash, key name, base64(4 bytes key hash || signature)
//! ```
//!
//! A signature covers the text, its last LF included, without the blank line. Signatures are over bytes: nothing is
//! re-serialised to check one. The parser accepts one spelling and is stricter than Go's `note.Open`, so whatever is
//! accepted here, Go accepts too. Source: C2SP signed-note; the domain line is capgate's own.

mod domain;
mod key;
mod known;
mod text;

use base64ct::{Base64, Encoding};

use crate::keys::{SignError, SigningKey, check_name};

pub use domain::{Kind, Origin, OriginError, body, compose, origin_of};
pub use key::NoteKey;
pub use text::{TextProblem, check_text};

/// Largest note in bytes, signatures included.
pub const MAX_NOTE: usize = 1 << 20;
/// Most signature lines in one note.
pub const MAX_SIGNATURES: usize = 100;

const LINE_START: &str = "\u{2014} ";

/// Says why bytes are no acceptable note, or a note is not signed or not about what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// More than [`MAX_NOTE`] bytes.
    #[error("the note has {size} bytes, more than the {MAX_NOTE} that are accepted")]
    TooLarge {
        /// Bytes found.
        size: usize,
    },
    /// Not UTF-8.
    #[error("the note is not UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// Byte offset of the first bad byte.
        offset: usize,
    },
    /// A character that no signed text may hold.
    #[error(transparent)]
    Text(#[from] TextProblem),
    /// No blank line that separates signatures from text, or nothing after it.
    #[error("the note has no signatures: no blank line followed by at least one signature line")]
    NoSignatures,
    /// The last line, of the text or of the signatures, is cut off.
    #[error("the note's last line does not end in a line feed")]
    NoFinalLineFeed,
    /// A line after the blank line that is no signature in its one spelling.
    #[error("signature line {line} is malformed: {problem}")]
    Signature {
        /// Which signature line, from 1.
        line: usize,
        /// What is wrong.
        problem: SignatureProblem,
    },
    /// More than [`MAX_SIGNATURES`] signature lines.
    #[error("the note has more than {MAX_SIGNATURES} signatures")]
    TooManySignatures,
    /// A threshold of zero would accept anything.
    #[error("a threshold of 0 signatures accepts anything and is refused")]
    ZeroThreshold,
    /// A signature that names a known key but is not that key's over this text.
    #[error("the signature by `{name}` does not verify: the text, the signature or the key was changed")]
    Invalid {
        /// Name of the key.
        name: String,
    },
    /// Fewer distinct known keys signed than are needed.
    #[error("signed by {} of the {needed} keys that are needed{}", signers.len(), list(signers))]
    TooFew {
        /// Distinct keys needed.
        needed: usize,
        /// Names of the distinct keys that did sign.
        signers: Vec<String>,
    },
    /// Signing was asked for without a key.
    #[error("no key was given to sign with")]
    NoKey,
    /// The key has already signed, or was given twice.
    #[error("the key of `{name}` already signed this note")]
    AlreadySigned {
        /// Name of the key.
        name: String,
    },
    /// A key that is kept elsewhere gave no signature.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// Two notes whose signatures were to be put together are over different texts.
    #[error("the two notes have different texts")]
    OtherText,
    /// The text does not begin with capgate's domain line.
    #[error("the text does not begin with `# capgate <kind> v1 <origin>`")]
    NoDomain,
    /// The domain names another version of the format.
    #[error("the text is version `{}` of its kind, only `v1` is known", found.escape_debug())]
    Version {
        /// The version word found.
        found: String,
    },
    /// The text is of another kind: a valid signature, but not for this purpose.
    #[error("the text is a `{}`, a `{expected}` is needed here", found.escape_debug())]
    WrongKind {
        /// Kind needed.
        expected: Kind,
        /// Kind word found.
        found: String,
    },
    /// The text belongs to another registry.
    #[error("the text belongs to `{}`, not to `{expected}`", found.escape_debug())]
    WrongOrigin {
        /// Origin needed.
        expected: Origin,
        /// Origin found.
        found: String,
    },
    /// The origin in the domain line is malformed.
    #[error(transparent)]
    Origin(#[from] OriginError),
}

/// What is wrong with a signature line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureProblem {
    /// It is not `— NAME BASE64` with single spaces.
    #[error("it is not `\u{2014} NAME BASE64`")]
    Form,
    /// The name is no key name.
    #[error("its name is no key name")]
    Name,
    /// The base64 is not canonical.
    #[error("its base64 is not canonical")]
    Base64,
    /// Four bytes of key hash and at least one of signature are needed.
    #[error("it holds fewer than five bytes")]
    Short,
}

/// One signature line as it stands; nothing about it is checked but its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteSignature {
    name: String,
    hash: [u8; 4],
    bytes: Vec<u8>,
}

impl NoteSignature {
    /// Name of the key that is said to have signed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hash of that key.
    pub fn hash(&self) -> [u8; 4] {
        self.hash
    }

    /// What follows the hash: 64 bytes for Ed25519, any length for algorithms that are not known here.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn parse(line: &str) -> Result<Self, SignatureProblem> {
        let rest = line.strip_prefix(LINE_START).ok_or(SignatureProblem::Form)?;
        let (name, base64) = rest.split_once(' ').ok_or(SignatureProblem::Form)?;
        check_name(name).map_err(|_| SignatureProblem::Name)?;
        let decoded = Base64::decode_vec(base64).map_err(|_| SignatureProblem::Base64)?;
        match decoded.split_first_chunk::<4>() {
            Some((hash, bytes)) if !bytes.is_empty() => {
                Ok(Self { name: name.to_owned(), hash: *hash, bytes: bytes.to_vec() })
            }
            _ => Err(SignatureProblem::Short),
        }
    }

    /// Tells whether it says to be of this key.
    pub fn is_named(&self, key: &impl NoteKey) -> bool {
        self.name == key.name() && self.hash == key.hash()
    }

    /// The line as it stands in a note, its LF included.
    pub fn line(&self) -> String {
        spell(&self.name, self.hash, &self.bytes)
    }
}

/// A note whose form was checked. Who signed it is for [`Note::verify`] to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    text: String,
    signatures: Vec<NoteSignature>,
}

impl Note {
    /// Splits a note at its last blank line and parses each signature line.
    ///
    /// Errors: the variants of [`NoteError`] from `TooLarge` to `TooManySignatures`. Source: C2SP signed-note, "Format".
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        if bytes.len() > MAX_NOTE {
            return Err(NoteError::TooLarge { size: bytes.len() });
        }
        let whole =
            str::from_utf8(bytes).map_err(|error| NoteError::NotUtf8 { offset: error.valid_up_to() })?;
        check_text(whole)?;
        let (text, block) = split(whole)?;
        Ok(Self { text: text.to_owned(), signatures: parse_block(block)? })
    }

    /// The signed text, its last LF included.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Every signature line, in order, those by unknown keys included.
    pub fn signatures(&self) -> &[NoteSignature] {
        &self.signatures
    }

    /// Requires that at least `threshold` distinct public keys among `keys` signed, and returns one entry for each
    /// that did, in the order of `keys`.
    ///
    /// This is the only place that counts signatures. What makes a signer is its 32 public bytes: a key listed twice,
    /// listed under two names, or signing twice counts once. Unknown signers count nothing and are no error here; see
    /// [`Note::unknown_signers`].
    ///
    /// Errors: [`NoteError::ZeroThreshold`], [`NoteError::Invalid`] (however many others signed), [`NoteError::TooFew`].
    pub fn verify<'k, K: NoteKey>(&self, keys: &'k [K], threshold: usize) -> Result<Vec<&'k K>, NoteError> {
        if threshold == 0 {
            return Err(NoteError::ZeroThreshold);
        }
        let mut signed = vec![false; keys.len()];
        for (at, signature) in self.signatures.iter().enumerate() {
            // Repeated lines are common after a merge and would only cost time.
            if self.signatures.iter().take(at).any(|earlier| earlier == signature) {
                continue;
            }
            self.mark(signature, keys, &mut signed)?;
        }
        let mut signers: Vec<&K> = Vec::new();
        for key in keys.iter().zip(signed).filter_map(|(key, signed)| signed.then_some(key)) {
            if signers.iter().all(|counted| counted.public() != key.public()) {
                signers.push(key);
            }
        }
        if signers.len() < threshold {
            let signers = signers.into_iter().map(|key| key.name().to_owned()).collect();
            return Err(NoteError::TooFew { needed: threshold, signers });
        }
        Ok(signers)
    }

    /// Marks the keys whose signature this is; one that names a known key and is nobody's is an error.
    fn mark<K: NoteKey>(
        &self,
        signature: &NoteSignature,
        keys: &[K],
        signed: &mut [bool],
    ) -> Result<(), NoteError> {
        let mut named = false;
        let mut verified = false;
        // The four-byte hash may be shared by two keys of one name, so each that it could mean is tried.
        for (key, mark) in keys.iter().zip(signed).filter(|(key, _)| signature.is_named(key)) {
            named = true;
            if key.verifies(&self.text, signature.bytes()) {
                verified = true;
                *mark = true;
            }
        }
        if named && !verified {
            return Err(NoteError::Invalid { name: signature.name.clone() });
        }
        Ok(())
    }

    /// The signatures that name none of `keys`, in order. Their names are claims, nothing more.
    pub fn unknown_signers<K: NoteKey>(&self, keys: &[K]) -> Vec<&NoteSignature> {
        let known = |signature: &NoteSignature| keys.iter().any(|key| signature.is_named(key));
        self.signatures.iter().filter(|signature| !known(signature)).collect()
    }
}

/// Signs `text` with each key, in the order given; the bytes depend on nothing else.
///
/// Errors: [`NoteError::Text`], [`NoteError::NoFinalLineFeed`], [`NoteError::NoKey`], [`NoteError::AlreadySigned`] for
/// a key given twice, [`NoteError::TooLarge`], [`NoteError::TooManySignatures`], [`NoteError::Sign`].
pub fn sign(text: &str, keys: &[&SigningKey]) -> Result<Vec<u8>, NoteError> {
    check_text(text)?;
    if !text.ends_with('\n') {
        return Err(NoteError::NoFinalLineFeed);
    }
    if keys.is_empty() {
        return Err(NoteError::NoKey);
    }
    let mut note = format!("{text}\n");
    for (at, key) in keys.iter().enumerate() {
        if keys.iter().take(at).any(|earlier| earlier.verifier().public() == key.verifier().public()) {
            return Err(NoteError::AlreadySigned { name: key.verifier().name().to_owned() });
        }
        push_line(&mut note, text, key)?;
    }
    parsed_bytes(note)
}

/// Appends one signature to a note and leaves every byte before it as it is.
///
/// Errors: those of [`Note::parse`], for the note as given or as it would become, [`NoteError::AlreadySigned`], [`NoteError::Sign`].
pub fn add_signature(note: &[u8], key: &SigningKey) -> Result<Vec<u8>, NoteError> {
    let parsed = Note::parse(note)?;
    if parsed.signatures.iter().any(|signature| signature.is_named(key.verifier())) {
        return Err(NoteError::AlreadySigned { name: key.verifier().name().to_owned() });
    }
    let mut line = String::new();
    push_line(&mut line, &parsed.text, key)?;
    let mut bytes = note.to_vec();
    bytes.extend_from_slice(line.as_bytes());
    Note::parse(&bytes)?;
    Ok(bytes)
}

/// Adds to a note the signature lines of another over the same text that it does not have yet.
///
/// Errors: those of [`Note::parse`] for each of them or for what they become, and [`NoteError::OtherText`].
pub fn merge(note: &[u8], other: &[u8]) -> Result<Vec<u8>, NoteError> {
    let (parsed, more) = (Note::parse(note)?, Note::parse(other)?);
    if parsed.text != more.text {
        return Err(NoteError::OtherText);
    }
    let mut bytes = note.to_vec();
    for signature in more.signatures.iter().filter(|signature| !parsed.signatures.contains(signature)) {
        bytes.extend_from_slice(signature.line().as_bytes());
    }
    Note::parse(&bytes)?;
    Ok(bytes)
}

/// Refuses to hand out what a reader would refuse.
fn parsed_bytes(note: String) -> Result<Vec<u8>, NoteError> {
    Note::parse(note.as_bytes())?;
    Ok(note.into_bytes())
}

fn push_line(to: &mut String, text: &str, key: &SigningKey) -> Result<(), SignError> {
    let verifier = key.verifier();
    to.push_str(&spell(verifier.name(), verifier.hash(), &key.sign(text.as_bytes())?));
    Ok(())
}

/// A signature line with its LF.
pub(crate) fn spell(name: &str, hash: [u8; 4], signature: &[u8]) -> String {
    let material = [hash.as_slice(), signature].concat();
    format!("{LINE_START}{name} {}\n", Base64::encode_string(&material))
}

/// The text with its last LF, and the signature lines behind the last blank line.
fn split(whole: &str) -> Result<(&str, &str), NoteError> {
    if !whole.ends_with('\n') {
        return Err(NoteError::NoFinalLineFeed);
    }
    let at = whole.rfind("\n\n").ok_or(NoteError::NoSignatures)?;
    let (text, rest) = whole.split_at_checked(at + 1).ok_or(NoteError::NoSignatures)?;
    let block = rest.strip_prefix('\n').filter(|block| !block.is_empty()).ok_or(NoteError::NoSignatures)?;
    Ok((text, block))
}

/// One signature a line; `block` ends in LF.
fn parse_block(block: &str) -> Result<Vec<NoteSignature>, NoteError> {
    let mut signatures = Vec::new();
    for (at, line) in block.split_terminator('\n').enumerate() {
        if at == MAX_SIGNATURES {
            return Err(NoteError::TooManySignatures);
        }
        let signature =
            NoteSignature::parse(line).map_err(|problem| NoteError::Signature { line: at + 1, problem })?;
        signatures.push(signature);
    }
    Ok(signatures)
}

/// `: `a`, `b`` for an error, or nothing.
fn list(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!(": `{}`", names.join("`, `"))
}
