//! Answers to fixed prompts with temperature 0 and a fixed seed, token by token.
//!
//! A file is JSON lines. The first says how the answers were made, each other is one prompt with its answer:
//!
//! ```text
//! {"schema":"capgate greedy v1","settings":{"n_predict":"64","seed":"1","temperature":"0"}}
//! {"prompt":"The capital of France is","tokens":[{"id":3681,"text":" Paris"},{"id":29889,"text":"."}]}
//! ```
//!
//! A token has an `id` where the program says it; otherwise its text is compared, which may be a word and no token of
//! the model. Answers that are no such file are text, split at white space.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::evidence::codes::Code;
use crate::evidence::finding::{Finding, excerpt};
use crate::evidence::json::{self, End, Json, Object};

/// What the first line names.
pub const SCHEMA: &str = "capgate greedy v1";
/// Most bytes of a file.
pub const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Most prompts of a file.
pub const MOST_PROMPTS: usize = 1_000;
/// Most tokens of one answer.
pub const MOST_TOKENS: usize = 100_000;

/// One token of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Its number in the model's vocabulary, where the program says it.
    pub id: Option<u64>,
    /// Its text, as it was printed.
    pub text: String,
}

/// The answer to one prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Answer {
    /// The prompt.
    pub prompt: String,
    /// What was answered.
    pub tokens: Vec<Token>,
}

/// The answers of one arm.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Greedy {
    /// How they were made, each setting by its name; two arms are compared only where all are the same.
    pub settings: BTreeMap<String, String>,
    /// The answers, in the order of the prompts.
    pub answers: Vec<Answer>,
}

/// The first place at which two answers differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Which prompt, from 1.
    pub prompt: usize,
    /// The beginning of the prompt.
    pub prompt_text: String,
    /// Which token, from 1.
    pub token: usize,
    /// The token of the one; none where its answer ends there.
    pub found: Option<Token>,
    /// The token of the other; none where its answer ends there.
    pub expected: Option<Token>,
}

impl Greedy {
    /// How many tokens all answers have together.
    pub fn tokens(&self) -> usize {
        self.answers.iter().map(|answer| answer.tokens.len()).sum()
    }

    /// The file: what [`read`] reads.
    pub fn to_lines(&self) -> String {
        let head = serde_json::json!({ "schema": SCHEMA, "settings": self.settings });
        let mut lines = format!("{head}\n");
        for answer in &self.answers {
            let tokens: Vec<serde_json::Value> = answer.tokens.iter().map(Token::to_json).collect();
            lines += &format!("{}\n", serde_json::json!({ "prompt": answer.prompt, "tokens": tokens }));
        }
        lines
    }
}

impl Token {
    fn to_json(&self) -> serde_json::Value {
        match self.id {
            Some(id) => serde_json::json!({ "id": id, "text": self.text }),
            None => serde_json::json!({ "text": self.text }),
        }
    }

    /// Tells whether it is the same: by number where both have one, by text otherwise.
    fn is(&self, other: &Self) -> bool {
        match (self.id, other.id) {
            (Some(one), Some(other)) => one == other,
            _ => self.text == other.text,
        }
    }

    /// The token for a message: its text in quotes, its number behind it.
    pub fn shown(&self) -> String {
        let text = excerpt_of_token(&self.text);
        self.id.map_or_else(|| format!("`{text}`"), |id| format!("`{text}` ({id})"))
    }
}

/// White space belongs to a token, so it is kept.
fn excerpt_of_token(text: &str) -> String {
    let kept = excerpt(&format!("|{text}|"));
    let inner = kept.strip_prefix('|').unwrap_or(&kept);
    inner.strip_suffix('|').unwrap_or(inner).to_owned()
}

/// How far two answers are the same: the number of tokens before they differ, none where they do not.
pub fn diverges_at(one: &Answer, other: &Answer) -> Option<usize> {
    let differs = one.tokens.iter().zip(&other.tokens).position(|(left, right)| !left.is(right));
    let ends = (one.tokens.len() != other.tokens.len()).then(|| one.tokens.len().min(other.tokens.len()));
    differs.or(ends)
}

