//! From a manifest to TOML that reads as the same manifest.

use super::read::{FEATURE_LEVELS, ROLES};
use super::{Arm, ClaimedSet, Guest, Host, Manifest, Part, Tester, Workload, shim_word};
use crate::evidence::toml_writer::{Writer, list, quoted};
use crate::os::Os;
use crate::profile::{Image, Model, Values, Verdict};

impl Manifest {
    /// The manifest as the file of a bundle.
    pub fn to_toml(&self) -> String {
        let mut out = Writer::default();
        out.text("schema", "1.0.0");
        self.source.iter().for_each(|source| out.text("source", source));
        for workload in &self.workloads {
            write_workload(&mut out, workload);
        }
        out.finish().0
    }
}

fn write_workload(out: &mut Writer, workload: &Workload) {
    out.table("[[workload]]");
    out.text("name", &workload.name);
    out.text("verdict", if workload.sought == Verdict::Override { "override" } else { "stock" });
    out.raw("program", &program(workload));
    out.raw("model", &model(&workload.model));
    workload.measured.iter().for_each(|day| out.raw("measured", &day.to_string()));
    if !workload.not_covered.is_empty() {
        let uses: Vec<&str> = workload.not_covered.iter().map(String::as_str).collect();
        out.raw("not_covered", &list(&uses));
    }
    out.raw("host", &host(&workload.host));
    out.raw("guest", &guest(&workload.guest));
    for file in &workload.files {
        out.table("[[workload.file]]");
        out.text("path", &file.path);
        match file.part {
            Part::Control => out.text("arm", "control"),
            Part::Samples(arm) => {
                out.text("arm", arm.name());
                if let Arm::Override(values) = arm {
                    out.raw("claims", &claims(values));
                    let set = workload.sets.iter().find(|set| set.values == values);
                    set.and_then(shim).iter().for_each(|shim| out.raw("shim", shim));
                }
            }
            Part::Item(role, of) => {
                let word = ROLES.iter().find(|(_, other)| *other == role).map_or("log", |(word, _)| word);
                out.text("role", word);
                of.iter().for_each(|arm| out.text("of", arm.name()));
                if let Some(Arm::Override(values)) = of {
                    out.raw("claims", &claims(values));
                    // Where there are samples, they name it.
                    let set = workload.sets.iter().find(|set| set.values == values);
                    let alone = set.filter(|_| workload.is_output_only());
                    alone.and_then(shim).iter().for_each(|shim| out.raw("shim", shim));
                }
                file.program.iter().for_each(|program| out.raw("program", &tester(program)));
            }
        }
    }
}

/// Keys with their values, as an inline table.
fn table(pairs: &[(&str, Option<String>)]) -> String {
    let pairs = pairs.iter().filter_map(|(key, value)| Some(format!("{key} = {}", value.as_ref()?)));
    format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
}

fn text(value: impl ToString) -> Option<String> {
    Some(quoted(&value.to_string()))
}

fn number(value: Option<u64>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn program(workload: &Workload) -> String {
    let program = &workload.program;
    let images: Vec<String> = program.images.iter().map(image).collect();
    table(&[
        ("name", text(&program.name)),
        ("version", text(&program.version)),
        ("sha256", program.sha256.and_then(text)),
        ("cdhash", program.cdhash.and_then(text)),
        ("image", (!images.is_empty()).then(|| format!("[{}]", images.join(", ")))),
    ])
}

fn image(image: &Image) -> String {
    let Image { name, cdhash, sha256 } = image;
    table(&[("name", text(name)), ("cdhash", cdhash.and_then(text)), ("sha256", sha256.and_then(text))])
}

fn model(model: &Model) -> String {
    let revision = model.revision.as_ref().and_then(text);
    table(&[("name", text(&model.name)), ("sha256", model.sha256.and_then(text)), ("revision", revision)])
}

fn tester(tester: &Tester) -> String {
    let Tester { name, version, sha256 } = tester;
    let version = version.as_ref().and_then(text);
    table(&[("name", text(name)), ("version", version), ("sha256", sha256.and_then(text))])
}

/// The table of a host.
pub(in crate::evidence) fn host(host: &Host) -> String {
    let level = FEATURE_LEVELS.iter().find(|(_, level)| *level == host.feature_level);
    table(&[
        ("chip", text(&host.chip)),
        ("os", Some(os(&host.os))),
        ("apple_family", number(host.apple_family)),
        ("max_threadgroup_memory", number(host.max_threadgroup_memory)),
        ("feature_level", level.and_then(|(word, _)| text(word))),
    ])
}

/// The table of a guest.
pub(in crate::evidence) fn guest(guest: &Guest) -> String {
    let known = guest.stock_family.is_some() || guest.stock_memory.is_some();
    let stock = table(&[
        ("apple_family", number(guest.stock_family)),
        ("max_threadgroup_memory", number(guest.stock_memory)),
    ]);
    table(&[
        ("os", Some(os(&guest.os))),
        ("model", guest.model.as_ref().and_then(text)),
        ("stock", known.then_some(stock)),
    ])
}

fn os(os: &Os) -> String {
    table(&[("version", text(&os.version)), ("build", text(&os.build))])
}

fn claims(values: Values) -> String {
    table(&[
        ("apple_family_max", number(Some(values.apple_family_max))),
        ("max_threadgroup_memory", number(Some(values.max_threadgroup_memory))),
    ])
}

fn shim(set: &ClaimedSet) -> Option<String> {
    set.shim?;
    let name = set.shim.map(shim_word).and_then(text);
    Some(table(&[("name", name), ("sha256", set.shim_sha256.and_then(text))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_file_and_fact_survives() {
        let toml = include_str!("../../../../tests/evidence/2026-08-09-m1-ultra.toml");
        let manifest = Manifest::parse(toml.as_bytes()).unwrap();
        let again = Manifest::parse(manifest.to_toml().as_bytes()).unwrap();
        assert_eq!(again, manifest);
        assert_eq!(again.to_toml(), manifest.to_toml());
    }
}
