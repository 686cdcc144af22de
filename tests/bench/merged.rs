//! The host's arm, measured on the host, joins what its guest measured; and what a published profile says is measured anew.

use std::fs;

use crate::lab::{Lab, files, llama, run};

const WORDS: &str = "-m tiny.gguf -p 64 -n 16 -r 2";
/// The Mac itself.
const MAC: &str = "machdep.cpu.brand_string=Apple M1 Ultra\nkern.osproductversion=26.6.1\nkern.osversion=25G76\n\
                   kern.hv_vmm_present=#0\nhw.model=Mac13,2\n";

/// A guest's bundle, and what the same program measured on a host.
fn both(lab: &Lab, mac: &str) {
    lab.bench("--override 1009/65536 --rounds 2 --out guest").exits(0);
    let guest = fs::read_to_string(lab.path("standin/sysctl")).unwrap();
    lab.guest.answer("sysctl", mac);
    let ran = run(&mut lab.bench_with("--host --rounds 2 --out host", WORDS)).exits(0);
    assert!(ran.out.contains("2 rounds of the host arm in host\n"), "{}", ran.out);
    lab.guest.answer("sysctl", &guest);
}

#[test]
fn a_hosts_arm_joins_its_guests_bundle() {
    let lab = Lab::new();
    // A bare machine names itself, where the stand-in would name a guest.
    let lab = lab.with("BARE", "host");
    both(&lab, MAC);
    let merged = lab.run("evidence merge guest host --out joined --format json").exits(0).json();
    assert_eq!(merged["verdict"], "publishable");
    let rows = merged["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["arm"] == "host" && row["test"] == "pp64").unwrap();
    assert_eq!(row["n"], 4);
    let row = rows.iter().find(|row| row["arm"] == "override" && row["test"] == "pp64").unwrap();
    assert!(row["ratio_to_host"].as_f64().is_some(), "{merged}");
    let codes: Vec<&str> =
        merged["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap()).collect();
    assert!(!codes.contains(&"no-host-arm"), "{codes:?}");
    assert!(files(&lab.path("joined")).contains(&"host/rounds/01/host.json".to_owned()));
    lab.run("evidence check joined").exits(0);
}

#[test]
fn bundles_of_two_things_are_not_joined() {
    let lab = Lab::new().with("BARE", "host");
    both(&lab, &MAC.replace("25G76", "25G90"));
    let ran = lab.run("evidence merge guest host --out joined").exits(4);
    let said = "error: the bundles cannot be joined: they differ in host's build: 25G76, 25G90\n";
    assert!(ran.err.starts_with(said), "{}", ran.err);
    assert!(!lab.path("joined").exists());
    let ran = lab.run("evidence merge guest guest --out joined").exits(4);
    assert!(ran.err.contains("the second bundle has no host arm"), "{}", ran.err);
    fs::write(lab.path("host/rounds/01/host.json"), "[]\n").unwrap();
    let ran = lab.run("evidence merge guest host --out joined").exits(4);
    assert!(
        ran.err.starts_with("error: the bundle `host` is damaged: `rounds/01/host.json`: "),
        "{}",
        ran.err
    );
    let ran = lab.run("evidence merge guest nowhere --out joined").exits(1);
    assert!(ran.err.starts_with("error: there is no bundle folder `nowhere`"), "{}", ran.err);
}

#[test]
fn a_published_profile_is_measured_anew_for_another_build() {
    let lab = Lab::new().with("BUILD", "10359");
    let registry = lab.guest.state("registry").display().to_string();
    let options = format!(
        "--from tested --registry {registry} --root {} --rounds 2 --out bundle --source https://example.org/bundle",
        lab.guest.pin
    );
    let mut command = lab.bench_with(&options, "-m tiny.gguf -r 2");
    let ran = run(&mut command).exits(0);
    assert!(ran.out.contains("tiny.gguf: publishable\n"), "{}", ran.out);
    // Tests, values and what only the host knows are the profile's; the build is the one that ran.
    let words = lab.state("bundle")["settings"]["words"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    assert_eq!(words.join(" "), "-m tiny.gguf -r 2 -p 512 -n 0 -o json");
    let draft = "bundle/profiles/m1-ultra-25g76-25f84-llama-bench-b10359.toml";
    assert_eq!(files(&lab.path("bundle/profiles")), [draft.rsplit('/').next().unwrap()]);
    let lint = lab.run(&format!("lint {draft}")).exits(0);
    assert!(lint.out.contains("1 profile, no problem"), "{}", lint.out);
    let text = fs::read_to_string(lab.path(draft)).unwrap();
    assert!(text.contains("apple_family = 1007\n") && text.contains("version = \"b10359\"\n"), "{text}");
    lab.has_no_trial();
}

#[test]
fn a_profile_that_cannot_be_followed_is_named() {
    let lab = Lab::new();
    let registry = lab.guest.state("registry").display().to_string();
    let with = |id: &str| {
        let options = format!("--from {id} --registry {registry} --root {} --out bundle", lab.guest.pin);
        let mut command = lab.capgate();
        command.arg("bench").args(options.split_whitespace()).arg("--").arg(llama()).args(WORDS.split(' '));
        run(&mut command)
    };
    let ran = with("testet").exits(1);
    assert!(
        ran.err.starts_with("error: no profile `testet` is in force\nhelp: did you mean `tested`?"),
        "{}",
        ran.err
    );
    let ran = lab.bench("--from tested --out bundle").exits(2);
    assert!(ran.err.starts_with("error: `--from` needs a registry\n"), "{}", ran.err);
}
