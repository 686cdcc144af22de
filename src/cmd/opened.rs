//! A registry that a command was pointed at: opened, judged, and what is wrong with it in words.

use std::path::Path;

use capgate_registry::latest::Latest;
use capgate_registry::log::LogError;
use capgate_registry::merkle::Hash;
use capgate_registry::note::NoteError;
use capgate_registry::proof::{self, Proof};
use capgate_registry::publish::PublishError;
use capgate_registry::reader::{Anchor, Reader, Seen};
use capgate_registry::record::Doubt;
use capgate_registry::trust::Trust;
use capgate_registry::witness::Quorum;
use jiff::Timestamp;

use crate::cli::RegistryArgs;
use crate::exit::Failure;
use crate::ui::Ui;
use crate::world::folder::{Folder, Lock, LockError, PATIENCE};
use crate::world::{clock, file};

/// The folder, which must exist.
pub fn folder(path: &Path) -> Result<Folder, Failure> {
    if path.is_dir() {
        return Ok(Folder::new(path));
    }
    let failure = Failure::failed(format!("there is no registry folder `{}`", path.display()));
    Err(failure.help("make a registry with `capgate init`, or name the folder that holds one"))
}

/// Opens and verifies a registry; warns where it expires soon.
pub fn reader(ui: &Ui, args: &RegistryArgs) -> Result<(Reader, Timestamp), Failure> {
    let folder = folder(&args.registry)?;
    let now = clock::now(args.now);
    let reader = open(&folder, args.root, now).map_err(|doubt| doubted(&doubt, &args.registry))?;
    warn_of_expiry(ui, reader.latest(), now, &args.registry);
    warn_of_trust(ui, reader.chain().current(), now);
    Ok((reader, now))
}

/// Opens and verifies a registry.
pub fn open(folder: &Folder, root: Hash, now: Timestamp) -> Result<Reader, Doubt> {
    open_witnessed(folder, root, now, None)
}

/// The same for a site that demands witnesses.
pub fn open_witnessed(
    folder: &Folder,
    root: Hash,
    now: Timestamp,
    demand: Option<&Quorum>,
) -> Result<Reader, Doubt> {
    Reader::open_witnessed(folder, &Anchor { pin: root, seen: Seen::default(), now }, demand)
        .and_then(no_trial)
}

/// What `capgate bench` tries, nobody else believes.
fn no_trial(reader: Reader) -> Result<Reader, Doubt> {
    let origin = reader.chain().origin();
    if origin.is_trial() {
        let message =
            format!("`{origin}` is a trial of `capgate bench`, which counts in its own children alone");
        return Err(Doubt::WrongOrigin(message));
    }
    Ok(reader)
}

/// Opens and verifies a proof, which stands in for a registry.
pub fn proof(path: &Path, root: Hash, now: Timestamp, demand: Option<&Quorum>) -> Result<Reader, Doubt> {
    let shown = path.display();
    let bytes = file::read(path, proof::MAX_BYTES)
        .map_err(|e| Doubt::Unreadable(format!("`{shown}` cannot be read: {e}")))?;
    let proof = Proof::parse(&bytes).map_err(|e| Doubt::Malformed(format!("`{shown}` is no proof: {e}")))?;
    Reader::open_witnessed(&proof, &Anchor { pin: root, seen: Seen::default(), now }, demand)
        .and_then(no_trial)
}

/// From a third of its life left, every command that meets a registry says so.
pub fn warn_of_expiry(ui: &Ui, latest: &Latest, now: Timestamp, registry: &Path) {
    if latest.nearly_expired(now) {
        let renew = renew_line(registry);
        ui.warn(format!("the registry expires {}; its maintainer should run {renew}", latest.expires));
    }
}

/// Root keys take time to gather, so the end of the trust is said early.
pub fn warn_of_trust(ui: &Ui, trust: &Trust, now: Timestamp) {
    if trust.nearly_expired(now) {
        let todo = "its root keys should sign the next version: `capgate trust draft`";
        ui.warn(format!("trust version {} ends {}; {todo}", trust.version, trust.expires));
    }
}

fn renew_line(registry: &Path) -> String {
    format!("`capgate renew --registry {}`", registry.display())
}

/// A registry that cannot be believed, as a failure of the command.
pub fn doubted(doubt: &Doubt, registry: &Path) -> Failure {
    let message = doubt.to_string();
    let shown = registry.display();
    match doubt {
        Doubt::Missing(_) => Failure::failed(message).help(format!("make one with `capgate init {shown}`")),
        Doubt::Unreadable(_) => Failure::failed(message),
        // It names the command itself.
        Doubt::Expired(_) => Failure::invalid(message),
        Doubt::WrongKey(_) => Failure::invalid(message)
            .help("compare the digest given with `--root` with the one that its maintainers publish"),
        Doubt::Unwitnessed(_) => Failure::invalid(message)
            .help("its maintainers ask the witnesses with `capgate witness ask`; until then nothing new is believed"),
        Doubt::ClockBehind(_) => Failure::failed(message).help("set the clock of this machine"),
        _ => Failure::invalid(message).help(format!(
            "`capgate verify {shown}` names the file; fetch it again from where it is published"
        )),
    }
}

/// The same about a registry that is read from elsewhere, where nobody can make one from here.
pub fn doubted_at(doubt: &Doubt, source: &str) -> Failure {
    let message = format!("{source}: {doubt}");
    match doubt {
        Doubt::Missing(_) => Failure::failed(message)
            .help("compare the address with the one that its maintainers publish, or try again later"),
        doubt => Failure { message, ..doubted(doubt, source.as_ref()) },
    }
}

/// The lock of a registry.
pub fn lock(folder: &Folder) -> Result<Lock, Failure> {
    folder.lock(PATIENCE).map_err(|e| match e {
        LockError::Busy(_) => Failure::failed(e.to_string()).help("run this again when it is done"),
        LockError::Io { .. } => Failure::failed(e.to_string()),
    })
}

/// Why nothing was published, as a failure of the command.
pub fn not_published(error: &PublishError, registry: &Path) -> Failure {
    let message = error.to_string();
    match error {
        PublishError::Doubt(doubt) => doubted(doubt, registry),
        PublishError::Store(_) | PublishError::Log(LogError::Store(_)) => Failure::failed(message)
            .help("nothing is half done: run the same command again when the cause is gone"),
        PublishError::Note { source: NoteError::TooFew { .. }, .. } => {
            Failure::failed(message).help("give more keys with `--key` or `--registry-key`")
        }
        PublishError::Note { source: NoteError::Sign(_), .. } => Failure::failed(message),
        PublishError::LastVersion(_) => Failure::invalid(message).help(
            "take that key out with `capgate trust remove-key`: versions begin anew with the rotation (docs/maintaining.md)",
        ),
        PublishError::Disowned { .. } => Failure::invalid(message).help(
            "entries came while it was put in force: draft a version that names who signed them (docs/maintaining.md)",
        ),
        PublishError::ClockBehind { .. } => Failure::failed(message).help("set the clock of this machine"),
        PublishError::Exists(_) => Failure::failed(message)
            .help("choose another folder, or put profiles into this one with `capgate publish`"),
        PublishError::Log(_) | PublishError::Staged(_) => {
            Failure::invalid(message).help(format!("`capgate verify {}` names the file", registry.display()))
        }
        _ => Failure::invalid(message),
    }
}
