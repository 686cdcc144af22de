//! A whole guest: everything in order, and each thing out of order named with what mends it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use capgate_registry::combination::Hex;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::found::{Files, Found};
use crate::support::mac::Mac;
use crate::support::{B10167, ORIGIN, Run, World, capgate, private_folder, run_on, words};
use crate::writer::{ARM64, ARM64E, Image, METAL, X86_64, universal};

const TESTED: &str = "28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7";

/// A prefix on a guest, and the program that it has a profile for.
struct Guest {
    world: World,
    place: tempfile::TempDir,
    files: Files,
    mac: Mac,
}

impl Guest {
    /// With images of the program that the profile lists.
    fn new(listed: &[Image]) -> Self {
        let world = World::bare();
        let files = Files::new();
        let program = Image::program("llama-bench").links(METAL).links("@executable_path/libggml.dylib");
        let program = files.put("llama-bench", program.bytes());
        files.put("libggml.dylib", ggml().bytes());
        let name = format!("profiles.d/{B10167}.toml");
        world.edit(
            &name,
            TESTED,
            &Hex::<32>(Sha256::digest(std::fs::read(program).unwrap()).into()).to_string(),
        );
        if !listed.is_empty() {
            world.edit(
                &name,
                "acknowledges = [\"above-host-family\", \"above-host-memory\", \"images-unrecorded\"]",
                "acknowledges = [\"above-host-family\", \"above-host-memory\"]",
            );
            let lines: String = listed
                .iter()
                .map(|image| {
                    let cdhash = Hex(image.cdhash());
                    format!("[[workload.image]]\nname = \"libggml.dylib\"\ncdhash = \"{cdhash}\"\n\n")
                })
                .collect();
            world.edit(&name, "[[override]]", &format!("{lines}[[override]]"));
        }
        let mut guest = Self { world, place: private_folder(), files, mac: Mac::guest() };
        guest.publish();
        guest.install();
        guest
    }

    fn publish(&mut self) {
        let made = self.world.run(&format!(
            "init registry --origin {ORIGIN} --root-key root.key --publisher alice.key --registry-key registry.key"
        ));
        made.ok().out.trim().clone_into(&mut self.world.root);
        self.world.run("publish --all --key alice.key --registry-key registry.key").ok();
    }

    fn install(&self) {
        let host = Mac::host();
        let on = |mac: &Mac, line: &str| run_on(mac, self.world.folder.path(), line);
        let public = on(&host, "keygen host-7 --out host.key").ok();
        self.world.put("host.pub", &public.out);
        std::fs::write(self.world.path("library"), Image::dylib("libcapgate.dylib").bytes()).unwrap();
        let prefix = self.prefix();
        let prefix = prefix.display();
        self.world
            .run(&format!("install {prefix} --library library --registry registry --host-key host.pub"))
            .ok();
        std::fs::create_dir(self.world.path("shared")).unwrap();
        on(&host, &format!("host attest --key host.key --origin {ORIGIN} --out shared")).ok();
        on(&self.mac, &format!("host verify shared/host.note --prefix {prefix} --accept")).ok();
    }

    fn prefix(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap().join("prefix")
    }

    fn look(&self, more: &str) -> Found {
        let mut command = capgate(self.world.folder.path());
        command.args(["doctor", "--format", "json", "--prefix"]).arg(self.prefix());
        Found::of(self.mac.runs(command.args(words(more))))
    }

    /// About the program; the stand-in itself is a library that somebody inserted.
    fn look_at_program(&self, more: &str) -> Found {
        self.look(&format!("{} {more}", self.files.path("llama-bench").display()))
    }
}

fn ggml() -> Image {
    Image::dylib("libggml.dylib").links(METAL)
}

fn in_hours(hours: i64) -> String {
    format!("{:.0}", Timestamp::now() + SignedDuration::from_hours(hours))
}

