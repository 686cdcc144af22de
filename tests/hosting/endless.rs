//! A thief of the registry key signs a log of 2^62 entries, and a server in league answers whatever it is asked: nobody may
//! go on asking.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use capgate_registry::keys::SigningKey;
use capgate_registry::latest::Latest;
use capgate_registry::log::{Checkpoint, TILE_WIDTH, Tile, decode_bundle, encode_bundle};
use capgate_registry::merkle::{Hash, leaf_hash, node_hash};
use capgate_registry::note::{self, Kind, Note, Origin};

use crate::registry::KEYS;
use crate::support::{B10167, NOW, ORIGIN, World};

/// Entries that are claimed.
const CLAIMED: u64 = 1 << 62;

/// What the server says to requests for tiles.
#[derive(Clone, Copy, PartialEq)]
enum Tiles {
    /// There are those of the folder.
    Missing,
    /// All of them, each full of the one entry that a publisher signed, with hashes that lead to the signed root.
    Repeated,
}

pub struct Thief {
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl Thief {
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn requests(&self) -> usize {
        self.requests.swap(0, Ordering::Relaxed)
    }
}

/// A hash of a subtree of so many levels over one leaf again and again.
fn repeated(leaf: Hash, levels: u8) -> Hash {
    (0..levels).fold(leaf, |hash, _| node_hash(&hash, &hash))
}

fn signed(world: &World, change: impl FnOnce(&mut Latest)) -> (Latest, Vec<u8>, Vec<u8>) {
    let key = SigningKey::parse(world.read("registry.key").trim_end()).unwrap();
    let origin = Origin::parse(ORIGIN).unwrap();
    let bytes = fs::read(world.path("registry/snapshot/latest.note")).unwrap();
    let text = Note::parse(&bytes).unwrap().text().to_owned();
    let mut latest = Latest::parse(text.split_once('\n').unwrap().1.as_bytes()).unwrap();
    change(&mut latest);
    let text = note::compose(Kind::Latest, &origin, &latest.to_toml()).unwrap();
    let checkpoint = Checkpoint { origin, size: latest.log_size, root: latest.log_root };
    let checkpoint = note::sign(&checkpoint.to_text(), &[&key]).unwrap();
    (latest, note::sign(&text, &[&key]).unwrap(), checkpoint)
}

/// Every file of a folder.
fn content(folder: &Path, name: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = format!("{name}/{}", entry.file_name().into_string().unwrap());
        if entry.path().is_dir() {
            content(&entry.path(), &name, found);
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
}

fn tile(name: &str, leaf: Hash, entry: &[u8]) -> Option<Vec<u8>> {
    let tile = Tile::parse(name.strip_prefix('/')?)?;
    Some(match tile.row() {
        capgate_registry::log::Row::Entries => {
            let entries = vec![entry.to_vec(); usize::try_from(TILE_WIDTH).unwrap()];
            encode_bundle(&entries).unwrap()
        }
        capgate_registry::log::Row::Hashes(level) => {
            repeated(leaf, level * 8).0.repeat(usize::try_from(tile.width()).unwrap())
        }
    })
}

fn served(world: &World, tiles: Tiles) -> Thief {
    let mut files = BTreeMap::new();
    content(&world.path("registry"), "", &mut files);
    let entry = decode_bundle(&files["/log/tile/entries/000.p/1"], 1).unwrap()[0].to_vec();
    let leaf = leaf_hash(&entry);
    let (_, latest, checkpoint) = signed(world, |latest| {
        latest.version += 1;
        latest.log_size = CLAIMED;
        latest.log_root = repeated(leaf, 62);
    });
    files.insert("/snapshot/latest.note".to_owned(), latest);
    files.insert("/log/checkpoint".to_owned(), checkpoint);
    serve(move |name| match files.get(name) {
        None if tiles == Tiles::Repeated => tile(name, leaf, &entry).map(Answer::whole),
        found => found.cloned().map(Answer::whole),
    })
}

/// Status, head, and body.
pub struct Answer(pub &'static str, pub String, pub Vec<u8>);

impl Answer {
    pub fn whole(bytes: Vec<u8>) -> Self {
        Self("200 OK", format!("Content-Length: {}", bytes.len()), bytes)
    }
}

pub fn serve(answer: impl Fn(&str) -> Option<Answer> + Send + 'static) -> Thief {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let thief = Thief { port: listener.local_addr().unwrap().port(), requests: Arc::default() };
    let requests = Arc::clone(&thief.requests);
    // It ends with the process.
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            requests.fetch_add(1, Ordering::Relaxed);
            let Some(name) = asked(&mut client) else { continue };
            let Answer(status, head, body) = answer(&name)
                .unwrap_or_else(|| Answer("404 Not Found", "Content-Length: 0".to_owned(), Vec::new()));
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{head}\r\n\r\n");
            let _ = client.write_all(&[head.into_bytes(), body].concat());
        }
    });
    thief
}

