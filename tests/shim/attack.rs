//! Ways to end, block or fool a process that a review found, each with its mending.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::built::{built, compile};
use crate::guest::{CDHASH, Guest, Plan, STOCK};
use crate::machofile::{Image, linking_metal};
use capgate_registry::combination::Hex;
use sha2::{Digest, Sha256};

const DEVICE: &str = "AppleParavirtDevice";

fn sh(guest: &Guest, script: &str) -> Command {
    let preload = format!("LD_PRELOAD={} {}", built().standin.display(), guest.library().display());
    let mut command = guest.command(Path::new("/bin/sh"));
    command
        .env_remove("LD_PRELOAD")
        .args(["-c", script, "sh", "env"])
        .arg(preload)
        .arg(&built().ask)
        .arg(DEVICE);
    command
}

#[test]
fn attack_closed_pipe_as_stderr() {
    let guest = Plan::default().make();
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let mut command = guest.command(&built().ask);
    let output =
        command.arg(DEVICE).stderr(write).stdout(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.success(), "{:?} {:?}", output.status, String::from_utf8_lossy(&output.stdout));
}

#[test]
fn attack_file_size_limit() {
    let guest = Plan::default().make();
    let mut command = sh(&guest, "ulimit -f 0; exec \"$@\"");
    let output = command.stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{:?} {:?}", output.status, output);
}

