//! What programs are told: granted values on the device that was tested, Apple's own everywhere else.

use crate::built::built;
use crate::guest::{GRANTED, Plan, STOCK};

#[test]
fn a_tested_combination_is_granted() {
    let guest = Plan::default().make();
    guest.ask(&["AppleParavirtDevice"]).is_granted("AppleParavirtDevice");
}

#[test]
fn a_program_that_opens_metal_late_is_granted() {
    let guest = Plan::default().make();
    let ran = guest.finish(guest.command(&built().ask_late).arg("AppleParavirtDevice"));
    ran.is_granted("AppleParavirtDevice");
}

#[test]
fn without_the_library_nothing_changes() {
    let guest = Plan::default().make();
    let ran = guest.finish(guest.command_with(&built().ask, "").arg("AppleParavirtDevice"));
    assert_eq!((ran.out.as_str(), ran.err.as_str()), (format!("AppleParavirtDevice {STOCK}\n").as_str(), ""));
    assert!(ran.log.is_empty());
}

#[test]
fn what_a_class_inherits_is_changed_in_that_class_alone() {
    let guest = Plan::default().make();
    let ran = guest.ask(&["AppleParavirtDevice", "SiblingDevice"]);
    assert_eq!(ran.out, format!("AppleParavirtDevice {GRANTED}\nSiblingDevice {STOCK}\n"), "{ran:?}");
}

#[test]
fn a_class_with_methods_of_its_own_and_one_below_another_are_granted() {
    for class in ["OverridingDevice", "DerivedDevice"] {
        let guest = Plan::default().make();
        guest.ask(&[class]).is_granted(class);
    }
    let guest = Plan::default().make();
    let ran = guest.ask(&["AppleParavirtDevice", "DerivedDevice", "AppleParavirtDevice"]);
    let expected = ["AppleParavirtDevice", "DerivedDevice", "AppleParavirtDevice"];
    let expected: String = expected.iter().map(|class| format!("{class} {GRANTED}\n")).collect();
    assert_eq!(ran.out, expected, "{ran:?}");
}

#[test]
fn rule_3_a_class_without_one_of_the_methods_keeps_both() {
    let guest = Plan::default().make();
    let ran = guest.ask(&["BareDevice"]);
    assert_eq!(ran.out, "BareDevice 1001,1005,2002,3003 0\n");
    ran.is_refused("device-differs");
    assert!(ran.err.contains("`BareDevice` has no `maxThreadgroupMemoryLength`"), "{}", ran.err);
}

#[test]
fn rule_3_a_method_of_another_type_is_not_called() {
    let guest = Plan::default().make();
    let ran = guest.ask(&["OddDevice"]);
    assert!(ran.out.starts_with("OddDevice 1001,1005,2002,3003 "), "{}", ran.out);
    ran.is_refused("device-differs");
    assert!(ran.err.contains("`maxThreadgroupMemoryLength` has the types `d@:`"), "{}", ran.err);
}

#[test]
fn a_device_with_other_answers_of_its_own_stays_as_it_is() {
    let guest = Plan::default().make();
    let ran = guest.ask(&["OtherDevice"]);
    assert_eq!(ran.out, "OtherDevice 1001,1005,1007,2002,3003 32768\n");
    ran.is_refused("device-differs");
    let guest = Plan::default().make();
    let ran = guest.ask(&["LargeDevice"]);
    assert_eq!(ran.out, "LargeDevice 1001,1005,2002,3003 131072\n");
    ran.is_refused("device-differs");
    assert_eq!(ran.log[1]["device_max_threadgroup_memory"], 131_072);
    assert_eq!(ran.log[1]["device"], "LargeDevice");
}

#[test]
fn each_device_is_judged_by_itself() {
    let guest = Plan::default().make();
    let ran = guest.ask(&["AppleParavirtDevice", "OtherDevice", "AppleParavirtDevice"]);
    let expected = format!(
        "AppleParavirtDevice {GRANTED}\nOtherDevice 1001,1005,1007,2002,3003 32768\nAppleParavirtDevice {GRANTED}\n"
    );
    assert_eq!(ran.out, expected, "{ran:?}");
    let outcomes: Vec<&str> = ran.log.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    // The other device set itself up further once it had been judged, and was switched off as it was first asked.
    assert_eq!(outcomes, ["grant", "grant", "grant", "stock", "grant"]);
    let detail = ran.log[3]["detail"].as_str().unwrap();
    assert_eq!(detail, "`OtherDevice` changed its own answers after it was made");
}

#[test]
fn eight_threads_at_once_are_all_granted() {
    for _ in 0..10 {
        let guest = Plan::default().make();
        let ran = guest.ask(&["--threads", "AppleParavirtDevice"]);
        assert_eq!(ran.out, format!("AppleParavirtDevice {GRANTED}\n").repeat(8), "{ran:?}");
        assert_eq!(ran.log.len(), 9);
    }
}

#[test]
fn a_child_that_was_forked_and_did_not_exec_is_granted_and_logged_as_itself() {
    let guest = Plan::default().make();
    let ran = guest.ask(&["--fork", "AppleParavirtDevice"]);
    ran.is_granted("AppleParavirtDevice");
    assert_ne!(ran.log[0]["pid"], ran.log[1]["pid"]);
}

#[test]
fn more_devices_than_there_is_room_for_stay_stock() {
    let guest = Plan::default().make();
    let ran = guest.ask(&["AppleParavirtDevice"; 70]);
    let granted = ran.out.lines().filter(|line| line.ends_with(GRANTED)).count();
    let stock = ran.out.lines().filter(|line| line.ends_with(STOCK)).count();
    assert_eq!((granted, stock), (64, 6), "{}", ran.err);
}

#[test]
fn two_installations_inserted_at_once_change_nothing_twice() {
    let (guest, other) = (Plan::default().make(), Plan::default().make());
    let both = format!("{} {}", guest.library().display(), other.library().display());
    let ran = guest.finish(guest.command_with(&built().ask, &both).arg("AppleParavirtDevice"));
    assert_eq!(ran.out, format!("AppleParavirtDevice {GRANTED}\n"), "{ran:?}");
    // Whichever is asked second finds answers that are no longer the device's own, and stays out of it.
    let outcome = |guest: &crate::guest::Guest| guest.lines()[1]["outcome"].as_str().unwrap().to_owned();
    let mut outcomes = [outcome(&guest), outcome(&other)];
    outcomes.sort();
    assert_eq!(outcomes, ["grant", "stock"]);
}

#[test]
fn a_statement_for_this_guest_alone_is_granted() {
    let named = "mac_addresses = [\"5e:00:00:00:00:01\", \"5e:12:ab:00:34:f0\"]\nissued";
    let guest = Plan::default().edit_statement("issued", named).make();
    guest.ask(&["AppleParavirtDevice"]).is_granted("AppleParavirtDevice");
}
