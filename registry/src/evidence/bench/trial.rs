//! The profile under which `capgate bench` tries a set that nobody tested: for exactly one combination, signed by a key
//! that is thrown away, in a registry whose origin says that it is a trial.

use crate::combination::{CdHash, Sha256Digest};
use crate::evidence::manifest::{Guest, Host};
use crate::evidence::toml_writer::{Writer, list, quoted};
use crate::profile::{FeatureLevel, SCHEMA, Values};

/// What is tried.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The values.
    pub values: Values,
    /// The Mac.
    pub host: &'a Host,
    /// The virtual machine.
    pub guest: &'a Guest,
    /// The guest's own answers: Apple family and threadgroup memory.
    pub stock: (Option<u64>, u64),
    /// SHA-256 of the program.
    pub sha256: Option<Sha256Digest>,
    /// Its code directory hash.
    pub cdhash: Option<CdHash>,
    /// SHA-256 of the library that is inserted.
    pub shim: Sha256Digest,
}

/// What stands in place of evidence. No bundle has this digest: it is that of no bytes.
const NO_BUNDLE: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

impl Trial<'_> {
    /// The profile. Its evidence says that there is none yet: it was made to be tried, and counts for nothing else.
    pub fn to_toml(&self) -> String {
        let mut out = Writer::default();
        let Values { apple_family_max: family, max_threadgroup_memory: memory } = self.values;
        out.text("schema", &SCHEMA.to_string());
        out.text("id", &format!("trial-{family}-{memory}"));
        out.text("verdict", "override");
        out.text("summary", "a trial of capgate bench: untested, for one process");
        self.machine(&mut out);
        out.table("[workload]");
        out.text("name", "trial");
        out.text("version", "untested");
        self.sha256.iter().for_each(|digest| out.text("sha256", &digest.to_string()));
        self.cdhash.iter().for_each(|digest| out.text("cdhash", &digest.to_string()));
        out.table("[[override]]");
        out.raw("apple_family_max", &family.to_string());
        out.raw("max_threadgroup_memory", &memory.to_string());
        out.raw("acknowledges", &list(&self.acknowledged()));
        self.evidence(&mut out);
        out.finish().0
    }

    fn machine(&self, out: &mut Writer) {
        let host_family = self.host.apple_family;
        out.table("[host]");
        out.text("chip", self.host.chip.as_str());
        out.raw("os", &os(&self.host.os));
        host_family.iter().for_each(|family| out.raw("apple_family", &family.to_string()));
        out.raw("max_threadgroup_memory", &self.host_memory().to_string());
        let level = match self.host.feature_level {
            FeatureLevel::Unrestricted => "unrestricted",
            FeatureLevel::Default => "default",
            FeatureLevel::Unrecorded => "unrecorded",
        };
        out.text("feature_level", level);
        out.table("[guest]");
        out.raw("os", &os(&self.guest.os));
        out.text("model", self.guest.model.as_deref().unwrap_or("VirtualMac"));
        out.table("[guest.stock]");
        self.stock.0.iter().for_each(|family| out.raw("apple_family", &family.to_string()));
        out.raw("max_threadgroup_memory", &self.stock.1.to_string());
    }

    /// No Apple GPU documents more, so that more than this is said aloud where nobody recorded the host's answer.
    fn host_memory(&self) -> u64 {
        self.host.max_threadgroup_memory.unwrap_or(32_768)
    }

    fn acknowledged(&self) -> Vec<&'static str> {
        let above_family = self.host.apple_family.is_none_or(|family| self.values.apple_family_max > family);
        let above_memory = self.values.max_threadgroup_memory > self.host_memory();
        let said = [
            (above_family, "above-host-family"),
            (above_memory, "above-host-memory"),
            (true, "images-unrecorded"),
        ];
        said.into_iter().filter_map(|(applies, word)| applies.then_some(word)).collect()
    }

    fn evidence(&self, out: &mut Writer) {
        let Values { apple_family_max: family, max_threadgroup_memory: memory } = self.values;
        out.table("[[evidence]]");
        out.text("kind", "speed");
        out.raw("override", &format!("{{ apple_family_max = {family}, max_threadgroup_memory = {memory} }}"));
        out.raw("shim", &format!("{{ name = \"capgate\", sha256 = \"{}\" }}", self.shim));
        out.text("bundle", NO_BUNDLE);
        out.text("source", "https://trial.invalid/");
        out.raw("measured", "2026-01-01");
        out.raw("warnings", &list(&["trial"]));
        out.table("[[evidence.test]]");
        out.text("name", "trial");
        let nothing = "{ n = 1, median = 1.0, cv = 0.0 }";
        out.raw("stock", nothing);
        out.raw("override", nothing);
    }
}

fn os(os: &crate::os::Os) -> String {
    format!("{{ version = {}, build = {} }}", quoted(os.version.as_str()), quoted(os.build.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::bench::machine::Machine;
    use crate::profile::{Profile, lint};

    #[test]
    fn every_set_within_the_bounds_makes_a_profile_of_exactly_one_combination() {
        let text = "host = { chip = \"Apple M1 Ultra\", os = { version = \"26.6.1\", build = \"25G76\" } }\n\
                    guest = { os = { version = \"26.5.2\", build = \"25F84\" }, model = \"VirtualMac2,1\" }\n";
        let machine = Machine::parse(text.as_bytes()).unwrap();
        let (host, guest) = (machine.host.unwrap(), machine.guest.unwrap());
        for family in 1006..=1010 {
            for memory in [32_768, 65_536] {
                let values = Values { apple_family_max: family, max_threadgroup_memory: memory };
                let trial = Trial {
                    values,
                    host: &host,
                    guest: &guest,
                    stock: (Some(1005), 32_768),
                    sha256: Some(crate::combination::Hex([7; 32])),
                    cdhash: None,
                    shim: crate::combination::Hex([8; 32]),
                };
                let toml = trial.to_toml();
                let (profile, problems) = lint(toml.as_bytes());
                assert_eq!(
                    problems.iter().map(|p| p.message.as_str()).collect::<Vec<_>>(),
                    Vec::<&str>::new()
                );
                let profile: Profile = profile.unwrap();
                assert_eq!(profile.combinations().len(), 1);
                assert_eq!(profile.overrides.iter().map(|set| set.values).collect::<Vec<_>>(), [values]);
                assert!(profile.summary.contains("untested"));
            }
        }
    }
}
