//! Chances that a number repeats: SplitMix64.

use std::time::{SystemTime, UNIX_EPOCH};

/// A sequence of numbers that a seed decides.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below another one.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }
}

/// The seed of `CAPGATE_SEED`, or a new one; it is printed, so that a run can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("CAPGATE_SEED").ok().map(|text| text.parse().unwrap());
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = given.unwrap_or_else(|| u64::try_from(clock() % 1_000_000_007).unwrap());
    println!("seed: CAPGATE_SEED={seed}");
    seed
}

/// A number from the environment.
pub fn amount(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}
