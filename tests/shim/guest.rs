//! A guest as the tests make it: a prefix with a registry, a policy and a statement, and a machine that answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use capgate::world::folder::Folder;
use capgate_registry::keys::SigningKey;
use capgate_registry::note::{self, Kind, Origin};
use capgate_registry::publish::{self, Terms};
use capgate_registry::trust::{Role, Trust};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::built::built;

pub const ORIGIN: &str = "shim.test/gpu";
/// What csops answers, and what the profile names.
pub const CDHASH: &str = "c0ffee0000000000000000000000000000000001";
/// Every family that the stand-in's devices are asked for, as an unchanged one answers.
pub const STOCK: &str = "1001,1005,2002,3003 32768";
/// The same under 1009 / 65,536, and what the device was told inside Metal while it was made.
pub const GRANTED: &str = "1001,1005,1007,1009,2002,3003 65536 inside";

/// TEST keys: their seeds are public and must never be trusted outside tests.
pub fn key(name: &str, seed: u8) -> SigningKey {
    SigningKey::from_seed(name, [seed; 32]).unwrap()
}

/// What a guest is made of. The default one grants 1009 / 65,536 to the program.
pub struct Plan {
    /// Profiles that are published, one signed entry each.
    pub profiles: Vec<String>,
    /// A revocation that follows.
    pub revocation: Option<String>,
    /// Time of the publication, counted from now.
    pub published: SignedDuration,
    /// The site policy, its `host_keys` apart.
    pub site: String,
    /// What the host signs; `None` for no statement.
    pub statement: Option<String>,
    /// Who signs it.
    pub host: SigningKey,
    /// Lines of `sysctl`.
    pub sysctl: String,
    /// Other files of the stand-in.
    pub standin: Vec<(&'static str, String)>,
}

/// A profile for the program under test.
pub fn profile(id: &str) -> String {
    include_str!("../profiles/good.toml").replace("a-profile", id).replace(
        "sha256 = \"28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7\"",
        &format!("cdhash = \"{CDHASH}\""),
    )
}

pub fn statement() -> String {
    let now = Timestamp::now();
    let (issued, expires) = (now - SignedDuration::from_mins(5), now + SignedDuration::from_mins(55));
    format!(
        "chip = \"Apple M1 Ultra\"\nos = {{ version = \"26.6.1\", build = \"25G76\" }}\nfeature_level = \
         \"unrecorded\"\nissued = {issued:.0}\nexpires = {expires:.0}\n"
    )
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            profiles: vec![profile("tested")],
            revocation: None,
            published: -SignedDuration::from_mins(10),
            site: "schema = \"1.0.0\"\nmode = \"enforce\"\n".to_owned(),
            statement: Some(statement()),
            host: key("host.test", 4),
            sysctl: "machdep.cpu.brand_string=Apple M1 Ultra (Virtual)\nkern.osversion=25F84\n\
                     hw.model=VirtualMac2,1\nkern.hv_vmm_present=#1\n"
                .to_owned(),
            standin: vec![("links", "en0 5e:12:ab:00:34:f0\n".to_owned()), ("cdhash", format!("{CDHASH}\n"))],
        }
    }
}

impl Plan {
    pub fn edit_profile(mut self, from: &str, to: &str) -> Self {
        assert!(self.profiles[0].contains(from), "{from}");
        self.profiles[0] = self.profiles[0].replace(from, to);
        self
    }

    pub fn edit_statement(mut self, from: &str, to: &str) -> Self {
        let text = self.statement.unwrap();
        assert!(text.contains(from), "{from}");
        self.statement = Some(text.replace(from, to));
        self
    }

    pub fn edit_sysctl(mut self, from: &str, to: &str) -> Self {
        assert!(self.sysctl.contains(from), "{from}");
        self.sysctl = self.sysctl.replace(from, to);
        self
    }

    pub fn site(mut self, more: &str) -> Self {
        self.site += more;
        self
    }

