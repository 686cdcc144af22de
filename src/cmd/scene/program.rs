//! Which program is asked about: by digest, or by its file.

use std::io::Read;
use std::path::Path;

use capgate_policy::facts::{Fact, Program};
use capgate_registry::combination::{Hex, Workload};

use super::unknown_program;
use crate::exit::Failure;
use crate::ui::{Ui, progress};
use crate::world::file;

/// The program behind `sha256:…`, `cdhash:…` or a path, and the path where it was one.
pub fn identify(ui: &Ui, text: &str) -> Result<(Program, Option<String>), Failure> {
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
    let digest = file::sha256(path, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    let program = Program::asked(Workload::Sha256(Hex(digest.map_err(error)?)));
    if is_mach_o(path) {
        ui.hint("found by SHA-256 only; a profile that names nothing but a cdhash is not found by its file");
    }
    Ok((program, Some(text.to_owned())))
}

/// Tells whether a file begins as a 64-bit or universal Mach-O.
fn is_mach_o(path: &Path) -> bool {
    let mut magic = [0u8; 4];
    let read = file::open_regular(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && matches!(magic, [0xcf, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe | 0xbf])
}