#[test]
fn attack_full_pipe_as_stderr() {
    let guest = Plan::default().make();
    let (read, mut write) = std::io::pipe().unwrap();
    write.write_all(&vec![b'x'; 65536]).unwrap();
    let mut child =
        guest.command(&built().ask).arg(DEVICE).stderr(write).stdout(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(8) {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(read);
    panic!("blocked for 8 s before main");
}

#[test]
fn attack_metal_family_follows_from_an_apple_one() {
    let guest = Plan::default().make();
    let ran = guest.ask(&["AskingDevice"]);
    assert!(!ran.out.contains("5001"), "rule 9: {ran:?}");
}

#[test]
fn attack_system_paths_that_are_none() {
    let mut bad = false;
    for path in [
        "/System/Volumes/Data/Users/me/libevil.dylib",
        "/usr/lib/../../Users/me/libevil.dylib",
        "/System/../Users/me/libevil.dylib",
    ] {
        let ggml = linking_metal("ggml");
        let list = format!(
            "[[workload.image]]\nname = \"libggml-metal.dylib\"\ncdhash = \"{}\"\n\n[[override]]",
            ggml.cdhash()
        );
        let guest = Plan::default()
            .edit_profile(", \"images-unrecorded\"]", "]")
            .edit_profile("[[override]]", &list)
            .make();
        let file = guest.folder.join("standin/image-0");
        fs::write(&file, linking_metal("evil").bytes()).unwrap();
        guest.answer("images", &format!("{path} {}\n", file.display()));
        let ran = guest.ask(&[DEVICE]);
        eprintln!("{path}: {}", ran.out);
        if !ran.out.ends_with(&format!("{STOCK}\n")) {
            eprintln!("GRANTED with {path}");
            bad = true;
        }
    }
    assert!(!bad);
}

#[test]
fn attack_torn_line_swallows_the_next() {
    let guest = Plan::default().make();
    fs::write(guest.log(), "{\"time\":\"2026-01-01T00:0").unwrap();
    let mut command = guest.command(&built().ask);
    let output = command.arg(DEVICE).output().unwrap();
    let text = fs::read_to_string(guest.log()).unwrap();
    let readable =
        text.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).count();
    let granted = String::from_utf8_lossy(&output.stdout).contains("1009");
    assert!(!granted || readable == 2, "granted={granted}, readable lines {readable}\n{text}");
}

fn sha256(path: &Path) -> String {
    Hex::<32>(Sha256::digest(fs::read(path).unwrap()).into()).to_string()
}

fn plan() -> Plan {
    let both = format!("cdhash = \"{CDHASH}\"\nsha256 = \"{}\"", sha256(&built().ask));
    Plan::default().edit_profile(&format!("cdhash = \"{CDHASH}\""), &both)
}

fn run(guest: &Guest, prefix: &Path, options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capgate"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("STANDIN", guest.folder.join("standin"));
    command.env("LD_PRELOAD", &built().standin).arg("run").arg("--prefix").arg(prefix);
    command.args(options).arg("--").args(program);
    command
}

#[test]
fn attack_colon_in_the_prefix() {
    let guest = plan().make();
    let other = guest.folder.join("a:b");
    fs::rename(guest.prefix(), &other).unwrap();
    let ran =
        guest.finish(&mut run(&guest, &other, &["--require"], &[built().ask.to_str().unwrap(), DEVICE]));
    assert_eq!(ran.status, Some(125), "{ran:?}");
}

fn lume(guest: &Guest) -> PathBuf {
    let folder = guest.folder.join("elsewhere");
    fs::create_dir_all(&folder).unwrap();
    compile(&folder.join("LumeMetalCapabilities.so"), &["tests/metal/lume.c"], "-fPIC -shared")
}

#[test]
fn attack_working_set_goes_to_the_other_shim() {
    let guest = plan().make();
    let library = lume(&guest);
    let text = fs::read_to_string(guest.state("site.toml")).unwrap();
    guest.put("site.toml", &format!("{text}shims = [\"{}\"]\n", sha256(&library)));
    let mut command = run(
        &guest,
        &guest.prefix(),
        &["--shim", library.to_str().unwrap()],
        &[built().ask.to_str().unwrap(), "--child", "/usr/bin/env"],
    );
    let ran = guest.finish(command.env("LUME_METAL_RECOMMENDED_WORKING_SET_SIZE", "99999999999"));
    assert!(!ran.out.contains("WORKING_SET"), "{ran:?}");
}

#[test]
fn attack_children_of_anka_and_lunchpail() {
    let guest = Plan::default().make();
    let mut left = String::new();
    for name in
        ["libAnkaGpuFamilyBoost-arm64.dylib", "libLunchpailMetalShim.dylib", "TartMetalCapabilities.dylib"]
    {
        let path = guest.folder.join(name);
        compile(&path, &["tests/metal/lume.c"], "-fPIC -shared");
        let preload =
            format!("{} {} {}", built().standin.display(), guest.library().display(), path.display());
        let mut command = guest.command(&built().ask);
        let ran = guest.finish(command.env("LD_PRELOAD", preload).args(["--child", "/usr/bin/env"]));
        if ran.out.contains(name) {
            left += name;
            left += " ";
        }
    }
    assert_eq!(left, "", "stay in what children inherit");
}

#[test]
fn attack_program_replaced_while_run_waits() {
    let guest = plan().make();
    let library = lume(&guest);
    let text = fs::read_to_string(guest.state("site.toml")).unwrap();
    guest.put("site.toml", &format!("{text}shims = [\"{}\"]\n", sha256(&library)));
    let program = guest.folder.join("program");
    fs::copy(&built().ask, &program).unwrap();
    let (note, away) = (guest.state("host.note"), guest.folder.join("host.note"));
    fs::rename(&note, &away).unwrap();
    let mut command = run(
        &guest,
        &guest.prefix(),
        &["--shim", library.to_str().unwrap(), "--wait", "60"],
        &[program.to_str().unwrap(), "untested"],
    );
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    fs::remove_file(&program).unwrap();
    fs::copy("/bin/echo", &program).unwrap();
    fs::rename(&away, &note).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !err.contains("[LumeMetal"),
        "untested program was told granted values: {err}\n{:?}\n{}",
        String::from_utf8_lossy(&output.stdout),
        fs::read_to_string(guest.log()).unwrap_or_default()
    );
}

