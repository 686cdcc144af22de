//! The command lines of the demonstration.

use crate::exit::Exit;

/// One command line.
#[derive(Debug)]
pub struct Step {
    /// What it shows.
    pub about: &'static str,
    /// Its arguments.
    pub args: &'static [&'static str],
    /// How it ends.
    pub exit: Exit,
}

/// In order.
pub const STEPS: &[Step] = &[
    done("a key that may change who is trusted", &["keygen", "root.demo.example", "--out", "root.key"]),
    done(
        "a key of a publisher, who says what was tested",
        &["keygen", "alice.demo.example", "--out", "alice.key"],
    ),
    done(
        "a key that says what is in force, named by the registry's origin",
        &["keygen", "demo.example/gpu", "--out", "registry.key"],
    ),
    done(
        "a registry; readers know it by the digest of its root",
        &[
            "init",
            "registry",
            "--origin",
            "demo.example/gpu",
            "--root-key",
            "root.key",
            "--publisher",
            "alice.key",
            "--registry-key",
            "registry.key",
        ],
    ),
    done("every problem of every profile", &["lint", "profiles.d"]),
    done(
        "sign the profiles and put them in force",
        &["publish", "--all", "--key", "alice.key", "--registry-key", "registry.key"],
    ),
    done("check the whole registry, byte for byte", &["verify"]),
    done("what is in force", &["list"]),
    done(
        "exactly the combination that was tested: granted",
        &["lookup", "--facts", "facts/tested.toml", "--log", "decisions.jsonl"],
    ),
    stock(
        "the host was updated: nobody tested that build",
        &["lookup", "--facts", "facts/host-updated.toml", "--log", "decisions.jsonl"],
    ),
    stock(
        "the host's build is not known, and an unknown fact matches nothing",
        &["lookup", "--facts", "facts/host-unknown.toml", "--log", "decisions.jsonl"],
    ),
    stock(
        "the site refuses what the registry would grant",
        &["lookup", "--facts", "facts/tested.toml", "--policy", "site.toml", "--log", "decisions.jsonl"],
    ),
    done(
        "a publisher takes a profile back",
        &[
            "revoke",
            "m1-ultra-25g76-25f84-llama-bench-b10359",
            "--severity",
            "withdrawn",
            "--reason",
            "three samples are too few",
            "--key",
            "alice.key",
            "--registry-key",
            "registry.key",
        ],
    ),
    stock(
        "its program stays stock from now on",
        &["lookup", "--facts", "facts/revoked.toml", "--log", "decisions.jsonl"],
    ),
    stock(
        "a registry that nobody renewed is not believed",
        &["lookup", "--facts", "facts/tested.toml", "--now", "2100-01-01T00:00:00Z"],
    ),
    stock(
        "what cannot be logged is not granted",
        &["lookup", "--facts", "facts/tested.toml", "--log", "no-such-folder/decisions.jsonl"],
    ),
    stock(
        "ask before an update: what would it change?",
        &["explain", "--facts", "facts/tested.toml", "--if", "host_os_build=25G90"],
    ),
    done("every decision stands in the log", &["audit", "list", "decisions.jsonl"]),
];

const fn done(about: &'static str, args: &'static [&'static str]) -> Step {
    Step { about, args, exit: Exit::Done }
}

const fn stock(about: &'static str, args: &'static [&'static str]) -> Step {
    Step { about, args, exit: Exit::Refused }
}

impl Step {
    /// The line as a shell takes it. `init` gives the digest to the commands behind it.
    pub fn line(&self) -> String {
        let words: Vec<String> = self.args.iter().map(|word| quoted(word)).collect();
        let line = format!("capgate {}", words.join(" "));
        if self.is_init() { format!("export CAPGATE_ROOT=$({line})") } else { line }
    }

    /// Tells whether it makes the registry.
    pub fn is_init(&self) -> bool {
        self.args.first() == Some(&"init")
    }

    /// Tells whether it asks for a decision.
    pub fn is_lookup(&self) -> bool {
        self.args.first() == Some(&"lookup")
    }
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
