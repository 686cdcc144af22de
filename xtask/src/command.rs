//! Runs other programs and keeps what they said.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Where logs, tools and other by-products of the tests go.
pub fn scratch() -> PathBuf {
    target().join("gate")
}

/// Cargo's folder for what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// A program with its arguments, run at the root of the repository.
pub struct Run {
    command: Command,
    shown: String,
}

impl Run {
    pub fn new(program: impl AsRef<Path>) -> Self {
        let mut command = Command::new(program.as_ref());
        command.stdin(Stdio::null()).env("CARGO_TERM_COLOR", "never");
        Self { command, shown: program.as_ref().display().to_string() }
    }

    /// Splits `line` at spaces.
    pub fn args(self, line: &str) -> Self {
        line.split_whitespace().fold(self, Self::arg)
    }

    pub fn arg(mut self, arg: impl AsRef<Path>) -> Self {
        self.command.arg(arg.as_ref());
        self.shown = format!("{} {}", self.shown, arg.as_ref().display());
        self
    }

    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.command.env(key, value);
        self
    }

    /// Tells whether it runs and ends well; what it says is dropped.
    pub fn succeeds(mut self) -> bool {
        self.command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Runs it and returns all it said. The same goes to `target/gate/NAME.log`, and to the terminal where `verbose`.
    pub fn output(self, name: &str, verbose: bool) -> Result<String, String> {
        let shown = self.shown.clone();
        let (status, said) = self.listen(name, verbose)?;
        if status.success() {
            return Ok(said);
        }
        let log = log(name);
        Err(format!("`{shown}` ended with {status}; all of it: {}\n{}", log.display(), tail(&said, 60)))
    }

    /// The same, however it ends; tells whether it ended well.
    pub fn any_end(self, name: &str) -> Result<(bool, String), String> {
        let (status, said) = self.listen(name, false)?;
        Ok((status.success(), said))
    }

    fn listen(mut self, name: &str, verbose: bool) -> Result<(ExitStatus, String), String> {
        let problem = |e: io::Error| format!("`{}` could not be run: {e}", self.shown);
        fs::create_dir_all(scratch()).map_err(problem)?;
        let mut log = File::options().create(true).append(true).open(log(name)).map_err(problem)?;
        writeln!(log, "$ {}", self.shown).map_err(problem)?;
        let (reader, writer) = io::pipe().map_err(problem)?;
        self.command.stdout(writer.try_clone().map_err(problem)?).stderr(writer);
        let mut child = self.command.spawn().map_err(problem)?;
        // The command holds the pipe's other end open until it is dropped.
        self.command = Command::new("true");
        let mut said = String::new();
        let mut lines = BufReader::new(reader);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).map_err(problem)? > 0 {
            log.write_all(&line).map_err(problem)?;
            let text = String::from_utf8_lossy(&line);
            if verbose {
                print!("{text}");
            }
            said.push_str(&text);
            line.clear();
        }
        Ok((child.wait().map_err(problem)?, said))
    }
}

fn log(name: &str) -> PathBuf {
    scratch().join(format!("{name}.log"))
}

/// The last lines of a text, indented.
fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count);
    lines.iter().skip(from).map(|line| format!("    {line}\n")).collect()
}
