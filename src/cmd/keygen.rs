//! `capgate keygen`: makes a private key, or names one that exists.

use std::io;

use capgate_registry::keys::SigningKey;
use capgate_registry::witness::WitnessKey;
use serde::Serialize;
use zeroize::Zeroizing;

use super::keys;
use crate::cli::KeygenArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::{file, keyfile};

#[derive(Serialize)]
struct Made {
    name: String,
    verifier_key: String,
    file: String,
}

pub fn run(ui: &Ui, args: &KeygenArgs) -> Outcome {
    let key = match &args.import {
        Some(pem) => keyfile::import(pem, &args.name).map_err(|e| keys::unusable(&e))?,
        None => fresh(&args.name)?,
    };
    let mut text = Zeroizing::new(String::with_capacity(key.encode().len() + 1));
    text.push_str(&key.encode());
    text.push('\n');
    file::create_new(&args.out, text.as_bytes(), 0o600).map_err(|e| not_written(args, &e))?;
    let verifier = match args.witness {
        true => WitnessKey::new(key.verifier().clone()).to_string(),
        false => key.verifier().to_string(),
    };
    if ui.is_json() {
        let file = args.out.display().to_string();
        ui.json(&Made { name: args.name.clone(), verifier_key: verifier, file });
    } else {
        ui.line(verifier);
        ui.hint(format!(
            "keep `{}` where only you can read it; the line above is for everyone",
            args.out.display()
        ));
    }
    Ok(Exit::Done)
}

fn fresh(name: &str) -> Result<SigningKey, Failure> {
    let seed =
        file::random().map_err(|e| Failure::failed(format!("the system gives no random bytes: {e}")))?;
    SigningKey::from_seed(name, seed).map_err(|e| Failure::usage(e.to_string()))
}

fn not_written(args: &KeygenArgs, error: &io::Error) -> Failure {
    let shown = args.out.display();
    if error.kind() == io::ErrorKind::AlreadyExists {
        return Failure::failed(format!("`{shown}` exists, and a key is never overwritten"))
            .help("choose another name with `--out`");
    }
    Failure::failed(format!("`{shown}` cannot be written: {error}"))
}
