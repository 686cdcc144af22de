//! The site policy: how an operator narrows what a registry may grant.
//!
//! Whatever stands in it, a site policy only turns a grant into stock answers or into another *tested* set, and the
//! order of its rules means nothing: every rule removes candidates, none adds one. See `docs/policy.md`.

mod read;
mod rule;

use capgate_registry::combination::Sha256Digest;
use capgate_registry::document::Problem;
use capgate_registry::keys::VerifierKey;
use capgate_registry::profile::Values;
use capgate_registry::witness::Quorum;
use jiff::Timestamp;

pub use rule::{Conditions, DenyRule};
pub(crate) use rule::{Scene, Subject};

/// Largest site policy that is read, in bytes.
pub const MAX_POLICY: usize = 256_000;

/// What is done with a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is granted.
    Enforce,
    /// It is logged, and the process stays stock.
    Observe,
    /// Nothing is looked up.
    Off,
}

/// Words of [`Mode`].
pub const MODES: [(&str, Mode); 3] =
    [("enforce", Mode::Enforce), ("observe", Mode::Observe), ("off", Mode::Off)];

/// The most that may be reported. The first tested set within it is chosen, in the profile's own order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Highest Apple family.
    pub apple_family_max: Option<u64>,
    /// Most threadgroup memory, in bytes.
    pub max_threadgroup_memory: Option<u64>,
}

impl Ceiling {
    /// Tells whether both values lie within it.
    pub fn allows(self, values: Values) -> bool {
        self.apple_family_max.is_none_or(|most| values.apple_family_max <= most)
            && self.max_threadgroup_memory.is_none_or(|most| values.max_threadgroup_memory <= most)
    }
}

/// What evidence must show before a set is granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demand {
    /// A passed test of correctness with the same values.
    pub correctness: bool,
    /// Least number of samples in the poorest arm of one piece of speed evidence.
    pub samples: Option<u64>,
    /// Most days since the newest sample.
    pub max_age_days: Option<u64>,
    /// Publishers whose signature counts; empty means all.
    pub signers: Vec<String>,
    /// How many of them must have signed; 0 demands nothing.
    pub min_signers: u64,
}

/// A site policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SitePolicy {
    /// What is done with a grant.
    pub mode: Mode,
    /// Deny rules, in the order of the file, which means nothing.
    pub deny: Vec<DenyRule>,
    /// The most that may be reported.
    pub ceiling: Ceiling,
    /// What evidence must show.
    pub demand: Demand,
    /// Keys of the hosts whose statements count.
    pub host_keys: Vec<VerifierKey>,
    /// Witnesses, and how many of them must have cosigned the registry's checkpoint.
    pub witnesses: Option<Quorum>,
    /// Where `sync` finds the host statement: an absolute path.
    pub statement: Option<String>,
    /// SHA-256 of libraries of other shims that `capgate run --shim` may insert, beside those in the profile's evidence.
    pub shims: Vec<Sha256Digest>,
    /// SHA-256 of the policy's bytes, for the log.
    pub digest: Sha256Digest,
}

/// Says why a site policy that exists cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteDoubt {
    /// It could not be read.
    #[error("the site policy cannot be read: {0}")]
    Unreadable(String),
    /// It is not understood in full.
    #[error("the site policy is malformed: {0}")]
    Malformed(String),
}

impl SitePolicy {
    /// Reads a site policy. One that is not understood in full is no policy: a rule that is skipped because of a typo
    /// would grant what it was written to refuse.
    pub fn parse(toml: &[u8]) -> Result<Self, Vec<Problem>> {
        let (policy, problems) = read::read(toml);
        policy.ok_or(problems)
    }
}

/// Every problem of a site policy at `now`, sorted by place: what makes it unreadable, and what an operator should know
/// although it can be used, such as a rule that has expired.
pub fn check(toml: &[u8], now: Timestamp) -> Vec<Problem> {
    read::check(toml, now)
}

#[cfg(test)]
mod tests {
    use capgate_registry::document::{Severity, position};
    use capgate_registry::keys::SigningKey;
    use capgate_registry::witness::WitnessKey;
    use sha2::{Digest as _, Sha256};

    use super::*;

    const TEMPLATE: &str = r#"schema = "1.0.0"
mode = "enforce"
statement = "/Volumes/My Shared Files/capgate/host.note"
host_keys = ["HOSTKEY"]

[[deny]]
id = "no-llama-on-26-6"
reason = "wrong answers were seen"
owner = "gpu-team"
expires = 2026-12-24T00:00:00Z
guest_os_version = ">=26.6.0, <26.6.2"
workload_name = "llama-bench"

[[deny]]
id = "nothing-above-the-host"
reason = "waiting for evidence"
owner = "gpu-team"
apple_family_above = 1007

[ceiling]
apple_family_max = 1009
max_threadgroup_memory = 32768

[demand]
correctness = true
samples = 10
max_age_days = 180
signers = ["alice", "bob"]
min_signers = 2
"#;

    /// The template with a real key in it.
    fn good() -> String {
        let key = SigningKey::from_seed("host-7", [7; 32]).unwrap();
        TEMPLATE.replace("HOSTKEY", &key.verifier().to_string())
    }

    fn now() -> Timestamp {
        "2026-11-20T00:00:00Z".parse().unwrap()
    }

    fn found(text: &str) -> Vec<String> {
        check(text.as_bytes(), now())
            .into_iter()
            .map(|p| {
                let (line, column) = position(text.as_bytes(), p.span.start);
                let help = p.help.map_or_else(String::new, |help| format!(" ({help})"));
                format!("{line}:{column} {}{help}", p.message)
            })
            .collect()
    }

