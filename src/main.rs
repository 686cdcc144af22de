//! The `capgate` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    capgate::run(std::env::args_os()).into()
}
