//! Why a request did not bring what was asked, and whether asking again may help.

use std::io;

use capgate_registry::store::StoreError;

/// What went wrong.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server says that there is no such file.
    Missing,
    /// The file has that many bytes, or more: too many.
    TooLarge(u64),
    /// The next try may go better.
    Passing(io::Error),
    /// It would be the same again, or may not be tried.
    Lasting(io::Error),
}

impl Fault {
    /// A server that broke the rules.
    pub(super) fn lasting(what: impl Into<String>) -> Self {
        Self::Lasting(io::Error::other(what.into()))
    }

    /// A server, or a line, that may recover.
    pub(super) fn passing(what: impl Into<String>) -> Self {
        Self::Passing(io::Error::other(what.into()))
    }

    /// The server is slower than it may be.
    pub(super) fn slow(what: &str) -> Self {
        Self::Lasting(io::Error::new(io::ErrorKind::TimedOut, what))
    }

    /// As a store says it; the address is named where the server or the line is to blame.
    pub(super) fn at(self, path: &str, url: &str, cap: u64, tries: u32) -> StoreError {
        let path = path.to_owned();
        let times = if tries > 1 { format!(", after {tries} tries") } else { String::new() };
        let wrapped = |e: &io::Error| io::Error::new(kept(e.kind()), format!("{url}: {e}{times}"));
        match self {
            Self::Missing => StoreError::NotFound { path },
            Self::TooLarge(size) => StoreError::TooLarge { path, size, cap },
            Self::Passing(e) | Self::Lasting(e) => StoreError::Io { path, source: wrapped(&e) },
        }
    }
}

/// The kind without the one that stands for a missing file: only a server's own word makes a file missing.
fn kept(kind: io::ErrorKind) -> io::ErrorKind {
    if kind == io::ErrorKind::NotFound { io::ErrorKind::Other } else { kind }
}

impl From<ureq::Error> for Fault {
    fn from(error: ureq::Error) -> Self {
        match error {
            ureq::Error::Timeout(phase) => Self::slow(phase_name(phase)),
            ureq::Error::TooManyRedirects => Self::lasting("redirects too often"),
            ureq::Error::RequireHttpsOnly(to) => {
                Self::lasting(format!("redirects to {to}, which is not encrypted"))
            }
            ureq::Error::Io(e) => Self::from(e),
            e => Self::Lasting(io::Error::other(e)),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof,
        };
        if error.get_ref().is_some_and(|inner| inner.is::<ureq::Error>()) {
            return Self::from(ureq::Error::from(error));
        }
        match error.kind() {
            UnexpectedEof => Self::Passing(io::Error::new(UnexpectedEof, "the answer was cut off")),
            ConnectionReset | ConnectionAborted | ConnectionRefused | BrokenPipe => Self::Passing(error),
            _ => Self::Lasting(error),
        }
    }
}

fn phase_name(phase: ureq::Timeout) -> &'static str {
    match phase {
        ureq::Timeout::Resolve => "the host's address was not found in time",
        ureq::Timeout::Connect => "no connection was made in time",
        ureq::Timeout::SendRequest | ureq::Timeout::SendBody => "the request was not taken in time",
        ureq::Timeout::RecvResponse => "no answer came in time",
        ureq::Timeout::RecvBody => "the body came too slowly",
        _ => "nothing came for too long",
    }
}
