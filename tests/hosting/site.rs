//! A place that two publishers and many clients use at once, while its server breaks and is killed.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::proxy::{Fault, Proxy};
use crate::random::amount;
use crate::registry::{KEYS, listed, profiles};
use crate::server::Server;
use crate::support::{NOW, Run, World, words};

const NAMES: [&str; 2] = ["one", "two"];
/// How often one publication is tried. Far more than faults ever need: a publisher that never succeeds is a failure.
const TRIES: usize = 60;
/// For each client, between two syncs of one: so that the publishers of a small machine get on.
const PAUSE: Duration = Duration::from_millis(100);
const FAULTS: [Fault; 13] = [
    Fault::Dropped,
    Fault::Cut,
    Fault::Slow(1024),
    Fault::Status(500),
    Fault::Status(404),
    Fault::Status(304),
    Fault::Short,
    Fault::Long,
    Fault::Endless(200),
    Fault::Endless(503),
    Fault::Silent,
    Fault::Changed,
    Fault::Stale,
];

/// The place.
pub struct Site {
    pub world: World,
    pub server: Mutex<Server>,
    pub proxy: Proxy,
    /// Where publishers publish.
    pub to: String,
    /// Where clients follow it.
    pub from: String,
    /// In how many of 1000 answers something is wrong.
    pub per_mille: usize,
    /// What commands need to reach it.
    pub settings: Vec<(&'static str, String)>,
}

#[derive(Default)]
struct Figures {
    published: AtomicUsize,
    failed_publishes: AtomicUsize,
    again: AtomicUsize,
    syncs: AtomicUsize,
    failed_syncs: AtomicUsize,
    retries: AtomicUsize,
    kills: AtomicUsize,
}

fn add(counter: &AtomicUsize, count: usize) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn value(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::Relaxed)
}

