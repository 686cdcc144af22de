//! Names and contents of tiles (C2SP tlog-tiles, "Merkle Tree" and "Entry bundles").

use std::fmt;

use super::MAX_SIZE;
use crate::merkle::Hash;

/// Hashes in a full hash tile and entries in a full bundle: tiles have height 8.
pub const TILE_WIDTH: u64 = 256;
/// Tile levels that a log of [`MAX_SIZE`] entries can have: 8 levels of 8 tree levels.
pub(super) const LEVELS: u8 = 8;

const PREFIX: &str = "log/tile/";

/// What a tile holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// Hashes of tree level 8 times this, 0 to 7.
    Hashes(u8),
    /// The entries themselves.
    Entries,
}

impl Row {
    /// How many hashes or entries of this row a log of `size` entries has.
    pub fn length(self, size: u64) -> u64 {
        match self {
            Self::Entries => size,
            Self::Hashes(level) => size.checked_shr(u32::from(level) * 8).unwrap_or(0),
        }
    }
}

/// Names one tile: a row, a position in it, and how many of its 256 places are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    row: Row,
    index: u64,
    width: u64,
}

impl Tile {
    /// The tile at `index` as a log of `size` entries has it; `None` if it has none there.
    pub fn at(row: Row, index: u64, size: u64) -> Option<Self> {
        let start = index.checked_mul(TILE_WIDTH)?;
        let width = row.length(size).saturating_sub(start).min(TILE_WIDTH);
        (width > 0).then_some(Self { row, index, width })
    }

    /// Parses a name such as `log/tile/0/x001/234.p/5`, in its one spelling. `None` for anything else.
    pub fn parse(path: &str) -> Option<Self> {
        let (row, rest) = path.strip_prefix(PREFIX)?.split_once('/')?;
        let row = match row {
            "entries" => Row::Entries,
            level => Row::Hashes(level.parse().ok().filter(|&level| level < LEVELS)?),
        };
        let (position, width) = match rest.split_once(".p/") {
            Some((position, width)) => (position, width.parse().ok().filter(|&width| width < TILE_WIDTH)?),
            None => (rest, TILE_WIDTH),
        };
        let tile = Self { row, index: parse_index(position)?, width };
        // Leading zeros, signs and groups without their `x` all fail here.
        (width > 0 && tile.to_string() == path).then_some(tile)
    }

    /// Every tile of a log of `size` entries, row by row.
    pub fn all(size: u64) -> impl Iterator<Item = Self> {
        let rows = (0..LEVELS).map(Row::Hashes).chain([Row::Entries]);
        rows.flat_map(move |row| {
            (0..row.length(size).div_ceil(TILE_WIDTH)).filter_map(move |index| Self::at(row, index, size))
        })
    }

    /// What it holds.
    pub fn row(self) -> Row {
        self.row
    }

    /// Position in its row.
    pub fn index(self) -> u64 {
        self.index
    }

    /// Filled places, 1 to 256.
    pub fn width(self) -> u64 {
        self.width
    }

    /// Tells whether all 256 places are filled: such a tile never changes.
    pub fn is_full(self) -> bool {
        self.width == TILE_WIDTH
    }

    /// The full tile at the same position.
    #[must_use]
    pub fn full(self) -> Self {
        Self { width: TILE_WIDTH, ..self }
    }

    /// Its name inside the store.
    pub fn path(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Row::Hashes(level) => write!(f, "{PREFIX}{level}")?,
            Row::Entries => write!(f, "{PREFIX}entries")?,
        }
        let mut groups = vec![self.index % 1000];
        let mut rest = self.index / 1000;
        while rest > 0 {
            groups.push(rest % 1000);
            rest /= 1000;
        }
        for (left, group) in groups.iter().enumerate().rev() {
            let more = if left > 0 { "x" } else { "" };
            write!(f, "/{more}{group:03}")?;
        }
        if self.is_full() { Ok(()) } else { write!(f, ".p/{}", self.width) }
    }
}

/// The number in `x001/234`; too lenient for itself, see [`Tile::parse`].
fn parse_index(position: &str) -> Option<u64> {
    let mut index = 0u64;
    for group in position.split('/') {
        let digits = group.strip_prefix('x').unwrap_or(group);
        if digits.len() != 3 {
            return None;
        }
        index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
    }
    (index <= MAX_SIZE / TILE_WIDTH).then_some(index)
}

/// The bytes of a hash tile: the hashes one after the other.
pub fn encode_hashes(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

/// The hashes of a hash tile; `None` if the length is no multiple of 32.
pub fn decode_hashes(bytes: &[u8]) -> Option<Vec<Hash>> {
    let (hashes, rest) = bytes.as_chunks::<32>();
    rest.is_empty().then(|| hashes.iter().copied().map(Hash).collect())
}