#[test]
fn attack_descriptor_2_is_the_programs_file() {
    let guest = Plan::default().make();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("shim");
    let link = format!("SOURCES -L{0} -lMetal -Wl,-rpath,{0}", folder.display());
    let program = compile(&folder.join("fd2"), &["tests/metal/fd2.c"], &link);
    let data = guest.folder.join("data");
    let preload = format!("LD_PRELOAD={} {}", built().standin.display(), guest.library().display());
    let mut command = guest.command(Path::new("/bin/sh"));
    command
        .env_remove("LD_PRELOAD")
        .args(["-c", "exec 2>&-; exec \"$@\"", "sh", "env"])
        .arg(preload)
        .arg(&program)
        .arg(&data);
    let output = command.output().unwrap();
    let text = fs::read_to_string(&data).unwrap();
    assert_eq!(text, "DATA\n", "{output:?}");
}

#[test]
fn attack_shim_variable_switches_off_silently() {
    let guest = Plan::default().make();
    let ran = guest.finish(guest.command(&built().ask).arg(DEVICE).env("CAPGATE_SHIM", ""));
    assert!(!ran.log.is_empty() || !ran.err.is_empty(), "no line anywhere: {ran:?}");
}

#[test]
fn attack_run_says_granted_for_a_hardened_program() {
    let image = Image::program("hardened").flags(0x0001_0000);
    let hash = image.cdhash().to_string();
    let plan =
        Plan::default().edit_profile(&format!("cdhash = \"{CDHASH}\""), &format!("cdhash = \"{hash}\""));
    let guest = plan.make();
    let program = guest.folder.join("hardened");
    fs::write(&program, image.bytes()).unwrap();
    Guest::mode(&program, 0o755);
    fs::write(guest.library(), Image::new("capgate").bytes()).unwrap();
    let ran = guest.finish(&mut run(&guest, &guest.prefix(), &["--require"], &[program.to_str().unwrap()]));
    assert_eq!(ran.status, Some(125), "{ran:?}");
}

#[test]
fn attack_a_line_that_was_cut_off_does_not_take_the_next_one_with_it() {
    // A limit that lets only a part of the line through.
    let guest = Plan::default().make();
    fs::write(guest.log(), vec![b'\n'; 900]).unwrap();
    let output = sh(&guest, "trap '' XFSZ; ulimit -f 2; exec \"$@\"").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("log-unwritable") && err.contains("only a part of the line"), "{err}");
    drop(guest.command(&built().ask).arg(DEVICE).output().unwrap());
    let text = fs::read_to_string(guest.log()).unwrap();
    let readable =
        text.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).count();
    assert_eq!(readable, 2, "{}", text.trim_start());
}

#[test]
fn attack_c_interface_and_a_device_nobody_judged() {
    let guest = Plan::default().make();
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let lib = guest.prefix().join("lib");
    let program = compile(
        &target.join("shim/abi2"),
        &["tests/metal/abi2.c"],
        &format!("-Iinclude SOURCES -L{0} -lcapgate -Wl,-rpath,{0}", lib.display()),
    );
    let mut command = Command::new(&program);
    command
        .arg(guest.prefix())
        .env_clear()
        .env("LD_PRELOAD", &built().standin)
        .env("STANDIN", guest.folder.join("standin"))
        .env("LD_LIBRARY_PATH", &lib);
    let ran = guest.finish(&mut command);
    assert_eq!(ran.out, "0 16384\n", "{ran:?}");
}

#[test]
fn attack_apples_order_and_no_memory() {
    let guest = Plan::default().make();
    let ran = guest.ask(&["OrderedEmptyDevice"]);
    assert!(!ran.out.contains("1009"), "row 14, rule 3: {ran:?}");
}

#[test]
fn attack_apples_order_and_an_address_that_is_used_again() {
    let guest = Plan::default().make();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("shim");
    let link = format!("SOURCES -L{0} -lMetal -lobjc -Wl,-rpath,{0}", folder.display());
    let program = compile(&folder.join("again"), &["tests/metal/again.c"], &link);
    let without = guest.finish(guest.command_with(&program, "").arg("OrderedDevice"));
    assert_eq!(without.status, Some(0), "{without:?}");
    let ran = guest.finish(guest.command(&program).arg("OrderedDevice"));
    assert_eq!(ran.status, Some(0), "{} {}", ran.out, ran.err);
}
