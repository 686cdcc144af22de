//! kill -9 at random moments, while two histories are offered at once: no two cosignatures contradict each other.
//!
//! `CAPGATE_KILLS` says how often; 15 unless it is set.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use capgate_registry::merkle::Hash;

use crate::log::{Log, is_cosigned, key};
use crate::server::{Server, post};
use crate::support::World;
use crate::witness;

/// Numbers that differ from run to run; a failure names what it saw.
fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes) % below
}

#[test]
fn killed_at_any_moment_it_never_cosigns_two_histories() {
    let kills = std::env::var("CAPGATE_KILLS").map_or(15, |text| text.parse().unwrap());
    let world = World::bare();
    let public = witness(&world, "one");
    let watched = format!("--log {}", key().verifier());
    // Everything that was ever cosigned, as those who asked got it.
    let cosigned: Mutex<Vec<(u64, Hash)>> = Mutex::default();
    let mut base = Log::default();
    let mut interrupted = 0;
    for round in 0..kills {
        let mut server = Server::start(&world, "one", &watched);
        let address = server.address;
        let mut forks = [base.clone(), base.clone()];
        for (which, fork) in forks.iter_mut().enumerate() {
            for i in 0..6 {
                fork.push(&format!("{round} {which} {i}"));
            }
        }
        let base_size = base.size();
        let offer = |fork: &Log, old: u64, size: u64| -> Option<u16> {
            let answer = post(address, &fork.request(old, size))?;
            if answer.status == 200 {
                assert!(is_cosigned(&answer.body, &fork.text(size), &public));
                cosigned.lock().unwrap().push((size, fork.root(size)));
            }
            Some(answer.status)
        };
        let lost = thread::scope(|scope| {
            let asking: Vec<_> = forks
                .iter()
                .map(|fork| {
                    let offer = &offer;
                    scope.spawn(move || {
                        // One entry after the other, from wherever the witness is, until it is gone.
                        let mut old = base_size;
                        while old < fork.size() {
                            match offer(fork, old, old + 1) {
                                Some(200) => old += 1,
                                Some(_) => return false,
                                None => return true,
                            }
                        }
                        false
                    })
                })
                .collect();
            thread::sleep(Duration::from_micros(random(40_000)));
            server.kill();
            asking.into_iter().any(|one| one.join().unwrap())
        });
        interrupted += u64::from(lost);
        // Again, after the restart: whatever it holds, it goes on with one of them alone.
        let server = Server::start(&world, "one", &watched);
        let address = server.address;
        let mut went_on = Vec::new();
        for fork in &forks {
            let offered = (base_size..=fork.size()).find_map(|old| {
                let answer = post(address, &fork.request(old, fork.size())).unwrap();
                (answer.status == 200).then_some(answer)
            });
            if let Some(answer) = offered {
                assert!(is_cosigned(&answer.body, &fork.text(fork.size()), &public));
                cosigned.lock().unwrap().push((fork.size(), fork.root(fork.size())));
                went_on.push(fork.clone());
            }
        }
        assert_eq!(went_on.len(), 1, "round {round}: it goes on with exactly one history");
        base = went_on.remove(0);
        server.stop();
    }
    let all = cosigned.into_inner().unwrap();
    for (size, root) in &all {
        assert!(base.begins_with(*size, *root), "{size} entries under {root} are of another history");
    }
    assert!(all.len() as u64 >= kills);
    eprintln!("{kills} kills, {interrupted} of them within a request, {} cosignatures", all.len());
}
