//! The museum of hostile registries, met by the decision and by the commands: `registry/tests/museum/README.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

#[path = "../registry/tests/curator/case.rs"]
#[allow(dead_code, reason = "the museum's own test writes them")]
mod case;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use capgate::world::folder::Folder;
use capgate_policy::decide::{Decision, Input, Seen, decide};
use capgate_policy::facts::parse_facts_file;
use capgate_policy::host::HostState;
use capgate_registry::proof::Proof;
use capgate_registry::reader::{Anchor, Reader};
use capgate_registry::record::{Doubt, Lookup};
use case::{Says, Told};
use jiff::Timestamp;

const FACTS: &str = "\
host_chip = \"Apple M1 Ultra\"
host_os_build = \"25G76\"
guest_os_build = \"25F84\"
workload = \"sha256:0000000000000000000000000000000000000000000000000000000000000002\"
";

fn museum() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("registry/tests/museum")
}

/// Every case whose files are kept, by name.
fn cases() -> Vec<(String, Told)> {
    let folders = fs::read_dir(museum()).unwrap().map(|entry| entry.unwrap().path());
    let told = folders.filter_map(|folder| {
        let toml = fs::read(folder.join("case.toml")).ok()?;
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let told = Told::parse(&name, &toml);
        (!told.made_by_test).then_some((name, told))
    });
    let mut cases: Vec<_> = told.collect();
    cases.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(cases.len() > 100, "{}", cases.len());
    cases
}

/// The registry of a case, or the proof that stands in for it.
fn place(name: &str) -> PathBuf {
    let folder = museum().join(name);
    let proof = folder.join("registry.proof");
    if proof.exists() { proof } else { folder.join("registry") }
}

fn open(place: &Path, anchor: &Anchor) -> Result<Reader, Doubt> {
    if place.is_dir() {
        return Reader::open(&Folder::new(place), anchor);
    }
    let proof = Proof::parse(&fs::read(place).unwrap()).map_err(|e| Doubt::Malformed(e.to_string()))?;
    Reader::open(&proof, anchor)
}

/// What the program that everybody asks about is told.
fn decided(place: &Path, told: &Told, now: Timestamp) -> Decision {
    let reader = open(place, &Anchor { pin: told.root, seen: told.seen, now });
    let facts = parse_facts_file(FACTS.as_bytes()).unwrap();
    let time = told.seen.time;
    decide(&Input {
        switched_off: false,
        registry: reader.as_ref().map(|reader| reader as &dyn Lookup),
        site: Ok(None),
        facts: &facts,
        host: &HostState::Missing,
        now,
        seen: time.map(|time| Seen { version: told.seen.version, time }),
    })
}

#[test]
fn every_case_is_decided_with_its_own_reason() {
    let (mut stock, mut same, mut deceived) = (0, 0, 0);
    for (name, told) in cases() {
        let decision = decided(&place(&name), &told, told.now);
        match (&told.lookup, &decision) {
            (Says::Accepts(id), Decision::Grant(grant)) => {
                assert_eq!(grant.profile.as_str(), id, "{name}");
                match told.limit {
                    Some(_) => deceived += 1,
                    None => same += 1,
                }
            }
            (Says::Refuses { by, .. }, Decision::Stock(refusal)) => {
                assert_eq!(refusal.reason.code(), by, "{name}: {}", refusal.detail);
                stock += 1;
            }
            _ => panic!("{name}: {:?}, and it is {decision:?}", told.lookup),
        }
        let twin = decided(&place(&told.twin), &told, told.twin_now.unwrap_or(told.now));
        assert!(twin.grant().is_some(), "{name}: {:?}", twin.reason());
    }
    println!("{stock} mean stock, {same} do not reach a lookup, {deceived} are a limit that is said");
}

