//! The project's own commands.

use std::fs;
use std::process::ExitCode;

fn main() -> ExitCode {
    let schema =
        serde_json::to_string_pretty(&capgate_registry::profile::schema::profile()).unwrap_or_default();
    match fs::write("docs/schema/profile.schema.json", schema + "\n") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
