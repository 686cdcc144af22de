//! Reads benchmark evidence and judges it.
//!
//! A bundle is a folder of raw files that somebody measured, plus a manifest that says what each file is. The readers
//! here turn those files into values: [`llama_bench`], [`mlx`], [`log_dialect`], [`probe`], [`environment`], [`sums`].
//! Nothing is believed that the bytes do not show, nothing is repaired: what cannot be read exactly is a finding with
//! a stable [`codes::Code`], and a finding says whether the file can still serve.
//!
//! [`bundle`] checks a bundle's bytes, [`manifest`] reads what its files are, [`judge`] says what they prove, and
//! [`mod@draft`] writes the profile that they support. [`mod@bench`] is the plan by which `capgate bench` makes a bundle.
//!
//! Like the rest of the crate this module does no I/O: bytes come in, values go out.

pub mod bench;
pub mod bundle;
pub mod codes;
pub mod correctness;
pub mod draft;
pub mod environment;
pub mod finding;
pub mod identify;
pub mod json;
pub mod judge;
pub mod ladder;
pub mod llama_bench;
pub mod log_dialect;
pub mod manifest;
pub mod mlx;
pub mod probe;
pub mod run_record;
pub mod samples;
pub mod statistics;
pub mod sums;
mod toml_writer;

/// Serialises a value the way it is shown.
fn as_text<S: serde::Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
