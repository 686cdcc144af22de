//! The statement itself: what this machine says of itself, never what somebody says of it.

use capgate_guest::system;
use capgate_policy::host::HostStatement;
use capgate_registry::combination::{Chip, ChipError};
use capgate_registry::keys::SigningKey;
use capgate_registry::note::{self, Kind};
use capgate_registry::os::{Build, Os, Version};
use capgate_registry::profile::FeatureLevel;
use jiff::Timestamp;

use crate::cli::{AttestArgs, FeatureLevelWord};
use crate::cmd::keys;
use crate::exit::Failure;

/// What the statement is about, read once: neither changes before the next start.
pub struct Host {
    chip: Chip,
    os: Os,
}

impl Host {
    /// Reads it. A guest is no host, whatever it wants to say.
    pub fn read() -> Result<Self, Failure> {
        match system::sysctl_number(c"kern.hv_vmm_present") {
            Some(0) => {}
            Some(1) => {
                let message = "this is a virtual machine, and a host statement is about the Mac that runs it";
                return Err(Failure::failed(message).help("run `capgate host attest` on the host"));
            }
            Some(other) => {
                return Err(unclear(format!("`kern.hv_vmm_present` is {other}, neither 0 nor 1")));
            }
            None => return Err(unclear("it is not known whether this is a virtual machine")),
        }
        Ok(Self { chip: chip()?, os: os()? })
    }

    /// The statement, signed, from `now` on.
    pub fn sign(&self, args: &AttestArgs, key: &SigningKey, now: Timestamp) -> Result<Signed, Failure> {
        let expires = now
            .checked_add(args.lifetime)
            .map_err(|_| Failure::failed("the clock of this machine is set to the end of time"))?;
        let statement = HostStatement {
            chip: self.chip.clone(),
            os: self.os.clone(),
            feature_level: match args.feature_level {
                FeatureLevelWord::Unrestricted => FeatureLevel::Unrestricted,
                FeatureLevelWord::Default => FeatureLevel::Default,
                FeatureLevelWord::Unrecorded => FeatureLevel::Unrecorded,
            },
            mac_addresses: args.mac.clone(),
            least_version: args.least_version,
            issued: now,
            expires,
        };
        let text = statement.to_toml();
        if let Err(problems) = HostStatement::parse(text.as_bytes()) {
            let first = problems.into_iter().next().map_or_else(String::new, |problem| problem.message);
            return Err(Failure::failed(format!("readers would refuse this statement: {first}")));
        }
        let note = note::compose(Kind::Host, &args.origin, &text).and_then(|text| note::sign(&text, &[key]));
        let note = note.map_err(|e| keys::not_signed("the statement", &e))?;
        Ok(Signed { statement, note })
    }
}

/// A statement and the bytes by which it is believed.
pub struct Signed {
    /// What it says.
    pub statement: HostStatement,
    /// The signed note.
    pub note: Vec<u8>,
}

fn chip() -> Result<Chip, Failure> {
    let name = "machdep.cpu.brand_string";
    let text = system::sysctl_text(c"machdep.cpu.brand_string").ok_or_else(|| missing(name))?;
    text.parse().map_err(|e| match e {
        ChipError::Virtual(_) => {
            Failure::failed(format!("the chip is named `{text}`, which only a guest reads"))
                .help("run `capgate host attest` on the host")
        }
        e => unclear(format!("`{name}`: {e}")),
    })
}

fn os() -> Result<Os, Failure> {
    let (version_name, build_name) = ("kern.osproductversion", "kern.osversion");
    let version = system::sysctl_text(c"kern.osproductversion").ok_or_else(|| missing(version_name))?;
    let build = system::sysctl_text(c"kern.osversion").ok_or_else(|| missing(build_name))?;
    let version: Version = version.parse().map_err(|e| unclear(format!("`{version_name}`: {e}")))?;
    let build: Build = build.parse().map_err(|e| unclear(format!("`{build_name}`: {e}")))?;
    version.agrees_with(&build).map_err(|e| unclear(e.to_string()))?;
    Ok(Os { version, build })
}

fn missing(name: &str) -> Failure {
    unclear(format!("this machine does not say what its `{name}` is"))
}

/// What is not known is not signed.
fn unclear(what: impl Into<String>) -> Failure {
    Failure::failed(what)
        .help("`capgate host attest` runs on a Mac with Apple silicon, outside any virtual machine")
}
