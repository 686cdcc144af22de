//! Reads a body that may lie about its length, never end, or drip.

use std::io::{self, Read};
use std::time::Instant;

use crate::world::remote::limits::Pace;

/// Memory that is asked for at a time: what was named is not believed before it came.
const PIECE: usize = 64 << 10;

/// Why reading ended before the body did.
#[derive(Debug)]
pub(super) enum Stop {
    /// It has at least that many bytes.
    TooLarge(u64),
    /// A window passed that brought too little.
    TooSlow,
    /// The line failed.
    Io(io::Error),
}

/// Adds all of the body to `bytes`, which then hold at most `cap`. What came before a failure stays.
pub(super) fn read(body: &mut dyn Read, bytes: &mut Vec<u8>, cap: u64, pace: Pace) -> Result<(), Stop> {
    let mut meter = pace.meter(Instant::now());
    let mut piece = vec![0; PIECE];
    loop {
        let count = match body.read(&mut piece) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            count => count.map_err(Stop::Io)?,
        };
        let Some(part @ [_, ..]) = piece.get(..count) else { return Ok(()) };
        let size = bytes.len() as u64 + part.len() as u64;
        if size > cap {
            return Err(Stop::TooLarge(size));
        }
        bytes.extend_from_slice(part);
        if !meter.count(part.len(), Instant::now()) {
            return Err(Stop::TooSlow);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PACE: Pace = Pace { bytes: 1, window: Duration::from_secs(3600) };

    #[test]
    fn an_endless_body_ends_at_the_cap() {
        let mut bytes = b"before".to_vec();
        let stopped = read(&mut io::repeat(7), &mut bytes, 1_000_000, PACE);
        assert!(matches!(stopped, Err(Stop::TooLarge(size)) if size > 1_000_000));
        assert!(bytes.len() <= 1_000_000);
    }

    #[test]
    fn what_came_before_a_failure_stays() {
        let mut bytes = Vec::new();
        read(&mut &b"12345"[..], &mut bytes, 5, PACE).unwrap();
        assert_eq!(bytes, b"12345");
        // No window is ever long enough here.
        let pace = Pace { bytes: 100, window: Duration::ZERO };
        assert!(matches!(read(&mut &b"678"[..], &mut bytes, 100, pace), Err(Stop::TooSlow)));
        assert_eq!(bytes, b"12345678");
    }
}
