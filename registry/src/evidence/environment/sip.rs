//! `csrutil status`: System Integrity Protection has three states, and a custom one has parts.

use std::collections::BTreeMap;

use serde::Serialize;

/// What `csrutil status` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SipState {
    /// All parts are on.
    Enabled,
    /// All parts are off.
    Disabled,
    /// Some parts are off; which stands beside it.
    Custom,
    /// Anything else.
    Unknown,
}

/// The state with its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sip {
    /// The state.
    pub state: SipState,
    /// Each part that is listed, and whether it is on.
    pub parts: BTreeMap<String, bool>,
}

/// Finds the status in a text.
pub(super) fn read(text: &str) -> Option<Sip> {
    let mut lines = text.lines();
    let status = lines.by_ref().find_map(|line| line.split_once("System Integrity Protection status:"))?.1;
    let status = status.trim().to_ascii_lowercase();
    let state = if status.contains("custom configuration") {
        SipState::Custom
    } else if status.starts_with("enabled") {
        SipState::Enabled
    } else if status.starts_with("disabled") {
        SipState::Disabled
    } else {
        SipState::Unknown
    };
    let parts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_on = match value.trim() {
            "enabled" => true,
            "disabled" => false,
            _ => return None,
        };
        Some((name.trim().to_owned(), is_on))
    });
    Some(Sip { state, parts: parts.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_states_and_none() {
        for (text, state) in [
            ("System Integrity Protection status: enabled.", SipState::Enabled),
            ("System Integrity Protection status: disabled.", SipState::Disabled),
            ("System Integrity Protection status: unknown (Custom Configuration).", SipState::Custom),
            ("System Integrity Protection status: perhaps", SipState::Unknown),
        ] {
            assert_eq!(read(text).unwrap().state, state, "{text}");
        }
        assert_eq!(read("SIP: disabled in the image"), None);
    }
}
