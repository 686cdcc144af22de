//! A registry whose registry key was taken out: what the thief of the old one signed holds nobody up.

use capgate::world::folder::Folder;
use capgate_registry::merkle::Hash;
use capgate_registry::note::{self, Kind};
use capgate_registry::publish::{self, Terms};
use capgate_registry::reader::read_chain;
use capgate_registry::trust::{Role, Trust};
use jiff::Timestamp;

use crate::guest::{Guest, ORIGIN, Plan, key};

const DEVICE: &str = "AppleParavirtDevice";

fn rotate(guest: &Guest) {
    let pin: Hash = guest.pin.strip_prefix("sha256:").unwrap().parse().unwrap();
    let folder = Folder::new(guest.state("registry"));
    let chain = read_chain(&folder, &pin, None).unwrap();
    let keys = [key(ORIGIN, 33)];
    let registry = Role { threshold: 1, keys: vec![keys[0].verifier().clone()] };
    let next = Trust { version: 2, log_index: 1, registry, ..chain.current().clone() };
    let text = note::compose(Kind::Trust, chain.origin(), &next.to_toml()).unwrap();
    let signed = note::sign(&text, &[&key("root.test", 1)]).unwrap();
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let threads = std::num::NonZero::<usize>::MIN;
    let terms = Terms { keys: &keys, now, life: publish::LIFE, renew: false, threads };
    publish::rotate(&folder, &pin, &signed, &terms, &mut |_| {}).unwrap();
}

#[test]
fn a_version_that_was_seen_is_no_floor_once_the_key_that_signed_it_is_taken_out() {
    let guest = Plan::default().make();
    let seen = |trust: u64| {
        let text =
            format!("version = {}\nlog_size = 1\ntrust = {trust}\ntime = 2026-01-01T00:00:00Z\n", i64::MAX);
        guest.put("seen", &text);
        drop(std::fs::remove_file(guest.log()));
        guest.ask(&[DEVICE])
    };
    seen(1).is_stock(DEVICE, "registry-rollback");
    rotate(&guest);
    seen(1).is_granted(DEVICE);
    seen(2).is_stock(DEVICE, "registry-rollback");
}
