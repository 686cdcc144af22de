//! The injected library.
