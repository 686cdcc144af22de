//! What is known of the machine beside what it says itself: a file of two tables, as a manifest has them.
//!
//! ```toml
//! host = { chip = "Apple M1 Ultra", os = { version = "26.6.1", build = "25G76" }, apple_family = 1007, max_threadgroup_memory = 32768 }
//! guest = { os = { version = "26.5.2", build = "25F84" }, model = "VirtualMac2,1", stock = { apple_family = 1005, max_threadgroup_memory = 32768 } }
//! ```
//!
//! Either may be left out.

use crate::document::{self, Problem};
use crate::evidence::manifest::{Guest, Host, read_guest, read_host};

/// Most bytes of such a file.
pub const MOST_BYTES: usize = 16 * 1024;

/// What is known of host and guest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// The Mac.
    pub host: Option<Host>,
    /// The virtual machine.
    pub guest: Option<Guest>,
}

impl Machine {
    /// Reads the file, or says every problem in it.
    pub fn parse(toml: &[u8]) -> Result<Self, Vec<Problem>> {
        let (machine, problems) = document::read(toml, MOST_BYTES, |root| {
            let host = root.table("host").and_then(|table| read_host(&table));
            let guest = root.table("guest").and_then(|table| read_guest(&table));
            root.finish();
            Some(Self { host, guest })
        });
        machine.ok_or(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "host = { chip = \"Apple M1 Ultra\", os = { version = \"26.6.1\", build = \"25G76\" } }\n\
                        guest = { os = { version = \"26.5.2\", build = \"25F84\" }, model = \"VirtualMac2,1\" }\n";

    #[test]
    fn either_table_may_be_left_out_and_no_other_may_be_there() {
        let machine = Machine::parse(BOTH.as_bytes()).unwrap();
        assert_eq!(machine.host.unwrap().chip.as_str(), "Apple M1 Ultra");
        assert_eq!(machine.guest.unwrap().model.as_deref(), Some("VirtualMac2,1"));
        let (host, _) = BOTH.split_once('\n').unwrap();
        assert_eq!(Machine::parse(format!("{host}\n").as_bytes()).unwrap().guest, None);
        assert!(Machine::parse(b"hosts = {}\n").is_err());
        assert!(Machine::parse(BOTH.replace("25G76", "24G76").as_bytes()).is_err());
    }
}