#[test]
fn a_guest_in_order_is_granted() {
    let guest = Guest::new(&[]);
    let found = guest.look_at_program("");
    found
        .says("prefix", "ok", "safe to use")
        .says("log", "ok", "decisions go to")
        .says("registry", "ok", ORIGIN)
        .says("site policy", "ok", "");
    found.says("host statement", "ok", "Apple M1 Ultra 25G76").says("library", "ok", "code for arm64");
    found
        .says("injection", "ok", "")
        .says("profile", "ok", "grants")
        .says("running processes", "ok", "of 0 grants")
        .exits(0);
    assert_eq!(found.json["decision"]["outcome"], "grant");
    assert_eq!(found.json["decision"]["profile"], B10167);
    // Without a program only the machine is looked at.
    let found = guest.look("");
    assert!(!found.exits(0).has("profile") && found.json["program"].is_null());
}

#[test]
fn the_images_are_held_against_the_profiles_list() {
    let found = Guest::new(&[ggml()]).look_at_program("");
    found.says("profile", "ok", "grants").exits(0);
    let other = Image::dylib("libggml.dylib").signed(|signing| signing.identifier = "other".to_owned());
    let found = Guest::new(&[other]).look_at_program("");
    found.says("profile", "failed", "image-differs: `libggml.dylib` is not the one that was tested").exits(3);
}

#[test]
fn another_program_is_stock_with_its_reason_and_the_nearest_profile() {
    let guest = Guest::new(&[]);
    let other = guest.files.put("other/llama-bench", Image::program("other").links(METAL).bytes());
    let found = guest.look(other.to_str().unwrap());
    found.says("profile", "failed", "no-profile").says("profile", "failed", B10167).exits(3);
    assert_eq!(found.json["decision"]["reason"], "no-profile");
}

#[test]
fn what_expired_or_is_about_to_is_said_with_its_fix() {
    let guest = Guest::new(&[]);
    guest.look(&format!("--now {}", in_hours(2))).says("host statement", "failed", "host-expired").exits(3);
    let found = guest.look(&format!("--now {}", in_hours(24 * 25)));
    found.says("registry", "warning", "capgate renew");
    guest.look(&format!("--now {}", in_hours(24 * 31))).says("registry", "failed", "").exits(3);
    let minutes = format!("{:.0}", Timestamp::now() + SignedDuration::from_mins(50));
    guest.look(&format!("--now {minutes}")).says("host statement", "warning", "attest --watch").exits(0);
    std::fs::remove_file(guest.prefix().join("etc/capgate/host.note")).unwrap();
    guest.look("").says("host statement", "failed", "host-missing").exits(3);
}

#[test]
fn a_state_that_others_can_write_is_named_with_the_command_that_mends_it() {
    let guest = Guest::new(&[]);
    for (part, name) in
        [("", "prefix"), ("etc/capgate", "prefix"), ("var/log", "log"), ("lib/libcapgate.so", "prefix")]
    {
        let path = guest.prefix().join(part);
        let before = std::fs::metadata(&path).unwrap().permissions();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        guest.look("").says(name, "failed", "chmod go-w").exits(3);
        std::fs::set_permissions(&path, before).unwrap();
        guest.look("").says(name, "ok", "").exits(0);
    }
    std::fs::write(guest.prefix().join("etc/capgate/site.toml"), "mode = \"enforced\"\n").unwrap();
    guest.look("").says("site policy", "failed", "capgate policy check").exits(3);
    std::fs::remove_dir_all(guest.prefix()).unwrap();
    guest.look("").says("prefix", "failed", "capgate install").says("registry", "failed", "").exits(3);
}

