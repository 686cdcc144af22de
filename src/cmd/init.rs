//! `capgate init`: makes a registry and prints the digest by which readers pin it.

use std::fs;
use std::path::Path;

use capgate_registry::keys::SigningKey;
use capgate_registry::publish::{LIFE, Terms};
use capgate_registry::trust::{Role, Trust};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{keys, opened};
use crate::cli::{InitArgs, KeyArg};
use crate::exit::{Exit, Failure, Outcome};
use crate::founding::{self, Founded};
use crate::ui::Ui;
use crate::world::folder::Folder;
use crate::world::{clock, threads};

#[derive(Serialize)]
struct Made<'a> {
    registry: String,
    origin: &'a str,
    root: String,
    version: u64,
    expires: String,
    resumed: bool,
}

pub fn run(ui: &Ui, args: &InitArgs) -> Outcome {
    let now = clock::now(args.now);
    if args.origin.is_trial() {
        return Err(Failure::usage(format!("the origin `{}` is `capgate bench`'s own", args.origin))
            .help("name the registry by a host of yours, such as `example.org/gpu`"));
    }
    let root_keys = read_all(&args.root_key)?;
    let registry_keys = read_all(&args.registry_key)?;
    let trust = trust(args, &root_keys, &registry_keys, now)?;
    fs::create_dir_all(&args.dir)
        .map_err(|e| Failure::failed(format!("the folder `{}` cannot be made: {e}", args.dir.display())))?;
    refuse_foreign_files(&args.dir)?;
    let folder = Folder::new(&args.dir);
    let _lock = opened::lock(&folder)?;
    let signers: Vec<&SigningKey> = root_keys.iter().collect();
    let terms = Terms { keys: &registry_keys, now, life: LIFE, renew: false, threads: threads() };
    let founded = founding::found(&folder, &args.origin, &trust, &signers, &terms)
        .map_err(|e| opened::not_published(&e, &args.dir))?;
    report(ui, args, &founded);
    Ok(Exit::Done)
}

/// What a registry holds. Anything else in its folder would be taken for a part of it by whoever publishes the folder.
const PARTS: [&str; 5] = ["trust", "log", "snapshot", ".lock", ".tmp"];

fn refuse_foreign_files(dir: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(dir)
        .map_err(|e| Failure::failed(format!("the folder `{}` cannot be read: {e}", dir.display())))?;
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.into_iter().find(|name| !PARTS.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            Err(Failure::failed(format!("the folder `{}` is not empty: it holds `{name}`", dir.display()))
                .help("give the registry a folder of its own"))
        }
    }
}

fn report(ui: &Ui, args: &InitArgs, founded: &Founded) {
    let root = format!("sha256:{}", founded.root);
    let latest = &founded.publication.latest;
    if ui.is_json() {
        return ui.json(&Made {
            registry: args.dir.display().to_string(),
            origin: args.origin.as_str(),
            root,
            version: latest.version,
            expires: latest.expires.to_string(),
            resumed: founded.resumed,
        });
    }
    ui.line(&root);
    if founded.resumed {
        ui.hint("an earlier `capgate init` had been interrupted; its root was kept");
    }
    let dir = args.dir.display();
    ui.hint(format!(
        "give every reader that digest: it is how they know this registry; next:\n  \
         export CAPGATE_REGISTRY={dir} CAPGATE_ROOT={root}\n  \
         capgate publish --all --key {} --registry-key {}\n  capgate verify",
        private_publisher(args).unwrap_or("PUBLISHER-KEY-FILE"),
        args.registry_key.first().map_or_else(String::new, ToString::to_string),
    ));
}

/// A publisher that was given as a file, whose path can stand in the next command.
fn private_publisher(args: &InitArgs) -> Option<&str> {
    args.publisher.iter().map(String::as_str).find(|text| Path::new(text).is_file())
}

fn read_all(given: &[KeyArg]) -> Result<Vec<SigningKey>, Failure> {
    given.iter().map(|given| keys::read(given, &[])).collect()
}

fn trust(
    args: &InitArgs,
    root_keys: &[SigningKey],
    registry_keys: &[SigningKey],
    now: Timestamp,
) -> Result<Trust, Failure> {
    let public = |keys: &[SigningKey]| keys.iter().map(|key| key.verifier().clone()).collect::<Vec<_>>();
    let publishers = args.publisher.iter().map(|text| keys::public(text)).collect::<Result<Vec<_>, _>>()?;
    let life = SignedDuration::from_hours(i64::from(args.expires_days) * 24);
    let trust = Trust {
        version: 1,
        log_index: 0,
        issued: now,
        expires: now.saturating_add(life).unwrap_or(now),
        root: Role { threshold: args.threshold_root, keys: public(root_keys) },
        publisher: Role { threshold: args.threshold_publisher, keys: publishers },
        registry: Role { threshold: args.threshold_registry, keys: public(registry_keys) },
        compromised: Vec::new(),
    };
    check(&trust, args)?;
    Ok(trust)
}

/// What readers would refuse is refused here, before anything is signed.
fn check(trust: &Trust, args: &InitArgs) -> Result<(), Failure> {
    let Err(problems) = Trust::parse(trust.to_toml().as_bytes(), &args.origin) else { return Ok(()) };
    let first = problems.into_iter().next();
    let message = first.as_ref().map_or_else(String::new, |problem| problem.message.clone());
    let named = trust.registry.keys.iter().all(|key| key.name() == args.origin.as_str());
    let help = if named {
        first.and_then(|problem| problem.help)
    } else {
        Some(format!("capgate keygen {} --out registry.key", args.origin))
    };
    Err(Failure { help, ..Failure::usage(message) })
}
