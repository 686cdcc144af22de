//! What was read from a file, in words.

use super::Fact;
use crate::evidence::correctness::Output;
use crate::evidence::environment::{Environment, Side};
use crate::evidence::llama_bench::BenchFile;
use crate::evidence::log_dialect::Log;
use crate::evidence::mlx::MlxFile;
use crate::evidence::probe::Probe;
use crate::evidence::run_record::RunRecord;

fn say(facts: &mut Vec<Fact>, name: &str, value: impl ToString) {
    facts.push(Fact { name: name.to_owned(), value: value.to_string() });
}

fn say_if(facts: &mut Vec<Fact>, name: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        say(facts, name, value);
    }
}

/// What all rows share.
pub(super) fn llama_bench(file: &BenchFile, facts: &mut Vec<Fact>) {
    say(facts, "rows", file.rows.len());
    let Some(row) = file.rows.first() else { return };
    say(facts, "build", format!("b{} ({})", row.build.number, row.build.commit));
    let model = &row.model;
    say(facts, "model", format!("{}, {} bytes, {} parameters", model.kind, model.size, model.n_params));
    say_if(facts, "cpu", row.cpu.as_ref());
    say_if(facts, "gpu", row.gpu.as_ref().filter(|gpu| !gpu.is_empty()));
    say(facts, "measured", row.test_time);
}

/// Runtime, model and configuration.
pub(super) fn mlx(file: &MlxFile, facts: &mut Vec<Fact>) {
    for (name, version) in &file.runtime {
        say(facts, name, version);
    }
    say(facts, "model", &file.model);
    say_if(facts, "revision", file.revision.as_ref());
}

/// Devices, banners, failures and how much was passed over.
pub(super) fn log(log: &Log, facts: &mut Vec<Fact>) {
    for device in &log.devices {
        say(facts, "device", device.shown());
        say(
            facts,
            "apple family",
            device.apple_family.map_or_else(|| "none".to_owned(), |family| family.to_string()),
        );
        say_if(facts, "common family", device.common_family);
        say_if(facts, "metal family", device.metal_family);
        say_if(facts, "simdgroup reduction", device.simdgroup_reduction);
        say_if(facts, "simdgroup matrix", device.simdgroup_matrix);
        say_if(facts, "bfloat", device.bfloat);
    }
    for banner in &log.banners {
        say(facts, "banner", banner.shown());
        say_if(facts, "profile", banner.profile.as_ref());
    }
    for abort in &log.aborts {
        say(facts, "failure", format!("line {}: {}", abort.line, abort.text));
    }
    if log.skipped_kernels > 0 {
        say(facts, "skipped kernels", log.skipped_kernels);
    }
    say(facts, "lines", format!("{}, {} passed over", log.lines, log.ignored));
}

/// How much was tested and what came of it.
pub(super) fn correctness(output: &Output, facts: &mut Vec<Fact>) {
    match output {
        Output::Ops(ops) => {
            let devices: Vec<&str> = ops.backends.iter().map(|backend| backend.name.as_str()).collect();
            say_if(facts, "devices", (!devices.is_empty()).then(|| devices.join(", ")));
            let right = format!("{} of {} right, {} not supported", ops.passed, ops.tried, ops.unsupported);
            say(facts, "operations", right);
            ops.failed.iter().for_each(|name| say(facts, "wrong", name));
        }
        Output::Greedy(answers) | Output::Text(answers) => {
            say(facts, "answers", answers.answers.len());
            say(facts, "tokens", answers.tokens());
            answers.settings.iter().for_each(|(name, value)| say(facts, name, value));
        }
        Output::Perplexity(found) => {
            let error = found.error.map_or_else(String::new, |error| format!(" ± {error}"));
            say_if(facts, "perplexity", found.estimate.map(|estimate| format!("{estimate}{error}")));
            say_if(facts, "cut", found.cut.as_ref());
        }
    }
}

/// The run, and what it ran on.
pub(super) fn run_record(record: &RunRecord, facts: &mut Vec<Fact>) {
    say(facts, "recorder", &record.recorder);
    say(facts, "command", record.run.command.join(" "));
    say(facts, "started", record.run.started);
    say_if(facts, "ended with", record.run.exit);
    say_if(facts, "chip", record.machine.chip.as_ref());
    say_if(facts, "build", record.os.here.build.as_ref());
    say(facts, "files", record.files.len());
    say(facts, "unknown", record.unknown.len());
}

/// The answers, section by section.
pub(super) fn probe(probe: &Probe, facts: &mut Vec<Fact>) {
    for answer in &probe.answers {
        let mut said = Vec::new();
        if let (Some(family), Some(is_supported)) = (answer.family, answer.supports_family) {
            said.push(format!(
                "family {family} {}",
                if is_supported { "supported" } else { "not supported" }
            ));
        }
        if let Some(memory) = answer.max_threadgroup_memory {
            said.push(format!("{memory} bytes of threadgroup memory"));
        }
        if let Some(device) = &answer.device {
            said.push(device.clone());
        }
        say(facts, answer.section.as_deref().unwrap_or("answer"), said.join(", "));
    }
    if probe.ignored > 0 {
        say(facts, "lines passed over", probe.ignored);
    }
}

/// Systems, chips, models and protection.
pub(super) fn environment(environment: &Environment, facts: &mut Vec<Fact>) {
    let of = |side: Option<Side>, name: &str| match side {
        Some(Side::Host) => format!("host {name}"),
        Some(Side::Guest) => format!("guest {name}"),
        None => name.to_owned(),
    };
    for os in &environment.os {
        let version = os.version.as_deref().unwrap_or("version unknown");
        let extra = os.extra.as_ref().map(|extra| format!(" ({extra})")).unwrap_or_default();
        let build = os.build.as_ref().map(|build| format!(", build {build}")).unwrap_or_default();
        say(facts, &of(os.side, "macOS"), format!("{version}{extra}{build}"));
    }
    for chip in &environment.chips {
        say(facts, &of(chip.side, "chip"), &chip.name);
    }
    for model in &environment.models {
        say(facts, &of(model.side, "model"), &model.name);
    }
    say_if(facts, "guest", environment.is_guest);
    if let Some(sip) = &environment.sip {
        let state = format!("{:?}", sip.state).to_lowercase();
        let parts: Vec<String> = sip
            .parts
            .iter()
            .map(|(name, is_on)| format!("{name} {}", if *is_on { "on" } else { "off" }))
            .collect();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        say(facts, "system integrity protection", format!("{state}{parts}"));
    }
}
