//! The one place that touches clock, files, randomness and the machine. Everything else gets values.

pub mod agent;
pub mod bundle;
pub mod clock;
pub mod digests;
pub mod file;
pub mod folder;
pub mod forwarded;
pub mod gpus;
pub mod http;
pub mod images;
pub mod instructions;
pub mod keyfile;
pub mod layered;
pub mod machine;
pub mod ops;
pub mod place;
pub mod processes;
pub mod remote;
pub mod resumed;
pub mod said;
pub mod signals;
pub mod source;
pub mod throwaway;
mod tls;

/// How many threads may work at once.
pub fn threads() -> std::num::NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(std::num::NonZero::<usize>::MIN)
}
