//! `capgate doctor`: what stands in the way, each with what mends it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::built::built;
use crate::guest::{CDHASH, Guest, Plan, profile};
use crate::machofile::{ARM64E, Image, X86_64, linking_metal, universal};

/// A report, its exit code and what stood on standard error.
struct Report {
    exit: i32,
    json: Value,
    err: String,
}

impl Report {
    fn check(&self, name: &str) -> (&str, &str, Option<&str>) {
        let checks = self.json["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no {name}: {}", self.json));
        (check["level"].as_str().unwrap(), check["text"].as_str().unwrap(), check["fix"].as_str())
    }

    #[track_caller]
    fn is(&self, name: &str, level: &str, text: &str) {
        let found = self.check(name);
        assert!(found.0 == level && found.1.contains(text), "{name}: {found:?}");
        assert_eq!(found.2.is_some(), level != "ok", "{name}: what is wrong has a fix: {found:?}");
    }
}

fn command(guest: &Guest, program: Option<&Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capgate"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("STANDIN", guest.folder.join("standin"));
    command.env("LD_PRELOAD", &built().standin).arg("doctor").arg("--prefix").arg(guest.prefix());
    command.args(program);
    command
}

fn doctor(guest: &Guest, program: Option<&Path>) -> Report {
    finish(command(guest, program).args(["--format", "json"]))
}

