//! Sockets that answer with everything but what they should.

use std::os::unix::net::UnixListener;
use std::thread::{self, JoinHandle};

use super::*;

/// A socket that takes one request, answers it with these bytes and closes; or says nothing for as long as it is held.
struct Fake {
    folder: tempfile::TempDir,
    served: Option<JoinHandle<()>>,
}

impl Fake {
    fn answers(bytes: Vec<u8>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("agent")).unwrap();
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut request = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut request).unwrap();
            // Who refuses an answer by its length does not wait for the rest.
            let _ = stream.write_all(&bytes);
        });
        Self { folder, served: Some(served) }
    }

    fn agent(&self) -> Agent {
        Agent::at(&self.folder.path().join("agent"))
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.served.take().unwrap().join().unwrap();
    }
}

fn message(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

fn listed(answer: Vec<u8>) -> Result<Vec<Identity>, AgentError> {
    Fake::answers(answer).agent().identities()
}

fn signed(answer: Vec<u8>) -> Result<[u8; 64], AgentError> {
    Fake::answers(answer).agent().sign(&[1; 32], b"text\n")
}

/// The error without the socket's path.
fn said<T: std::fmt::Debug>(outcome: Result<T, AgentError>) -> String {
    let text = outcome.unwrap_err().to_string();
    let (before, rest) = text.split_once('`').unwrap();
    format!("{before}…{}", rest.split_once('`').unwrap().1)
}

#[test]
fn an_empty_agent_and_one_that_refuses_are_told_apart() {
    assert_eq!(listed(message(&[12, 0, 0, 0, 0])).unwrap(), []);
    assert_eq!(said(listed(message(&[5]))), "the ssh-agent at …: it refuses");
    assert_eq!(said(signed(message(&[5]))), "the ssh-agent at …: it refuses");
}

#[test]
fn answers_of_another_type_are_refused() {
    let wrong = "the ssh-agent at …: its answer is a message of type 12, 14 was expected";
    assert_eq!(said(signed(message(&[12, 0, 0, 0, 0]))), wrong);
    let wrong = "the ssh-agent at …: its answer is a message of type 6, 12 was expected";
    assert_eq!(said(listed(message(&[6]))), wrong);
}

#[test]
fn oversized_answers_are_refused_by_their_length() {
    let wrong = "the ssh-agent at …: its answer is said to have 4294967295 bytes, more than the 262144 that are accepted";
    assert_eq!(said(listed(vec![0xff; 4])), wrong);
    assert_eq!(said(listed(vec![0xff; 1 << 20])), wrong);
    assert_eq!(said(listed(vec![0; 4])), "the ssh-agent at …: its answer is empty");
}

#[test]
fn truncated_answers_are_refused() {
    let whole = message(&[12, 0, 0, 0, 0]);
    for length in 0..whole.len() {
        let text = said(listed(whole[..length].to_vec()));
        assert_eq!(text, "the ssh-agent at … broke off: failed to fill whole buffer", "{length}");
    }
    // Whole as a message, and cut inside.
    let wrong = "the ssh-agent at …: its answer is malformed: a key ends too early or too late";
    assert_eq!(said(listed(message(&[12, 0, 0, 0, 1, 0, 0]))), wrong);
}

#[test]
fn a_silent_agent_is_not_waited_for_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent");
    let _listens = UnixListener::bind(&socket).unwrap();
    let patience = Duration::from_millis(50);
    let agent = Agent { socket, for_list: patience, for_signature: patience };
    assert_eq!(said(agent.identities()), "the ssh-agent at … did not answer within 0.05 seconds");
    assert_eq!(
        said(agent.sign(&[1; 32], b"text\n")),
        "the ssh-agent at … did not answer within 0.05 seconds"
    );
}

#[test]
fn an_answer_in_single_bytes_has_the_same_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent");
    let listener = UnixListener::bind(&socket).unwrap();
    let drips = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // An answer of 256 KiB that never ends while anybody listens.
        let _ = stream.write_all(&[0, 4, 0, 0]);
        while stream.write_all(&[12]).is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
    });
    let patience = Duration::from_millis(50);
    let agent = Agent { socket, for_list: patience, for_signature: patience };
    assert!(matches!(agent.identities(), Err(AgentError::Silent { .. })));
    drips.join().unwrap();
}

#[test]
fn a_socket_that_is_full_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent");
    let address = SocketAddrUnix::new(&socket).unwrap();
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    // Who waits in the queue is never let in; at some point nobody else fits.
    let mut waiting = Vec::new();
    let full = loop {
        match connect(&socket) {
            Ok(stream) => waiting.push(stream),
            Err(e) => break e,
        }
        assert!(waiting.len() < 10, "the queue has no end");
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn where_no_agent_is_the_socket_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = said(Agent::at(&folder.path().join("none")).identities());
    assert_eq!(text, "no ssh-agent listens at …: No such file or directory (os error 2)");
    let long = folder.path().join("a".repeat(200));
    assert!(said(Agent::at(&long).identities()).starts_with("no ssh-agent listens at …: "));
    // A file that nobody listens at.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(Agent::at(&file).identities(), Err(AgentError::Connect { .. })));
}
