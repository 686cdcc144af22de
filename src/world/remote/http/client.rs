//! One request to a web server, and the rules that its answer must keep before its body is read.

use std::io;

use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::tls::{Certificate, PemItem, parse_pem};
use ureq::{Agent, Body};

use super::fault::Fault;
use crate::world::remote::Limits;
use crate::world::tls;

/// Further addresses that one request may be sent on to.
const REDIRECTS: u32 = 3;
/// Bytes of an answer's headers.
const HEADERS: usize = 16 << 10;

/// Sends requests; connections are kept for the next one.
#[derive(Debug, Clone)]
pub(super) struct Client {
    agent: Agent,
    pub(super) limits: Limits,
}

/// A part of a file: from a byte, up to but without another, or to the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) from: u64,
    pub(super) end: Option<u64>,
}

/// An answer that brings a body, which was not read yet.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) what: What,
    /// What the server calls this version of the file, where it does.
    pub(super) tag: Option<String>,
    pub(super) body: Body,
}

/// What the body is.
#[derive(Debug)]
pub(super) enum What {
    /// The file, with its length where that is known before its end.
    Whole(Option<u64>),
    /// Bytes of it, as the server was asked: from the first number up to but without the second, and the file's length.
    Part(u64, u64, u64),
}

/// Reads certificates of further authorities, in PEM.
pub(super) fn authorities(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        match item.map_err(|e| e.to_string())? {
            PemItem::Certificate(certificate) => found.push(certificate),
            _ => return Err("holds something that is no certificate".to_owned()),
        }
    }
    for certificate in &found {
        // What is left out here would only show as a server that is not trusted.
        let der = rustls::pki_types::CertificateDer::from(certificate.der());
        rustls::RootCertStore::empty().add(der).map_err(|e| e.to_string())?;
    }
    if found.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(found) }
}

impl Client {
    /// `encrypted`: no request goes out unencrypted, wherever a redirect leads. `own`: authorities beside Mozilla's.
    pub(super) fn new(encrypted: bool, own: Vec<Certificate<'static>>, limits: Limits) -> Self {
        let config = Agent::config_builder()
            .tls_config(tls::config(own))
            .https_only(encrypted)
            .http_status_as_error(false)
            .max_redirects(REDIRECTS)
            .max_response_header_size(HEADERS)
            .user_agent(concat!("capgate/", env!("CARGO_PKG_VERSION")))
            // A compressed body could grow beyond every length that was named.
            .accept_encoding("identity")
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_send_request(Some(limits.headers))
            .timeout_recv_response(Some(limits.headers))
            .timeout_per_read(Some(limits.pace.window))
            .build();
        Self { agent: config.new_agent(), limits }
    }

    /// Asks for a file, or for a part of it; at most `room` bytes of body will be read.
    pub(super) fn get(&self, url: &str, range: Option<Range>, room: u64) -> Result<Answer, Fault> {
        let request = self.agent.get(url).config();
        let mut request = request.timeout_recv_body(Some(self.limits.pace.longest(room))).build();
        if let Some(Range { from, end }) = range {
            let last = end.map(|end| end.saturating_sub(1).to_string()).unwrap_or_default();
            request = request.header(header::RANGE, format!("bytes={from}-{last}"));
        }
        judged(request.call()?, range)
    }
}

fn judged(response: Response<Body>, range: Option<Range>) -> Result<Answer, Fault> {
    let (parts, body) = response.into_parts();
    let headers = &parts.headers;
    let what = match parts.status {
        StatusCode::OK => What::Whole(length(headers)?),
        StatusCode::PARTIAL_CONTENT => part(headers, range)?,
        // How servers answer who asks for the first bytes of an empty file.
        StatusCode::RANGE_NOT_SATISFIABLE if content_range(headers) == Some("bytes */0") => {
            What::Part(0, 0, 0)
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => return Err(Fault::Missing),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            return Err(Fault::passing(format!("answered {status}")));
        }
        status => return Err(Fault::lasting(format!("answered {status}"))),
    };
    if let Some(coding) = headers.get(header::CONTENT_ENCODING).filter(|coding| *coding != "identity") {
        return Err(Fault::lasting(format!("sends its answer as {coding:?}, which nobody asked for")));
    }
    let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    Ok(Answer { what, tag, body })
}

