//! The clock, and a measure of time spent.

use std::time::Instant;

use jiff::Timestamp;

/// The time: the one that was given, or the system's, to the second as it is signed.
pub fn now(pinned: Option<Timestamp>) -> Timestamp {
    pinned.unwrap_or_else(|| {
        let now = Timestamp::now();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    })
}

/// Measures how long something took.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts it.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Microseconds since then.
    pub fn micros(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
