//! One kind of fault at a time: what was verified stays, and the next good answer is taken.

use std::fs;

use crate::held::Held;
use crate::proxy::{Fault, Proxy};
use crate::random::seed;
use crate::registry::{KEYS, files, listed, profiles, verify};
use crate::served::served;
use crate::server::Server;
use crate::support::{B10359, NOW, Run, World};

/// A copy that was once synced, a proxy before its source, and one profile that is new there.
struct Broken {
    world: World,
    proxy: Proxy,
    _server: Server,
}

impl Broken {
    fn new() -> Option<Self> {
        let (world, server, url) = served()?;
        world.run(&format!("sync {url} --to mirror --now {NOW}")).ok();
        world.run(&format!("publish {B10359} {KEYS} --now {NOW}")).ok();
        let proxy = Proxy::start(server.port, seed());
        Some(Self { world, proxy, _server: server })
    }

    fn sync(&self, to: &str, patience: &str) -> Run {
        let url = format!("http://127.0.0.1:{}", self.proxy.port);
        let mut command = self.world.command();
        command.env("CAPGATE_PATIENCE", patience).env("CAPGATE_LOG", "capgate=debug");
        Run::of(command.args(["sync", &url, "--to", to, "--now", NOW]))
    }
}

#[test]
fn every_answer_broken_leaves_what_was_verified_before() {
    let Some(broken) = Broken::new() else { return };
    let before = files(&broken.world.path("mirror"));
    for (fault, says) in [
        (Fault::Dropped, "after 5 tries"),
        (Fault::Cut, "after 5 tries"),
        (Fault::Status(500), "answered 500 Internal Server Error, after 5 tries"),
        (Fault::Status(503), "answered 503 Service Unavailable, after 5 tries"),
        (Fault::Status(304), "answered 304 Not Modified"),
        (Fault::Status(403), "answered 403 Forbidden"),
        (Fault::Status(404), "compare the address"),
        (Fault::Short, ""),
        (Fault::Long, "after 5 tries"),
        (Fault::Endless(200), "more than the "),
        (Fault::Endless(500), "answered 500 Internal Server Error, after 5 tries"),
        (Fault::Silent, "no answer came in time"),
        (Fault::Slow(16), "too slow"),
        (Fault::Changed, ""),
        (Fault::Redirected, "redirects too often"),
    ] {
        broken.proxy.plan(&[fault], 1000);
        let refused = broken.sync("mirror", "1");
        assert!(matches!(refused.exit, 1 | 4), "{fault:?}: {}{}", refused.out, refused.err);
        assert!(refused.err.contains(says), "{fault:?}: {}", refused.err);
        if refused.exit == 1 {
            assert!(
                refused.err.contains("what is here stays in force") || fault == Fault::Status(404),
                "{}",
                refused.err
            );
        }
        assert_eq!(files(&broken.world.path("mirror")), before, "{fault:?}");
        let fresh = broken.sync("fresh", "1");
        assert_ne!(fresh.exit, 0, "{fault:?}: {}", fresh.out);
        assert!(!broken.world.path("fresh/snapshot/latest.note").exists(), "{fault:?}");
    }
    verify(&broken.world, "mirror").ok();
    broken.proxy.plan(&[], 0);
    broken.sync("mirror", "1").ok();
    broken.sync("fresh", "1").ok();
    assert_eq!(files(&broken.world.path("mirror")), files(&broken.world.path("registry")));
}

#[test]
fn a_cut_file_goes_on_where_it_ended() {
    let Some(broken) = Broken::new() else { return };
    let ids: Vec<String> = (0..254).map(|n| format!("profile-{n}")).collect();
    profiles(&broken.world, "many", &ids);
    broken.world.run(&format!("publish --all --profiles many {KEYS} --now {NOW}")).ok();
    // Smaller files come whole. A fifth try would not be enough for one that began anew each time.
    broken.proxy.plan(&[Fault::CutAt(200_000)], 1000);
    broken.sync("mirror", "5").ok();
    verify(&broken.world, "mirror").ok();
    assert_eq!(listed(&broken.world, "mirror").len(), 256);
    let all = fs::read_to_string(broken.world.path("nginx/access")).unwrap();
    let of_bundle = |status: &str| {
        all.lines().filter(|line| line.contains("entries/000 ") && line.contains(status)).count()
    };
    let (whole, parts) = (of_bundle("\" 200 "), of_bundle("\" 206 "));
    println!("{whole} answer with all of it, {parts} that went on in the middle");
    assert!(whole == 1 && (2..=4).contains(&parts), "{all}");
}

#[test]
fn a_slow_line_is_slow_and_no_error() {
    let Some(broken) = Broken::new() else { return };
    broken.proxy.plan(&[Fault::Slow(1024)], 1000);
    broken.sync("mirror", "2").ok();
    verify(&broken.world, "mirror").ok();
    assert_eq!(listed(&broken.world, "mirror").len(), 2);
}

#[test]
fn some_answers_broken_are_asked_for_again() {
    let Some(broken) = Broken::new() else { return };
    broken.proxy.plan(&[Fault::Dropped, Fault::Status(500), Fault::Long], 200);
    let mut retries = 0;
    for n in 0..8 {
        let done = broken.sync(&format!("copy-{n}"), "5");
        retries += done.err.matches("tries=").count();
        if done.exit == 0 {
            verify(&broken.world, &format!("copy-{n}")).ok();
        } else {
            assert!(done.err.contains("after 5 tries"), "{}", done.err);
        }
    }
    let faults: usize = broken.proxy.done().values().sum();
    println!("{} answers, {faults} faults, {retries} tried again", broken.proxy.requests());
    assert_eq!(faults > 0, retries > 0);
}

#[test]
fn what_a_killed_verification_fetched_goes_with_the_next_one() {
    let Some(broken) = Broken::new() else { return };
    let temporary = broken.world.path("temporary");
    fs::create_dir(&temporary).unwrap();
    let url = format!("http://127.0.0.1:{}", broken.proxy.port);
    let verification = || {
        let mut command = broken.world.command();
        command.env("TMPDIR", &temporary).args(["verify", &url, "--now", NOW]);
        command
    };
    let left = || fs::read_dir(&temporary).unwrap().count();
    let held = Held::new("GET", "/entries/000.p/2");
    broken.proxy.hold(&held);
    let mut killed = verification().spawn().unwrap();
    held.wait();
    assert_eq!(left(), 1, "it is in the middle of fetching");
    killed.kill().unwrap();
    killed.wait().unwrap();
    held.release();
    assert_eq!(left(), 1);
    Run::of(&mut verification()).ok();
    assert_eq!(left(), 0);
}
