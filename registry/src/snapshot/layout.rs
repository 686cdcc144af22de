//! Where the parts of a snapshot stand: a function of the number of records and their total length.

/// Bytes of a tile of any kind.
pub(super) const TILE: u64 = 16 * 1024;
/// Bytes before the first record.
pub(super) const HEADER: u64 = 64;
/// What a snapshot begins with.
pub(super) const MAGIC: &[u8] = b"capgate snapshot v1\n";
/// Bytes of an index entry: key, offset, length.
pub(super) const ENTRY: u64 = 44;
/// Index entries in a tile.
pub(super) const ENTRIES: u64 = TILE / ENTRY;
/// Keys in a tile of fences.
pub(super) const FENCES: u64 = TILE / 32;
/// Hashes of the lowest level in a tile of hashes.
pub(super) const WIDTH: u64 = 256;
/// Levels of the tree that a tile of hashes spans, its own top not counted.
pub(super) const HEIGHT: u8 = 8;

/// Offsets of the parts. All arithmetic saturates: an impossible size gives offsets that no file reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// Records.
    pub count: u64,
    /// End of the records, without padding.
    pub records_end: u64,
    /// Start of the index.
    pub index: u64,
    /// Start of each level of fences, lowest first, and how many keys it has.
    pub fences: Vec<(u64, u64)>,
    /// Start of each level of hash tiles, lowest first.
    pub hashes: Vec<u64>,
    /// Length of the file.
    pub end: u64,
}

impl Layout {
    pub fn new(count: u64, record_bytes: u64) -> Self {
        let records_end = HEADER.saturating_add(record_bytes);
        let index = records_end.div_ceil(TILE).saturating_mul(TILE);
        let mut tiles = count.div_ceil(ENTRIES);
        let mut at = index.saturating_add(tiles.saturating_mul(TILE));
        let mut fences = Vec::new();
        while tiles > 1 {
            fences.push((at, tiles));
            tiles = tiles.div_ceil(FENCES);
            at = at.saturating_add(tiles.saturating_mul(TILE));
        }
        let mut hashes = Vec::new();
        let mut wide = count;
        while wide > 0 {
            hashes.push(at);
            at = at.saturating_add(wide.div_ceil(WIDTH).saturating_mul(TILE));
            wide >>= HEIGHT;
        }
        Self { count, records_end, index, fences, hashes, end: at }
    }

    /// The header's bytes.
    pub fn header(&self) -> [u8; HEADER as usize] {
        let mut header = [0; HEADER as usize];
        let record_bytes = self.records_end.saturating_sub(HEADER);
        let parts = MAGIC.iter().copied().zip(0..);
        let count = self.count.to_be_bytes().into_iter().zip(48..);
        let length = record_bytes.to_be_bytes().into_iter().zip(56..);
        for (byte, at) in parts.chain(count).chain(length) {
            if let Some(slot) = header.get_mut::<usize>(at) {
                *slot = byte;
            }
        }
        header
    }

    /// Offset of the hash of the complete subtree (level, index), if it has one.
    pub fn hash_offset(&self, level: u8, index: u64) -> Option<u64> {
        let tile_level = level / HEIGHT;
        let within = u32::from(level % HEIGHT);
        let start = self.hashes.get(usize::from(tile_level))?;
        let width = WIDTH >> within;
        // Slots before this level in the tile: 256 + 128 + … down to the level below.
        let before = 2 * WIDTH - ((2 * WIDTH) >> within);
        let offset = (index / width).checked_mul(TILE)?.checked_add((before + index % width) * 32)?;
        start.checked_add(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_gaps() {
        for count in [0, 1, 2, 255, 256, 257, 372, 373, 65_536, 65_537, 190_465, 1_000_000] {
            let layout = Layout::new(count, count * 2_001);
            assert_eq!(layout.index % TILE, 0);
            assert!(layout.records_end <= layout.index);
            let mut at = layout.index + count.div_ceil(ENTRIES) * TILE;
            for &(start, keys) in &layout.fences {
                assert_eq!(start, at);
                at += keys.div_ceil(FENCES) * TILE;
            }
            for (level, &start) in layout.hashes.iter().enumerate() {
                assert_eq!(start, at);
                at += (count >> (8 * level)).div_ceil(WIDTH) * TILE;
            }
            assert_eq!(layout.end, at);
        }
    }

    #[test]
    fn every_hash_has_a_slot_of_its_own() {
        let layout = Layout::new(1_000, 0);
        let mut offsets = std::collections::BTreeSet::new();
        for level in 0..10u8 {
            for index in 0..(1_000u64 >> level) {
                let offset = layout.hash_offset(level, index).unwrap();
                assert!(offsets.insert(offset), "({level}, {index})");
                assert!(offset + 32 <= layout.end);
            }
        }
    }

    #[test]
    fn impossible_sizes_do_not_overflow() {
        let layout = Layout::new(u64::MAX, u64::MAX);
        assert!(layout.hash_offset(255, u64::MAX).is_none());
        assert_eq!(layout.end, u64::MAX);
    }
}
