//! A guest as capgate sees it: what machine and program are, and what the prefix holds that was installed in it.
//!
//! The injected library and the command `capgate run` both decide with what is gathered here, so that a preview never
//! differs from the real decision. What macOS gives in libSystem is found with `dlsym` when it is asked for. On Linux
//! only the tests' stand-in library offers it, and there is no other way to feed facts in.

pub mod binary;
pub mod facts;
pub mod identity;
pub mod log;
pub mod opened;
pub mod others;
pub mod prefix;
pub mod session;
pub mod slices;
pub mod system;
pub mod trial;
