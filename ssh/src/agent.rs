//! Messages of the agent protocol: which keys it holds, and signing with one of them.
//!
//! ```text
//! message      4 bytes length, then that many: 1 byte type, fields
//! 11           request identities
//! 12           identities: number, then for each the string of the public key and of its comment
//! 13           sign request: public key, data, 4 bytes flags
//! 14           sign response: the string of a signature, which holds the strings `ssh-ed25519` and R || S
//! 5            failure
//! ```
//!
//! Source: draft-miller-ssh-agent §3; RFC 8709 §6 for the signature.

use crate::wire::{Reader, Short, put_string};
use crate::{ED25519, blob, ed25519_of, fingerprint};

/// Largest message in bytes, without its length: what OpenSSH's own agent accepts and sends.
pub const MAX_MESSAGE: usize = 256 * 1024;
/// Most keys in an answer, as in OpenSSH's own client.
pub const MAX_KEYS: usize = 2048;

const FAILURE: u8 = 5;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

/// Says what is wrong with an agent's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is longer than any answer may be.
    #[error("its answer is said to have {size} bytes, more than the {MAX_MESSAGE} that are accepted")]
    TooLarge {
        /// Bytes that its length promises.
        size: u32,
    },
    /// It has no byte.
    #[error("its answer is empty")]
    Empty,
    /// It is the failure message: the agent was asked and does not do it.
    #[error("it refuses")]
    Refused,
    /// It is a message of another type.
    #[error("its answer is a message of type {found}, {expected} was expected")]
    Type {
        /// The type that answers this request.
        expected: u8,
        /// The type found.
        found: u8,
    },
    /// Its own lengths do not fit.
    #[error("its answer is malformed: {0} ends too early or too late")]
    Malformed(&'static str),
    /// There are more keys than can be.
    #[error("its answer is said to hold {count} keys, more than the {MAX_KEYS} that are accepted")]
    TooMany {
        /// Keys that it promises.
        count: u32,
    },
    /// The signature is of another kind.
    #[error("its signature is `{}`, `{ED25519}` was asked for", found.escape_debug())]
    Algorithm {
        /// The kind, cut to what an error shows.
        found: String,
    },
    /// The text to sign does not fit into a message.
    #[error("{size} bytes to sign are more than a message to it can hold")]
    Unsendable {
        /// Bytes to sign.
        size: usize,
    },
}

/// A key that an agent says it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its kind, such as `ssh-ed25519`.
    pub kind: String,
    /// The public bytes, where it is an Ed25519 key.
    pub public: Option<[u8; 32]>,
    /// What its owner calls it: free text, often a name or a path.
    pub comment: String,
    /// `SHA256:…`, as `ssh-add -l` shows it.
    pub fingerprint: String,
}

/// The message that asks for all keys, its length included.
pub fn request_identities() -> Vec<u8> {
    message(&[REQUEST_IDENTITIES])
}

/// The message that asks for a signature of `data` with that key, its length included.
///
/// Errors: [`AnswerError::Unsendable`].
pub fn sign_request(public: &[u8; 32], data: &[u8]) -> Result<Vec<u8>, AnswerError> {
    let mut body = vec![SIGN_REQUEST];
    put_string(&mut body, &blob(public));
    put_string(&mut body, data);
    // No flag is defined for Ed25519.
    body.extend_from_slice(&[0; 4]);
    if body.len() > MAX_MESSAGE {
        return Err(AnswerError::Unsendable { size: data.len() });
    }
    Ok(message(&body))
}

/// How many bytes follow the length of an answer.
///
/// Errors: [`AnswerError::TooLarge`], [`AnswerError::Empty`].
pub fn answer_length(length: [u8; 4]) -> Result<usize, AnswerError> {
    let size = u32::from_be_bytes(length);
    match usize::try_from(size) {
        Ok(0) => Err(AnswerError::Empty),
        Ok(length) if length <= MAX_MESSAGE => Ok(length),
        _ => Err(AnswerError::TooLarge { size }),
    }
}

/// Reads the answer to [`request_identities`], without its length.
pub fn identities(answer: &[u8]) -> Result<Vec<Identity>, AnswerError> {
    let mut reader = fields(answer, IDENTITIES)?;
    let count = reader.number().map_err(|Short| AnswerError::Malformed("the number of keys"))?;
    if usize::try_from(count).is_ok_and(|count| count > MAX_KEYS) {
        return Err(AnswerError::TooMany { count });
    }
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(identity(&mut reader)?);
    }
    reader.finish().map_err(|Short| AnswerError::Malformed("the list of keys"))?;
    Ok(found)
}

fn identity(reader: &mut Reader<'_>) -> Result<Identity, AnswerError> {
    let blob = reader.string().map_err(|Short| AnswerError::Malformed("a key"))?;
    let comment = reader.string().map_err(|Short| AnswerError::Malformed("a comment"))?;
    let (kind, public) = ed25519_of(blob).map_err(|Short| AnswerError::Malformed("a key"))?;
    let comment = String::from_utf8_lossy(comment).into_owned();
    Ok(Identity { kind, public, comment, fingerprint: fingerprint(blob) })
}

/// Reads the answer to [`sign_request`], without its length. Returns R || S, of which only the form was checked.
pub fn signature(answer: &[u8]) -> Result<[u8; 64], AnswerError> {
    let malformed = |Short| AnswerError::Malformed("the signature");
    let mut reader = fields(answer, SIGN_RESPONSE)?;
    let signature = reader.string().map_err(malformed)?;
    reader.finish().map_err(malformed)?;
    let mut reader = Reader::new(signature);
    let kind = reader.string().map_err(malformed)?;
    if kind != ED25519.as_bytes() {
        let found = String::from_utf8_lossy(kind).chars().take(64).collect();
        return Err(AnswerError::Algorithm { found });
    }
    let bytes = reader.string().map_err(malformed)?;
    reader.finish().map_err(malformed)?;
    bytes.try_into().map_err(|_| AnswerError::Malformed("the signature"))
}

fn fields(answer: &[u8], expected: u8) -> Result<Reader<'_>, AnswerError> {
    let mut reader = Reader::new(answer);
    match reader.byte() {
        Ok(found) if found == expected => Ok(reader),
        Ok(FAILURE) => Err(AnswerError::Refused),
        Ok(found) => Err(AnswerError::Type { expected, found }),
        Err(Short) => Err(AnswerError::Empty),
    }
}

fn message(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(4 + body.len());
    put_string(&mut message, body);
    message
}
