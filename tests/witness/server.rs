//! A real server, and a client that shares no code with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{World, words};

/// `capgate witness serve`, ended with the test.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
}

impl Server {
    /// Starts it on a free port; `logs` says which it watches.
    pub fn start(world: &World, name: &str, logs: &str) -> Self {
        let line = format!("witness serve --state {name} --key {name}.key --listen 127.0.0.1:0 {logs}");
        let mut child =
            world.command().args(words(&line)).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = said.find_map(|line| Some(line.strip_prefix("listening on http://")?.parse().unwrap()));
        let Some(address) = address else { panic!("it ended at once: {:?}", child.wait()) };
        Self { child, address }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end.
    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    pub fn add(&self, body: &[u8]) -> Answer {
        post(self.address, body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Sends bytes as they are and reads everything that comes back.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    // A server may answer and close before everything was sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

pub fn parsed(answer: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let length: usize = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?.parse().ok()?;
    (body.len() == length).then(|| Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// `POST /add-checkpoint`; `None` where no whole answer came.
pub fn post(address: SocketAddr, body: &[u8]) -> Option<Answer> {
    let head = format!("POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: {}\r\n\r\n", body.len());
    parsed(&raw(address, &[head.as_bytes(), body].concat()).ok()?)
}
