//! Names of chips and models inside lines of any form.

/// `name: value` or `name = value`, as sysctl, sw_vers and system_profiler print.
pub(super) fn pair(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':').or_else(|| line.split_once('='))?;
    let (name, value) = (name.trim_start_matches(['-', '*']).trim(), value.trim());
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
}

/// The first Apple chip that a line names, `Apple M1 Ultra`.
pub fn chip(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if word.trim_start_matches(['(', '"']) != "Apple" {
            continue;
        }
        let Some(number) = words.peek().map(|next| trimmed(next)).filter(|next| is_chip_number(next)) else {
            continue;
        };
        let is_last = words.next().is_some_and(ends_here);
        let variant = words.peek().map(|next| trimmed(next)).filter(|_| !is_last);
        return Some(match variant {
            Some(variant @ ("Pro" | "Max" | "Ultra")) => format!("Apple {number} {variant}"),
            _ => format!("Apple {number}"),
        });
    }
    None
}

fn trimmed(word: &str) -> &str {
    word.trim_end_matches([',', ';', '.', ')', '"'])
}

fn ends_here(word: &str) -> bool {
    trimmed(word).len() != word.len()
}

fn is_chip_number(word: &str) -> bool {
    word.strip_prefix(['M', 'A']).is_some_and(|digits| {
        (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The first hardware model that a line names, `VirtualMac2,1`.
pub(super) fn hardware_model(line: &str) -> Option<String> {
    line.split_whitespace().map(|word| word.trim_matches(['(', ')', '"', ';', '.', ','])).find_map(|word| {
        let (name, minor) = word.split_once(',')?;
        let digits = name.trim_start_matches(|character: char| character.is_ascii_alphabetic());
        let is_model = name.contains("Mac")
            && !digits.is_empty()
            && digits.len() < name.len()
            && [digits, minor]
                .iter()
                .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        is_model.then(|| word.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_in_lines() {
        for (line, expected) in [
            ("Chip: Apple M4 Pro (Virtual)", Some("Apple M4 Pro")),
            ("- Host: Mac13,2, Apple M1 Ultra, 48-core GPU", Some("Apple M1 Ultra")),
            ("an Apple M1, Max settings", Some("Apple M1")),
            ("brand: Apple M2", Some("Apple M2")),
            ("brand: Apple processor", None),
            ("Apple Virtual Machine 1", None),
            ("Apple", None),
        ] {
            assert_eq!(chip(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn models_in_lines() {
        for (line, expected) in [
            ("Model Identifier: VirtualMac2,1", Some("VirtualMac2,1")),
            ("Host: Mac13,2, Apple M1", Some("Mac13,2")),
            ("hw.model: MacBookPro18,3", Some("MacBookPro18,3")),
            ("16,756,681 bytes on a Mac", None),
        ] {
            assert_eq!(hardware_model(line).as_deref(), expected, "{line}");
        }
    }
}
