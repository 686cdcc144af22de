//! The project's own commands: `cargo xtask test`, `schema`, `codes`, `bench` and the parts of `test` by themselves.

mod bench;
mod command;
mod docs;
mod fuzz;
mod generated;
mod hosting;
mod interrupt;
mod machine;
mod macos;
mod purity;
mod reader;
mod shim;
mod signed;
mod steps;

use std::env;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--without NAME]... [--only NAME]... [--cases N] [--fuzz-seconds N] [--verbose]
                     run every check; what is missing on the machine is installed first
  schema [--check]   write docs/schema/profile.schema.json, or say whether it is up to date
  codes [--check]    write docs/evidence-codes.md, or say whether it is up to date
  header [--check]   write include/capgate.h, or say whether it is up to date
  purity             check what the pure crates may use and which crate may use which
  interrupt          stop `capgate publish` at each of its system calls
  fuzz [SECONDS] [TARGET]...
                     run the fuzz targets, each for that long
  macos [--verbose]  build library and command for Macs into dist/
  bench              run the benchmarks
";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    if let Err(e) = env::set_current_dir(root) {
        eprintln!("error: {}: {e}", root.display());
        return ExitCode::FAILURE;
    }
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test", options @ ..] => steps::run(options),
        ["schema", options @ ..] => generated::schema(options).map(say),
        ["codes", options @ ..] => generated::codes(options).map(say),
        ["header", options @ ..] => generated::header(options).map(say),
        ["purity"] => purity::check().map(say),
        ["interrupt"] => interrupt::check().map(say),
        ["fuzz", options @ ..] => fuzz::run_alone(options).map(say),
        ["macos", options @ ..] => macos::build(options).map(say),
        ["bench"] => bench::run(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("there is no such command\n\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn say(message: String) {
    println!("{message}");
}
