//! Programs, machines and disks that do not do what they should. Whatever an arm does, the bundle says so, the judge
//! refuses what it must, and no trial is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::lab::{Lab, NAMED, Ran, files, llama, run};

const ARMS: &str = "--override 1009/65536 --rounds 2 --out bundle";

/// A bench whose override arm goes wrong from its second start, the first round, on.
fn goes_wrong(what: &str) -> (Lab, Ran) {
    let lab = Lab::new().does(what, "override").with("FROM", "2");
    let ran = lab.bench(ARMS).exits(4);
    lab.has_no_trial();
    (lab, ran)
}

#[test]
fn an_arm_that_crashes_without_a_word_is_refused_and_not_started_again() {
    let (lab, ran) = goes_wrong("crash");
    let said = format!("the arm `{NAMED}` was ended by signal 11 in round 1, and is not started again");
    assert!(ran.err.contains(&said), "{}", ran.err);
    let state = lab.state("bundle");
    assert_eq!(state["failed"][0]["arm"], NAMED);
    assert_eq!(state["rounds"][0]["runs"][1]["signal"], 11);
    // Nothing was left to compare stock with.
    assert_eq!(state["rounds"].as_array().unwrap().len(), 1);
    assert!(lab.refusals("bundle").contains(&"aborted".to_owned()), "{:?}", lab.refusals("bundle"));
}

#[test]
fn a_crash_in_the_warm_up_is_evidence_too() {
    let lab = Lab::new().does("crash", "override");
    let ran = lab.bench(&format!("{ARMS} --cpu")).exits(4);
    assert!(ran.err.contains("in its warm-up, and is not started again"), "{}", ran.err);
    assert!(lab.refusals("bundle").contains(&"aborted".to_owned()));
    // The arms that are left go on.
    assert_eq!(lab.state("bundle")["rounds"].as_array().unwrap().len(), 2);
}

#[test]
fn abort_text_is_noticed() {
    let (lab, ran) = goes_wrong("abort");
    assert!(ran.err.contains("ended with exit status 134"), "{}", ran.err);
    let judged = lab.run("evidence check bundle").exits(4);
    assert!(
        judged.out.contains("refused[aborted]:") && judged.out.contains("GGML_ASSERT(ne00 == 1) failed"),
        "{}",
        judged.out
    );
}

#[test]
fn an_arm_without_a_banner_proves_nothing() {
    let lab = Lab::new().does("hush", "override");
    lab.bench(ARMS).exits(4);
    assert!(lab.refusals("bundle").contains(&"banner-missing".to_owned()), "{:?}", lab.refusals("bundle"));
    lab.has_no_trial();
}

#[test]
fn an_arm_that_reports_another_family_proves_nothing() {
    let (lab, _) = goes_wrong("family");
    assert!(lab.refusals("bundle").contains(&"family-mismatch".to_owned()), "{:?}", lab.refusals("bundle"));
}

#[test]
fn arms_with_different_settings_are_not_compared() {
    let lab = Lab::new().does("differ", "override");
    lab.bench(ARMS).exits(4);
    assert!(lab.refusals("bundle").contains(&"settings-differ".to_owned()), "{:?}", lab.refusals("bundle"));
}

#[test]
fn words_that_would_make_arms_differ_are_refused_before_anything_runs() {
    let lab = Lab::new();
    for (words, said) in [
        ("-m tiny.gguf -ngl 0", "`-ngl 0` leaves the GPU out of every arm"),
        ("-m tiny.gguf -o csv", "`-o csv` holds no samples"),
        ("-m tiny.gguf -r 0", "`-r 0` measures nothing"),
        ("-p 64", "no model is named"),
    ] {
        let ran = run(&mut lab.bench_with("--cpu --out bundle", words)).exits(2);
        assert!(ran.err.starts_with(&format!("error: {said}\nhelp: ")), "{}", ran.err);
        assert!(!lab.path("bundle").exists() && !lab.path("counts/stock").exists());
    }
    let ran = lab.bench("--out bundle").exits(2);
    assert!(ran.err.starts_with("error: there is nothing to compare stock with\n"), "{}", ran.err);
}

