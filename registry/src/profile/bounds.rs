//! The hard bounds: the only values that capgate ever reports.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;

/// Apple families that may be a ceiling. Common, Mac and Metal families never are.
pub const APPLE_FAMILIES: RangeInclusive<u64> = 1001..=1010;
/// Threadgroup memory, in bytes, that may be reported.
pub const THREADGROUP_MEMORIES: [u64; 2] = [32_768, 65_536];

/// A set of values: both are reported, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Values {
    /// Highest Apple family that `supportsFamily:` affirms.
    pub apple_family_max: u64,
    /// `maxThreadgroupMemoryLength` in bytes.
    pub max_threadgroup_memory: u64,
}

impl Values {
    /// Tells whether both values lie within the hard bounds.
    pub fn within_bounds(self) -> bool {
        APPLE_FAMILIES.contains(&self.apple_family_max)
            && THREADGROUP_MEMORIES.contains(&self.max_threadgroup_memory)
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.apple_family_max, self.max_threadgroup_memory)
    }
}
