//! One file, or one part of it, over as many requests as that takes: what was cut goes on where it ended.

use std::thread::sleep;

use capgate_registry::store::StoreError;

use super::client::{Answer, Client, Range, What};
use super::fault::Fault;

/// Bytes from which on it pays to go on instead of beginning anew. What is replaced under its name, such as `latest.note`, is
/// smaller, so that it is never put together from two versions that a server cannot tell apart.
const WORTH_KEEPING: u64 = 64 << 10;

/// What is to be fetched.
pub(super) struct Wanted<'a> {
    pub(super) path: &'a str,
    pub(super) url: &'a str,
    /// A part; without one, the whole file.
    pub(super) part: Option<(u64, u64)>,
    /// Most bytes of the whole file, where that is what comes.
    pub(super) cap: u64,
    /// Length and version of the file, where an earlier answer named them: another file is an error.
    pub(super) known: Known,
}

/// What answers said about a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) total: Option<u64>,
    pub(super) tag: Option<String>,
}

/// What came.
pub(super) struct Fetched {
    pub(super) bytes: Vec<u8>,
    /// The bytes are the whole file, also where a part was asked for.
    pub(super) is_whole: bool,
    pub(super) known: Known,
}

struct Fetch<'a> {
    client: &'a Client,
    wanted: &'a Wanted<'a>,
    fetched: Fetched,
}

/// Fetches it.
pub(super) fn fetch(client: &Client, wanted: &Wanted<'_>) -> Result<Fetched, StoreError> {
    let fetched = Fetched { bytes: Vec::new(), is_whole: wanted.part.is_none(), known: wanted.known.clone() };
    let mut fetch = Fetch { client, wanted, fetched };
    let mut tries = 1;
    loop {
        let fault = match fetch.attempt() {
            Ok(()) => return Ok(fetch.fetched),
            Err(fault) => fault,
        };
        match fault {
            Fault::Passing(e) if tries <= client.limits.retries => {
                tracing::debug!(url = wanted.url, tries, "{e}");
                sleep(client.limits.wait(tries));
                tries += 1;
            }
            fault => return Err(fault.at(wanted.path, wanted.url, wanted.cap, tries)),
        }
    }
}

impl Fetch<'_> {
    fn attempt(&mut self) -> Result<(), Fault> {
        let range = self.missing();
        let whole = self.wanted.cap;
        let room = match range {
            Some(Range { from, end: Some(end) }) => end.saturating_sub(from),
            Some(Range { from, end: None }) => whole.saturating_sub(from),
            None => whole,
        };
        let answer = self.client.get(self.wanted.url, range, room)?;
        match answer.what {
            What::Whole(length) => self.whole(answer, length),
            What::Part(from, end, total) => self.part(answer, from, end, total),
        }
    }

    /// What still has to come; `None` where that is the whole file.
    fn missing(&mut self) -> Option<Range> {
        if (self.fetched.bytes.len() as u64) < WORTH_KEEPING {
            self.fetched.bytes.clear();
        }
        let have = self.fetched.bytes.len() as u64;
        match self.wanted.part {
            Some((from, end)) if !self.fetched.is_whole => {
                Some(Range { from: from.saturating_add(have), end: Some(end) })
            }
            _ if have > 0 => Some(Range { from: have, end: None }),
            _ => None,
        }
    }

    /// The server sends everything, from the first byte, whatever it was asked for.
    fn whole(&mut self, answer: Answer, length: Option<u64>) -> Result<(), Fault> {
        self.fetched.bytes.clear();
        self.fetched.is_whole = true;
        if let Some(length) = length.filter(|length| *length > self.wanted.cap) {
            return Err(Fault::TooLarge(length));
        }
        self.is_the_same(&answer, length)?;
        answer.read_into(&mut self.fetched.bytes, self.wanted.cap, &self.client.limits)?;
        self.is_all(length.or(self.fetched.known.total))
    }

    fn part(&mut self, answer: Answer, from: u64, end: u64, total: u64) -> Result<(), Fault> {
        if self.fetched.is_whole && total > self.wanted.cap {
            return Err(Fault::TooLarge(total));
        }
        self.is_the_same(&answer, Some(total))?;
        let most = (self.fetched.bytes.len() as u64).saturating_add(end.saturating_sub(from));
        let read = answer.read_into(&mut self.fetched.bytes, most, &self.client.limits);
        read.map_err(|fault| match fault {
            Fault::TooLarge(_) => Fault::lasting("sends more than the part that it names"),
            fault => fault,
        })?;
        self.is_all(Some(most))
    }

    fn is_all(&self, length: Option<u64>) -> Result<(), Fault> {
        let have = self.fetched.bytes.len() as u64;
        match length {
            Some(length) if length != have => Err(Fault::passing(format!("sent {have} of {length} bytes"))),
            _ => Ok(()),
        }
    }

    /// Two parts of two files make no file. A whole file begins anew; a part belongs to a file that somebody has open.
    fn is_the_same(&mut self, answer: &Answer, total: Option<u64>) -> Result<(), Fault> {
        let known = &mut self.fetched.known;
        let differs = |a: bool| a.then_some(());
        let other_total = known.total.zip(total).and_then(|(a, b)| differs(a != b));
        let other_tag = known.tag.as_ref().zip(answer.tag.as_ref()).and_then(|(a, b)| differs(a != b));
        if other_total.or(other_tag).is_none() {
            known.total = known.total.or(total);
            known.tag = known.tag.take().or_else(|| answer.tag.clone());
            return Ok(());
        }
        const CHANGED: &str = "the file was changed while it was read";
        if self.wanted.part.is_some() {
            return Err(Fault::lasting(CHANGED));
        }
        self.fetched.bytes.clear();
        self.fetched.known = self.wanted.known.clone();
        Err(Fault::passing(CHANGED))
    }
}
