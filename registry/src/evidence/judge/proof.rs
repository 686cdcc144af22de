//! Whether logs and probes show that the override was active, and that stock was stock.

use super::arm::ArmData;
use super::notes::Notes;
use crate::evidence::codes::Code;
use crate::evidence::finding::Finding;
use crate::evidence::log_dialect::{Device, Log, Shim};
use crate::evidence::manifest::{Arm, ClaimedSet, Guest, Workload, shim_word};
use crate::evidence::probe::Answer;
use crate::profile::{Values, Verdict};

/// The Apple family from which llama.cpp reduces and multiplies within SIMD groups.
const SIMD_FAMILY: u64 = 1007;
/// The Apple family from which llama.cpp uses bfloat.
const BFLOAT_FAMILY: u64 = 1006;

/// Says what an arm's logs and probes do not show, or show otherwise.
pub(super) fn check(arm: &ArmData, workload: &Workload, notes: &mut Notes) {
    for (path, log) in &arm.logs {
        for finding in log.findings() {
            notes.of_file(arm.arm, path, finding);
        }
    }
    match arm.arm {
        Arm::Override(values) => {
            let set = workload.sets.iter().find(|set| set.values == values);
            if let Some(set) = set {
                check_override(arm, set, workload, notes);
            }
        }
        Arm::Stock => check_stock(arm, workload, notes),
        Arm::Cpu => check_unshimmed(arm, notes),
        Arm::Host => {
            check_unshimmed(arm, notes);
            check_host(arm, workload, notes);
        }
    }
}

/// Refuses what an override lacks; evidence for stock grants nothing, so there it is a warning.
fn weigh(finding: Finding, workload: &Workload) -> Finding {
    if workload.sought == Verdict::Stock { finding.as_warning() } else { finding }
}

/// The files of samples beyond the number of logs.
fn without_log(arm: &ArmData) -> impl Iterator<Item = &String> {
    arm.files.iter().skip(arm.logs.len())
}

fn check_override(arm: &ArmData, set: &ClaimedSet, workload: &Workload, notes: &mut Notes) {
    for path in without_log(arm) {
        let message = "no log shows the shim's banner and what the device answered";
        notes.of_file(arm.arm, path, weigh(Finding::new(Code::LogMissing, message), workload));
    }
    for (path, log) in &arm.logs {
        let banner = check_banner(log, set, &workload.guest);
        for finding in banner.into_iter().chain(check_device(log, set.values)) {
            notes.of_file(arm.arm, path, weigh(finding, workload));
        }
    }
    for (path, probe) in &arm.probes {
        for why in probe.answers.iter().filter_map(|answer| {
            contradiction(answer, Some(set.values.apple_family_max), Some(set.values.max_threadgroup_memory))
        }) {
            notes.of_file(arm.arm, path, weigh(Finding::new(Code::ProbeMismatch, why), workload));
        }
    }
}

fn check_banner(log: &Log, set: &ClaimedSet, guest: &Guest) -> Vec<Finding> {
    let Some(banner) = log.banners.first() else {
        let message = "shim not active: the log has no shim's banner, whatever the arm is called";
        return vec![Finding::new(Code::BannerMissing, message)];
    };
    let mut findings = Vec::new();
    for banner in log.banners.iter().filter(|banner| !banner.is_research_hook()) {
        let said = (banner.apple_family_max, banner.max_threadgroup_memory);
        if said != (Some(set.values.apple_family_max), Some(set.values.max_threadgroup_memory)) {
            let message = format!("the banner says {}, the manifest claims {}", banner.shown(), set.values);
            findings.push(Finding::new(Code::BannerMismatch, message));
        }
        if let Some(shim) = set.shim.filter(|shim| !is_of(&banner.shim, shim_word(*shim))) {
            let message =
                format!("the banner is {}'s, the manifest names {}", banner.shim.name(), shim_word(shim));
            findings.push(Finding::new(Code::BannerMismatch, message));
        }
    }
    if let Some((family, memory)) = banner.stock {
        let differs = guest.stock_family.is_some_and(|stock| stock != family)
            || guest.stock_memory.is_some_and(|stock| stock != memory);
        if differs {
            let message = format!("the banner says the original answers were {family}/{memory}");
            findings.push(Finding::new(Code::StockDiffers, message));
        }
    }
    findings
}

fn is_of(shim: &Shim, word: &str) -> bool {
    shim.name() == word
}

