//! A proxy that breaks answers on purpose, as often as it is told and as a seed decides.
//!
//! It also makes up for what s3s-fs lacks beside S3: there, a condition is judged and the object replaced in one step, and
//! bytes and ETag are of one version. s3s-fs does each in two, so writes pass one at a time and no read passes meanwhile.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::held::Held;
use crate::random::Random;

/// What can be wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request is not passed on, and not answered.
    Dropped,
    /// The answer ends somewhere.
    Cut,
    /// The answer ends after so many bytes, where it has more.
    CutAt(usize),
    /// The first [`SLOW`] bytes of the body come at so many bytes a second.
    Slow(usize),
    /// Another status, with or without the request having been passed on.
    Status(u16),
    /// A length that is too small.
    Short,
    /// A length that is too large.
    Long,
    /// A body without an end, under that status.
    Endless(u16),
    /// Nothing ever comes.
    Silent,
    /// One byte is another one.
    Changed,
    /// What was answered to the same request earlier.
    Stale,
    /// Another place is named, which is this one.
    Redirected,
}

/// Which faults, and in how many of 1000 answers.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub faults: Vec<Fault>,
    pub per_mille: usize,
}

/// The proxy; it ends when it is dropped.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: u16,
    random: Mutex<Random>,
    plan: Mutex<Plan>,
    done: Mutex<BTreeMap<String, usize>>,
    requests: Mutex<usize>,
    earlier: Mutex<BTreeMap<String, Vec<Vec<u8>>>>,
    writing: RwLock<()>,
    held: Mutex<Option<Held>>,
    puts: Mutex<Vec<Put>>,
    is_over: AtomicBool,
}

/// How `latest.note` was put.
#[derive(Debug, Clone)]
pub struct Put {
    /// `if-match`, `if-none-match` or `none`.
    pub condition: String,
    /// What the server said.
    pub status: u16,
}

/// A request, as it came.
struct Request {
    method: String,
    target: String,
    bytes: Vec<u8>,
}

/// Longest time that a thread holds a connection on which nothing happens.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes of a body that come slowly, so that a test ends.
const SLOW: usize = 4 << 10;
/// More than anybody reads of a body without an end.
const ENDLESS: usize = 1 << 30;

impl Proxy {
    /// A proxy before the server at that port.
    pub fn start(upstream: u16, seed: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            upstream,
            random: Mutex::new(Random::new(seed)),
            plan: Mutex::default(),
            done: Mutex::default(),
            requests: Mutex::default(),
            earlier: Mutex::default(),
            writing: RwLock::default(),
            held: Mutex::default(),
            puts: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        spawn(move || {
            for client in listener.incoming().flatten() {
                if own.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let own = Arc::clone(&own);
                // A connection that breaks is what this is for.
                spawn(move || drop(own.serve(client)));
            }
        });
        Self { port, shared }
    }

    pub fn plan(&self, faults: &[Fault], per_mille: usize) {
        *self.shared.plan.lock().unwrap() = Plan { faults: faults.to_vec(), per_mille };
    }

    /// Holds a request on its way.
    pub fn hold(&self, held: &Held) {
        *self.shared.held.lock().unwrap() = Some(held.clone());
    }

    /// How `latest.note` was put so far.
    pub fn puts(&self) -> Vec<Put> {
        self.shared.puts.lock().unwrap().clone()
    }

    /// Answers so far.
    pub fn requests(&self) -> usize {
        *self.shared.requests.lock().unwrap()
    }

    /// How often each fault was done.
    pub fn done(&self) -> BTreeMap<String, usize> {
        self.shared.done.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_read_timeout(Some(IDLE))?;
        client.set_write_timeout(Some(IDLE))?;
        let request = read_request(&mut client)?;
        *self.requests.lock().unwrap() += 1;
        let held = self.held.lock().unwrap().clone();
        held.into_iter().for_each(|held| held.meet(&request.method, &request.target));
        let fault = self.choose();
        if let Some(fault) = fault {
            let name = format!("{fault:?}").to_lowercase();
            *self.done.lock().unwrap().entry(name).or_default() += 1;
        }
        let is_passed_on = match fault {
            Some(Fault::Dropped) => return Ok(()),
            Some(Fault::Status(_) | Fault::Endless(_) | Fault::Silent | Fault::Redirected) => {
                self.number(2) == 0
            }
            _ => true,
        };
        let answer = if is_passed_on { self.pass_on(&request)? } else { Vec::new() };
        match fault {
            None => client.write_all(&answer)?,
            Some(fault) => self.spoil(&mut client, &request, answer, fault)?,
        }
        client.shutdown(Shutdown::Write)?;
        // Closed with bytes unread, a connection is reset and what was sent may be lost.
        client.set_read_timeout(Some(Duration::from_millis(500)))?;
        io::copy(&mut client, &mut io::sink()).map(drop)
    }

    fn number(&self, end: usize) -> usize {
        self.random.lock().unwrap().below(end)
    }

    fn choose(&self) -> Option<Fault> {
        let plan = self.plan.lock().unwrap().clone();
        let hit = self.number(1000) < plan.per_mille && !plan.faults.is_empty();
        hit.then(|| plan.faults[self.number(plan.faults.len())])
    }

    fn pass_on(&self, request: &Request) -> io::Result<Vec<u8>> {
        let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
        let answer = if is_read {
            let _held = self.writing.read().unwrap();
            self.exchange(request)?
        } else {
            let _held = self.writing.write().unwrap();
            self.exchange(request)?
        };
        if request.method == "PUT" && request.target.ends_with("/snapshot/latest.note") {
            self.puts.lock().unwrap().push(put(request, &answer));
        }
        if request.method == "GET" {
            self.earlier.lock().unwrap().entry(request.target.clone()).or_default().push(answer.clone());
        }
        Ok(answer)
    }

