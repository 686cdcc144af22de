//! A small HTTP/1.1 server: one request a connection, a fixed number at once, every size capped, a deadline for each.
//!
//! `httparse` reads the head; nothing but a body with `Content-Length` is accepted. Whoever needs more, TLS for example,
//! puts a web server before it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a client may take to send its request, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the head of a request may take: who holds a connection and says nothing keeps others from it.
const HEAD_PATIENCE: Duration = Duration::from_secs(3);
/// Most bytes of a request's head.
const MAX_HEAD: usize = 8 * 1024;
/// Most header fields.
const MAX_FIELDS: usize = 64;
/// What is still read of a request that was refused unread, so that its sender gets to read the answer.
const MAX_DRAINED: usize = 256 * 1024;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The status.
    pub status: u16,
    /// `Content-Type`.
    pub kind: &'static str,
    /// The body.
    pub body: String,
}

impl Given {
    /// A line of text.
    pub fn text(status: u16, line: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: format!("{line}\n") }
    }
}

/// What answers.
pub type Handler = dyn Fn(&Asked) -> Given + Send + Sync;

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    max_body: usize,
}

impl Server {
    /// Listens; bodies have at most `max_body` bytes.
    pub fn bind(address: SocketAddr, max_body: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        Ok(Self { address: listener.local_addr()?, listener, max_body })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts that many threads, each of which serves one connection after the other, until the process ends.
    pub fn start(&self, workers: usize, handler: Arc<Handler>) -> io::Result<()> {
        for _ in 0..workers {
            let (listener, handler) = (self.listener.try_clone()?, Arc::clone(&handler));
            let max_body = self.max_body;
            thread::Builder::new().spawn(move || {
                loop {
                    match listener.accept() {
                        // A client that goes away is nobody's failure.
                        Ok((stream, _)) => drop(serve(stream, max_body, handler.as_ref())),
                        // Too many open files, for example: not to be met in a busy loop.
                        Err(_) => thread::sleep(Duration::from_millis(100)),
                    }
                }
            })?;
        }
        Ok(())
    }
}

fn serve(mut stream: TcpStream, max_body: usize, handler: &Handler) -> io::Result<()> {
    let mut incoming =
        Incoming { stream: &stream, deadline: Instant::now() + HEAD_PATIENCE, held: Vec::new() };
    let given = match incoming.request(max_body) {
        Ok(asked) => handler(&asked),
        Err(Bad::Refused(given)) => given,
        Err(Bad::Gone(e)) => return Err(e),
    };
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&encode(&given))?;
    stream.shutdown(Shutdown::Write)?;
    drain(&stream)
}

/// Closing over bytes that nobody read would take the answer away from the client.
fn drain(mut stream: &TcpStream) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(1);
    let (mut buffer, mut total) = ([0; 4096], 0);
    while total < MAX_DRAINED {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => total += count,
        }
    }
    Ok(())
}

fn encode(given: &Given) -> Vec<u8> {
    let Given { status, kind, body } = given;
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        _ => "Unknown",
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// Why there is no request.
enum Bad {
    Refused(Given),
    Gone(io::Error),
}

fn refuse(status: u16, line: &str) -> Bad {
    Bad::Refused(Given::text(status, line))
}

/// A request on its way in.
struct Incoming<'s> {
    stream: &'s TcpStream,
    deadline: Instant,
    held: Vec<u8>,
}

/// What the head of a request says.
struct Head {
    method: String,
    path: String,
    length: usize,
    waits: bool,
    bytes: usize,
}

impl Incoming<'_> {
    fn request(&mut self, max_body: usize) -> Result<Asked, Bad> {
        let head = loop {
            if let Some(head) = head(&self.held)? {
                break head;
            }
            if self.held.len() >= MAX_HEAD {
                return Err(refuse(431, "the head of the request is too long"));
            }
            self.more()?;
        };
        if head.length > max_body {
            return Err(refuse(413, &format!("a body of {} bytes is not accepted", head.length)));
        }
        if head.waits {
            let mut stream = self.stream;
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(Bad::Gone)?;
        }
        self.deadline = Instant::now() + PATIENCE;
        let end = head.bytes.saturating_add(head.length);
        while self.held.len() < end {
            self.more()?;
        }
        let body = self.held.get(head.bytes..end).unwrap_or_default().to_vec();
        Ok(Asked { method: head.method, path: head.path, body })
    }

    /// Reads some more, before the deadline.
    fn more(&mut self) -> Result<(), Bad> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(refuse(408, "the request took too long"));
        }
        self.stream.set_read_timeout(Some(left)).map_err(Bad::Gone)?;
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(Bad::Gone(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.held.extend_from_slice(buffer.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(refuse(408, "the request took too long"))
            }
            Err(e) => Err(Bad::Gone(e)),
        }
    }
}

/// The head in `bytes`; `None` while it is not complete.
fn head(bytes: &[u8]) -> Result<Option<Head>, Bad> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let count = match request.parse(bytes) {
        Ok(httparse::Status::Complete(count)) => count,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(refuse(431, "the request has too many fields")),
        Err(e) => return Err(refuse(400, &format!("this is no HTTP request: {e}"))),
    };
    let named = |name: &str| -> Vec<&[u8]> {
        let of_name = |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case(name);
        request.headers.iter().filter(of_name).map(|field| field.value).collect()
    };
    if !named("transfer-encoding").is_empty() {
        return Err(refuse(411, "send the body with its Content-Length"));
    }
    let length = match named("content-length").as_slice() {
        [] => 0,
        [one] => length(one).ok_or_else(|| refuse(400, "the Content-Length is no number"))?,
        // Two readers could each take another one.
        _ => return Err(refuse(400, "there is more than one Content-Length")),
    };
    let target = request.path.unwrap_or_default();
    Ok(Some(Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        length,
        waits: named("expect").iter().any(|value| value.eq_ignore_ascii_case(b"100-continue")),
        bytes: count,
    }))
}

fn length(value: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(value).ok()?;
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
