//! Reading: a torn or foreign line is reported with its number and never hides the others.

use super::Line;

/// A line that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Its number, from 1.
    pub number: usize,
    /// What is wrong with it.
    pub what: String,
    /// Whether it is the last line and merely was not finished.
    pub torn: bool,
}

/// Reads every line.
pub fn read(bytes: &[u8]) -> (Vec<Line>, Vec<Malformed>) {
    let (mut entries, mut malformed) = (Vec::new(), Vec::new());
    let mut rest = bytes;
    for number in 1.. {
        if rest.is_empty() {
            break;
        }
        let end = rest.iter().position(|&b| b == b'\n');
        let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.get(1..).unwrap_or_default();
        // Where a line was torn, the next writer closed it; two at once may both have done so.
        if line.is_empty() && end.is_some() {
            continue;
        }
        // Whoever wrote it stopped before the end of the line.
        let what =
            if end.is_none() { Err("is torn: it does not end in a newline".to_owned()) } else { parse(line) };
        match what {
            Ok(line) => entries.push(line),
            Err(what) => malformed.push(Malformed { number, what, torn: end.is_none() }),
        }
    }
    (entries, malformed)
}

fn parse(line: &[u8]) -> Result<Line, String> {
    serde_json::from_slice(line).map_err(|e| {
        let what = if e.is_data() { "is no decision" } else { "is not JSON" };
        format!("{what}: {e}")
    })
}
