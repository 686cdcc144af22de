//! A folder that nginx serves: followed, verified and carried over by its address.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::nginx::{self, Pair};
use crate::registry::{KEYS, files, listed, profiles, verify};
use crate::server::Server;
use crate::support::{B10167, B10359, NOW, World};

/// A world whose folder `registry` is served.
pub fn served() -> Option<(World, Server, String)> {
    let program = nginx::program()?;
    let world = World::new();
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    let server = nginx::serve(&program, &world.path("registry"), &world.path("nginx"), None);
    let url = format!("http://127.0.0.1:{}", server.port);
    Some((world, server, url))
}

#[test]
fn a_folder_behind_nginx_is_followed_and_fetched_once() {
    let Some((world, _server, url)) = served() else { return };
    let sync = || world.run(&format!("sync {url} --to mirror --now {NOW}"));
    let first = sync().ok();
    assert!(first.out.starts_with("synced: 1 new entry, version 2"), "{}", first.out);
    assert_eq!(files(&world.path("mirror")), files(&world.path("registry")));
    assert!(sync().ok().out.starts_with("nothing new: version 2"));
    let ids: Vec<String> = (0..300).map(|n| format!("profile-{n}")).collect();
    profiles(&world, "many", &ids);
    world.run(&format!("publish --all --profiles many {KEYS} --now {NOW}")).ok();
    assert!(sync().ok().out.starts_with("synced: 300 new entries, version 3"));
    verify(&world, "mirror").ok();
    assert_eq!(files(&world.path("mirror")), files(&world.path("registry")));
    let before = fs::read_to_string(world.path("nginx/access")).unwrap().lines().count();
    world.run(&format!("publish {B10359} {KEYS} --now {NOW}")).ok();
    sync().ok();
    assert_eq!(listed(&world, "mirror").len(), 302);
    let all = fs::read_to_string(world.path("nginx/access")).unwrap();
    let new: Vec<&str> = all.lines().skip(before).collect();
    let is_full = |line: &&&str| line.contains("/log/tile/entries/000 ");
    assert_eq!(new.iter().filter(is_full).count(), 0, "a full tile never changes: {new:#?}");
    assert!(!all.contains(".snap"), "the snapshot is computed from the log, not fetched: {all}");
}

#[test]
fn a_whole_registry_is_verified_by_its_address() {
    let Some((world, _server, url)) = served() else { return };
    let good = verify(&world, &url).ok();
    assert!(good.out.contains("verified: no fault"), "{}", good.out);
    assert!(good.out.contains("a web server has no listing"), "{}", good.out);
    let checkpoint = world.path("registry/log/checkpoint");
    fs::copy(checkpoint, world.path("kept")).unwrap();
    world.run(&format!("publish {B10359} {KEYS} --now {NOW}")).ok();
    let since = world.run(&format!("verify {url} --since kept --now {NOW}")).ok();
    assert!(since.out.contains("since entry 1: 1 new entry"), "{}", since.out);
    let snapshot = fs::read_dir(world.path("registry/snapshot")).unwrap().flatten().map(|entry| entry.path());
    let snapshot = snapshot.filter(|path| path.extension().is_some_and(|e| e == "snap")).max().unwrap();
    let mut bytes = fs::read(&snapshot).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&snapshot, bytes).unwrap();
    let bad = verify(&world, &url);
    assert!(bad.exit == 4 && bad.out.contains("fault: `snapshot/"), "{}{}", bad.out, bad.err);
}

#[test]
fn another_registry_is_carried_over_from_its_address() {
    let Some((world, _server, url)) = served() else { return };
    world.run("keygen site.test --out site.key").ok();
    world.run("keygen site.example/gpu --out site-registry.key").ok();
    let init = "init site --origin site.example/gpu --root-key root.key --publisher site.key";
    let made = world.run(&format!("{init} --registry-key site-registry.key --now {NOW}")).ok();
    let line = format!(
        "publish --registry site --root {} --from {url} --from-root {} --key site.key \
         --registry-key site-registry.key --now {NOW}",
        made.out.trim(),
        world.root
    );
    world.run(&line).ok();
    let listed = world.run(&format!("list --registry site --root {} --now {NOW}", made.out.trim())).ok().out;
    assert!(listed.contains(B10167), "{listed}");
}