#[test]
fn a_program_that_never_ends_is_ended_with_its_group() {
    let (lab, ran) = {
        let lab = Lab::new().does("hang", "override").with("FROM", "2");
        let ran = lab.bench(&format!("{ARMS} --timeout 2")).exits(4);
        (lab, ran)
    };
    assert!(ran.err.contains(&format!("the arm `{NAMED}` was stopped after 2 s in round 1")), "{}", ran.err);
    assert_eq!(lab.state("bundle")["failed"][0]["round"], 1);
    assert!(lab.refusals("bundle").contains(&"aborted".to_owned()));
    lab.has_no_trial();
    assert_eq!(running_from(&lab), 0);
}

#[test]
fn a_child_that_a_program_leaves_behind_is_ended_before_the_next_arm() {
    let lab = Lab::new().does("orphan", "any");
    lab.bench(ARMS).exits(0);
    assert_eq!(running_from(&lab), 0);
}

#[test]
fn a_program_that_never_stops_writing_is_ended() {
    let (lab, _) = goes_wrong("flood");
    let log = fs::read_to_string(lab.path(&format!("bundle/rounds/01/{NAMED}.log"))).unwrap();
    assert!(
        log.ends_with(
            "[capgate bench] exit status 125: it was ended, having written more than 8388608 bytes\n"
        ),
        "{log}"
    );
}

#[test]
fn output_that_stops_in_the_middle_is_refused() {
    let (lab, _) = goes_wrong("cut");
    assert!(lab.refusals("bundle").contains(&"truncated".to_owned()), "{:?}", lab.refusals("bundle"));
}

/// Processes that were started in the folder of a guest.
fn running_from(lab: &Lab) -> usize {
    let own = lab.path("").canonicalize().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let in_it = entries.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == own));
    in_it.count()
}

#[test]
fn a_contended_round_is_discarded_whole_and_measured_again() {
    // Others use an hour of processor time at the third start of stock: in the first round or the second, since the start
    // that only asks the library may be ended before it counts.
    let lab = Lab::new().does("busy", "stock").with("FROM", "3").with("TO", "3");
    let ran = lab.bench("--override 1009/65536 --cpu --rounds 2 --out bundle").exits(0);
    assert_eq!(ran.err.matches(" is discarded: others used ").count(), 1, "{}", ran.err);
    let state = lab.state("bundle");
    let discarded = state["discarded"].as_array().unwrap();
    assert_eq!((discarded.len(), state["rounds"].as_array().unwrap().len()), (1, 2));
    assert_eq!(discarded[0]["round"]["runs"].as_array().unwrap().len(), 3);
    assert!(
        discarded[0]["round"]["during"]["other"].as_f64().unwrap()
            > state["limits"]["other_share"].as_f64().unwrap() * 2.0
    );
    // It is kept to be seen, and is no sample.
    let judged = lab.run("evidence check bundle --format json").exits(0).json();
    let row = judged["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["arm"] == "stock" && row["test"] == "pp64")
        .unwrap();
    assert_eq!(row["n"], 4);
    let kept = files(&lab.path("bundle/discarded"));
    assert!(
        kept.contains(&"001/stock.json".to_owned()) && kept.contains(&"001/cpu.json".to_owned()),
        "{kept:?}"
    );
    let listed = fs::read_to_string(lab.path("bundle/SHA256SUMS")).unwrap();
    assert!(listed.contains("  discarded/001/stock.json\n"));
}

#[test]
fn a_machine_that_never_calms_down_leaves_an_incomplete_bundle() {
    let lab = Lab::new().does("busy", "any").with("FROM", "3");
    let ran = lab.bench("--override 1009/65536 --rounds 2 --retries 2 --out bundle").exits(1);
    assert!(
        ran.err.contains(
            "error: this machine is too busy: 3 rounds were discarded, the last since others used "
        ),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("capgate bench --resume bundle -- "), "{}", ran.err);
    let refused = lab.run("evidence check bundle").exits(4);
    assert!(refused.err.starts_with("error: the bundle `bundle` is not complete\n"), "{}", refused.err);
    lab.has_no_trial();
}

#[test]
fn a_full_disk_is_named_and_the_bundle_can_be_gone_on_with() {
    let lab = Lab::new();
    let out = lab.path("small");
    fs::create_dir(&out).unwrap();
    // The folder is a file system of 24 KiB: state and a round of logs do not fit.
    let bench = lab.bench_with(
        "--override 1009/65536 --cpu --rounds 40 --out small/bundle",
        "-m tiny.gguf -p 64 -n 16 -r 40",
    );
    let words: Vec<_> =
        std::iter::once(bench.get_program()).chain(bench.get_args()).map(|word| word.to_owned()).collect();
    let mut command = Command::new("unshare");
    command.env_clear().current_dir(&lab.guest.folder);
    for (name, value) in bench.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        // The stand-in is for capgate and what it starts, not for the shell around it.
        if name != "LD_PRELOAD" {
            command.env(name, value);
        }
    }
    let preload = bench.get_envs().find(|(name, _)| *name == "LD_PRELOAD").unwrap().1.unwrap().to_owned();
    let script = format!(
        "mount -t tmpfs -o size=96k,mode=700 none '{}' && export LD_PRELOAD='{}' && \"$@\"; status=$?; unset LD_PRELOAD; \
         ls small/bundle; exit $status",
        out.display(),
        preload.to_str().unwrap()
    );
    command.args(["--mount", "--map-root-user", "sh", "-c", &script, "sh"]).args(&words);
    let ran = run(&mut command);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(ran.err.contains("cannot be written: No space left on device"), "{}", ran.err);
    assert!(ran.out.contains("INCOMPLETE\n"), "{}", ran.out);
    lab.has_no_trial();
}

