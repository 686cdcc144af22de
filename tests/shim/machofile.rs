//! Writes small signed Mach-O files, laid out in the file as they would be in memory.
