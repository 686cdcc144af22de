//! Requests that no honest log sends.

use std::io::Write;
use std::net::TcpStream;
use std::thread;

use crate::log::{Log, NAME, is_cosigned, key};
use crate::server::{Server, parsed, raw};
use crate::support::World;
use crate::witness;

fn watched() -> String {
    format!("--log {}", key().verifier())
}

fn log(size: u64) -> Log {
    let mut log = Log::default();
    (0..size).for_each(|i| log.push(&format!("entry {i}")));
    log
}

#[test]
fn every_answer_is_that_of_the_specification() {
    let world = World::bare();
    let public = witness(&world, "one");
    let server = Server::start(&world, "one", &watched());
    let log = log(20);
    let answer = server.add(&log.request(0, 7));
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(is_cosigned(&answer.body, &log.text(7), &public));
    // The same again, and from there on.
    assert_eq!(server.add(&log.request(7, 7)).status, 200);
    assert_eq!(server.add(&log.request(7, 12)).status, 200);
    let stale = server.add(&log.request(7, 20));
    assert_eq!((stale.status, stale.body.as_str()), (409, "12\n"));
    assert!(stale.head.contains("Content-Type: text/x.tlog.size\r\n"), "{}", stale.head);
    let mut other = self::log(9);
    (9..20).for_each(|i| other.push(&format!("another {i}")));
    let split = server.add(&other.request(12, 12));
    assert_eq!((split.status, split.body.as_str()), (409, "12\n"));
    assert_eq!(server.add(&other.request(12, 15)).status, 422);
    let text = |from: &str, to: &str| {
        let request = String::from_utf8(log.request(12, 15)).unwrap();
        assert!(request.contains(from));
        server.add(request.replacen(from, to, 1).as_bytes()).status
    };
    assert_eq!(text("old 12", "old 16"), 400);
    assert_eq!(text("old 12", "old 012"), 400);
    assert_eq!(text(&format!("\n{NAME}\n"), "\nother.test/gpu\n"), 404);
    assert_eq!(text("\n15\n", "\n16\n"), 403, "the text was changed");
    assert_eq!(text(&format!("\u{2014} {NAME} "), "\u{2014} somebody.else "), 403);
    assert_eq!(server.add(&log.request(12, 15)).status, 200);
}

#[test]
fn what_is_no_request_is_refused_and_the_next_one_is_served() {
    let world = World::bare();
    let public = witness(&world, "one");
    let server = Server::start(&world, "one", &watched());
    let send =
        |text: &str| parsed(&raw(server.address, text.as_bytes()).unwrap()).map(|answer| answer.status);
    let fields = "X-A: 1\r\n".repeat(100);
    let long = "a".repeat(20_000);
    for (request, status) in [
        ("GET /add-checkpoint HTTP/1.1\r\n\r\n".to_owned(), 405),
        ("POST / HTTP/1.1\r\n\r\n".to_owned(), 404),
        ("POST /add-checkpoint/../add-checkpoint HTTP/1.1\r\n\r\n".to_owned(), 404),
        ("POST /add-checkpoint HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("POST /add-checkpoint HTTP/1.1\r\nContent-Length: 3\r\n\r\nold".to_owned(), 400),
        ("POST /add-checkpoint HTTP/1.1\r\nContent-Length: +3\r\n\r\nold".to_owned(), 400),
        (
            "POST /add-checkpoint HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nold".to_owned(),
            400,
        ),
        ("POST /add-checkpoint HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n".to_owned(), 400),
        ("POST /add-checkpoint HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n".to_owned(), 413),
        ("POST /add-checkpoint HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(), 411),
        (format!("POST /add-checkpoint HTTP/1.1\r\n{fields}\r\n"), 431),
        (format!("POST /{long} HTTP/1.1\r\n\r\n"), 431),
        ("\0\u{1}\u{2}\r\n\r\n".to_owned(), 400),
        ("SSH-2.0-OpenSSH\r\n\r\n".to_owned(), 400),
    ] {
        assert_eq!(send(&request), Some(status), "{request:.200}");
    }
    // Clients that send nothing, or half, hold a place each and no more; the others are served meanwhile.
    let idle: Vec<TcpStream> = (0..8)
        .map(|i| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream
                .write_all(&b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 50\r\n\r\nold 0\n"[..i * 8])
                .unwrap();
            stream
        })
        .collect();
    let log = log(3);
    let answer = server.add(&log.request(0, 3));
    assert!(answer.status == 200 && is_cosigned(&answer.body, &log.text(3), &public), "{}", answer.body);
    drop(idle);
    // One that waits to be told to go on.
    let body = log.request(3, 3);
    let head = format!(
        "POST /add-checkpoint HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = raw(server.address, &[head.as_bytes(), &body].concat()).unwrap();
    let rest = answer.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    assert_eq!(parsed(rest).unwrap().status, 200);
}

#[test]
fn of_two_histories_at_the_same_moment_one_is_cosigned() {
    let world = World::bare();
    let public = witness(&world, "one");
    let server = Server::start(&world, "one", &watched());
    let mut base = log(5);
    assert_eq!(server.add(&base.request(0, 5)).status, 200);
    let mut winners = [0, 0];
    for round in 0..10 {
        let old = base.size();
        let (mut left, mut right) = (base.clone(), base.clone());
        for i in 0..3 {
            left.push(&format!("left {round} {i}"));
            right.push(&format!("right {round} {i}"));
        }
        let size = left.size();
        let requests = [left.request(old, size), right.request(old, size)];
        let got: [bool; 2] = thread::scope(|scope| {
            let many: Vec<_> = (0..8)
                .map(|i| {
                    let (server, request) = (&server, &requests[i % 2]);
                    scope.spawn(move || (i % 2, server.add(request)))
                })
                .collect();
            let mut got = [false; 2];
            for one in many {
                let (which, answer) = one.join().unwrap();
                let log = if which == 0 { &left } else { &right };
                match answer.status {
                    200 => {
                        assert!(is_cosigned(&answer.body, &log.text(size), &public));
                        got[which] = true;
                    }
                    status => assert_eq!((status, answer.body), (409, format!("{size}\n"))),
                }
            }
            got
        });
        assert_ne!(got[0], got[1], "round {round}: exactly one of them");
        let winner = usize::from(got[1]);
        winners[winner] += 1;
        base = if winner == 0 { left } else { right };
    }
    assert_eq!(winners[0] + winners[1], 10);
    server.stop();
    let status = world.run("witness status --state one --format json").json();
    assert_eq!(status["evidence"].as_array().unwrap().len(), 20, "both of each round");
}

#[test]
fn a_memory_in_use_is_not_used_by_another() {
    let world = World::published();
    witness(&world, "one");
    let server = Server::start(&world, "one", &watched());
    let second = world.run("witness cosign registry --state one --key one.key");
    assert!(second.exit == 1 && second.err.contains("another witness is using"), "{}", second.err);
    server.stop();
    world.run("witness cosign registry --state one --key one.key").ok();
}
