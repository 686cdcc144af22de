//! `capgate run`: decides, checks what it inserts, and becomes the program.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use capgate_registry::combination::Hex;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::built::{built, compile};
use crate::guest::{CDHASH, GRANTED, Guest, Plan, Ran, STOCK};

const DEVICE: &str = "AppleParavirtDevice";

fn sha256(path: &Path) -> String {
    Hex::<32>(Sha256::digest(fs::read(path).unwrap()).into()).to_string()
}

/// The program by its file, as `run` knows it, and by what the stand-in's kernel says of the process.
fn plan() -> Plan {
    let both = format!("cdhash = \"{CDHASH}\"\nsha256 = \"{}\"", sha256(&built().ask));
    Plan::default().edit_profile(&format!("cdhash = \"{CDHASH}\""), &both)
}

/// `capgate run` on the stand-in, from a shell that has its own libraries inserted.
fn command(guest: &Guest, options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capgate"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("STANDIN", guest.folder.join("standin"));
    command.env("LD_PRELOAD", &built().standin).arg("run").arg("--prefix").arg(guest.prefix());
    command.args(options).arg("--").args(program);
    command
}

fn run(guest: &Guest, options: &[&str]) -> Ran {
    guest.finish(&mut command(guest, options, &[built().ask.to_str().unwrap(), DEVICE]))
}

#[test]
fn a_tested_program_is_started_with_the_library() {
    let guest = plan().make();
    let ran = run(&guest, &[]);
    let mut said = ran.err.lines();
    assert_eq!(
        said.next(),
        Some(
            "capgate: granted 1009 / 65536 by `tested`; tested with no model that is named; correctness not tested"
        )
    );
    assert!(said.next().unwrap().starts_with("[capgate] Granted "), "{}", ran.err);
    ran.is_granted(DEVICE);
}

#[test]
fn a_refused_program_runs_stock_without_the_library_and_is_logged() {
    let guest = Plan { statement: None, ..plan() }.make();
    let ran = run(&guest, &[]);
    assert_eq!(ran.out, format!("{DEVICE} {STOCK}\n"));
    assert_eq!(ran.err, "capgate: stock: host-missing: there is no host statement\n");
    assert_eq!(ran.log.len(), 1);
    assert_eq!((&ran.log[0]["reason"], &ran.log[0]["stage"]), (&"host-missing".into(), &"start".into()));
    assert!(ran.log[0]["by"].as_str().unwrap().starts_with("capgate run "));
}

#[test]
fn with_require_a_refused_program_is_not_started() {
    let guest = Plan { statement: None, ..plan() }.make();
    let ran = run(&guest, &["--require"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(125), ""));
    assert!(ran.err.starts_with("error: stock: host-missing: "), "{}", ran.err);
}