impl Site {
    pub fn command(&self) -> Command {
        let mut command = self.world.command();
        command.env("CAPGATE_PATIENCE", "1").env("CAPGATE_LOG", "capgate=debug,object_store=info");
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn run(&self, line: &str) -> Run {
        Run::of(self.command().args(words(line)))
    }

    /// The same, by somebody who waits so many seconds.
    pub fn run_with(&self, patience: &str, line: &str) -> Run {
        Run::of(self.command().env("CAPGATE_PATIENCE", patience).args(words(line)))
    }

    /// Everybody works; then everything that was published is in force everywhere, and nobody ever held anything else than a
    /// sound registry.
    pub fn holds(&self, name: &str) {
        let (publishes, clients) = (amount("CAPGATE_PUBLISHES", 12), amount("CAPGATE_CLIENTS", 4));
        let each = publishes.div_ceil(NAMES.len());
        let ids = |name: &str| (0..each).map(|n| format!("{name}-profile-{n}")).collect::<Vec<_>>();
        for name in NAMES {
            profiles(&self.world, name, &ids(name));
        }
        let figures = Figures::default();
        self.proxy.plan(&FAULTS, self.per_mille);
        let is_over = AtomicBool::new(false);
        scope(|scope| {
            let following: Vec<_> = (0..clients)
                .map(|n| {
                    scope.spawn({
                        let (figures, is_over) = (&figures, &is_over);
                        move || self.follow((n, clients), is_over, figures)
                    })
                })
                .collect();
            let publishing: Vec<_> = NAMES
                .iter()
                .map(|name| {
                    let figures = &figures;
                    scope.spawn(move || ids(name).iter().for_each(|id| self.publish(name, id, figures)))
                })
                .collect();
            let kills = publishes.div_ceil(20).max(2);
            for kill in 1..=kills {
                while value(&figures.published) < each * NAMES.len() * kill / (kills + 1)
                    && publishing.iter().any(|work| !work.is_finished())
                {
                    sleep(Duration::from_millis(10));
                }
                let mut server = self.server.lock().unwrap();
                server.kill();
                sleep(Duration::from_millis(300));
                server.start_again();
                add(&figures.kills, 1);
            }
            let ended: Vec<_> = publishing.into_iter().map(|work| work.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            let followed: Vec<_> = following.into_iter().map(|work| work.join()).collect();
            // Only now, so that nobody works on while a test fails.
            assert!(ended.iter().chain(&followed).all(|end| end.is_ok()));
        });
        self.proxy.plan(&[], 0);
        let done = self.proxy.done();
        // A few answers may happen to meet only some of them.
        if self.proxy.requests() * self.per_mille > 1000 * 12 * FAULTS.len() {
            assert_eq!(done.len(), FAULTS.len(), "{done:?}");
        }
        let all: BTreeSet<String> = NAMES.iter().flat_map(|name| ids(name)).collect();
        for n in 0..clients {
            self.run(&format!("sync {} --to client-{n} --now {NOW}", self.from)).ok();
            self.is_sound(&format!("client-{n}"));
            assert_eq!(listed(&self.world, &format!("client-{n}")), all);
        }
        self.run(&format!("verify {} --now {NOW}", self.to)).ok();
        println!(
            "hosting: {name}: {} publishes by {} publishers ({} done again on top of the other's, {} failed and repeated), \
             {} syncs by {clients} clients ({} failed), each followed by a verify that passed; {} answers, {} faults, {} \
             requests tried again by readers, the server killed {} times",
            value(&figures.published),
            NAMES.len(),
            value(&figures.again),
            value(&figures.failed_publishes),
            value(&figures.syncs),
            value(&figures.failed_syncs),
            self.proxy.requests(),
            done.values().sum::<usize>(),
            value(&figures.retries),
            value(&figures.kills),
        );
        println!("hosting: faults: {done:?}");
    }

    fn publish(&self, name: &str, id: &str, figures: &Figures) {
        let line = format!(
            "publish {id} --profiles {name} {KEYS} --registry work-{name} --to {} --now {NOW}",
            self.to
        );
        for _ in 0..TRIES {
            let done = self.run(&line);
            add(&figures.again, done.err.matches("doing it again").count());
            self.is_sound(&format!("work-{name}"));
            if done.exit == 0 {
                return add(&figures.published, 1);
            }
            assert!(matches!(done.exit, 1 | 4), "{}{}", done.out, done.err);
            assert!(!done.err.contains("different histories"), "the log was forked: {}", done.err);
            println!("{id}: {}", last(&done.err));
            add(&figures.failed_publishes, 1);
        }
        panic!("`{id}` was not published in {TRIES} tries");
    }

    fn follow(&self, (n, clients): (usize, usize), is_over: &AtomicBool, figures: &Figures) {
        let folder = format!("client-{n}");
        let mut newest = 0;
        while !is_over.load(Ordering::Relaxed) {
            let done = self.run(&format!("sync {} --to {folder} --now {NOW} --format json", self.from));
            add(&figures.syncs, 1);
            let again = ["tries=", "backing off"].iter().map(|word| done.err.matches(word).count());
            add(&figures.retries, again.sum());
            if done.exit != 0 {
                assert!(matches!(done.exit, 1 | 4), "{}{}", done.out, done.err);
                assert!(!done.err.contains("different histories"), "the log was forked: {}", done.err);
                add(&figures.failed_syncs, 1);
            } else {
                let version = done.json()["version"].as_u64().unwrap();
                assert!(version >= newest, "back from version {newest} to {version}");
                newest = version;
            }
            self.is_sound(&folder);
            sleep(PAUSE * u32::try_from(clients).unwrap());
        }
    }

    /// A folder holds a whole registry that `verify` accepts, or nothing yet.
    #[track_caller]
    fn is_sound(&self, folder: &str) {
        if self.world.path(folder).join("snapshot/latest.note").exists() {
            self.world.run(&format!("verify {folder} --now {NOW}")).ok();
        }
    }
}

/// What a command said when it failed.
fn last(err: &str) -> &str {
    err.lines().find(|line| line.starts_with("error: ")).unwrap_or(err)
}