    pub fn standin(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.standin.retain(|(other, _)| *other != name);
        self.standin.push((name, text.into()));
        self
    }

    pub fn make(&self) -> Guest {
        Guest::new(self)
    }
}

/// A guest on disk. Removed when dropped.
pub struct Guest {
    pub folder: PathBuf,
    pub pin: String,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A test may have taken rights away.
        drop(Command::new("chmod").args(["-R", "u+rwX"]).arg(&self.folder).output());
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// How a program ended, and what the log then held.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
    pub log: Vec<Value>,
}

impl Guest {
    fn new(plan: &Plan) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = safe_folder().join(format!("guest-{}-{number}", std::process::id()));
        let mut guest = Self { folder, pin: String::new() };
        for name in ["prefix/lib", "prefix/etc/capgate/registry", "prefix/var/log/capgate", "standin"] {
            fs::create_dir_all(guest.folder.join(name)).unwrap();
        }
        fs::copy(&built().library, guest.library()).unwrap();
        guest.pin = publish(plan, &guest.state("registry"));
        guest.put("root.note", &format!("{}\n", guest.pin));
        let host = key("host.test", 4);
        let site = plan.site.replacen('\n', &format!("\nhost_keys = [\"{}\"]\n", host.verifier()), 1);
        guest.put("site.toml", &site);
        if let Some(text) = &plan.statement {
            let text = note::compose(Kind::Host, &Origin::parse(ORIGIN).unwrap(), text).unwrap();
            fs::write(guest.state("host.note"), note::sign(&text, &[&plan.host]).unwrap()).unwrap();
        }
        guest.answer("sysctl", &plan.sysctl);
        guest.answer("metal", &format!("{}\n", built().metal.display()));
        for (name, text) in &plan.standin {
            guest.answer(name, text);
        }
        guest
    }

    pub fn library(&self) -> PathBuf {
        self.folder.join("prefix/lib/libcapgate.so")
    }

    pub fn prefix(&self) -> PathBuf {
        self.folder.join("prefix")
    }

    pub fn state(&self, name: &str) -> PathBuf {
        self.folder.join("prefix/etc/capgate").join(name)
    }

    pub fn log(&self) -> PathBuf {
        self.folder.join(format!("prefix/var/log/capgate/{}.jsonl", user()))
    }

    pub fn put(&self, name: &str, text: &str) {
        fs::write(self.state(name), text).unwrap();
    }

    /// A file of the stand-in.
    pub fn answer(&self, name: &str, text: &str) {
        fs::write(self.folder.join("standin").join(name), text).unwrap();
    }

    pub fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A command that has stand-in and library inserted.
    pub fn command(&self, program: &Path) -> Command {
        self.command_with(program, &self.library().display().to_string())
    }

    /// The same with the library named otherwise.
    pub fn command_with(&self, program: &Path, library: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command.env("STANDIN", self.folder.join("standin"));
        command.env("LD_PRELOAD", format!("{} {library}", built().standin.display()));
        command
    }

    /// Runs the program that links Metal.
    pub fn ask(&self, words: &[&str]) -> Ran {
        self.finish(self.command(&built().ask).args(words))
    }

    pub fn finish(&self, command: &mut Command) -> Ran {
        let output = command.output().unwrap();
        Ran {
            status: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            log: self.lines(),
        }
    }

    /// The decision log. Who reads another's line while it is being written takes it for a torn one and closes it:
    /// that leaves an empty line, which means nothing (docs/format.md).
    pub fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        text.lines()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

impl Ran {
    /// Granted: both answers, two lines with one id, two lines on standard error.
    #[track_caller]
    pub fn is_granted(&self, class: &str) {
        assert_eq!(self.out, format!("{class} {GRANTED}\n"), "{self:?}");
        assert_eq!(self.status, Some(0));
        let stages: Vec<&str> = self.log.iter().map(|line| line["stage"].as_str().unwrap()).collect();
        assert_eq!(stages, ["start", "device"], "{self:?}");
        assert!(self.log.iter().all(|line| line["outcome"] == "grant"), "{self:?}");
        assert_eq!(self.log[0]["decision"], self.log[1]["decision"]);
        let enabled = format!(
            "[capgate] Enabled for {class} (appleFamilyMax=1009 maxThreadgroupMemory=65536 stock=1005/32768 \
             profile=tested)\n"
        );
        assert!(self.err.ends_with(&enabled), "{}", self.err);
    }