fn asked(client: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).ok()?.split(' ').nth(1)?.to_owned())
}

fn world() -> World {
    let world = World::new();
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    fs::copy(world.path("registry/log/checkpoint"), world.path("kept")).unwrap();
    world
}

#[test]
fn attack_a_signed_size_that_nobody_has_is_not_asked_for() {
    let world = world();
    let thief = served(&world, Tiles::Missing);
    let verified = world.run(&format!("verify {} --now {NOW}", thief.url()));
    assert!(verified.exit == 4 && verified.out.contains("is missing"), "{}{}", verified.out, verified.err);
    let asked = thief.requests();
    assert!(asked < 60, "{asked} requests");
    let synced = world.run(&format!("sync {} --to mirror --now {NOW}", thief.url()));
    assert!(matches!(synced.exit, 1 | 4), "{}", synced.err);
    let asked = thief.requests();
    assert!(asked < 200, "{asked} requests");
    assert!(!world.path("mirror/snapshot/latest.note").exists());
}

#[test]
fn attack_a_log_without_an_end_ends_where_publishers_signed_nothing() {
    let world = world();
    let thief = served(&world, Tiles::Repeated);
    let verified = world.run(&format!("verify {} --now {NOW}", thief.url()));
    assert!(
        verified.exit == 4 && verified.err.contains("4611686018427387904 entries that are claimed"),
        "{}{}",
        verified.out,
        verified.err
    );
    let asked = thief.requests();
    assert!((18..60).contains(&asked), "{asked} requests");
    let since = world.run(&format!("verify {} --since kept --now {NOW}", thief.url()));
    assert!(since.exit == 4 && since.out.contains("1000 faults: the "), "{}{}", since.out, since.err);
    let asked = thief.requests();
    assert!(asked < 60, "{asked} requests");
    let synced = world.run(&format!("sync {} --to mirror --now {NOW}", thief.url()));
    assert!(synced.exit == 4 && synced.err.contains("entry 0 of the source's log"), "{}", synced.err);
    let asked = thief.requests();
    // A batch of entries is fetched before it is judged.
    assert!(asked < 120, "{asked} requests");
    assert!(!world.path("mirror/snapshot/latest.note").exists());
}

#[test]
fn attack_a_snapshot_larger_than_its_log_is_not_fetched() {
    let world = world();
    let mut files = BTreeMap::new();
    content(&world.path("registry"), "", &mut files);
    let thief = serve(move |name| {
        if name.ends_with(".snap") {
            let head = format!("Content-Range: bytes 0-65535/{CLAIMED}\r\nContent-Length: 65536");
            return Some(Answer("206 Partial Content", head, vec![0; 65536]));
        }
        files.get(name).cloned().map(Answer::whole)
    });
    let verified = world.run(&format!("verify {} --now {NOW}", thief.url()));
    assert!(
        verified.exit == 4 && verified.err.contains("entries make at most"),
        "{}{}",
        verified.out,
        verified.err
    );
    let asked = thief.requests();
    assert!(asked < 20, "{asked} requests");
}
