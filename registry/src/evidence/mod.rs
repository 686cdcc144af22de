//! Judging benchmark evidence.
