//! `capgate proof`: what answers for one profile, in one file.

use capgate_registry::combination::Key;
use capgate_registry::profile::{Profile, ProfileId};
use capgate_registry::proof::Proof;
use capgate_registry::reader::{Anchor, Seen};
use capgate_registry::record::Published;
use serde::Serialize;

use super::opened;
use super::scene::program;
use crate::cli::ProofArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::file;

#[derive(Serialize)]
struct Made {
    file: String,
    profile: String,
    bytes: usize,
    keys: usize,
    version: u64,
    expires: String,
}

pub fn run(ui: &Ui, args: &ProofArgs) -> Outcome {
    let id: ProfileId =
        args.id.parse().map_err(|e| Failure::usage(format!("`{}` is no id: {e}", args.id)))?;
    let (reader, now) = opened::reader(ui, &args.registry)?;
    let folder = opened::folder(&args.registry.registry)?;
    let profile = find(&reader, &id, args)?;
    let mut keys = profile.keys();
    for word in &args.workload {
        keys.extend(keys_of(&profile, word)?);
    }
    keys.sort_unstable();
    keys.dedup();
    let anchor = Anchor { pin: args.registry.root, seen: Seen::default(), now };
    let proof = Proof::collect(&folder, &anchor, &keys)
        .map_err(|doubt| opened::doubted(&doubt, &args.registry.registry))?;
    let bytes = proof.encode();
    let shown = args.out.display();
    file::create_new(&args.out, &bytes, 0o644)
        .map_err(|e| Failure::failed(format!("`{shown}` cannot be written: {e}")))?;
    let (version, expires) = (reader.latest().version, reader.latest().expires.to_string());
    if ui.is_json() {
        ui.json(&Made {
            file: shown.to_string(),
            profile: id.to_string(),
            bytes: bytes.len(),
            keys: keys.len(),
            version,
            expires,
        });
    } else {
        ui.line(format!("wrote {shown}: {} bytes, version {version}, expires {expires}", bytes.len()));
        if args.workload.is_empty() {
            ui.hint("give the program with `--workload`: a guest knows it by both of its digests, and asks for both");
        }
    }
    Ok(Exit::Done)
}

/// The profile that is in force under that id.
fn find(
    reader: &capgate_registry::reader::Reader,
    id: &ProfileId,
    args: &ProofArgs,
) -> Result<Profile, Failure> {
    for record in reader.records() {
        let record = record.map_err(|doubt| opened::doubted(&doubt, &args.registry.registry))?;
        match record.published.into_iter().find(|published| published.profile.id == *id) {
            Some(Published { revoked: Some(revocation), .. }) => {
                return Err(Failure::invalid(format!("`{id}` is revoked: {}", revocation.reason))
                    .help("nothing is granted under it, with or without a proof"));
            }
            Some(published) => return Ok(published.profile),
            None => {}
        }
    }
    Err(Failure::failed(format!("no profile `{id}` is in force")).help("`capgate list` shows those that are"))
}

/// Keys of the profile's combination with every digest of that program.
fn keys_of(profile: &Profile, word: &str) -> Result<Vec<Key>, Failure> {
    let (found, _) = program::identify(word)?;
    let keys: Vec<Key> = found.identities().map(|identity| profile.key_with(identity)).collect();
    let own = profile.keys();
    if keys.iter().any(|key| own.contains(key)) {
        return Ok(keys);
    }
    Err(Failure::usage(format!("`{word}` is not the program of `{}`", profile.id))
        .help("`capgate lookup --workload` shows what it is"))
}
