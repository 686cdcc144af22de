//! Which program is asked about: by digest, or by its file.

use std::path::Path;

use capgate_guest::identity;
use capgate_policy::facts::{Fact, Program};
use capgate_registry::combination::Workload;

use super::unknown_program;
use crate::exit::Failure;
use crate::ui::progress;

/// The program behind `sha256:…`, `cdhash:…` or a path, and the path where it was one.
///
/// A file is known by its SHA-256, and where it is a signed Mach-O by the cdhash of the slice that a guest runs too, as
/// the library knows it.
pub fn identify(text: &str) -> Result<(Program, Option<String>), Failure> {
    if text.starts_with("sha256:") || text.starts_with("cdhash:") {
        let program = match text.parse::<Workload>() {
            Ok(workload) => Program::asked(workload),
            Err(e) => Program { sha256: Fact::Malformed(e.to_string()), ..unknown_program() },
        };
        return Ok((program, None));
    }
    let path = Path::new(text);
    let error = |e| {
        Failure::failed(format!("the program `{text}` cannot be read: {e}"))
            .help("name its executable file, or give `sha256:` and 64 digits")
    };
    let size = path.metadata().map_err(error)?.len();
    let bar = progress::bytes("hashing", size);
    let program = identity::of_program_with(path, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    Ok((program.map_err(error)?, Some(text.to_owned())))
}
