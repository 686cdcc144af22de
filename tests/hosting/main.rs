//! Registries behind real servers: nginx with the configuration that docs/operations.md gives, and, with the feature `cloud`,
//! an S3 server (s3s-fs). Between them and the real `capgate` stands, where a test wants it, a proxy that breaks answers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]
#![cfg_attr(not(feature = "cloud"), allow(dead_code, reason = "buckets use it"))]

#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "cloud")]
mod bucket;
#[cfg(feature = "cloud")]
mod bucket_faults;
mod endless;
mod faults;
mod held;
mod loops;
#[cfg(feature = "cloud")]
mod maintainers;
mod nginx;
mod proxy;
mod random;
mod registry;
mod served;
mod server;
mod site;
mod watched;