fn check_device(log: &Log, values: Values) -> Vec<Finding> {
    let Some(device) = log.devices.first() else {
        let message = "the log describes no device, so nothing shows that the values took effect";
        return vec![Finding::new(Code::CapabilityMissing, message)];
    };
    let mut findings = Vec::new();
    if device.apple_family != Some(values.apple_family_max) {
        let family =
            device.apple_family.map_or_else(|| "no Apple family".to_owned(), |family| family.to_string());
        let message = format!("the log reports {family}, the manifest claims {}", values.apple_family_max);
        findings.push(Finding::new(Code::FamilyMismatch, message));
    }
    let missing = missing_capabilities(device, values.apple_family_max);
    if !missing.is_empty() {
        let message = format!("the log does not show {} = true", missing.join(", "));
        findings.push(Finding::new(Code::CapabilityMissing, message));
    }
    findings
}

fn missing_capabilities(device: &Device, family: u64) -> Vec<&'static str> {
    let mut missing = Vec::new();
    if family >= SIMD_FAMILY && device.simdgroup_reduction != Some(true) {
        missing.push("simdgroup reduction");
    }
    if family >= SIMD_FAMILY && device.simdgroup_matrix != Some(true) {
        missing.push("simdgroup matrix mul.");
    }
    // Older logs do not print it at all.
    if family >= BFLOAT_FAMILY && device.bfloat == Some(false) {
        missing.push("has bfloat");
    }
    missing
}

fn check_stock(arm: &ArmData, workload: &Workload, notes: &mut Notes) {
    for path in without_log(arm) {
        let message = "no log shows that no shim was active";
        notes.of_file(arm.arm, path, Finding::new(Code::LogMissing, message).as_warning());
    }
    check_unshimmed(arm, notes);
    let guest = &workload.guest;
    for (path, log) in arm.logs.iter().filter(|(_, log)| log.banners.is_empty()) {
        if let Some(finding) = log.device().and_then(|device| check_stock_device(device, guest)) {
            notes.of_file(arm.arm, path, finding);
        }
    }
    for (path, probe) in &arm.probes {
        for why in probe
            .answers
            .iter()
            .filter_map(|answer| contradiction(answer, guest.stock_family, guest.stock_memory))
        {
            notes.of_file(arm.arm, path, Finding::new(Code::ProbeMismatch, why));
        }
    }
}

/// The guest's own device answers as the manifest says; where it does not say, at least not as no guest does.
fn check_stock_device(device: &Device, guest: &Guest) -> Option<Finding> {
    let raised_from = guest.stock_family.map_or(SIMD_FAMILY, |stock| stock.saturating_add(1));
    if device.apple_family.is_some_and(|family| family >= raised_from) {
        let message = "the log reports raised answers without a banner: something else raised them";
        return Some(Finding::new(Code::StockArmShimmed, message));
    }
    let stock = guest.stock_family?;
    if device.apple_family == Some(stock) {
        return None;
    }
    let said = device.apple_family.map_or_else(|| "no Apple family".to_owned(), |family| family.to_string());
    let message = format!("the log reports {said}, the manifest's stock answer is {stock}");
    Some(Finding::new(Code::StockDiffers, message))
}

fn check_unshimmed(arm: &ArmData, notes: &mut Notes) {
    for (path, log) in &arm.logs {
        if let Some(banner) = log.banners.first() {
            let message = format!("the {} arm carries a shim's banner: {}", arm.arm, banner.shown());
            notes.of_file(arm.arm, path, Finding::new(Code::StockArmShimmed, message));
        }
    }
}

fn check_host(arm: &ArmData, workload: &Workload, notes: &mut Notes) {
    for (path, log) in &arm.logs {
        let said = log.device().and_then(|device| device.apple_family);
        if let (Some(said), Some(named)) = (said, workload.host.apple_family)
            && said != named
        {
            let message = format!("the log reports {said}, the manifest says the host reports {named}");
            notes.of_file(arm.arm, path, Finding::new(Code::HostDiffers, message));
        }
    }
}

/// In what a probe's answer differs from the answers that an arm should give.
fn contradiction(answer: &Answer, family: Option<u64>, memory: Option<u64>) -> Option<String> {
    if let (Some(asked), Some(is_supported), Some(family)) = (answer.family, answer.supports_family, family)
        && is_supported != (asked <= family)
    {
        let word = if is_supported { "is" } else { "is not" };
        return Some(format!("the probe says that family {asked} {word} supported"));
    }
    match (answer.max_threadgroup_memory, memory) {
        (Some(said), Some(memory)) if said != memory => {
            Some(format!("the probe says {said} bytes of threadgroup memory, not {memory}"))
        }
        _ => None,
    }
}
