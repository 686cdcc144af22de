//! Where in a file the rows are, and what else is in it.

use std::ops::Range;

use super::{Format, MOST_ROWS, is_row};
use crate::evidence::json::{self, End, Json};

/// The rows of a file as JSON, and everything that is not a row.
#[derive(Debug)]
pub(super) struct Framed {
    /// How the rows are written.
    pub format: Format,
    /// Every complete row.
    pub rows: Vec<Json>,
    /// Where there is other text, spaces around it left out.
    pub outside: Vec<Range<usize>>,
    /// How the rows end.
    pub end: RowsEnd,
}

/// How the rows end.
#[derive(Debug)]
pub(super) enum RowsEnd {
    /// As they should.
    Complete,
    /// The file stops in the middle.
    Early,
    /// They cannot be read on; the text says why.
    Malformed(String),
}

/// Most places that are tried as the beginning of a list; a file has few lines that begin with a bracket.
const MOST_TRIES: usize = 32;

/// Finds the rows; none where there are none.
pub(super) fn frame(bytes: &[u8]) -> Option<Framed> {
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace())?;
    if bytes.get(start) == Some(&b'[') {
        let (rows, end) = json::items(bytes.get(start..)?, MOST_ROWS);
        if !rows.is_empty() || !matches!(end, End::Malformed(_)) {
            return Some(list(bytes, start, rows, end));
        }
        if begins_a_list(bytes.get(start..)?) {
            return Some(list(bytes, start, rows, end));
        }
    }
    let starts = line_starts(bytes).filter(|start| bytes.get(*start..).is_some_and(begins_a_list));
    for start in starts.take(MOST_TRIES) {
        let (rows, end) = json::items(bytes.get(start..)?, MOST_ROWS);
        if rows.iter().any(is_row) {
            return Some(list(bytes, start, rows, end));
        }
    }
    lines(bytes)
}

fn list(bytes: &[u8], start: usize, rows: Vec<Json>, end: End) -> Framed {
    let mut outside = Vec::new();
    outside.extend(trimmed(bytes, 0..start));
    let end = match end {
        End::Complete(length) => {
            outside.extend(trimmed(bytes, start.saturating_add(length)..bytes.len()));
            RowsEnd::Complete
        }
        End::Early => RowsEnd::Early,
        End::Malformed(why) => RowsEnd::Malformed(why),
    };
    Framed { format: Format::Json, rows, outside, end }
}

/// A bracket that opens a list of rows, not one that opens a word like `[capgate]`.
fn begins_a_list(bytes: &[u8]) -> bool {
    let mut rest = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    rest.next() == Some(&b'[') && matches!(rest.next(), Some(b'{' | b']') | None)
}

/// The first byte of every line; after a byte order mark where there is one.
fn line_starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let after_breaks =
        bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index + 1);
    let first = if bytes.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
    std::iter::once(first).chain(after_breaks)
}

/// One row a line; none where no line holds a row.
fn lines(bytes: &[u8]) -> Option<Framed> {
    if let (Some(row), End::Complete(length)) = json::value(bytes)
        && is_row(&row)
        && trimmed(bytes, length..bytes.len()).is_none()
    {
        return Some(Framed {
            format: Format::Jsonl,
            rows: vec![row],
            outside: Vec::new(),
            end: RowsEnd::Complete,
        });
    }
    let mut framed =
        Framed { format: Format::Jsonl, rows: Vec::new(), outside: Vec::new(), end: RowsEnd::Complete };
    let mut start: usize = 0;
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let range = start..start.saturating_add(line.len());
        start = range.end.saturating_add(1);
        if let Some(range) = trimmed(bytes, range) {
            add_line(&mut framed, bytes, range, index + 1);
        }
        if !matches!(framed.end, RowsEnd::Complete) {
            break;
        }
    }
    let is_ours = framed.rows.iter().any(is_row) || looks_like_a_row(bytes);
    is_ours.then_some(framed)
}