/// The first place at which the answers to one prompt differ; `prompt` counts from 0.
pub fn divergence(prompt: usize, found: &Answer, expected: &Answer) -> Option<Divergence> {
    let at = diverges_at(found, expected)?;
    Some(Divergence {
        prompt: prompt + 1,
        prompt_text: excerpt(&found.prompt),
        token: at + 1,
        found: found.tokens.get(at).cloned(),
        expected: expected.tokens.get(at).cloned(),
    })
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |token: &Option<Token>| token.as_ref().map_or_else(|| "its end".to_owned(), Token::shown);
        let (found, expected) = (shown(&self.found), shown(&self.expected));
        write!(out, "prompt {}, token {}: {found}, not {expected}", self.prompt, self.token)
    }
}

/// Answers that are plain text: one answer, split at white space.
pub fn of_text(bytes: &[u8]) -> Greedy {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split_whitespace().take(MOST_TOKENS);
    let tokens = words.map(|word| Token { id: None, text: word.to_owned() }).collect();
    Greedy { settings: BTreeMap::new(), answers: vec![Answer { prompt: String::new(), tokens }] }
}

/// Reads a file of answers; none where the first line is not that of one.
pub fn read(bytes: &[u8]) -> Option<Result<Greedy, Finding>> {
    let (first, rest) = split_line(bytes);
    let (head, _) = json::value(first);
    let head = head.as_ref().and_then(Json::as_object)?;
    (head.get("schema").and_then(Json::as_text) == Some(SCHEMA)).then(|| lines(head, rest, bytes.len()))
}

fn lines(head: &Object, mut rest: &[u8], size: usize) -> Result<Greedy, Finding> {
    if size > MOST_BYTES {
        return Err(Finding::new(Code::TooLarge, format!("has {size} bytes, more than {MOST_BYTES}")));
    }
    let mut greedy = Greedy { settings: settings(head)?, answers: Vec::new() };
    let mut number = 1;
    while !rest.is_empty() {
        number += 1;
        let (line, behind) = split_line(rest);
        let is_last = behind.is_empty() && !rest.ends_with(b"\n");
        rest = behind;
        if greedy.answers.len() == MOST_PROMPTS {
            return Err(Finding::new(Code::TooLarge, format!("has more than {MOST_PROMPTS} prompts")));
        }
        greedy.answers.push(answer(line, number, is_last)?);
    }
    if greedy.answers.is_empty() {
        return Err(Finding::new(Code::NoSamples, "holds no answer"));
    }
    Ok(greedy)
}

fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(at) => bytes
            .split_at_checked(at)
            .map_or((bytes, &[][..]), |(line, rest)| (line, rest.get(1..).unwrap_or_default())),
        None => (bytes, &[]),
    }
}

