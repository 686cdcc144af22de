//! Writes TOML line by line, and counts the blanks in it.

/// What every blank begins with.
pub(in crate::evidence) const BLANK: &str = "FILL-IN: ";

/// Lines of a document.
#[derive(Debug, Default)]
pub(in crate::evidence) struct Writer {
    out: String,
    blanks: usize,
}

impl Writer {
    /// Begins a table; the header stands with its brackets.
    pub(in crate::evidence) fn table(&mut self, header: &str) {
        self.out.push('\n');
        self.out.push_str(header);
        self.out.push('\n');
    }

    /// Adds a key whose value is TOML already.
    pub(in crate::evidence) fn raw(&mut self, key: &str, value: &str) {
        self.out.push_str(key);
        self.out.push_str(" = ");
        self.out.push_str(value);
        self.out.push('\n');
    }

    /// Adds a key with text.
    pub(in crate::evidence) fn text(&mut self, key: &str, value: &str) {
        self.raw(key, &quoted(value));
    }

    /// Adds a key with a blank; `wanted` says what belongs there.
    pub(in crate::evidence) fn blank(&mut self, key: &str, wanted: &str) {
        let value = self.blank_value(wanted);
        self.raw(key, &value);
    }

    /// A blank as a value, counted.
    pub(in crate::evidence) fn blank_value(&mut self, wanted: &str) -> String {
        self.blanks += 1;
        quoted(&format!("{BLANK}{wanted}"))
    }

    /// Adds a key with text, or a blank.
    pub(in crate::evidence) fn text_or_blank(&mut self, key: &str, value: Option<&str>, wanted: &str) {
        match value {
            Some(value) => self.text(key, value),
            None => self.blank(key, wanted),
        }
    }

    /// Adds a key with a whole number, or a blank.
    pub(in crate::evidence) fn number_or_blank(&mut self, key: &str, value: Option<u64>, wanted: &str) {
        match value {
            Some(value) => self.raw(key, &value.to_string()),
            None => self.blank(key, wanted),
        }
    }

    /// The document and how many blanks it has.
    pub(in crate::evidence) fn finish(self) -> (String, usize) {
        (self.out, self.blanks)
    }
}

/// Text as a TOML string.
pub(in crate::evidence) fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    let clean: String =
        escaped.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    format!("\"{clean}\"")
}

/// A list of texts.
pub(in crate::evidence) fn list(texts: &[&str]) -> String {
    let items: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", items.join(", "))
}

/// A number with seven significant digits, which is more than any benchmark repeats.
pub(in crate::evidence) fn number(value: f64) -> String {
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let decimals = (6.0 - magnitude).clamp(1.0, 12.0) as usize;
    let text = format!("{value:.decimals$}");
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_seven_digits() {
        for (value, text) in [
            (4_786.700_123, "4786.7"),
            (431.862_523_4, "431.8625"),
            (0.110_561_23, "0.1105612"),
            (0.0, "0.0"),
            (12_345_678.9, "12345678.9"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c d\"");
    }
}
