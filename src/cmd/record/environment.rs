//! The variables that a child gets, and what of them would have to go for Apple's own answers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use capgate_guest::others;
use capgate_guest::prefix::LIBRARY;
use capgate_registry::evidence::run_record::mask::{self, Mask};
use capgate_registry::evidence::run_record::{Rollback, RunRecord, Variable, variables};

use crate::world::instructions;

/// Variables that insert libraries into a process, on whichever system they are read.
const INSERT: [&str; 2] = ["DYLD_INSERT_LIBRARIES", "LD_PRELOAD"];
/// What the C library and the loader of Linux are tuned by.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// What is recorded of the variables.
#[derive(Debug, Default)]
pub struct Variables {
    /// Those that matter, masked.
    pub recorded: Vec<Variable>,
    /// How many others there are.
    pub others: u64,
    /// What was masked.
    pub masks: Vec<Mask>,
    /// What to undo.
    pub rollback: Rollback,
    /// Features that are hidden from the loader.
    pub cpu_masked: Vec<String>,
}

/// What the child of a command gets.
pub fn of(command: &Command) -> Variables {
    let mut all: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => all.insert(name.to_owned(), value.to_owned()),
            None => all.remove(name),
        };
    }
    let mut found = Variables::default();
    for (name, value) in &all {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        if !variables::matters(&name) {
            found.others += 1;
            continue;
        }
        let cleaned = mask::variable(&name, &value);
        let place = format!("environment {name}");
        found.masks.extend(cleaned.rules.iter().map(|&rule| Mask { place: place.clone(), rule }));
        found.recorded.push(Variable { name: name.into_owned(), value: cleaned.text });
    }
    found.rollback = rollback(&all);
    found.cpu_masked = all
        .get(TUNABLES.as_ref() as &std::ffi::OsStr)
        .map(|value| instructions::masked(&value.to_string_lossy()))
        .unwrap_or_default();
    found
}

fn rollback(all: &BTreeMap<OsString, OsString>) -> Rollback {
    let mut rollback = Rollback::default();
    for name in all.keys().filter(|name| others::is_variable(name) || *name == "CAPGATE_SHIM") {
        rollback.unset.push(name.to_string_lossy().into_owned());
    }
    for variable in INSERT {
        let Some(value) = all.get(variable.as_ref() as &std::ffi::OsStr) else { continue };
        let entries: Vec<&[u8]> = value
            .as_bytes()
            .split(|byte| *byte == b':' || (*byte == b' ' && variable == "LD_PRELOAD"))
            .filter(|entry| !entry.is_empty())
            .collect();
        let is_shim = |entry: &&[u8]| is_shim(Path::new(std::ffi::OsStr::from_bytes(entry)));
        if !entries.is_empty() && entries.iter().all(is_shim) {
            rollback.unset.push(variable.to_owned());
        }
        let shown = entries.iter().map(|entry| format!("{variable} {}", String::from_utf8_lossy(entry)));
        rollback.leave_out.extend(shown);
    }
    rollback
}

/// Tells whether a library is capgate's own or a known shim's.
fn is_shim(path: &Path) -> bool {
    others::is_library(path.as_os_str()) || path.file_name().is_some_and(|name| name == LIBRARY)
}

/// A launcher on the way, such as `capgate run`, inserts what no variable here names: it was seen in the process.
pub fn add_shims_that_were_loaded(record: &mut RunRecord) {
    let known = &mut record.run.rollback.leave_out;
    for library in record.capabilities.libraries.iter().filter(|library| is_shim(Path::new(&library.path))) {
        let named = |entry: &String| entry.rsplit('/').next() == library.path.rsplit('/').next();
        if !known.iter().any(named) {
            known.push(format!("loaded {}", library.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_names_variables_and_libraries() {
        let all = [
            ("LUME_METAL_APPLE_FAMILY_MAX", "1009"),
            ("DYLD_INSERT_LIBRARIES", "/opt/LumeMetalCapabilities-arm64.dylib"),
            ("LD_PRELOAD", "/x/jemalloc.so /y/libTartMetalCapabilities.so"),
        ];
        let all = all.map(|(name, value)| (name.into(), value.into())).into_iter().collect();
        let rollback = rollback(&all);
        // jemalloc is nobody's shim: the variable stays, without the other one.
        assert_eq!(rollback.unset, ["LUME_METAL_APPLE_FAMILY_MAX", "DYLD_INSERT_LIBRARIES"]);
        assert_eq!(
            rollback.leave_out,
            [
                "DYLD_INSERT_LIBRARIES /opt/LumeMetalCapabilities-arm64.dylib",
                "LD_PRELOAD /x/jemalloc.so",
                "LD_PRELOAD /y/libTartMetalCapabilities.so"
            ]
        );
    }

    #[test]
    fn changes_of_the_command_count() {
        let mut command = Command::new("x");
        command.env("GGML_TEST", "1").env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2").env_remove("PATH");
        command.env("LLAMA_API_KEY", "abc").env("UNRELATED_NAME", "2");
        let found = of(&command);
        let value = |name: &str| found.recorded.iter().find(|v| v.name == name).map(|v| v.value.as_str());
        assert_eq!((value("GGML_TEST"), value("PATH"), value("UNRELATED_NAME")), (Some("1"), None, None));
        assert_eq!(value("LLAMA_API_KEY"), Some(mask::MASKED));
        assert_eq!(found.masks[0].place, "environment LLAMA_API_KEY");
        assert_eq!(found.cpu_masked, ["avx2"]);
        assert!(found.others > 0);
    }
}
