//! What `llama-completion --log-jsonl --prompt-cache FILE --prompt-cache-all` leaves of one answer, token by token.
//!
//! Each line of its standard output is an object. Messages of the level `none` are what it would have printed: a message
//! for each token, and a few words of its own behind them. The session file holds the numbers of all tokens, those of the
//! prompt first:
//!
//! ```text
//! {"type":"log","time":24121,"level":"none","msg":" Paris"}
//! {"type":"log","time":29740,"level":"info","msg":"common_perf_print: …"}
//!
//! "nsgg", version, number of tokens, tokens …          each four bytes, the lowest first
//! ```

use super::greedy::{MOST_TOKENS, Token};
use crate::evidence::json::{self, Json};

/// Most bytes of standard output that are read.
pub const MOST_BYTES: usize = 16 * 1024 * 1024;
/// What a session file begins with.
const MAGIC: &[u8; 4] = b"nsgg";
/// What the program says of its own behind the answer.
const OWN_WORDS: [&str; 2] = ["saving final output to session file", "[end of text]"];

/// One answer and what was said beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Completion {
    /// The answer.
    pub tokens: Vec<Token>,
    /// What a log would hold: the messages of other levels.
    pub log: String,
    /// Whether the program said what it says behind an answer.
    pub is_whole: bool,
}

/// Reads one answer; none where the output is no such thing. Tokens have numbers where the session file gives them.
pub fn read(output: &[u8], session: Option<&[u8]>) -> Option<Completion> {
    let text = String::from_utf8_lossy(output.get(..MOST_BYTES).unwrap_or(output));
    let (mut pieces, mut log, mut is_ours) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        let (Some(found), _) = json::value(line.as_bytes()) else { continue };
        let Some(object) = found.as_object() else { continue };
        let said = |key: &str| object.get(key).and_then(Json::as_text);
        let (Some("log"), Some(level), Some(message)) = (said("type"), said("level"), said("msg")) else {
            continue;
        };
        is_ours = true;
        if level != "none" {
            log.push_str(message);
        } else if pieces.len() < MOST_TOKENS {
            pieces.push(message.to_owned());
        }
    }
    if !is_ours {
        return None;
    }
    let own = pieces.iter().position(|piece| OWN_WORDS.iter().any(|words| piece.contains(words)));
    pieces.truncate(own.unwrap_or(pieces.len()));
    let is_ended = own.is_none() && pieces.last().is_some_and(|piece| piece == "\n\n");
    if is_ended {
        pieces.pop();
    }
    let numbers = session.and_then(numbers).unwrap_or_default();
    let before = numbers.len().checked_sub(pieces.len());
    let number = |index: usize| numbers.get(before?.checked_add(index)?).copied();
    let tokens =
        pieces.into_iter().enumerate().map(|(index, text)| Token { id: number(index), text }).collect();
    Some(Completion { tokens, log, is_whole: own.is_some() || is_ended })
}

/// The tokens of a session file; none where it is no such file, or stops before their end.
fn numbers(bytes: &[u8]) -> Option<Vec<u64>> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let word = |at: usize| Some(u32::from_le_bytes(*rest.get(at..at.checked_add(4)?)?.first_chunk()?));
    let count = word(4)? as usize;
    if count > MOST_TOKENS {
        return None;
    }
    // A token is a signed number; none below zero is one.
    (0..count)
        .map(|index| word(8 + index * 4).filter(|number| *number <= i32::MAX as u32).map(u64::from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: &str, message: &str) -> String {
        format!("{}\n", serde_json::json!({ "type": "log", "time": 1, "level": level, "msg": message }))
    }

    fn session(tokens: &[u32]) -> Vec<u8> {
        let words = [11, tokens.len() as u32].into_iter().chain(tokens.iter().copied());
        [&MAGIC[..], &words.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()].concat()
    }

    #[test]
    fn tokens_have_their_text_and_their_numbers() {
        let output = [
            line("info", "llama backend init\n"),
            "{\"type\":\"fit_memory_breakdown\",\"data\":{}}\n".to_owned(),
            line("none", " Paris"),
            line("none", "."),
            line("none", "\nllama_completion: saving final output to session file 'x'\n"),
            line("none", "\n\n"),
            line("info", "done\n"),
        ]
        .concat();
        let found = read(output.as_bytes(), Some(&session(&[1, 2, 3681, 29889]))).unwrap();
        let expected =
            [(Some(3681), " Paris"), (Some(29889), ".")].map(|(id, text)| Token { id, text: text.into() });
        assert_eq!(
            (found.tokens.as_slice(), found.log.as_str()),
            (&expected[..], "llama backend init\ndone\n")
        );
    }

    #[test]
    fn without_a_session_tokens_have_their_text_alone() {
        let output = [line("none", "a"), line("none", "\n\n")].concat();
        for session in
            [None, Some(&b"nsgg"[..]), Some(&b"\x0b\0\0\0"[..]), Some(&b"nsgg\x0b\0\0\0\xff\xff\xff\xff"[..])]
        {
            let found = read(output.as_bytes(), session).unwrap();
            assert_eq!(found.tokens, [Token { id: None, text: "a".to_owned() }]);
        }
        assert_eq!(read(b"The capital of France is Paris\n", None), None);
    }
}