#[test]
fn an_encrypted_address_needs_an_authority_that_is_trusted() {
    let Some(program) = nginx::program() else { return };
    let world = World::new();
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    let pair = certificates(&world);
    let server = nginx::serve(&program, &world.path("registry"), &world.path("nginx"), Some(&pair));
    let url = format!("https://localhost:{}", server.port);
    let sync = |name: &str| {
        let mut command = world.command();
        command.args(["sync", &url, "--to", "mirror", "--now", NOW]);
        command.env("CAPGATE_CA_FILE", world.path(name));
        crate::support::Run::of(&mut command)
    };
    let unknown = world.run(&format!("sync {url} --to mirror --now {NOW}"));
    assert!(unknown.exit == 1 && unknown.err.contains("certificate"), "{}", unknown.err);
    assert!(!world.path("mirror/snapshot").exists());
    let other = sync("other.pem");
    assert!(other.exit == 1 && other.err.contains("other.pem` cannot be used"), "{}", other.err);
    sync("ca.pem").ok();
    verify(&world, "mirror").ok();
    // The name on the certificate counts, not the address behind it.
    let by_number = url.replace("localhost", "127.0.0.1");
    let mut command = world.command();
    command
        .args(["sync", &by_number, "--to", "mirror", "--now", NOW])
        .env("CAPGATE_CA_FILE", world.path("ca.pem"));
    let wrong = crate::support::Run::of(&mut command);
    assert!(wrong.exit == 1 && wrong.err.contains("certificate"), "{}", wrong.err);
}

#[test]
fn an_interrupted_sync_goes_on_where_it_was() {
    let Some((world, _server, url)) = served() else { return };
    let ids: Vec<String> = (0..600).map(|n| format!("profile-{n}")).collect();
    profiles(&world, "many", &ids);
    world.run(&format!("publish --all --profiles many {KEYS} --now {NOW}")).ok();
    let last = world.path("registry/log/tile/entries/002.p/89");
    let hidden = world.path("hidden");
    fs::rename(&last, &hidden).unwrap();
    // Something that no reader may take for a missing file.
    fs::create_dir(&last).unwrap();
    let sync = || world.run(&format!("sync {url} --to mirror --now {NOW}"));
    let cut = sync();
    assert!(cut.exit == 1 && cut.err.contains("what is here stays in force"), "{}", cut.err);
    assert!(!world.path("mirror/snapshot/latest.note").exists());
    assert!(world.path("mirror/.fetched/log/tile/entries/000").is_file());
    fs::remove_dir(&last).unwrap();
    fs::rename(&hidden, &last).unwrap();
    let asked = |name: &str| {
        let all = fs::read_to_string(world.path("nginx/access")).unwrap();
        all.lines().filter(|line| line.contains(&format!(" /log/tile/entries/{name} "))).count()
    };
    // What was kept is not believed: a damaged one is fetched anew.
    fs::write(world.path("mirror/.fetched/log/tile/entries/001"), b"damaged").unwrap();
    assert_eq!((asked("000"), asked("001")), (1, 1));
    let done = sync().ok();
    assert!(done.out.starts_with("synced: 601 new entries"), "{}", done.out);
    assert_eq!((asked("000"), asked("001")), (2, 2));
    assert!(!world.path("mirror/.fetched").exists());
    verify(&world, "mirror").ok();
    // Whole, it is not fetched again.
    fs::rename(&last, &hidden).unwrap();
    fs::create_dir(&last).unwrap();
    let other = || world.run(&format!("sync {url} --to other --now {NOW}"));
    assert_eq!(other().exit, 1);
    fs::remove_dir(&last).unwrap();
    fs::rename(&hidden, &last).unwrap();
    other().ok();
    assert_eq!((asked("000"), asked("001")), (3, 3));
    verify(&world, "other").ok();
}

