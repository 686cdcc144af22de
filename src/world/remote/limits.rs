//! How much patience, memory and trust a server is given.

use std::time::{Duration, Instant};

/// What a server is given. Every answer is bounded by these and by the cap that the reader names.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// To find the host, to connect, and to agree on a key.
    pub connect: Duration,
    /// From the request to the last byte of the answer's headers.
    pub headers: Duration,
    /// What a body must bring in each window.
    pub pace: Pace,
    /// How often a request is tried again, or a body that was cut goes on, before it fails.
    pub retries: u32,
    /// The wait before the first try again; each further one is twice as long.
    pub pause: Duration,
    /// Largest file, in bytes, that is held in memory because its server cannot send parts of it.
    pub whole: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            headers: Duration::from_secs(30),
            pace: Pace { bytes: 8192, window: Duration::from_secs(30) },
            retries: 4,
            pause: Duration::from_millis(250),
            whole: 256 << 20,
        }
    }
}

/// The slowest that a body may arrive. A total time would refuse large files on slow lines, or let a server hold a reader
/// for as long as the largest file may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes that each window must bring, at least one.
    pub bytes: u64,
    /// Length of a window. A server that says nothing at all for so long is slow, too, with headers as well.
    pub window: Duration,
}

impl Pace {
    /// The longest that so many bytes may take: a bound for what a reader cannot count, such as pieces of an encrypted
    /// record.
    pub(super) fn longest(self, bytes: u64) -> Duration {
        let windows = (bytes / self.bytes.max(1)).saturating_add(2);
        self.window.saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX))
    }

    /// Begins to measure.
    pub(super) fn meter(self, now: Instant) -> Meter {
        Meter { pace: self, since: now, bytes: 0 }
    }
}

/// Measures one body.
#[derive(Debug)]
pub(super) struct Meter {
    pace: Pace,
    since: Instant,
    bytes: u64,
}

impl Meter {
    /// Counts what came; `false` where a window has passed that brought too little.
    pub(super) fn count(&mut self, bytes: usize, now: Instant) -> bool {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if now.saturating_duration_since(self.since) < self.pace.window {
            return true;
        }
        let enough = self.bytes >= self.pace.bytes;
        (self.since, self.bytes) = (now, 0);
        enough
    }
}

impl Limits {
    /// The usual ones for a server that may be silent for so long: who waits less for an answer waits less before asking again,
    /// too. The slowest pace stays the same.
    pub fn of_patience(silence: Duration) -> Self {
        let usual = Self::default();
        let bytes = usual.pace.bytes.saturating_mul(silence.as_secs()) / usual.pace.window.as_secs().max(1);
        Self {
            connect: usual.connect.min(silence),
            headers: silence,
            pace: Pace { bytes: bytes.max(1), window: silence },
            pause: (silence / 120).min(Duration::from_secs(1)),
            ..usual
        }
    }

    /// How long to wait before the try of that number, counted from 1.
    pub(super) fn wait(&self, attempt: u32) -> Duration {
        self.pause.saturating_mul(1 << attempt.saturating_sub(1).min(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_must_bring_its_bytes() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let pace = Pace { bytes: 100, window: Duration::from_secs(10) };
        let mut meter = pace.meter(start);
        assert!(meter.count(60, at(5)));
        assert!(meter.count(40, at(10)), "just enough");
        assert!(meter.count(1, at(19)), "the window is not over");
        assert!(!meter.count(98, at(20)), "what came before does not count");
        assert_eq!(pace.longest(1000), Duration::from_secs(120));
    }

    #[test]
    fn patience_changes_times_and_not_the_pace() {
        let limits = Limits::of_patience(Duration::from_secs(3));
        assert_eq!((limits.connect, limits.headers), (Duration::from_secs(3), Duration::from_secs(3)));
        assert_eq!(limits.pace, Pace { bytes: 819, window: Duration::from_secs(3) });
        assert_eq!(Limits::of_patience(Duration::from_secs(30)).pause, Limits::default().pause);
        assert_eq!(Limits::of_patience(Duration::from_secs(60)).connect, Limits::default().connect);
    }

    #[test]
    fn waits_double() {
        let limits = Limits { pause: Duration::from_millis(10), ..Limits::default() };
        let waits: Vec<u128> = (1..5).map(|n| limits.wait(n).as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 80]);
        assert!(limits.wait(u32::MAX) < Duration::from_secs(5));
    }
}
