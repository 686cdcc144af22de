//! One line of a log without what terminals, runners and loggers put before it.

/// The line without byte order mark, colours, times and logger prefixes.
pub(in crate::evidence) fn clean(raw: &str) -> String {
    let plain = without_escapes(raw.trim_start_matches('\u{feff}'));
    let mut line = plain.trim();
    // A runner's time may stand before a logger's; more than a few prefixes are not prefixes.
    for _ in 0..4 {
        let Some(rest) = without_prefix(line) else { break };
        line = rest.trim_start();
    }
    line.to_owned()
}

/// Removes terminal control sequences (`ESC [ … letter`, `ESC ] … BEL`) and lone control characters.
fn without_escapes(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut characters = raw.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => match characters.next() {
                Some('[') => {
                    let _final = characters.by_ref().find(|next| ('\u{40}'..='\u{7e}').contains(next));
                }
                Some(']') => {
                    let _bell = characters.by_ref().find(|next| *next == '\u{7}');
                }
                _ => {}
            },
            '\t' => out.push(' '),
            control if control.is_control() => {}
            other => out.push(other),
        }
    }
    out
}

/// The line after one prefix of a known kind.
fn without_prefix(line: &str) -> Option<&str> {
    without_iso_time(line).or_else(|| without_ns_log(line)).or_else(|| without_llama_time(line))
}

/// `2026-08-12T09:14:03.1234567Z rest`
fn without_iso_time(line: &str) -> Option<&str> {
    let (time, rest) = line.split_once(' ')?;
    (has_shape(time, "dddd-dd-ddTdd:dd:dd") && (time.ends_with('Z') || time.len() <= 32)).then_some(rest)
}

/// `2026-08-09 12:41:47.024 llama-bench[2738:54808] rest`, with or without a time zone
fn without_ns_log(line: &str) -> Option<&str> {
    let (date, rest) = line.split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    if !(date.len() == 10 && has_shape(date, "dddd-dd-dd") && has_shape(time, "dd:dd:dd")) {
        return None;
    }
    // The program's name may hold spaces; its process and thread stand in brackets right after it.
    let (program, after) = rest.split_once("] ")?;
    let (_, ids) = program.rsplit_once('[')?;
    let are_ids = !ids.is_empty() && ids.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    are_ids.then_some(after)
}

/// `0.02.020.033 I rest`
fn without_llama_time(line: &str) -> Option<&str> {
    let (time, rest) = line.split_once(' ')?;
    let parts: Vec<&str> = time.split('.').collect();
    let are_numbers =
        parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    if parts.len() != 4 || !are_numbers {
        return None;
    }
    let (level, after) = rest.trim_start().split_once(' ')?;
    matches!(level, "I" | "W" | "E" | "D" | "N").then_some(after)
}

/// Tells whether a text begins as the pattern says; `d` is any digit.
fn has_shape(text: &str, pattern: &str) -> bool {
    let mut characters = text.chars();
    pattern.chars().all(|wanted| match (characters.next(), wanted) {
        (Some(found), 'd') => found.is_ascii_digit(),
        (found, wanted) => found == Some(wanted),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_is_removed() {
        for raw in [
            "x: y",
            "\u{feff}x: y",
            "2026-08-12T09:14:03.1234567Z x: y",
            "2026-08-12T09:14:03Z \u{1b}[36;1mx: y\u{1b}[0m",
            "2026-08-09 12:41:47.024 llama-bench[2738:54808] x: y",
            "2026-08-09 12:41:47.024+0200 my program[2738:54808] x: y",
            "0.02.020.033 I x: y",
            "2026-08-12T09:14:03.1Z 2026-08-09 12:41:47.024 a[1:2] x: y",
            "  x: y\r",
        ] {
            assert_eq!(clean(raw), "x: y", "{raw:?}");
        }
    }

    #[test]
    fn what_is_no_prefix_stays() {
        for raw in ["1.2.3 I x", "2026-08-09 is a day", "a.b.c.d I x", "12:41:47 x"] {
            assert_eq!(clean(raw), raw);
        }
    }
}