fn finish(command: &mut Command) -> Report {
    let output = command.output().unwrap();
    Report {
        exit: output.status.code().unwrap(),
        json: serde_json::from_slice(&output.stdout).unwrap_or_default(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn put(guest: &Guest, name: &str, bytes: &[u8]) -> PathBuf {
    let path = guest.folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    Guest::mode(&path, 0o755);
    path
}

#[test]
fn a_machine_in_order_has_nothing_failed() {
    let guest = Plan::default().make();
    let report = doctor(&guest, None);
    assert_eq!(report.exit, 0, "{}", report.json);
    for (name, text) in [
        ("prefix", "are safe to use"),
        ("registry", "`shim.test/gpu`, version 1, until "),
        ("site policy", "it is understood"),
        ("host statement", "Apple M1 Ultra 25G76, until "),
        ("log", "decisions go to "),
        ("other shims", "none is active"),
    ] {
        report.is(name, "ok", text);
    }
    let human = command(&guest, None).output().unwrap();
    assert!(String::from_utf8(human.stdout).unwrap().starts_with("ok       prefix "));
}

#[test]
fn what_is_wrong_with_a_prefix_is_named_with_its_fix() {
    let guest = Plan { statement: None, ..Plan::default() }.make();
    Guest::mode(&guest.library(), 0o775);
    guest.put("site.toml", "schema = \"1.0.0\"\nmode = \"enforce\"\nmdoe = 1\n");
    let report =
        finish(command(&guest, None).args(["--format", "json"]).env("TART_METAL_APPLE_FAMILY_MAX", "1009"));
    assert_eq!(report.exit, 3);
    report.is("prefix", "failed", "can be written by others");
    report.is("site policy", "failed", "unknown key `mdoe`");
    report.is("host statement", "failed", "host-missing");
    report.is("other shims", "failed", "TART_METAL_APPLE_FAMILY_MAX");
    Guest::mode(&guest.state("registry"), 0o777);
    doctor(&guest, None).is("registry", "failed", "can be written by others");
}

#[test]
fn a_program_that_is_tested_is_known_by_its_file() {
    let llama = Image::program("llama-bench");
    let text = profile("tested").replace(CDHASH, &llama.cdhash().to_string());
    let guest = Plan { profiles: vec![text], ..Plan::default() }.make();
    let report = doctor(&guest, Some(&put(&guest, "llama-bench", &llama.bytes())));
    report.is("injection", "ok", "the loader takes inserted libraries");
    report.is("slice", "ok", "runs as arm64");
    report.is("profile", "ok", "`tested` grants 1009 / 65536");
    assert_eq!(report.json["program"]["cdhash"], llama.cdhash().to_string());
    assert_eq!(report.json["program"]["sha256"], llama.sha256());
    // The library here is one for Linux, which no Mac could load.
    report.is("library", "failed", "is for another system");
    assert_eq!(report.exit, 3);
    let other = doctor(&guest, Some(&put(&guest, "other", &Image::program("other").bytes())));
    other.is("profile", "failed", "no-profile");
}

#[test]
fn what_keeps_the_loader_from_inserting_is_named_and_never_to_be_signed_away() {
    let guest = Plan::default().make();
    let both = [
        "com.apple.security.cs.allow-dyld-environment-variables",
        "com.apple.security.cs.disable-library-validation",
    ];
    let program = || Image::program("p");
    let cases: [(&str, Image, &str); 9] = [
        ("plain", program(), ""),
        ("adhoc", program().flags(0x2_0002), ""),
        (
            "hardened",
            program().flags(0x1_0000),
            "the hardened runtime and lacks `com.apple.security.cs.allow-dyld-environment-variables` and `com.apple",
        ),
        (
            "half",
            program().flags(0x1_0000).entitled(&both[..1]),
            "lacks `com.apple.security.cs.disable-library-validation`",
        ),
        ("entitled", program().flags(0x1_0000).entitled(&both), ""),
        ("validated", program().flags(0x2000), "(library validation)"),
        ("restricted", program().restricted(), "__RESTRICT,__restrict"),
        ("flagged", program().flags(0x800), "is signed as restricted"),
        ("platform", program().platform(), "one of macOS's own programs"),
    ];
    for (name, image, why) in cases {
        let report = doctor(&guest, Some(&put(&guest, name, &image.bytes())));
        if why.is_empty() {
            report.is("injection", "ok", "the loader takes");
            continue;
        }
        report.is("injection", "failed", why);
        let fix = report.check("injection").2.unwrap();
        assert!(fix.starts_with("none: ") && !fix.contains("codesign"), "{fix}");
        assert_eq!(report.exit, 3);
    }
    let setuid = put(&guest, "setuid", &program().bytes());
    Guest::mode(&setuid, 0o4755);
    doctor(&guest, Some(&setuid)).is("injection", "failed", "changes its user or group");
}

#[test]
fn slices_are_those_that_the_kernel_runs() {
    let guest = Plan::default().make();
    let program = || Image::program("p");
    let fat = universal(&[program().cpu(X86_64), program().cpu(ARM64E), program()]);
    let report = doctor(&guest, Some(&put(&guest, "fat", &fat)));
    report.is("slice", "ok", "runs as arm64;");
    assert_eq!(report.json["program"]["cdhash"], program().cdhash().to_string());
    let report = doctor(&guest, Some(&put(&guest, "arm64e", &program().cpu(ARM64E).bytes())));
    report.is("slice", "ok", "runs as arm64e;");
    let report = doctor(&guest, Some(&put(&guest, "other", &program().cpu((0x0100_0012, 0)).bytes())));
    report.is("slice", "failed", "it has code for processor");
}

#[test]
fn images_are_found_as_the_loader_finds_them() {
    let guest = Plan::default().make();
    let ggml = linking_metal("ggml-metal").links("@loader_path/libbase.dylib");
    put(&guest, "app/lib/libggml-metal.dylib", &ggml.bytes());
    put(&guest, "app/lib/libbase.dylib", &Image::new("base").bytes());
    let llama = Image::new("llama").links("@rpath/libggml-metal.dylib").links("/usr/lib/libSystem.B.dylib");
    put(&guest, "app/lib/libllama.dylib", &llama.bytes());
    let program = Image::program("llama-bench")
        .links("@executable_path/../lib/libllama.dylib")
        .rpath("@loader_path/../lib");
    let path = put(&guest, "app/bin/llama-bench", &program.bytes());
    let report = doctor(&guest, Some(&path));
    report.is("images", "ok", "1 of 3 images");
    let images = report.json["program"]["images"].as_array().unwrap();
    assert_eq!(images.len(), 1);
    assert_eq!(images[0]["name"], "libggml-metal.dylib");
    assert_eq!(images[0]["cdhash"], ggml.cdhash().to_string());
    assert_eq!(images[0]["sha256"], ggml.sha256());
    let human = command(&guest, Some(&path)).output().unwrap();
    let human = String::from_utf8(human.stdout).unwrap();
    let block =
        format!("[[workload.image]]\nname = \"libggml-metal.dylib\"\ncdhash = \"{}\"\n", ggml.cdhash());
    assert!(human.contains(&block), "{human}");
    fs::remove_file(guest.folder.join("app/lib/libbase.dylib")).unwrap();
    doctor(&guest, Some(&path)).is("images", "warning", "needs `@loader_path/libbase.dylib`");
    fs::write(guest.folder.join("app/lib/libllama.dylib"), "nothing").unwrap();
    doctor(&guest, Some(&path)).is("images", "failed", "is no Mach-O file");
}

#[test]
fn scripts_and_launchers_lead_to_the_program() {
    let guest = Plan::default().make();
    let program = put(&guest, "real", &Image::program("real").bytes());
    let script = put(&guest, "script", format!("#!{}\n", program.display()).as_bytes());
    let report = doctor(&guest, Some(&script));
    report.is("launcher", "ok", "is a script");
    assert_eq!(report.json["program"]["program"], program.to_str().unwrap());
    // A framework build of Python starts the program inside Python.app as its child.
    let version = "Python.framework/Versions/3.12";
    let stub = put(&guest, &format!("{version}/bin/python3.12"), &Image::program("stub").bytes());
    let app = format!("{version}/Resources/Python.app/Contents/MacOS/Python");
    let app = put(&guest, &app, &Image::program("python").bytes());
    let report = doctor(&guest, Some(&stub));
    report.is("launcher", "failed", "starts");
    assert_eq!(report.json["program"]["program"], app.to_str().unwrap());
}

#[test]
fn malformed_and_truncated_programs_are_errors() {
    let guest = Plan::default().make();
    let whole =
        Image::program("p").flags(0x1_0000).entitled(&["a"]).links("@rpath/x.dylib").rpath("/x").bytes();
    for length in [4, 31, 32, 100, 200, 300, 0x3fff, 0x4000, 0x4010, whole.len() - 1] {
        let path = put(&guest, "cut", &whole[..length]);
        let report = doctor(&guest, Some(&path));
        assert_eq!(report.exit, 4, "{length}: {} {}", report.json, report.err);
        assert!(report.err.starts_with("error: `"), "{length}: {}", report.err);
    }
    let report = doctor(&guest, Some(&put(&guest, "text", b"nothing\n")));
    assert_eq!(report.exit, 4, "{}", report.err);
    let report = doctor(&guest, Some(Path::new("/nowhere")));
    assert_eq!(report.exit, 1, "{}", report.err);
    let report = doctor(&guest, Some(Path::new("/etc")));
    assert_eq!(report.exit, 1, "{}", report.err);
}

#[test]
fn processes_that_run_under_a_revoked_profile_are_named() {
    let revocation =
        "schema = \"1.0.0\"\nrevokes = \"tested\"\nreason = \"wrong answers\"\nseverity = \"harmful\"\n";
    let revoked = Plan { revocation: Some(revocation.to_owned()), ..Plan::default() }.make();
    let guest = Plan::default().make();
    let mut command = guest.command(Path::new("/bin/sleep"));
    let mut child = command.arg("60").stderr(std::process::Stdio::null()).spawn().unwrap();
    while guest.lines().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    doctor(&guest, None).is("running processes", "ok", "none runs");
    fs::remove_dir_all(guest.state("registry")).unwrap();
    fs::rename(revoked.state("registry"), guest.state("registry")).unwrap();
    let expected = format!("process {} was granted under `tested` (wrong answers)", child.id());
    doctor(&guest, None).is("running processes", "warning", &expected);
    child.kill().unwrap();
    child.wait().unwrap();
    doctor(&guest, None).is("running processes", "ok", "none runs");
}

/// Every part of a Mach-O file that is read, from bytes.
fn read_all(file: &[u8]) -> Option<[u8; 20]> {
    use capgate_macho::{Commands, Signature, cdhash, header_length, slices};
    let slice = *slices(file, file.len() as u64).ok()?.first()?;
    let inner = file.get(usize::try_from(slice.offset).unwrap()..).unwrap();
    let commands = Commands::parse(inner.get(..header_length(inner).ok()?)?).ok()?;
    let range = commands.signature?;
    let signature = inner.get(range.offset as usize..)?.get(..range.size as usize)?;
    drop(Signature::parse(signature));
    cdhash(signature).ok()
}

#[test]
fn attack_every_byte_changed_and_every_length_cut_is_read_without_a_panic() {
    let image = linking_metal("p").entitled(&["a", "b"]).rpath("@loader_path").restricted();
    for whole in [image.bytes(), universal(&[image.clone(), image.clone().cpu(X86_64)])] {
        assert_eq!(read_all(&whole), Some(image.cdhash().0));
        for length in 0..whole.len() {
            read_all(&whole[..length]);
        }
        let interesting = (0..600).chain(0x4000..0x4400).chain(0x8000..0x8400).filter(|at| *at < whole.len());
        for at in interesting {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                read_all(&changed);
            }
        }
    }
}
