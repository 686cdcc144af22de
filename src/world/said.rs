//! What another program prints, within limits.

use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long between two looks at whether it ended.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs a program that answers at once, and returns how it ended and at most `most` bytes of its output.
///
/// Errors: it cannot be started, or runs longer than `patience`, and is then killed.
pub fn by(command: &mut Command, most: u64, patience: Duration) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        // What came until then may still say enough.
        let _ = stdout.map(|out| out.take(most).read_to_end(&mut said));
        said
    });
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()?
            && reader.is_finished()
        {
            return Ok((status, reader.join().unwrap_or_default()));
        }
        if begun.elapsed() > patience {
            // What it started may hold the pipe open: the reader is left to itself.
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!("gave no answer within {} seconds", patience.as_secs())));
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_cut_and_a_program_that_gives_none_is_ended() {
        let run = |line: &str, patience| {
            by(Command::new("sh").args(["-c", line]), 3, Duration::from_millis(patience))
        };
        let (status, said) = run("printf abcdef; exit 3", 10_000).unwrap();
        assert_eq!((status.code(), said.as_slice()), (Some(3), &b"abc"[..]));
        assert!(run("sleep 60", 50).unwrap_err().to_string().contains("no answer"));
        assert!(by(&mut Command::new("/nowhere"), 1, PAUSE).is_err());
    }
}
