//! `capgate key show`: the public line of a key that exists.

use std::path::Path;

use capgate_registry::keys::VerifierKey;
use serde::Serialize;

use super::{held, keys};
use crate::cli::{AGENT, KeyShowArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::keyfile::{self, KeyFileError};

#[derive(Serialize)]
struct Shown {
    name: String,
    verifier_key: String,
}

pub fn show(ui: &Ui, args: &KeyShowArgs) -> Outcome {
    let name = args.name.as_deref();
    let key = match args.key.strip_prefix(AGENT) {
        Some(which) => in_agent(which, name)?,
        None => in_file(Path::new(&args.key), name)?,
    };
    if ui.is_json() {
        ui.json(&Shown { name: key.name().to_owned(), verifier_key: key.to_string() });
    } else {
        ui.line(&key);
    }
    Ok(Exit::Done)
}

/// A public line is shown again only where the agent holds its private half.
fn in_agent(which: &str, name: Option<&str>) -> Result<VerifierKey, Failure> {
    if let Ok(key) = VerifierKey::parse(which) {
        let held = held::one_of(std::slice::from_ref(&key))?;
        return named(held.verifier().clone(), name);
    }
    let name = name.ok_or_else(|| nameless(&format!("{AGENT}{which}")))?;
    held::name_it(name, which)
}

fn in_file(path: &Path, name: Option<&str>) -> Result<VerifierKey, Failure> {
    match (keyfile::read(path, &[]), name) {
        (Ok(key), name) => named(key.verifier().clone(), name),
        (Err(KeyFileError::Nameless { .. }), Some(name)) => {
            let key = keyfile::import(path, name).map_err(|e| keys::unusable(&e))?;
            Ok(key.verifier().clone())
        }
        (Err(KeyFileError::Nameless { .. }), None) => Err(nameless(&path.display().to_string())),
        (Err(e), _) => Err(keys::unusable(&e)),
    }
}

/// A key signs under one name only: under another it would be taken for another key.
fn named(key: VerifierKey, name: Option<&str>) -> Result<VerifierKey, Failure> {
    match name {
        Some(name) if name != key.name() => {
            Err(Failure::usage(format!("the key has a name already: `{}`", key.name()))
                .help("leave `--name` out"))
        }
        _ => Ok(key),
    }
}

fn nameless(key: &str) -> Failure {
    Failure::usage(format!("the key `{key}` has no name of its own"))
        .help("say under which it signs: `--name NAME`")
}
