//! `case.toml`: the attack, the reader that meets it, and what each reader must say.

use std::fmt::Write;

use capgate_registry::document::{self, Table};
use capgate_registry::merkle::Hash;
use capgate_registry::reader::Seen;
use jiff::Timestamp;

/// What `case.toml` says.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The attack in one sentence.
    pub attack: String,
    /// What the attacker must hold beside the web server or the wire.
    pub holds: String,
    /// Honest registry that the same reader accepts: the refusal has no other cause.
    pub twin: String,
    /// The twin's reader has this clock, where the clock itself is the attack.
    pub twin_now: Option<Timestamp>,
    pub root: Hash,
    pub now: Timestamp,
    pub seen: Seen,
    /// Too large to keep: made anew for each test, so that the folder holds `case.toml` alone.
    pub made_by_test: bool,
    pub lookup: Says,
    /// `None`: it needs a registry in full, and this is a proof.
    pub verify: Option<Says>,
    pub sync: Option<Says>,
    /// Honest registry that the copy holds before it meets the attack.
    pub copy: String,
    /// Why a reader that has nothing else may grant, where one does.
    pub limit: Option<String>,
}

/// What a reader says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// Refused: the reason's code, or the file at fault, and words of the message.
    Refuses { by: String, says: String },
    /// Accepted; `holds` says what the attack did not reach, such as the profile that is granted all the same.
    Accepts(String),
}

impl Says {
    fn to_toml(&self, out: &mut String, section: &str, by: &str) {
        let _ = match self {
            Self::Refuses { by: value, says } => {
                write!(out, "\n[{section}]\n{by} = {}\nsays = {}\n", quoted(value), quoted(says))
            }
            Self::Accepts(what) => write!(out, "\n[{section}]\naccepts = {}\n", quoted(what)),
        };
    }

    fn read(root: &Table<'_>, section: &'static str, by: &'static str) -> Option<Self> {
        let table = root.table(section)?;
        let accepts = table.string("accepts").map(|s| s.value.to_owned());
        let says = match accepts {
            Some(what) => Self::Accepts(what),
            None => Self::Refuses {
                by: table.require_string(by)?.value.to_owned(),
                says: table.require_string("says")?.value.to_owned(),
            },
        };
        table.finish();
        Some(says)
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

const HEAD: &str =
    "# Made by `CAPGATE_BLESS=1 cargo test -p capgate-registry --test museum`. Its keys are TEST keys.\n";

impl Told {
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "{HEAD}attack = {}\nholds = {}\ntwin = \"{}\"\nroot = \"sha256:{}\"\nnow = {}\n",
            quoted(&self.attack),
            quoted(&self.holds),
            self.twin,
            self.root,
            self.now
        );
        if let Some(now) = self.twin_now {
            let _ = writeln!(text, "twin_now = {now}");
        }
        if self.made_by_test {
            text += "# It would be too large to keep, or is alive.\nmade_by_test = true\n";
        }
        if let Some(limit) = &self.limit {
            let _ = writeln!(text, "limit = {}", quoted(limit));
        }
        if self.sync.is_some() {
            let _ = writeln!(text, "copy = \"{}\"", self.copy);
        }
        if self.seen != Seen::default() {
            let _ = write!(text, "\n[seen]\n{}", self.seen.to_toml());
        }
        self.lookup.to_toml(&mut text, "lookup", "reason");
        if let Some(verify) = &self.verify {
            verify.to_toml(&mut text, "verify", "file");
        }
        if let Some(sync) = &self.sync {
            sync.to_toml(&mut text, "sync", "kind");
        }
        text
    }

    pub fn parse(name: &str, toml: &[u8]) -> Self {
        let (told, problems) = document::read(toml, 8_000, read);
        told.unwrap_or_else(|| panic!("{name}/case.toml: {problems:?}"))
    }
}

fn read(root: &Table<'_>) -> Option<Told> {
    let text = |key| root.require_string(key).map(|s| s.value.to_owned());
    let told = Told {
        attack: text("attack")?,
        holds: text("holds")?,
        twin: text("twin")?,
        root: text("root")?.strip_prefix("sha256:")?.parse().ok()?,
        now: root.require_instant("now")?.value,
        twin_now: root.instant("twin_now").map(|s| s.value),
        made_by_test: root.boolean("made_by_test").is_some_and(|s| s.value),
        limit: root.string("limit").map(|s| s.value.to_owned()),
        copy: root.string("copy").map(|s| s.value.to_owned()).unwrap_or_default(),
        seen: seen(root),
        lookup: Says::read(root, "lookup", "reason")?,
        verify: Says::read(root, "verify", "file"),
        sync: Says::read(root, "sync", "kind"),
    };
    root.finish();
    Some(told)
}

fn seen(root: &Table<'_>) -> Seen {
    let Some(table) = root.table("seen") else { return Seen::default() };
    let number = |key| table.require_integer(key).unwrap().value;
    let root = |key| table.string(key).map(|s| s.value.strip_prefix("sha256:").unwrap().parse().unwrap());
    let seen = Seen {
        version: number("version"),
        root: root("root"),
        log_size: number("log_size"),
        log_root: root("log_root"),
        trust: number("trust"),
        time: table.instant("time").map(|s| s.value),
    };
    table.finish();
    seen
}