fn capgate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capgate"));
    command.args(args).env_remove("CAPGATE_DISABLE").stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn the_commands_refuse_every_case() {
    let folder = tempfile::tempdir().unwrap();
    let facts = folder.path().join("facts.toml");
    fs::write(&facts, FACTS).unwrap();
    let (mut verified, mut looked_up) = (0, 0);
    for (name, told) in cases() {
        let place = place(&name);
        let place = place.to_str().unwrap();
        let (root, now) = (format!("sha256:{}", told.root), told.now.to_string());
        let anchor = ["--root", root.as_str(), "--now", now.as_str()];
        if let Some(expected) = &told.verify {
            let output = capgate(&["verify", place, "--format", "json"]).args(anchor).output().unwrap();
            let text = said(&output);
            match expected {
                // The files have no fault; the command looks at the clock as well.
                Says::Accepts(_) if name == "clock-before-signature" => {
                    assert_eq!(output.status.code(), Some(4), "{name}: {text}");
                }
                Says::Accepts(_) => assert_eq!(output.status.code(), Some(0), "{name}: {text}"),
                Says::Refuses { says, .. } => {
                    assert_eq!(output.status.code(), Some(4), "{name}: {text}");
                    assert!(text.contains(&says.replace('"', "\\\"")), "{name}: no {says} in {text}");
                }
            }
            verified += 1;
        }
        // The command remembers nothing of earlier times.
        if told.seen == capgate_registry::reader::Seen::default() {
            let lookup =
                ["lookup", "--registry", place, "--facts", facts.to_str().unwrap(), "--format", "json"];
            let output = capgate(&lookup).args(anchor).output().unwrap();
            let text = said(&output);
            match &told.lookup {
                Says::Accepts(id) => {
                    assert_eq!(output.status.code(), Some(0), "{name}: {text}");
                    assert!(text.contains(&format!("\"{id}\"")), "{name}: {text}");
                }
                Says::Refuses { by, .. } => {
                    assert_eq!(output.status.code(), Some(3), "{name}: {text}");
                    assert!(text.contains(&format!("\"{by}\"")), "{name}: {text}");
                }
            }
            looked_up += 1;
        }
    }
    println!("{verified} times `capgate verify`, {looked_up} times `capgate lookup`");
}

/// Runs a command that must end by itself, whatever it is given to read.
fn ends(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{command:?} waits");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

/// What may stand where a file should: it never answers, it never ends, it leads elsewhere, it is no file.
const INSTEAD: [&str; 4] = ["pipe", "endless", "link", "folder"];

fn put_instead(what: &str, path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::remove_file(path).unwrap();
    match what {
        "pipe" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "endless" => fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        "link" => {
            let elsewhere = path.with_extension("elsewhere");
            fs::write(&elsewhere, bytes).unwrap();
            symlink(elsewhere, path).unwrap();
        }
        _ => fs::create_dir(path).unwrap(),
    }
}

fn copy_folder(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
}

fn files_in(folder: &Path, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() { found.extend(files_in(&path, &format!("{name}/"))) } else { found.push(name) }
    }
    found.sort();
    found
}

/// Slow servers and endless data, as files: nothing waits for them and nothing reads them to their end.
#[test]
fn what_never_answers_or_never_ends_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let facts = folder.path().join("facts.toml");
    fs::write(&facts, FACTS).unwrap();
    let (_, any) = cases().into_iter().find(|(_, told)| told.twin == "honest").unwrap();
    let root = format!("sha256:{}", any.root);
    let anchor = ["--root", root.as_str(), "--now", "2026-12-07T00:00:00Z"];
    let honest = place("honest");
    let (mut stock, mut same, mut synced) = (0, 0, 0);
    for name in files_in(&honest, "") {
        for what in INSTEAD {
            let case = format!("{what} in the place of {name}");
            let here = folder.path().join("registry");
            let copy = folder.path().join("copy");
            copy_folder(&honest, &here);
            copy_folder(&place("honest-before"), &copy);
            put_instead(what, &here.join(&name));
            let (source, to) = (here.to_str().unwrap(), copy.to_str().unwrap());
            let lookup = ["lookup", "--registry", source, "--facts", facts.to_str().unwrap()];
            match ends(capgate(&lookup).args(anchor)).status.code() {
                Some(3) => stock += 1,
                // The log is not read by a lookup.
                Some(0) if name.starts_with("log/") => same += 1,
                other => panic!("{case}: {other:?}"),
            }
            let verified = ends(capgate(&["verify", source]).args(anchor));
            assert_eq!(verified.status.code(), Some(4), "{case}: {}", said(&verified));
            let sync = ends(capgate(&["sync", source, "--to", to]).args(anchor));
            synced += u32::from(sync.status.success());
            let kept = ends(capgate(&["verify", to]).args(anchor));
            assert!(kept.status.success(), "{case}: {}", said(&kept));
            fs::remove_dir_all(&here).unwrap();
            fs::remove_dir_all(&copy).unwrap();
        }
    }
    println!("{stock} mean stock, {same} touch no lookup, {synced} are healed by sync");
    assert!(stock >= 12 && same >= 12);
}