    /// Stock for one reason, which program, log and standard error agree on.
    #[track_caller]
    pub fn is_stock(&self, class: &str, reason: &str) {
        assert_eq!(self.out, format!("{class} {STOCK}\n"), "{self:?}");
        self.is_refused(reason);
    }

    #[track_caller]
    pub fn is_refused(&self, reason: &str) {
        assert_eq!(self.status, Some(0), "{self:?}");
        let last = self.log.last().unwrap_or_else(|| panic!("nothing logged: {self:?}"));
        assert_eq!((&last["outcome"], &last["reason"]), (&"stock".into(), &reason.into()), "{self:?}");
        let said = self.err.lines().last().unwrap_or_default();
        assert!(said.starts_with(&format!("[capgate] Stock: {reason}: ")), "{}", self.err);
        assert!(said.ends_with(&format!("decision {}", last["decision"].as_str().unwrap())), "{said}");
    }
}

/// The user that the tests run as.
pub fn user() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap())
}

/// A folder that only root and this user can write, all the way up: state anywhere else is refused. Root's tests become
/// another user, who must be able to enter it.
fn safe_folder() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let system = (user() == 0).then(|| PathBuf::from("/var/lib"));
    let candidates = [Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))), home, system];
    let enters = |folder: &Path| folder.metadata().unwrap().permissions().mode() & 0o001 != 0;
    let is_safe = |folder: &PathBuf| {
        capgate_guest::prefix::Prefix::at(folder).is_ok() && (user() != 0 || folder.ancestors().all(enters))
    };
    let resolved = candidates.into_iter().flatten().filter_map(|folder| folder.canonicalize().ok());
    let found = resolved.into_iter().find(is_safe);
    let folder = found.unwrap_or_else(|| {
        panic!("others can write above `{}` and above the home folder", env!("CARGO_TARGET_TMPDIR"))
    });
    let folder = folder.join("capgate-shim-tests");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Makes the registry; returns its pin.
fn publish(plan: &Plan, to: &Path) -> String {
    let (root, publisher, registry) = (key("root.test", 1), key("publisher.test", 2), key(ORIGIN, 3));
    let role = |key: &SigningKey| Role { threshold: 1, keys: vec![key.verifier().clone()] };
    let now = Timestamp::from_second((Timestamp::now() + plan.published).as_second()).unwrap();
    let trust = Trust {
        version: 1,
        log_index: 0,
        // Whenever it is made, it has the same digest.
        issued: "2026-01-01T00:00:00Z".parse().unwrap(),
        expires: "2100-01-01T00:00:00Z".parse().unwrap(),
        root: role(&root),
        publisher: role(&publisher),
        registry: role(&registry),
        compromised: Vec::new(),
    };
    let origin = Origin::parse(ORIGIN).unwrap();
    let folder = Folder::new(to);
    let pin = publish::init(&folder, &origin, &trust, &[&root]).unwrap();
    let profiles =
        plan.profiles.iter().map(|text| publish::sign_profile(text, &origin, &[&publisher]).unwrap());
    let revocation = plan.revocation.iter();
    let revocation = revocation.map(|text| publish::sign_revocation(text, &origin, &[&publisher]).unwrap());
    let notes: Vec<Vec<u8>> = profiles.chain(revocation).collect();
    let terms = Terms {
        keys: &[registry],
        now,
        life: publish::LIFE,
        renew: false,
        threads: std::num::NonZero::<usize>::MIN,
    };
    publish::publish(&folder, &pin, &notes, &terms, &mut |_| {}).unwrap();
    format!("sha256:{pin}")
}