    fn exchange(&self, request: &Request) -> io::Result<Vec<u8>> {
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.upstream))?;
        server.set_read_timeout(Some(IDLE))?;
        server.write_all(&request.bytes)?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        Ok(closing(&answer))
    }

    fn spoil(
        &self,
        client: &mut TcpStream,
        request: &Request,
        mut answer: Vec<u8>,
        fault: Fault,
    ) -> io::Result<()> {
        match fault {
            Fault::Dropped => Ok(()),
            Fault::Cut => client.write_all(&answer[..self.number(answer.len())]),
            Fault::CutAt(at) => client.write_all(&answer[..at.min(answer.len())]),
            Fault::Slow(rate) => drip(client, &answer, rate),
            Fault::Status(status) => {
                let head =
                    format!("HTTP/1.1 {status} Broken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                client.write_all(head.as_bytes())
            }
            Fault::Short => {
                client.write_all(&with_length(&answer, |length| length.saturating_sub(1 + self.number(64))))
            }
            Fault::Long => client.write_all(&with_length(&answer, |length| length + 1 + self.number(64))),
            Fault::Endless(status) => endless(client, status),
            Fault::Silent => self.wait(client),
            Fault::Changed => {
                let body = body_of(&answer);
                if body < answer.len() {
                    let at = body + self.number(answer.len() - body);
                    answer[at] ^= 1 << self.number(8);
                }
                client.write_all(&answer)
            }
            Fault::Stale => {
                let earlier = self.earlier.lock().unwrap().get(&request.target).cloned().unwrap_or_default();
                let found = earlier.get(self.number(earlier.len()));
                client.write_all(found.unwrap_or(&answer))
            }
            Fault::Redirected => {
                let to = &request.target;
                let head = format!(
                    "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
                client.write_all(head.as_bytes())
            }
        }
    }

    fn wait(&self, client: &mut TcpStream) -> io::Result<()> {
        client.set_read_timeout(Some(Duration::from_millis(100)))?;
        let start = Instant::now();
        while start.elapsed() < IDLE && !self.is_over.load(Ordering::Relaxed) {
            match client.read(&mut [0]) {
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                _ => break,
            }
        }
        Ok(())
    }
}

fn put(request: &Request, answer: &[u8]) -> Put {
    let head = String::from_utf8_lossy(&request.bytes[..body_of(&request.bytes)]).to_lowercase();
    let given = ["if-match", "if-none-match"].into_iter().find(|name| head.contains(&format!("\n{name}:")));
    let answer = String::from_utf8_lossy(answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Put { condition: given.unwrap_or("none").to_owned(), status }
}

fn read_request(client: &mut TcpStream) -> io::Result<Request> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    let mut more = |bytes: &mut Vec<u8>| {
        let count = client.read(&mut piece)?;
        bytes.extend_from_slice(&piece[..count]);
        if count == 0 { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) } else { Ok(()) }
    };
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        more(&mut bytes)?;
    }
    let head = String::from_utf8_lossy(&bytes[..body_of(&bytes)]).into_owned();
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:").map(str::to_owned));
    let length: usize = length.map_or(0, |text| text.trim().parse().unwrap());
    while bytes.len() < body_of(&bytes) + length {
        more(&mut bytes)?;
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    Ok(Request { method, target, bytes: closing(&bytes) })
}

/// Where the body begins.
fn body_of(message: &[u8]) -> usize {
    message.windows(4).position(|four| four == b"\r\n\r\n").map_or(message.len(), |at| at + 4)
}

/// The same message, after which the connection ends.
fn closing(message: &[u8]) -> Vec<u8> {
    let body = body_of(message);
    let head = String::from_utf8_lossy(&message[..body]);
    let mut new = Vec::new();
    for line in head.lines().filter(|line| !line.is_empty()) {
        if !line.to_lowercase().starts_with("connection:") {
            new.extend_from_slice(format!("{line}\r\n").as_bytes());
        }
    }
    if new.is_empty() {
        return new;
    }
    new.extend_from_slice(b"Connection: close\r\n\r\n");
    new.extend_from_slice(&message[body..]);
    new
}

fn with_length(message: &[u8], change: impl Fn(usize) -> usize) -> Vec<u8> {
    let body = body_of(message);
    let head = String::from_utf8_lossy(&message[..body]);
    let mut new = String::new();
    for line in head.lines() {
        match line.to_lowercase().strip_prefix("content-length:") {
            Some(length) => new += &format!("Content-Length: {}\r\n", change(length.trim().parse().unwrap())),
            None => new += &format!("{line}\r\n"),
        }
    }
    [new.as_bytes(), &message[body..]].concat()
}

fn drip(client: &mut TcpStream, bytes: &[u8], rate: usize) -> io::Result<()> {
    let body = body_of(bytes);
    client.write_all(&bytes[..body])?;
    let quick = bytes.len().min(body + SLOW);
    for piece in bytes[body..quick].chunks((rate / 8).max(1)) {
        client.write_all(piece)?;
        sleep(Duration::from_millis(125));
    }
    client.write_all(&bytes[quick..])
}

fn endless(client: &mut TcpStream, status: u16) -> io::Result<()> {
    let head =
        format!("HTTP/1.1 {status} Endless\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    client.write_all(head.as_bytes())?;
    let mut chunk = b"10000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x10000, b'x');
    chunk.extend_from_slice(b"\r\n");
    let mut sent = 0;
    while sent < ENDLESS {
        client.write_all(&chunk)?;
        sent += 0x10000;
    }
    Ok(())
}