fn looks_like_a_row(bytes: &[u8]) -> bool {
    let start = bytes.trim_ascii_start();
    start.starts_with(b"{\"build_commit\"") || start.starts_with(b"{\"n_prompt\"")
}

fn add_line(framed: &mut Framed, bytes: &[u8], range: Range<usize>, number: usize) {
    let line = bytes.get(range.clone()).unwrap_or_default();
    if line.first() != Some(&b'{') {
        match framed.outside.last_mut() {
            Some(last) if trimmed(bytes, last.end..range.start).is_none() => last.end = range.end,
            _ => framed.outside.push(range),
        }
        return;
    }
    if framed.rows.len() == MOST_ROWS {
        framed.end = RowsEnd::Malformed(format!("the file has more than {MOST_ROWS} rows"));
        return;
    }
    match json::value(line) {
        (Some(row), End::Complete(length)) => {
            framed.rows.push(row);
            framed.outside.extend(trimmed(bytes, range.start.saturating_add(length)..range.end));
        }
        (_, End::Malformed(why)) => {
            framed.end = RowsEnd::Malformed(format!("line {number} of the file: {why}"))
        }
        _ if trimmed(bytes, range.end..bytes.len()).is_none() => framed.end = RowsEnd::Early,
        _ => framed.end = RowsEnd::Malformed(format!("line {number} of the file is not complete")),
    }
}

/// The range without the spaces at its ends; none where nothing is left.
fn trimmed(bytes: &[u8], range: Range<usize>) -> Option<Range<usize>> {
    let part = bytes.get(range.clone())?;
    let before = part.len() - part.trim_ascii_start().len();
    let length = part.trim_ascii().len();
    (length > 0).then(|| {
        let start = range.start.saturating_add(before);
        start..start.saturating_add(length)
    })
}

/// The name of the format where the text is llama-bench's output in one that holds no samples.
pub fn no_samples_format(text: &str) -> Option<&'static str> {
    text.lines().take(200).find_map(|line| {
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.starts_with("build_commit,build_number,")
            || line.starts_with("\"build_commit\",\"build_number\",")
        {
            return Some("csv");
        }
        if line.starts_with("INSERT INTO") && line.contains("build_commit, build_number") {
            return Some("sql");
        }
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let is_table = columns.contains(&"model") && columns.contains(&"test") && columns.contains(&"t/s");
        is_table.then_some("md")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"build_commit":"a","samples_ns":[1]}"#;

    fn outside(text: &str) -> Vec<(usize, usize)> {
        frame(text.as_bytes()).unwrap().outside.iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn text_around_is_located_to_the_byte() {
        assert_eq!(outside(&format!("[{ROW}]\n")), []);
        assert_eq!(outside(&format!("[shim] Enabled\n[\n{ROW}\n]\n")), [(0, 14)]);
        let tail = format!("[{ROW}]\n [1] 3 killed\n");
        assert_eq!(outside(&tail), [(ROW.len() + 4, tail.len() - 1)]);
        assert_eq!(
            outside(&format!("noise\nmore\n{ROW}\n{ROW}\nend")),
            [(0, 10), (2 * ROW.len() + 13, 2 * ROW.len() + 16)]
        );
        assert_eq!(outside(&format!("{ROW} x\n")), [(ROW.len() + 1, ROW.len() + 2)]);
        assert_eq!(outside(&format!("\u{feff}[{ROW}]")), [(0, 3)]);
    }

    #[test]
    fn what_is_no_row_is_not_framed() {
        for text in ["", "hello", "{\"device\":1}", "[capgate] Enabled", "| model |"] {
            assert!(frame(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn unfinished_lines() {
        assert!(matches!(frame(b"{\"build_commit\": \"x").unwrap().end, RowsEnd::Early));
        let broken = format!("{ROW}\n{{\"build_commit\": \n{ROW}\n");
        assert!(matches!(frame(broken.as_bytes()).unwrap().end, RowsEnd::Malformed(_)));
    }
}