#[test]
fn a_folder_that_cannot_be_written_is_named_before_anything_runs() {
    let lab = Lab::new();
    fs::write(lab.path("file"), "").unwrap();
    let ran = lab.bench("--cpu --out file/bundle").exits(1);
    assert!(ran.err.starts_with("error: `file/bundle` cannot be written: "), "{}", ran.err);
    fs::create_dir(lab.path("full")).unwrap();
    fs::write(lab.path("full/other"), "").unwrap();
    let ran = lab.bench("--cpu --out full").exits(1);
    assert!(ran.err.starts_with("error: the folder `full` is not empty\n"), "{}", ran.err);
    if crate::guest::user() != 0 {
        fs::create_dir(lab.path("closed")).unwrap();
        fs::set_permissions(lab.path("closed"), fs::Permissions::from_mode(0o500)).unwrap();
        let ran = lab.bench("--cpu --out closed/bundle").exits(1);
        assert!(ran.err.contains("Permission denied"), "{}", ran.err);
    }
    assert!(!lab.path("counts/stock").exists());
}

#[test]
fn a_state_folder_that_others_can_write_holds_no_trial() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("state/capgate")).unwrap();
    fs::set_permissions(lab.path("state/capgate"), fs::Permissions::from_mode(0o777)).unwrap();
    let ran = lab.bench(ARMS).exits(1);
    assert!(ran.err.contains("can be written by others (mode 777)"), "{}", ran.err);
    assert!(!lab.path("bundle").exists());
}

#[test]
fn what_is_missing_is_named() {
    let lab = Lab::new();
    let ran = run(&mut lab.bench_with("--cpu --out bundle", "-m none.gguf")).exits(1);
    assert!(ran.err.starts_with("error: the model `none.gguf` cannot be read: "), "{}", ran.err);
    let mut command = lab.capgate();
    command.args(["bench", "--cpu", "--out", "bundle", "--", "./no-program", "-m", "tiny.gguf"]);
    let ran = run(&mut command).exits(1);
    assert!(ran.err.starts_with("error: there is no program `./no-program`\n"), "{}", ran.err);
    let mut command = lab.capgate();
    command.args(["bench", "--cpu", "--out", "bundle", "--"]).arg(llama()).args(["-m", "tiny.gguf"]);
    let ran = run(&mut command).exits(1);
    assert!(ran.err.starts_with("error: nobody says which host this is"), "{}", ran.err);
}
