//! Witnesses: somebody else who saw the log grow, and who signs no two histories of it.
//!
//! ```text
//! example.org/gpu                                   the checkpoint, as its log signed it
//! 20852163
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
//!
//! — example.org/gpu Az3grl…=                        key hash, 64 bytes of signature
//! — witness.example.com/w1 jWbPPwAAAABk…==          key hash, u64 time, 64 bytes of signature
//! ```
//!
//! A cosignature is over `cosignature/v1`, a line `time SECONDS`, and the text of the checkpoint. It says that at that time
//! the witness had seen no larger tree of this log than this one, and none that contradicts it. A log that shows one
//! history to some and another to others cannot get both cosigned by a witness that keeps its word, so who demands enough
//! witnesses sees what everybody sees.
//!
//! Source: C2SP tlog-cosignature (Ed25519), C2SP tlog-witness (`add-checkpoint`). ML-DSA cosignatures are not read.

mod find;
mod judge;
mod keep;
mod key;
mod quorum;
mod request;

pub use find::{checkpoint_of, unwitnessed};
pub use judge::{Held, HeldError, Refusal, judge};
pub use keep::{add_cosignatures, keeping_cosignatures, with_cosignatures};
pub use key::{WitnessKey, WitnessSigner};
pub use quorum::{Quorum, QuorumError, cosignatures, is_cosignature, of_latest};
pub use request::{MAX_ANSWER, MAX_PROOF, MAX_REQUEST, Request, RequestError, parse_answer};