    #[test]
    fn a_policy_reads_in_full() {
        let policy = SitePolicy::parse(good().as_bytes()).unwrap();
        assert_eq!(policy.mode, Mode::Enforce);
        assert_eq!(policy.deny.len(), 2);
        assert_eq!(policy.ceiling.apple_family_max, Some(1009));
        assert_eq!(policy.demand.min_signers, 2);
        assert_eq!(policy.digest.0, <[u8; 32]>::from(Sha256::digest(good())));
    }

    #[test]
    fn every_typo_is_named_with_its_place_and_what_was_meant() {
        let text = good()
            .replace("enforce", "enfroce")
            .replace("workload_name", "workload_nmae")
            .replace("correctness = true", "corectness = true");
        assert!(SitePolicy::parse(text.as_bytes()).is_err());
        assert_eq!(
            found(&text),
            [
                "2:8 `mode` cannot be `enfroce` (did you mean `enforce`?)",
                "12:1 unknown key `deny[0].workload_nmae` (did you mean `workload_name`?)",
                "25:1 unknown key `demand.corectness` (did you mean `correctness`?)",
            ]
        );
    }

    #[test]
    fn an_invalid_range_is_an_error_and_never_a_warning() {
        let text = good().replace(">=26.6.0, <26.6.2", ">=26.6.0 <26.6.2");
        assert!(SitePolicy::parse(text.as_bytes()).is_err());
        assert!(found(&text)[0].starts_with("11:20 `deny[0].guest_os_version`:"), "{:?}", found(&text));
    }

    #[test]
    fn a_rule_without_conditions_is_refused() {
        let text = good().replace("apple_family_above = 1007\n", "");
        assert!(SitePolicy::parse(text.as_bytes()).is_err());
        assert!(found(&text)[0].contains("`nothing-above-the-host` has no condition"), "{:?}", found(&text));
    }

    #[test]
    fn an_expired_rule_is_reported_and_readable() {
        let later = "2026-12-24T00:00:00Z".parse().unwrap();
        let problems = check(good().as_bytes(), later);
        assert_eq!(problems.iter().filter(|p| p.message.contains("expired")).count(), 1);
        assert!(problems.iter().all(|p| p.severity == Severity::Rule));
        assert!(SitePolicy::parse(good().as_bytes()).is_ok());
    }

    #[test]
    fn limits_that_could_never_matter_are_refused() {
        for (from, to, wanted) in [
            ("apple_family_above = 1007", "apple_family_above = 1010", "never holds"),
            ("max_threadgroup_memory = 32768", "max_threadgroup_memory = 32", "is no value that is ever"),
            ("apple_family_max = 1009", "apple_family_max = 9", "is no value that is ever"),
            ("min_signers = 2", "min_signers = 3", "names only 2"),
            ("min_signers = 2", "min_signers = 0", "demands nothing"),
            ("samples = 10", "samples = 0", "demands nothing"),
            ("\"bob\"", "\"alice\"", "twice"),
            ("nothing-above-the-host", "no-llama-on-26-6", "two rules"),
            ("/Volumes", "Volumes", "absolute"),
        ] {
            let text = good().replace(from, to);
            assert!(SitePolicy::parse(text.as_bytes()).is_err(), "{to}");
            assert!(found(&text).iter().any(|line| line.contains(wanted)), "{to}: {:?}", found(&text));
        }
    }

    #[test]
    fn witnesses_are_demanded_by_key_and_number_or_not_at_all() {
        let key = |byte: u8| {
            let key = SigningKey::from_seed("witness.test", [byte; 32]).unwrap();
            WitnessKey::new(key.verifier().clone()).to_string()
        };
        let with = |lines: &str| {
            good().replace("[[deny]]\nid = \"no-llama", &format!("{lines}\n[[deny]]\nid = \"no-llama"))
        };
        let keys = format!("witness_keys = [\"{}\", \"{}\"]\n", key(21), key(22));
        let text = with(&format!("{keys}witness_threshold = 2\n"));
        let quorum = SitePolicy::parse(text.as_bytes()).unwrap().witnesses.unwrap();
        assert_eq!((quorum.keys().len(), quorum.threshold()), (2, 2));
        assert_eq!(SitePolicy::parse(good().as_bytes()).unwrap().witnesses, None);
        let plain = SigningKey::from_seed("witness.test", [21; 32]).unwrap().verifier().to_string();
        for (lines, wanted) in [
            (keys.clone(), "not how many"),
            ("witness_threshold = 1\n".into(), "none is named"),
            (format!("{keys}witness_threshold = 0\n"), "no demand"),
            (format!("{keys}witness_threshold = 3\n"), "no demand"),
            (format!("{keys}witness_threshold = \"1\"\n"), "whole number"),
            ("witness_keys = []\nwitness_threshold = 1\n".into(), "no demand"),
            (format!("witness_keys = [\"{0}\", \"{0}\"]\nwitness_threshold = 1\n", key(21)), "twice"),
            (format!("witness_keys = [\"{plain}\"]\nwitness_threshold = 1\n"), "algorithm 0x01"),
        ] {
            let text = with(&lines);
            assert!(SitePolicy::parse(text.as_bytes()).is_err(), "{lines}");
            assert!(found(&text).iter().any(|line| line.contains(wanted)), "{lines}: {:?}", found(&text));
        }
    }

    /// The documented example is a policy that this crate reads.
    #[test]
    fn the_example_in_the_docs_reads() {
        let docs = include_str!("../../../docs/policy.md");
        let example = docs.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let key = SigningKey::from_seed("host-7", [7; 32]).unwrap().verifier().to_string();
        let example = example.replace("host-7+3b1c0d2e+AVs…", &key);
        assert_eq!(check(example.as_bytes(), now()), []);
    }
}
