//! Two maintainers at once on one bucket: the conditional put decides, one wins, the other rebases and says so.

use std::process::Command;
use std::thread::scope;

use crate::bucket::{Bucket, URL};
use crate::held::Held;
use crate::random::seed;
use crate::registry::{KEYS, listed, profiles};
use crate::support::{NOW, Run};

const LATEST: &str = "/snapshot/latest.note";

/// One publishes and is held where it commits; the other publishes meanwhile; then the first goes on.
fn race(bucket: &Bucket, slow: (&str, &str), quick: (&str, &str)) -> (Run, Run) {
    let held = Held::new("PUT", LATEST);
    bucket.0.proxy.hold(&held);
    let line = |(id, folder): (&str, &str)| {
        format!("publish {id} --profiles more {KEYS} --registry {folder} --to {URL} --now {NOW}")
    };
    scope(|scope| {
        // An answer may be waited for as long as the other one takes.
        let patient = || bucket.0.run_with("60", &line(slow));
        let slow = scope.spawn(patient);
        held.wait();
        let quick = bucket.0.run_with("60", &line(quick));
        held.release();
        (slow.join().unwrap(), quick)
    })
}

#[test]
fn of_two_maintainers_at_once_one_wins_and_the_other_rebases_and_says_so() {
    let Some(bucket) = Bucket::new(seed()) else { return };
    let world = &bucket.0.world;
    let ids: Vec<String> = (0..4).map(|n| format!("profile-{n}")).collect();
    profiles(world, "more", &ids);
    let copied =
        Command::new("cp").args(["-r", "registry", "other"]).current_dir(world.folder.path()).status();
    assert!(copied.unwrap().success());

    // Nothing is there yet: `If-None-Match: *`.
    let (slow, quick) = race(&bucket, ("profile-0", "registry"), ("profile-1", "other"));
    let (slow, quick) = (slow.ok(), quick.ok());
    assert!(slow.err.contains("somebody else published first"), "{}", slow.err);
    assert!(!quick.err.contains("somebody else"), "{}", quick.err);
    assert_eq!(refused(&bucket), ["if-none-match"], "{:?}", bucket.0.proxy.puts());

    // Something is there: `If-Match`.
    let (slow, quick) = race(&bucket, ("profile-2", "registry"), ("profile-3", "other"));
    let (slow, quick) = (slow.ok(), quick.ok());
    assert!(
        slow.err.contains("somebody else published first: doing it again on top of that"),
        "{}",
        slow.err
    );
    assert!(!quick.err.contains("somebody else"), "{}", quick.err);
    assert_eq!(refused(&bucket), ["if-none-match", "if-match"], "{:?}", bucket.0.proxy.puts());

    bucket.0.run(&format!("sync {URL} --to mirror --now {NOW}")).ok();
    assert_eq!(listed(world, "mirror"), ids.into_iter().collect());
    bucket.0.run(&format!("verify {URL} --now {NOW}")).ok();
    // Nobody ever replaced it without a condition.
    assert!(bucket.0.proxy.puts().iter().all(|put| put.condition != "none"), "{:?}", bucket.0.proxy.puts());
}

/// Conditions under which `latest.note` was not replaced.
fn refused(bucket: &Bucket) -> Vec<String> {
    let puts = bucket.0.proxy.puts();
    puts.into_iter().filter(|put| put.status == 412).map(|put| put.condition).collect()
}