/// The length that was named. Without one, the body must be in chunks: else nobody sees that it was cut.
fn length(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return Ok(None);
    }
    let named = headers.get(header::CONTENT_LENGTH).ok_or_else(|| {
        Fault::lasting("names no length, so that nobody could see whether all of the answer came")
    })?;
    let parsed = named.to_str().ok().and_then(number);
    parsed.map(Some).ok_or_else(|| Fault::lasting(format!("names the length {named:?}")))
}

fn part(headers: &HeaderMap, range: Option<Range>) -> Result<What, Fault> {
    let Some(Range { from, end }) = range else {
        return Err(Fault::lasting("answered with a part where all of it was asked for"));
    };
    let said = content_range(headers).unwrap_or_default();
    let parsed = parse_content_range(said);
    let (first, last, total) = parsed.ok_or_else(|| Fault::lasting(format!("sends the part {said:?}")))?;
    let all = end.map_or(total, |end| end.min(total));
    if first != from || last.checked_add(1) != Some(all) {
        return Err(Fault::lasting(format!(
            "was asked for bytes {from} to {all} and sends the part {said:?}"
        )));
    }
    if length(headers)?.is_some_and(|length| length != all.saturating_sub(from)) {
        return Err(Fault::lasting(format!("sends the part {said:?} with another length")));
    }
    Ok(What::Part(from, all, total))
}

fn content_range(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok())
}

/// `bytes FIRST-LAST/TOTAL`; a total that is not known (`*`) will not do.
fn parse_content_range(text: &str) -> Option<(u64, u64, u64)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, total) = (number(first)?, number(last)?, number(total)?);
    (first <= last && last < total).then_some((first, last, total))
}

/// Digits alone: `str::parse` takes a sign, too.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl Answer {
    /// Adds the body to `bytes`, which then hold at most `cap`. What came before a failure stays.
    pub(super) fn read_into(self, bytes: &mut Vec<u8>, cap: u64, limits: &Limits) -> Result<(), Fault> {
        super::body::read(&mut self.body.into_reader(), bytes, cap, limits.pace).map_err(|e| match e {
            super::body::Stop::TooLarge(size) => Fault::TooLarge(size),
            super::body::Stop::TooSlow => Fault::slow("the body came too slowly"),
            super::body::Stop::Io(e) => Fault::from(e),
        })
    }
}

/// Whether an authority's file can be used, for messages at the edge.
pub(super) fn read_authorities(path: &std::path::Path) -> io::Result<Vec<Certificate<'static>>> {
    let pem = crate::world::file::read(path, 1 << 20)?;
    authorities(&pem).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_one_spelling() {
        assert_eq!(parse_content_range("bytes 0-99/100"), Some((0, 99, 100)));
        assert_eq!(parse_content_range("bytes 5-5/6"), Some((5, 5, 6)));
        for text in [
            "",
            "bytes */0",
            "bytes */100",
            "bytes 0-99/*",
            "bytes 0-100/100",
            "bytes 9-8/100",
            "bytes +0-99/100",
            "bytes 0-99/100 ",
            "Bytes 0-99/100",
            "items 0-99/100",
            "bytes 0-99",
            "bytes -99/100",
            "bytes 0-99999999999999999999/100000000000000000000",
        ] {
            assert_eq!(parse_content_range(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_file_of_authorities_holds_certificates_and_nothing_else() {
        for (pem, why) in [
            ("", "holds no certificate"),
            ("text", "holds no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "end"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "no certificate"),
        ] {
            let refused = authorities(pem.as_bytes()).unwrap_err();
            assert!(refused.to_lowercase().contains(why), "{pem:?}: {refused}");
        }
    }
}
