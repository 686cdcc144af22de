//! Whether two arms measured the same thing, and which of their tests belong together.

use super::arm::{ArmData, Measured};
use super::notes::Notes;
use crate::evidence::codes::Code;
use crate::evidence::environment;
use crate::evidence::finding::Finding;
use crate::evidence::log_dialect::PARAVIRTUAL;
use crate::evidence::manifest::{Arm, Workload};

/// Settings that have to differ in an arm without the GPU.
const CPU_SETTINGS: [&str; 2] = ["n_gpu_layers", "devices"];

/// The test of `other` that measured the same as `one`.
pub(super) fn partner<'a>(one: &Measured, arm: Arm, other: &'a ArmData) -> Option<&'a Measured> {
    let is_cpu = arm == Arm::Cpu || other.arm == Arm::Cpu;
    let same = |test: &&Measured| test.test == one.test && test.build == one.build && test.model == one.model;
    other.tests.iter().filter(same).find(|test| differing(one, test, is_cpu).is_empty())
}

/// The settings in which two tests differ, as `name: left, right`.
fn differing(one: &Measured, other: &Measured, is_cpu: bool) -> Vec<String> {
    let mut names: Vec<&String> = one.settings.keys().chain(other.settings.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter(|name| !(is_cpu && CPU_SETTINGS.contains(&name.as_str())))
        .filter_map(|name| {
            let (left, right) = (one.settings.get(name), other.settings.get(name));
            let shown = |value: Option<&String>| value.map_or_else(|| "absent".to_owned(), Clone::clone);
            (left != right).then(|| format!("{name}: {}, {}", shown(left), shown(right)))
        })
        .collect()
}

/// Says in what an arm differs from the stock arm.
pub(super) fn with_stock(stock: &ArmData, other: &ArmData, notes: &mut Notes) {
    let is_cpu = other.arm == Arm::Cpu;
    let mut shared = 0;
    for test in &other.tests {
        let say = |notes: &mut Notes, code, message| {
            notes.of_file(other.arm, test.file(), Finding::new(code, message))
        };
        let same_work: Vec<&Measured> = stock.tests.iter().filter(|known| known.test == test.test).collect();
        let Some(nearest) = same_work.iter().min_by_key(|known| differing(test, known, is_cpu).len()) else {
            if !stock.is_incomplete {
                say(
                    notes,
                    Code::TestsDiffer,
                    format!("{}: the stock arm did not run it; it is not scored", test.test),
                );
            }
            continue;
        };
        if test.rates.len() > 1 && nearest.rates == test.rates {
            say(
                notes,
                Code::DuplicateSamples,
                format!("{}: holds the same samples as the stock arm's `{}`", test.test, nearest.file()),
            );
        }
        let settings = differing(nearest, test, is_cpu);
        if nearest.build != test.build {
            say(
                notes,
                Code::BuildDiffers,
                format!("{}: stock ran {}, {} {}", test.test, nearest.build, other.arm, test.build),
            );
        } else if nearest.model != test.model {
            say(
                notes,
                Code::ModelDiffers,
                format!("{}: stock loaded {}, {} {}", test.test, nearest.model, other.arm, test.model),
            );
        } else if !settings.is_empty() {
            let shown: Vec<&str> = settings.iter().take(4).map(String::as_str).collect();
            say(
                notes,
                Code::SettingsDiffer,
                format!("{}: stock and {} differ in {}", test.test, other.arm, shown.join("; ")),
            );
        } else {
            shared += 1;
        }
    }
    for test in stock.tests.iter().filter(|_| !other.is_incomplete) {
        if is_alone(test, stock, other) {
            let message = format!("{}: the {} arm did not run it; it is not scored", test.test, other.arm);
            notes.of_file(other.arm, test.file(), Finding::new(Code::TestsDiffer, message));
        }
    }
    let both_read = !stock.is_incomplete && !other.is_incomplete;
    if shared == 0 && both_read && matches!(other.arm, Arm::Override(_)) {
        notes.of_arm(
            other.arm,
            Finding::new(Code::NoSharedTest, format!("stock and {} have no test in common", other.arm)),
        );
    }
}

/// Tells whether a stock test has no partner in the other arm, nor one that was meant to be it.
fn is_alone(test: &Measured, stock: &ArmData, other: &ArmData) -> bool {
    let mut same_work = other.tests.iter().filter(|known| known.test == test.test);
    partner(test, stock.arm, other).is_none()
        && same_work.all(|known| partner(known, other.arm, stock).is_some())
}

/// Says where an arm's files name another machine or model than the manifest.
pub(super) fn with_manifest(arm: &ArmData, workload: &Workload, notes: &mut Notes) {
    for test in &arm.tests {
        for why in wrong_machine(arm.arm, test, workload) {
            notes.of_file(arm.arm, test.file(), Finding::new(Code::MachineDiffers, why));
        }
        let named = &workload.model.name;
        if let Some(file) = test.model_file.as_ref().filter(|file| named.ends_with(".gguf") && *file != named)
        {
            let message = format!("{}: loaded `{file}`, the manifest names `{named}`", test.test);
            notes.of_file(arm.arm, test.file(), Finding::new(Code::ModelDiffers, message));
        }
        let layers = test.settings.get("n_gpu_layers");
        if arm.arm == Arm::Cpu && layers.is_some_and(|layers| layers != "0") {
            let message = format!("{}: `n_gpu_layers` is not 0", test.test);
            notes.of_file(arm.arm, test.file(), Finding::new(Code::GpuArm, message));
        }
    }
    stale_weights(arm, workload, notes);
}

fn wrong_machine(arm: Arm, test: &Measured, workload: &Workload) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in &test.machine {
        if let Some(chip) = environment::chip(name)
            && chip != workload.host.chip.as_str()
        {
            wrong
                .push(format!("{}: ran on `{name}`, the manifest names `{}`", test.test, workload.host.chip));
        }
        let is_virtual = name.starts_with(PARAVIRTUAL) || name.contains("(Virtual)");
        if arm == Arm::Host && is_virtual {
            wrong.push(format!("{}: the host arm ran on `{name}`, which is a guest's", test.test));
        }
        let is_bare = environment::chip(name).is_some() && !is_virtual;
        if arm.is_guest() && is_bare {
            wrong.push(format!("{}: the {arm} arm ran on `{name}`, which is no guest's", test.test));
        }
    }
    wrong
}

/// Guests of macOS 14 read stale weights when they are mapped.
fn stale_weights(arm: &ArmData, workload: &Workload, notes: &mut Notes) {
    if workload.guest.os.version.numbers().0 != 14 || !arm.arm.is_guest() {
        return;
    }
    for test in &arm.tests {
        if test.settings.get("load_mode").is_some_and(|mode| mode == "mmap" || mode == "auto") {
            let message =
                format!("{}: `load_mode` is mmap in a macOS 14 guest; run with --no-mmap", test.test);
            notes.of_file(arm.arm, test.file(), Finding::new(Code::StaleMmapGuest, message));
        }
    }
}