#[test]
fn status_signals_and_input_are_the_programs_own() {
    let guest = plan().make();
    for options in [&[][..], &["--wait", "0"]] {
        let ran = guest.finish(&mut command(&guest, options, &["sh", "-c", "exit 42"]));
        assert_eq!(ran.status, Some(42), "{ran:?}");
    }
    let output = command(&guest, &[], &["sh", "-c", "kill -TERM $$"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(15));
    let mut cat = command(&guest, &[], &["cat"]);
    let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"through\n");
    // The program is the very process that was started.
    let child =
        command(&guest, &[], &["sh", "-c", "echo $$"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let child = child.unwrap();
    let id = child.id();
    assert_eq!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap(), format!("{id}\n"));
}

#[test]
fn programs_that_cannot_be_started_have_the_codes_that_env_has() {
    let guest = plan().make();
    let ran = guest.finish(&mut command(&guest, &[], &["no-such-program"]));
    assert_eq!(ran.status, Some(127));
    assert!(ran.err.starts_with("error: there is no program `no-such-program`\n"), "{}", ran.err);
    let text = guest.folder.join("text");
    fs::write(&text, "nothing\n").unwrap();
    let ran = guest.finish(&mut command(&guest, &[], &[text.to_str().unwrap()]));
    assert_eq!(ran.status, Some(126), "{ran:?}");
    let ran = guest.finish(&mut command(&guest, &[], &["/"]));
    assert_eq!(ran.status, Some(126), "{ran:?}");
}

#[test]
fn a_library_that_would_end_the_program_is_not_inserted() {
    type Break = (&'static str, fn(&Guest), &'static str);
    let breaks: [Break; 5] = [
        ("missing", |guest| fs::remove_file(guest.library()).unwrap(), "does not exist"),
        ("writable", |guest| Guest::mode(&guest.library(), 0o777), "can be written by others"),
        (
            "no library",
            |guest| fs::write(guest.library(), "nothing").unwrap(),
            "needs another kind of library",
        ),
        (
            "for a Mac",
            |guest| {
                fs::write(guest.library(), crate::machofile::Image::new("x").bytes()).unwrap();
            },
            "needs another kind of library",
        ),
        (
            "for another processor",
            |guest| {
                let mut bytes = fs::read(guest.library()).unwrap();
                bytes[18] = 0xb7;
                fs::write(guest.library(), bytes).unwrap();
            },
            "needs another kind of library",
        ),
    ];
    for (name, break_it, why) in breaks {
        let guest = plan().make();
        break_it(&guest);
        let ran = run(&guest, &[]);
        assert_eq!((ran.status, ran.out), (Some(0), format!("{DEVICE} {STOCK}\n")), "{name}");
        assert!(
            ran.err.starts_with("capgate: stock: not-inserted: `") && ran.err.contains(why),
            "{name}: {}",
            ran.err
        );
        let line = ran.log.last().unwrap();
        assert_eq!((&line["outcome"], &line["reason"]), (&"stock".into(), &"not-inserted".into()), "{name}");
        assert!(line["detail"].as_str().unwrap().contains(why), "{name}: {line}");
        assert_eq!(run(&guest, &["--require"]).status, Some(125), "{name}");
    }
}

#[test]
fn a_program_that_env_would_start_is_not_reached_and_it_is_said() {
    let guest = plan().make();
    let (script, tool) = (guest.folder.join("script"), guest.folder.join("tool"));
    fs::copy(&built().ask, &tool).unwrap();
    fs::write(&script, format!("#!/usr/bin/env -S tool {DEVICE}\n")).unwrap();
    Guest::mode(&script, 0o755);
    let path = format!("{}:/usr/bin:/bin", guest.folder.display());
    let start = |options: &[&str]| {
        let mut command = command(&guest, options, &[script.to_str().unwrap()]);
        guest.finish(command.env("PATH", &path))
    };
    let ran = start(&[]);
    assert!(ran.out.starts_with(&format!("{DEVICE} {STOCK}\n")), "{ran:?}");
    let said = format!(
        "capgate: stock: not-inserted: `/usr/bin/env` would start `{}` without the library",
        tool.display()
    );
    assert!(ran.err.starts_with(&said), "{ran:?}");
    assert_eq!(start(&["--require"]).status, Some(125));
}

#[test]
fn a_script_is_its_interpreters_program() {
    let guest = plan().make();
    let script = guest.folder.join("script");
    fs::write(&script, format!("#!{} {DEVICE}\n", built().ask.display())).unwrap();
    Guest::mode(&script, 0o755);
    let ran = guest.finish(&mut command(&guest, &[], &[script.to_str().unwrap()]));
    // The kernel hands the script's own path over as a second word, which is no device.
    assert!(ran.err.starts_with("capgate: granted 1009 / 65536 by `tested`"), "{ran:?}");
    assert!(ran.out.starts_with(&format!("{DEVICE} {GRANTED}\n")), "{ran:?}");
}

#[test]
fn what_others_inserted_stays_and_stray_values_go() {
    let guest = plan().make();
    let mut command = command(&guest, &[], &[built().ask.to_str().unwrap(), "--child", "/usr/bin/env"]);
    let ran = guest.finish(command.env("LUME_METAL_APPLE_FAMILY_MAX", "1010").env("OTHER", "kept"));
    assert!(
        ran.err.contains("warning: `LUME_METAL_APPLE_FAMILY_MAX` was set, and is taken out"),
        "{}",
        ran.err
    );
    let child: Vec<&str> = ran.out.lines().skip(1).collect();
    assert!(child.contains(&format!("LD_PRELOAD={}", built().standin.display()).as_str()), "{child:?}");
    assert!(child.contains(&"OTHER=kept") && !ran.out.contains("LUME"), "{child:?}");
    assert!(ran.out.starts_with(&format!("{DEVICE} {GRANTED}\n")), "{ran:?}");
}

/// Another shim's library, where only root and this user can write.
fn lume(guest: &Guest, folder: &str) -> PathBuf {
    let folder = guest.folder.join(folder);
    fs::create_dir_all(&folder).unwrap();
    compile(&folder.join("LumeMetalCapabilities.so"), &["tests/metal/lume.c"], "-fPIC -shared")
}

const BANNER: &str = "[LumeMetalCapabilities] Enabled for Apple Paravirtual device (appleFamilyMax=1009 \
                      maxThreadgroupMemory=65536)\n";

#[test]
fn another_shim_is_told_the_granted_values_and_its_children_see_neither() {
    for by_name in [false, true] {
        let guest = plan().make();
        let library = lume(&guest, if by_name { "prefix/lib/shims" } else { "elsewhere" });
        let site = format!("shims = [\"{}\"]\n", sha256(&library));
        let text = fs::read_to_string(guest.state("site.toml")).unwrap();
        guest.put("site.toml", &format!("{text}{site}"));
        let shim = if by_name { "lume" } else { library.to_str().unwrap() };
        let program = [built().ask.to_str().unwrap(), "--child", "/usr/bin/env"];
        let ran = guest.finish(
            command(&guest, &["--shim", shim], &program).env("LUME_METAL_MAX_THREADGROUP_MEMORY", "1"),
        );
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert!(ran.err.contains("warning: `LUME_METAL_MAX_THREADGROUP_MEMORY` was set"), "{}", ran.err);
        assert!(ran.err.contains("capgate: granted 1009 / 65536 by `tested`; "), "{}", ran.err);
        assert!(ran.err.ends_with(BANNER), "{}", ran.err);
        assert_eq!(ran.err.matches("[LumeMetal").count(), 1, "the child has none: {}", ran.err);
        let child = ran.out.lines().skip(1).collect::<Vec<_>>().join("\n");
        assert!(
            !child.contains("LUME") && !child.contains("CAPGATE") && !child.contains("libcapgate"),
            "{child}"
        );
        // The other shim logs nothing, so it was logged before it was told.
        assert_eq!(ran.log.len(), 1);
        assert_eq!((&ran.log[0]["outcome"], &ran.log[0]["stage"]), (&"grant".into(), &"start".into()));
    }
}

#[test]
fn a_shim_that_was_not_tested_and_is_not_named_is_not_inserted() {
    let guest = plan().make();
    let library = lume(&guest, "elsewhere");
    let ran = run(&guest, &["--shim", library.to_str().unwrap()]);
    assert_eq!(ran.out, format!("{DEVICE} {STOCK}\n"));
    assert!(ran.err.contains("is not the library that was tested"), "{}", ran.err);
    assert!(!ran.err.contains("[Lume"), "{}", ran.err);
    let ran = run(&guest, &["--shim", "lume"]);
    assert!(ran.err.contains("lib/shims` cannot be read"), "{}", ran.err);
    let ran = run(&guest, &["--shim", "/nowhere.so", "--require"]);
    assert_eq!(ran.status, Some(125), "{ran:?}");
    let reasons: Vec<_> = ran.log.iter().map(|line| line["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["not-inserted"; 3], "each was decided, so each is logged");
}

#[test]
fn a_slip_of_the_pen_in_the_name_of_a_shim_starts_nothing() {
    let guest = plan().make();
    for (word, said) in
        [("lumme", "did you mean `lume`?"), ("libshim.so", "neither a file nor one of lume, tart")]
    {
        let ran = run(&guest, &["--shim", word]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}

#[test]
fn a_program_that_cannot_be_read_runs_stock_and_is_logged() {
    let guest = plan().make();
    let large = guest.folder.join("large");
    fs::copy(&built().ask, &large).unwrap();
    // It runs all the same: the loader reads what is at the front.
    fs::File::options().write(true).open(&large).unwrap().set_len((1 << 30) + 1).unwrap();
    let ran = guest.finish(&mut command(&guest, &[], &[large.to_str().unwrap(), DEVICE]));
    assert_eq!(ran.out, format!("{DEVICE} {STOCK}\n"), "{ran:?}");
    assert!(ran.err.contains("has more than the 1073741824 bytes"), "{}", ran.err);
    assert!(ran.err.starts_with("capgate: stock: fact-workload-missing: "), "{}", ran.err);
    assert_eq!(ran.log[0]["reason"], "fact-workload-missing");
}

#[test]
fn a_shim_that_was_tested_is_inserted_and_never_beside_a_list_of_images() {
    let folder = Plan::default().make();
    let digest = sha256(&lume(&folder, "elsewhere"));
    let shim = format!("shim = {{ name = \"lume\", sha256 = \"{digest}\" }}\nbundle =");
    let tested = plan().edit_profile("bundle =", &shim);
    let guest = tested.make();
    let library = lume(&guest, "elsewhere");
    assert_eq!(sha256(&library), digest, "the same source gives the same library");
    let ran = run(&guest, &["--shim", library.to_str().unwrap()]);
    assert!(ran.err.ends_with(BANNER), "{}", ran.err);

    let list =
        format!("[[workload.image]]\nname = \"libggml-metal.dylib\"\ncdhash = \"{CDHASH}\"\n\n[[override]]");
    let guest = plan().edit_profile("bundle =", &shim).edit_profile("[[override]]", &list).make();
    let library = lume(&guest, "elsewhere");
    let ran = run(&guest, &["--shim", library.to_str().unwrap()]);
    assert_eq!(ran.out, format!("{DEVICE} {STOCK}\n"));
    assert!(ran.err.contains("lists images, which only capgate's own library compares"), "{}", ran.err);
}

#[test]
fn a_statement_that_is_on_its_way_is_waited_for() {
    let guest = plan().make();
    let (note, away) = (guest.state("host.note"), guest.folder.join("host.note"));
    fs::rename(&note, &away).unwrap();
    let ask = [built().ask.to_str().unwrap(), DEVICE];
    let mut waiting = command(&guest, &["--wait", "60"], &ask);
    let child = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(guest.lines().is_empty(), "nothing is decided while it waits");
    fs::rename(&away, &note).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{DEVICE} {GRANTED}\n"));
    // What no waiting mends is not waited for.
    let start = Timestamp::now();
    let none = Plan { profiles: Vec::new(), ..Plan::default() }.make();
    let ran = run(&none, &["--wait", "60"]);
    assert!(ran.err.contains("stock: no-profile"), "{}", ran.err);
    assert!(Timestamp::now().duration_since(start) < SignedDuration::from_secs(20));
}

#[test]
fn without_a_prefix_the_program_runs_stock() {
    let guest = plan().make();
    let mut bare = Command::new(env!("CARGO_BIN_EXE_capgate"));
    let ran =
        guest.finish(bare.env_clear().env("PATH", "/usr/bin:/bin").args(["run", "--", "echo", "hello"]));
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "hello\n"), "{ran:?}");
    assert!(ran.err.starts_with("capgate: stock: registry-unreadable: "), "{}", ran.err);
}
