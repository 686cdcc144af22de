//! What people paste to say which machine it was: `sw_vers`, `csrutil status`, `sysctl`, `system_profiler`, a crash
//! report, prose.
//!
//! Everything recognised is kept with the side it was said of, host or guest, where a heading or the line says so.
//! Builds decide, versions are for people: 16.x and 10.16 are answers of compatibility mode and never kept as versions.

mod os;
mod sip;
mod words;

use serde::Serialize;

pub use os::{OsMention, macos_major};
pub use sip::{Sip, SipState};
pub use words::chip;

use super::codes::Code;
use super::finding::Finding;

/// Most bytes of one file.
pub const MOST_BYTES: usize = 1024 * 1024;

/// Which machine something is said of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The Mac itself.
    Host,
    /// The virtual machine.
    Guest,
}

/// A name and the machine it was said of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// Which machine, where that is known.
    pub side: Option<Side>,
    /// The name.
    pub name: String,
}

/// What a file says about machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Environment {
    /// Operating systems.
    pub os: Vec<OsMention>,
    /// Chips, without the ` (Virtual)` that a guest adds.
    pub chips: Vec<Said>,
    /// Hardware models, `Mac13,2` or `VirtualMac2,1`.
    pub models: Vec<Said>,
    /// Whether the machine says that it is a guest.
    pub is_guest: Option<bool>,
    /// System Integrity Protection.
    pub sip: Option<Sip>,
    /// A processor that does not say which chip it is.
    pub unnamed_chip: Option<String>,
}

/// Reads a file; none where it says nothing about a machine.
pub fn read(bytes: &[u8]) -> Option<Environment> {
    if bytes.len() > MOST_BYTES {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let mut environment = Environment { sip: sip::read(&text), ..Environment::default() };
    let mut os = os::Collector::default();
    let mut heading = None;
    for line in text.lines() {
        let line = line.trim_start_matches('\u{feff}').replace('`', "");
        let line = line.trim();
        if let Some(title) = line.strip_prefix('#') {
            heading = side_of(title);
            continue;
        }
        let side = side_of(line).or(heading);
        os.line(line, side);
        environment.line(line, side);
    }
    environment.os = os.finish();
    environment.settle();
    environment.says_something().then_some(environment)
}

/// The machine a line or heading names; none where it names both or neither.
fn side_of(line: &str) -> Option<Side> {
    let lower = line.to_ascii_lowercase();
    let names = |wanted: &str| lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == wanted);
    match (names("host"), names("guest")) {
        (true, false) => Some(Side::Host),
        (false, true) => Some(Side::Guest),
        _ => None,
    }
}

impl Environment {
    fn line(&mut self, line: &str, side: Option<Side>) {
        if let Some(chip) = words::chip(line) {
            let side = if line.contains("(Virtual)") { Some(Side::Guest) } else { side };
            add(&mut self.chips, side, chip);
        }
        if let Some(model) = words::hardware_model(line) {
            let side = if model.starts_with("VirtualMac") { Some(Side::Guest) } else { side };
            add(&mut self.models, side, model);
        }
        if let Some((name, value)) = words::pair(line) {
            match name {
                "kern.hv_vmm_present" => self.is_guest = Some(value == "1"),
                "machdep.cpu.brand_string" | "Chip" if words::chip(line).is_none() => {
                    self.unnamed_chip = Some(value.to_owned());
                }
                _ => {}
            }
        }
    }

    fn settle(&mut self) {
        if self.is_guest.is_none() && self.models.len() == 1 {
            self.is_guest = self.models.first().map(|model| model.name.starts_with("VirtualMac"));
        }
    }

    fn says_something(&self) -> bool {
        !self.os.is_empty()
            || !self.chips.is_empty()
            || !self.models.is_empty()
            || self.is_guest.is_some()
            || self.sip.is_some()
            || self.unnamed_chip.is_some()
    }

    /// Every build that is named.
    pub fn builds(&self) -> impl Iterator<Item = (&str, Option<Side>)> {
        self.os.iter().filter_map(|os| Some((os.build.as_deref()?, os.side)))
    }

    /// What is wrong with it as a description of a machine.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.os.iter().flat_map(OsMention::findings).collect();
        if let Some(chip) = &self.unnamed_chip
            && self.chips.is_empty()
        {
            let message =
                format!("`{chip}` does not say which chip it is, so no profile can match: stay stock");
            findings.push(Finding::new(Code::UnknownChip, message));
        }
        if self.sip.as_ref().is_some_and(|sip| sip.state == SipState::Unknown) {
            findings.push(Finding::new(Code::SipUnknown, "`csrutil status` gives no state that is known"));
        }
        findings
    }
}

fn add(list: &mut Vec<Said>, side: Option<Side>, name: String) {
    let said = Said { side, name };
    if !list.contains(&said) {
        list.push(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_with_headings() {
        let environment = read(
            "# Provenance\n## Host\n- Model: `Mac13,2`\n- Chip: Apple M1 Ultra, 48-core GPU\n- macOS: 26.6.1 (`25G76`)\n\
             ## Guest\n- macOS: 26.5.2 (`25F84`)\n- Virtual hardware: `VirtualMac2,1`\n"
                .as_bytes(),
        )
        .unwrap();
        let builds: Vec<_> = environment.builds().collect();
        assert_eq!(builds, [("25G76", Some(Side::Host)), ("25F84", Some(Side::Guest))]);
        assert_eq!(environment.chips, [Said { side: Some(Side::Host), name: "Apple M1 Ultra".to_owned() }]);
        assert_eq!(environment.models.len(), 2);
        assert_eq!(environment.is_guest, None);
        assert_eq!(environment.findings(), []);
    }

    #[test]
    fn lines_that_name_their_side() {
        let environment =
            read(b"- Host macOS: 26.6.1 (25G76)\n- Guest macOS: 26.5.2 (25F84), Darwin 25.5.0\n").unwrap();
        let sides: Vec<_> = environment.builds().map(|(_, side)| side).collect();
        assert_eq!(sides, [Some(Side::Host), Some(Side::Guest)]);
    }

    #[test]
    fn nothing_said() {
        assert_eq!(read(b"hello\n"), None);
        assert_eq!(read(b""), None);
    }
}