fn settings(head: &Object) -> Result<BTreeMap<String, String>, Finding> {
    let Some(settings) = head.get("settings") else { return Err(missing(1, "settings")) };
    let pairs = settings.as_object().ok_or_else(|| malformed(1, "`settings` is no object"))?;
    let text = |(name, value): (&str, &Json)| {
        let value = value.as_text().ok_or_else(|| malformed(1, "a setting is no text"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    pairs.iter().map(text).collect()
}

fn answer(line: &[u8], number: usize, is_last: bool) -> Result<Answer, Finding> {
    let found = match json::value(line) {
        (Some(found), End::Complete(end))
            if line.get(end..).is_some_and(|rest| rest.trim_ascii().is_empty()) =>
        {
            found
        }
        (Some(_), _) => {
            return Err(Finding::new(
                Code::MalformedJson,
                format!("line {number}: something follows the JSON"),
            ));
        }
        (None, End::Early) if is_last => {
            return Err(Finding::new(Code::Truncated, format!("line {number} stops before its end")));
        }
        (None, End::Malformed(why)) => {
            return Err(Finding::new(Code::MalformedJson, format!("line {number}: {why}")));
        }
        (None, _) => return Err(Finding::new(Code::MalformedJson, format!("line {number} is no JSON"))),
    };
    let object = found.as_object().ok_or_else(|| malformed(number, "is no object"))?;
    let prompt = object.get("prompt").ok_or_else(|| missing(number, "prompt"))?;
    let prompt = prompt.as_text().ok_or_else(|| malformed(number, "`prompt` is no text"))?;
    let tokens = object.get("tokens").ok_or_else(|| missing(number, "tokens"))?;
    let tokens = tokens.as_list().ok_or_else(|| malformed(number, "`tokens` is no list"))?;
    if tokens.len() > MOST_TOKENS {
        return Err(Finding::new(
            Code::TooLarge,
            format!("line {number} has more than {MOST_TOKENS} tokens"),
        ));
    }
    let tokens: Result<Vec<Token>, Finding> = tokens.iter().map(|item| token(item, number)).collect();
    Ok(Answer { prompt: prompt.to_owned(), tokens: tokens? })
}

fn token(item: &Json, number: usize) -> Result<Token, Finding> {
    let object = item.as_object().ok_or_else(|| malformed(number, "a token is no object"))?;
    let text = object.get("text").and_then(Json::as_text);
    let text = text.ok_or_else(|| malformed(number, "a token has no `text`"))?;
    let id = match object.get("id") {
        None => None,
        Some(id) => Some(id.as_u64().ok_or_else(|| malformed(number, "a token's `id` is no whole number"))?),
    };
    Ok(Token { id, text: text.to_owned() })
}

fn missing(number: usize, key: &str) -> Finding {
    Finding::new(Code::MissingField, format!("line {number} has no `{key}`"))
}

fn malformed(number: usize, what: &str) -> Finding {
    Finding::new(Code::MalformedField, format!("line {number}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_of(words: &[(Option<u64>, &str)]) -> Answer {
        let tokens = words.iter().map(|(id, text)| Token { id: *id, text: (*text).to_owned() }).collect();
        Answer { prompt: "The capital of France is".to_owned(), tokens }
    }

    fn greedy() -> Greedy {
        Greedy {
            settings: BTreeMap::from([("seed".to_owned(), "1".to_owned())]),
            answers: vec![answer_of(&[(Some(7), " Paris"), (Some(9), ".\n\"")]), answer_of(&[(None, "x")])],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = greedy().to_lines();
        assert_eq!(read(text.as_bytes()), Some(Ok(greedy())));
        assert_eq!(read(b"The capital of France is Paris\n"), None);
        assert_eq!(read(b"[\n  {\"build_commit\": 1}\n]\n"), None);
    }

    #[test]
    fn the_first_token_that_differs_is_found() {
        let paris = answer_of(&[(Some(7), " Paris"), (Some(9), "."), (Some(4), " It")]);
        let mut rome = paris.clone();
        assert_eq!(divergence(0, &paris, &rome), None);
        rome.tokens[1] = Token { id: Some(8), text: ".".to_owned() };
        let found = divergence(0, &rome, &paris).unwrap();
        assert_eq!(found.to_string(), "prompt 1, token 2: `.` (8), not `.` (9)");
        rome.tokens.truncate(1);
        let found = divergence(4, &rome, &paris).unwrap();
        assert_eq!(found.to_string(), "prompt 5, token 2: its end, not `.` (9)");
        let worded = answer_of(&[(None, " Paris"), (None, "."), (None, " It")]);
        assert_eq!(divergence(0, &worded, &paris), None);
    }

    #[test]
    fn text_is_compared_word_by_word() {
        let (one, other) = (of_text(b"a b  c\n"), of_text(b"a b d\n"));
        let found = divergence(0, &one.answers[0], &other.answers[0]).unwrap();
        assert_eq!((found.token, one.tokens()), (3, 3));
    }

    #[test]
    fn what_is_malformed_says_where() {
        let good = greedy().to_lines();
        for (from, to, code, says) in [
            ("\"settings\"", "\"set\"", Code::MissingField, "line 1 has no `settings`"),
            ("\"seed\":\"1\"", "\"seed\":1", Code::MalformedField, "line 1: a setting is no text"),
            ("\"tokens\":[{\"text\"", "\"toks\":[{\"text\"", Code::MissingField, "line 3 has no `tokens`"),
            ("\"id\":7", "\"id\":-7", Code::MalformedField, "line 2: a token's `id` is no whole number"),
            ("\"id\":7", "\"id\":7,\"id\":7", Code::MalformedJson, "line 2: the key `id` stands twice"),
            ("{\"text\":\"x\"}]}\n", "{\"text\":\"x\"}", Code::Truncated, "line 3 stops before its end"),
            ("}]}\n", "}]} and\n", Code::MalformedJson, "line 2: something follows the JSON"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            let finding = read(bad.as_bytes()).unwrap().unwrap_err();
            assert_eq!(finding.code, code, "{finding:?}");
            assert!(finding.message.starts_with(says), "{finding:?}");
        }
        let none = good.lines().next().unwrap();
        assert_eq!(read(none.as_bytes()).unwrap().unwrap_err().code, Code::NoSamples);
        let many = format!("{none}\n{}", "{\"prompt\":\"\",\"tokens\":[]}\n".repeat(MOST_PROMPTS + 1));
        assert_eq!(read(many.as_bytes()).unwrap().unwrap_err().code, Code::TooLarge);
    }
}
