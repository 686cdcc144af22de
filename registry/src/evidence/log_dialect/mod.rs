//! What a program's stderr says about the GPU it saw, in every dialect that was met.
//!
//! ```text
//! 2026-08-09 12:41:47.024 llama-bench[2738:54808] [LumeMetalCapabilities] Enabled for llama-bench (appleFamilyMax=1009 …)
//! ggml_metal_device_init: GPU name:   MTL0 (Apple Paravirtual device)
//! ggml_metal_device_init: GPU family: MTLGPUFamilyApple9  (1009)
//! ggml_metal_device_init: simdgroup reduction   = true
//! ```
//!
//! Lines may carry a byte order mark, colours, the times of a CI runner, of llama.cpp or of NSLog; the prefix was once
//! `ggml_metal_init:`, key names once ended in `support`, older guests print no Apple family at all. Lines that say
//! nothing of interest are counted and passed over.

mod aborts;
mod banner;
mod device;
mod line;

use serde::Serialize;

pub use aborts::Abort;
pub use banner::{Banner, Shim};
pub use device::{Device, PARAVIRTUAL};
pub(super) use line::clean;

use super::codes::Code;
use super::finding::Finding;

/// Most bytes of one log.
pub const MOST_BYTES: usize = 8 * 1024 * 1024;

/// A log as far as it says something.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Log {
    /// The devices, each once, in the order of their first mention.
    pub devices: Vec<Device>,
    /// Every shim that said it was active.
    pub banners: Vec<Banner>,
    /// Every sign that the program did not end well.
    pub aborts: Vec<Abort>,
    /// Lines that hold something.
    pub lines: usize,
    /// Lines in which ggml says that it skips a kernel.
    pub skipped_kernels: usize,
    /// Lines that say nothing of interest.
    pub ignored: usize,
    /// Devices that are named but not described.
    pub other_names: Vec<String>,
    /// Devices whose blocks do not agree.
    pub disagreeing: Vec<String>,
    /// Whether there is more than was read, so that the end is not known.
    pub is_cut: bool,
}

/// Reads a log; bytes that are not UTF-8 are replaced.
pub fn read(bytes: &[u8]) -> Log {
    let log = read_text(&String::from_utf8_lossy(bytes.get(..MOST_BYTES).unwrap_or(bytes)));
    Log { is_cut: bytes.len() > MOST_BYTES, ..log }
}

/// Reads a log that is already text.
pub fn read_text(text: &str) -> Log {
    let mut log = Log::default();
    let mut blocks = Vec::new();
    let mut names = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = line::clean(raw);
        if line.is_empty() {
            continue;
        }
        log.lines += 1;
        let mut said = false;
        if let Some(banner) = banner::read(&line) {
            log.banners.push(banner);
            said = true;
        }
        if let Some(abort) = aborts::read(&line, index + 1) {
            log.aborts.push(abort);
            said = true;
        }
        match device::statement(&line) {
            device::Statement::None => {}
            device::Statement::SkippedKernel => log.skipped_kernels += 1,
            device::Statement::Found(name) => names.push(name),
            device::Statement::Begins(device) => blocks.push(device),
            device::Statement::Says(key, value) => {
                said |= blocks.last_mut().is_some_and(|device| device.hear(&key, &value));
            }
        }
        said |=
            matches!(device::statement(&line), device::Statement::Found(_) | device::Statement::Begins(_));
        log.ignored += usize::from(!said);
    }
    log.settle(blocks, names);
    log
}

impl Log {
    /// Joins the blocks of the same device, which older programs print once for every context.
    fn settle(&mut self, blocks: Vec<Device>, names: Vec<String>) {
        for block in blocks {
            match self.devices.iter().find(|device| device.is_same(&block)) {
                None => self.devices.push(block),
                Some(known) if *known == block => {}
                Some(_) => self.disagreeing.push(block.shown()),
            }
        }
        for name in names {
            let described = self.devices.iter().any(|device| device.name == name);
            if !described && !self.other_names.contains(&name) {
                self.other_names.push(name);
            }
        }
    }

    /// Tells whether the log says anything at all that this reader knows.
    pub fn says_something(&self) -> bool {
        let known = self.banners.len() + self.aborts.len() + self.devices.len() + self.other_names.len();
        known + self.skipped_kernels > 0
    }

    /// The device, where there is exactly one.
    pub fn device(&self) -> Option<&Device> {
        match self.devices.as_slice() {
            [device] => Some(device),
            _ => None,
        }
    }

    /// What makes the log unfit as proof of any arm.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = Vec::new();
        if self.devices.len() + self.other_names.len() > 1 {
            let shown: Vec<String> =
                self.devices.iter().map(Device::shown).chain(self.other_names.iter().cloned()).collect();
            let message = format!("{} devices: {}; profiles are for one", shown.len(), shown.join(", "));
            findings.push(Finding::new(Code::MultipleDevices, message));
        }
        if let Some(device) = self.disagreeing.first() {
            let message = format!("`{device}` is described twice, with different capabilities");
            findings.push(Finding::new(Code::DevicesDisagree, message));
        }
        if let Some(banner) = self.banners.iter().find(|banner| banner.is_research_hook()) {
            let message =
                format!("`{}` changes whole feature profiles and is never publishable", banner.shown());
            findings.push(Finding::new(Code::ResearchHook, message));
        }
        findings.extend(self.aborts.first().map(Abort::finding));
        if self.is_cut {
            let message = format!("the log has more than {MOST_BYTES} bytes, so its end was not read");
            findings.push(Finding::new(Code::TooLarge, message));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_described_again_is_one_device() {
        let block = "ggml_metal_init: found device: GPU\nggml_metal_init: GPU name:   GPU\n\
                     ggml_metal_init: GPU family: MTLGPUFamilyApple7 (1007)\n";
        let log = read_text(&block.repeat(3));
        assert_eq!((log.devices.len(), log.findings()), (1, vec![]));
        let other = block.replace("Apple7 (1007)", "Apple8 (1008)");
        let findings = read_text(&format!("{block}{other}")).findings();
        assert_eq!(findings[0].code, Code::DevicesDisagree);
    }

    #[test]
    fn several_devices_are_refused() {
        let text = "ggml_metal_init: found device: A\nggml_metal_init: found device: B\nggml_metal_init: GPU name: A\n";
        assert_eq!(read_text(text).findings()[0].code, Code::MultipleDevices);
    }

    #[test]
    fn passed_over_lines_are_counted() {
        let log =
            read_text("hello\n\nggml_metal_init: skipping kernel_x (not supported)\nllama_load: fine\n");
        assert_eq!((log.lines, log.skipped_kernels, log.ignored), (3, 1, 3));
        assert!(log.says_something());
        assert!(!read_text("hello\n").says_something());
    }
}