#[test]
fn a_publication_that_is_not_written_out_yet_is_verified_by_its_address() {
    let Some((world, _server, url)) = served() else { return };
    let copied = |from: &str, to: &str| {
        let done = Command::new("cp").args(["-r", from, to]).current_dir(world.folder.path()).status();
        assert!(done.unwrap().success());
    };
    copied("registry/log", "before");
    world.run(&format!("publish {B10359} {KEYS} --now {NOW}")).ok();
    // As a stop behind the commit leaves it: entries are staged, tiles and checkpoint are the old ones.
    let (checkpoint, bundle) =
        ("registry/log/checkpoint", fs::read(world.path("registry/log/tile/entries/000.p/2")).unwrap());
    let checkpoint = fs::read(world.path(checkpoint)).unwrap();
    let second = 2 + usize::from(u16::from_be_bytes([bundle[0], bundle[1]]));
    let head = format!("capgate staged v1\n1\n{}\n", checkpoint.len());
    let staged = [head.as_bytes(), &checkpoint, &bundle[second..]].concat();
    let latest = world.read("registry/snapshot/latest.note");
    let value = |key: &str| {
        let line = latest.lines().find_map(|line| line.strip_prefix(&format!("{key} = "))).unwrap();
        line.trim_matches('"').to_owned()
    };
    fs::remove_dir_all(world.path("registry/log")).unwrap();
    copied("before", "registry/log");
    fs::create_dir_all(world.path("registry/log/staged")).unwrap();
    fs::write(
        world.path(&format!("registry/log/staged/{}-{}", value("log_size"), value("log_root"))),
        staged,
    )
    .unwrap();
    let verified = verify(&world, &url);
    assert!(verified.exit == 0 && verified.out.contains("2 entries"), "{}{}", verified.out, verified.err);
    let synced = world.run(&format!("sync {url} --to mirror --now {NOW}")).ok();
    assert!(synced.out.starts_with("synced: 2 new entries"), "{}", synced.out);
    verify(&world, "mirror").ok();
}

/// An authority of the test's own and a certificate of `localhost`, by OpenSSL.
fn certificates(world: &World) -> Pair {
    let openssl = |line: &str| {
        let mut command = Command::new("openssl");
        let done = command.current_dir(world.folder.path()).args(line.split_whitespace()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(&format!("{new} -keyout ca.key -out ca.pem -subj /CN=capgate-test-authority"));
    openssl(&format!(
        "{new} -keyout tls.key -out tls.pem -subj /CN=localhost -CA ca.pem -CAkey ca.key \
         -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE"
    ));
    world.put("other.pem", "no certificate\n");
    Pair { certificate: world.path("tls.pem"), key: world.path("tls.key") }
}

/// The head of an answer, in lower case but for its first line.
fn ask(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer).into_owned();
    text.split_once("\r\n\r\n").unwrap().0.to_owned()
}

#[test]
fn what_may_be_kept_and_for_how_long_is_said() {
    let Some((_world, server, _url)) = served() else { return };
    for (path, how) in [
        ("/snapshot/latest.note", "no-cache"),
        ("/log/checkpoint", "no-cache"),
        ("/trust/1.note", "immutable"),
        ("/log/tile/entries/000.p/1", "immutable"),
    ] {
        let head = ask(server.port, path);
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(how), "{path}: {head}");
        assert!(!head.to_lowercase().contains("content-encoding"), "{path}: {head}");
    }
    // A name that is taken tomorrow must not be missing for a year.
    let missing = ask(server.port, "/trust/2.note");
    assert!(missing.starts_with("HTTP/1.1 404 ") && !missing.contains("Cache-Control"), "{missing}");
}

#[test]
fn what_cannot_be_done_there_is_said() {
    let Some((world, mut server, url)) = served() else { return };
    let to = world.run(&format!("renew --registry-key registry.key --to {url} --now {NOW}"));
    assert!(to.exit == 2 && to.err.contains("can only be read"), "{}", to.err);
    let missing = world.run(&format!("sync {url}/nowhere --to mirror --now {NOW}"));
    assert!(missing.exit == 1 && missing.err.contains("compare the address"), "{}", missing.err);
    let query = world.run(&format!("sync {url}/?x --to mirror --now {NOW}"));
    assert!(query.exit == 2 && query.err.contains("query"), "{}", query.err);
    // What nginx was told to hide stays hidden.
    assert!(world.path("registry/.lock").exists());
    assert!(ask(server.port, "/.lock").starts_with("HTTP/1.1 404 "));
    assert!(ask(server.port, "/log/").starts_with("HTTP/1.1 40"), "no listing");
    server.kill();
    let gone = world.run(&format!("sync {url} --to mirror --now {NOW}"));
    assert!(gone.exit == 1 && gone.err.contains("after 5 tries"), "{}", gone.err);
    server.start_again();
    world.run(&format!("sync {url} --to mirror --now {NOW}")).ok();
    verify(&world, "mirror").ok();
}
