//! Writes the state of guests for the harness beside this file: reads a JSON array of plans on standard input, and fills
//! each one's folder with a signed registry, the pin and a signed host statement.
//!
//! With `--reasons` it prints the code of every reason instead.
//!
//! A plan has `folder` (that becomes `etc/capgate`), `profiles` (texts), `revocation` (text or null), `published`
//! (seconds since 1970), `site` (text, its host keys apart), `statement` (text or null) and `host_seed`.

#![allow(clippy::unwrap_used, reason = "a helper of the tests fails by panicking")]

use std::fs;
use std::io;
use std::num::NonZero;
use std::path::Path;

use capgate::world::folder::Folder;
use capgate_policy::reason::Reason;
use capgate_registry::keys::SigningKey;
use capgate_registry::note::{self, Kind, Origin};
use capgate_registry::publish::{self, Terms};
use capgate_registry::trust::{Role, Trust};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

const ORIGIN: &str = "shim.test/gpu";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    folder: String,
    profiles: Vec<String>,
    revocation: Option<String>,
    published: i64,
    site: String,
    statement: Option<String>,
    host_seed: u8,
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--reasons") {
        return Reason::ALL.iter().for_each(|reason| println!("{}", reason.code()));
    }
    let plans: Vec<Plan> = serde_json::from_reader(io::stdin()).unwrap();
    plans.iter().for_each(write);
    println!("{} states", plans.len());
}

/// TEST keys: their seeds are public and must never be trusted outside tests.
fn key(name: &str, seed: u8) -> SigningKey {
    SigningKey::from_seed(name, [seed; 32]).unwrap()
}

fn write(plan: &Plan) {
    let folder = Path::new(&plan.folder);
    fs::create_dir_all(folder.join("registry")).unwrap();
    let pin = publish(plan, &folder.join("registry"));
    fs::write(folder.join("root.note"), format!("{pin}\n")).unwrap();
    let trusted = key("host.test", 4);
    let keys = format!("\nhost_keys = [\"{}\"]\n", trusted.verifier());
    fs::write(folder.join("site.toml"), plan.site.replacen('\n', &keys, 1)).unwrap();
    if let Some(text) = &plan.statement {
        let text = note::compose(Kind::Host, &Origin::parse(ORIGIN).unwrap(), text).unwrap();
        let signer = key("host.test", plan.host_seed);
        fs::write(folder.join("host.note"), note::sign(&text, &[&signer]).unwrap()).unwrap();
    }
}

/// Makes the registry; returns its pin.
fn publish(plan: &Plan, to: &Path) -> String {
    let (root, publisher, registry) = (key("root.test", 1), key("publisher.test", 2), key(ORIGIN, 3));
    let role = |key: &SigningKey| Role { threshold: 1, keys: vec![key.verifier().clone()] };
    let now = Timestamp::from_second(plan.published).unwrap();
    let trust = Trust {
        version: 1,
        log_index: 0,
        issued: now,
        expires: now + SignedDuration::from_hours(24 * 365),
        root: role(&root),
        publisher: role(&publisher),
        registry: role(&registry),
        compromised: Vec::new(),
    };
    let origin = Origin::parse(ORIGIN).unwrap();
    let folder = Folder::new(to);
    let pin = publish::init(&folder, &origin, &trust, &[&root]).unwrap();
    let profiles =
        plan.profiles.iter().map(|text| publish::sign_profile(text, &origin, &[&publisher]).unwrap());
    let revocation = plan.revocation.iter();
    let revocation = revocation.map(|text| publish::sign_revocation(text, &origin, &[&publisher]).unwrap());
    let notes: Vec<Vec<u8>> = profiles.chain(revocation).collect();
    let terms =
        Terms { keys: &[registry], now, life: publish::LIFE, renew: false, threads: NonZero::<usize>::MIN };
    publish::publish(&folder, &pin, &notes, &terms, &mut |_| {}).unwrap();
    format!("sha256:{pin}")
}