#[test]
fn a_switch_that_keeps_everything_stock_is_said() {
    let guest = Guest::new(&[]);
    let site = guest.prefix().join("etc/capgate/site.toml");
    let text = std::fs::read_to_string(&site).unwrap();
    assert_eq!(text.matches("mode = \"enforce\"").count(), 1, "{text}");
    std::fs::write(&site, text.replace("mode = \"enforce\"", "mode = \"off\"")).unwrap();
    guest.look("").says("site policy", "failed", "every program stays stock").exits(3);
    std::fs::write(&site, text.replace("mode = \"enforce\"", "mode = \"observe\"")).unwrap();
    guest.look("").says("site policy", "warning", "every program stays stock");
    let mut command = capgate(guest.world.folder.path());
    command.args(["doctor", "--format", "json"]).env("CAPGATE_DISABLE", "1");
    Found::of(&mut command).says("environment", "warning", "`CAPGATE_DISABLE` is set");
}

#[test]
fn a_registry_without_a_prefix_and_facts_from_a_file_do_as_well() {
    let guest = Guest::new(&[]);
    guest.world.facts("facts.toml", B10167, &[]);
    let program = guest.files.path("llama-bench");
    let ask = |line: &str| {
        let mut command = guest.world.command();
        command.args(["doctor", "--format", "json", "--registry", "registry", "--root", &guest.world.root]);
        Found::of(command.arg(&program).args(words(line)))
    };
    let found = ask("--facts facts.toml");
    found.says("host statement", "ok", "stands in").says("profile", "ok", "grants").exits(0);
    assert!(!found.has("prefix"));
    // This machine is no guest.
    ask("").says("profile", "failed", "fact-").exits(3);
    let none = Run::of(capgate(guest.world.folder.path()).args(["doctor", "--registry", "registry"]));
    assert_eq!(none.exit, 2, "{}", none.err);
    // A variable that was left behind sends nobody elsewhere than `run` looks, and what would be dropped is refused.
    let mut command = guest.world.command();
    command.args(["doctor", "--format", "json"]).arg(&program);
    assert!(Found::of(&mut command).says("prefix", "warning", "none was named").has("prefix"));
    for line in ["--policy site.toml", "--host-note host.note", "--registry registry"] {
        let run = guest.world.run(&format!("doctor --prefix /opt/capgate {line}"));
        assert_eq!(run.exit, 2, "{line}: {}", run.err);
    }
}

#[test]
fn a_lookup_by_file_knows_a_signed_program_by_both_digests() {
    let guest = Guest::new(&[]);
    let of = |cpu, identifier: &str| (cpu, Image { cpu, ..Image::program(identifier) });
    let slices = [of(X86_64, "intel"), of(ARM64E, "arm64e"), of(ARM64, "arm64")];
    let file = universal(&slices.each_ref().map(|(cpu, image)| (*cpu, image.bytes())), false);
    let path = guest.files.put("fat", &file);
    let path = path.display();
    guest.world.facts("facts.toml", B10167, &[]);
    for ask in [format!("lookup --workload {path} --log log.jsonl"), format!("explain {path}")] {
        let run = guest.world.run(&format!("{ask} --facts facts.toml"));
        assert!(run.exit == 3 && !run.err.contains("hint"), "{}", run.err);
    }
    let line: serde_json::Value = serde_json::from_str(&guest.world.read("log.jsonl")).unwrap();
    assert_eq!(line["workload_cdhash"], Hex(slices[2].1.cdhash()).to_string());
    assert_eq!(line["workload_sha256"], Hex::<32>(Sha256::digest(file).into()).to_string());
}

#[test]
fn the_human_form_has_a_line_for_each_check_and_its_fix_below() {
    let files = Files::new();
    files.put("ollama", Image::program("a").signed(|signing| signing.flags = 0x1_0000).bytes());
    let run = Run::of(capgate(&files.path("")).args(["doctor", "./ollama"]));
    assert_eq!(run.exit, 3);
    let expected = "\
ok       program            `./ollama` is a program for arm64, from macOS 14.0 on
warning  prefix             none was named, so no registry is asked
                            fix: name a prefix with `--prefix`, or a registry with `--registry` and `--root`
failed   injection          `";
    assert!(run.out.starts_with(expected), "{}", run.out);
    assert!(
        run.out
            .contains("\n                            fix: none: whether it lets libraries in is its maker's")
    );
}
