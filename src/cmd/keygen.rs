//! `capgate keygen`: makes a private key, or names one that exists.

use std::io;
use std::path::Path;

use capgate_registry::keys::{SigningKey, VerifierKey};
use capgate_registry::witness::WitnessKey;
use serde::Serialize;
use zeroize::Zeroizing;

use super::{held, keys};
use crate::cli::KeygenArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::{file, keyfile};

#[derive(Serialize)]
struct Made {
    name: String,
    verifier_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

pub fn run(ui: &Ui, args: &KeygenArgs) -> Outcome {
    let verifier = match (&args.agent, &args.out) {
        (Some(which), _) => held::name_it(&args.name, which)?,
        (None, Some(out)) => write(args, out)?,
        (None, None) => return Err(Failure::usage("neither `--out` nor `--agent` is given")),
    };
    let shown = if args.witness { WitnessKey::new(verifier).to_string() } else { verifier.to_string() };
    if ui.is_json() {
        let file = args.out.as_ref().map(|out| out.display().to_string());
        ui.json(&Made { name: args.name.clone(), verifier_key: shown, file });
        return Ok(Exit::Done);
    }
    ui.line(&shown);
    match &args.out {
        Some(out) => ui.hint(format!(
            "keep `{}` where only you can read it; the line above is for everyone",
            out.display()
        )),
        None => ui.hint(format!(
            "the line above is for everyone; sign with `agent:{}`, and where a registry is made with `agent:` and \
             the whole line",
            args.name
        )),
    }
    Ok(Exit::Done)
}

fn write(args: &KeygenArgs, out: &Path) -> Result<VerifierKey, Failure> {
    let key = match &args.import {
        Some(file) => keyfile::import(file, &args.name).map_err(|e| keys::unusable(&e))?,
        None => fresh(&args.name)?,
    };
    let secret = key.encode().ok_or_else(|| Failure::failed("the key is not here to be written"))?;
    let mut text = Zeroizing::new(String::with_capacity(secret.len() + 1));
    text.push_str(&secret);
    text.push('\n');
    file::create_new(out, text.as_bytes(), 0o600).map_err(|e| not_written(out, &e))?;
    Ok(key.verifier().clone())
}

fn fresh(name: &str) -> Result<SigningKey, Failure> {
    let seed =
        file::random().map_err(|e| Failure::failed(format!("the system gives no random bytes: {e}")))?;
    SigningKey::from_seed(name, seed).map_err(|e| Failure::usage(e.to_string()))
}

fn not_written(out: &Path, error: &io::Error) -> Failure {
    let shown = out.display();
    if error.kind() == io::ErrorKind::AlreadyExists {
        return Failure::failed(format!("`{shown}` exists, and a key is never overwritten"))
            .help("choose another name with `--out`");
    }
    Failure::failed(format!("`{shown}` cannot be written: {error}"))
}
