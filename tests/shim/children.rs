//! Rule 4: one process. Children start clean, and nobody else's libraries or variables are touched.

use crate::built::built;
use crate::guest::{Guest, Plan, Ran};

/// Runs a program that starts `env` as its child, and returns the child's variables.
fn child_of(guest: &Guest, preload: &str, variables: &[(&str, &str)]) -> (Ran, Vec<String>) {
    let mut command = guest.command(&built().ask);
    command.env("LD_PRELOAD", preload).args(["--child", "/usr/bin/env"]).envs(variables.iter().copied());
    let ran = guest.finish(&mut command);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let child = ran.out.lines().skip(1).map(str::to_owned).collect();
    (ran, child)
}

#[test]
fn rule_4_children_of_a_granted_process_start_clean() {
    let guest = Plan::default().make();
    let standin = built().standin.display();
    let library = guest.library();
    let preload = format!("{standin} {}", library.display());
    let (ran, child) = child_of(&guest, &preload, &[("OTHER", "kept"), ("CAPGATE_QUIET", "")]);
    assert_eq!(ran.log.len(), 2, "the child has no lines of its own: {ran:?}");
    assert!(child.contains(&format!("LD_PRELOAD={standin}")), "{child:?}");
    assert!(child.contains(&"OTHER=kept".to_owned()), "{child:?}");
    assert!(!child.iter().any(|line| line.contains("libcapgate")), "{child:?}");
}

#[test]
fn rule_4_children_of_a_refused_process_start_clean_too() {
    let guest = Plan { statement: None, ..Plan::default() }.make();
    let preload = format!("{}:{}", guest.library().display(), built().standin.display());
    let (ran, child) = child_of(&guest, &preload, &[]);
    ran.is_refused("host-missing");
    assert!(child.contains(&format!("LD_PRELOAD={}", built().standin.display())), "{child:?}");
}

#[test]
fn known_shims_and_their_variables_are_taken_out_and_the_rest_is_kept() {
    let guest = Plan::default().make();
    // Libraries that do nothing, under names that matter.
    let names = ["libother.so", "libLumeMetalCapabilities.so", "TartMetalCapabilities-arm64.so"];
    let others = names.map(|name| guest.folder.join(name));
    let source = guest.folder.join("empty.c");
    std::fs::write(&source, "").unwrap();
    for other in &others {
        let status =
            std::process::Command::new("gcc").args(["-shared", "-o"]).arg(other).arg(&source).status();
        assert!(status.unwrap().success());
    }
    let [other, lume, tart] = &others;
    let preload =
        [&built().standin, lume, other, tart, &guest.library()].map(|path| path.display().to_string());
    let variables = [
        ("LUME_METAL_APPLE_FAMILY_MAX", "1010"),
        ("LUME_METAL_MAX_THREADGROUP_MEMORY", "999999"),
        ("TART_METAL_APPLE_FAMILY_MAX", "1010"),
        ("TART_METAL_MAX_THREADGROUP_MEMORY", ""),
        ("VEERTU_ANKA_GPU_APPLE_FAMILY_MAX", "1"),
        ("VEERTU_ANKA_GPU_THREADGROUP_MEMORY_MIN", "1"),
        ("LUNCHPAIL_METAL_APPLE_FAMILY_MAX", "1"),
        ("LUNCHPAIL_METAL_MAX_THREADGROUP_MEMORY", "1"),
        ("LUME_OTHER", "kept"),
    ];
    let (ran, child) = child_of(&guest, &preload.join(" "), &variables);
    assert!(
        ran.out.starts_with("AppleParavirtDevice 1001,1005,1007,1009,2002,3003 65536 inside\n"),
        "{ran:?}"
    );
    let kept = format!("LD_PRELOAD={}:{}", built().standin.display(), other.display());
    assert!(child.contains(&kept), "{child:?}");
    let left = child.iter().filter(|line| line.contains("_METAL_") || line.contains("VEERTU_"));
    assert_eq!(left.count(), 0, "{child:?}");
    assert!(child.contains(&"LUME_OTHER=kept".to_owned()), "{child:?}");
}

#[test]
fn beside_another_shim_the_library_only_cleans() {
    let guest = Plan::default().make();
    let other =
        crate::built::compile(&guest.folder.join("other.so"), &["tests/metal/lume.c"], "-fPIC -shared");
    let other = other.display().to_string();
    let preload = format!("{} {} {other}", built().standin.display(), guest.library().display());
    let (ran, child) = child_of(&guest, &preload, &[("CAPGATE_SHIM", &other)]);
    assert!(ran.out.starts_with("AppleParavirtDevice 1001,1005,2002,3003 32768\n"), "{ran:?}");
    assert!(ran.log.is_empty() && ran.err.is_empty(), "{ran:?}");
    assert!(!child.iter().any(|line| line.contains("CAPGATE") || line.contains("libcapgate")), "{child:?}");
}

#[test]
fn attack_a_word_about_another_shim_that_is_not_there_switches_nothing_off() {
    let guest = Plan::default().make();
    let preload = format!("{} {}", built().standin.display(), guest.library().display());
    for value in ["", "1", "/opt/other.so"] {
        let (ran, _) = child_of(&guest, &preload, &[("CAPGATE_SHIM", value)]);
        assert!(ran.err.contains("[capgate] Enabled for"), "{value}: {ran:?}");
    }
}

#[test]
fn a_process_that_merely_opens_the_library_is_left_alone() {
    let guest = Plan::default().make();
    let script =
        format!("import ctypes; ctypes.CDLL({:?}); print('done')", guest.library().display().to_string());
    let mut command = std::process::Command::new("python3");
    command.args(["-c", &script]).env_remove("LD_PRELOAD").env("STANDIN", guest.folder.join("standin"));
    let ran = guest.finish(&mut command);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("done\n", ""), "{ran:?}");
    assert!(ran.log.is_empty());
}

#[test]
fn quiet_silences_standard_error_and_nothing_else() {
    let guest = Plan::default().make();
    let ran = guest.finish(guest.command(&built().ask).arg("AppleParavirtDevice").env("CAPGATE_QUIET", "1"));
    assert_eq!(ran.err, "");
    assert!(ran.out.contains("1009") && ran.log.len() == 2, "{ran:?}");
}
