//! How ggml's Metal backend describes a device.

use serde::Serialize;

/// The name of the device that a guest under Virtualization.framework sees.
pub const PARAVIRTUAL: &str = "Apple Paravirtual device";

/// One device as the log describes it; what it does not say is none.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Device {
    /// ggml's own name, `MTL0`.
    pub label: Option<String>,
    /// Metal's name.
    pub name: String,
    /// The highest Apple family, 1001 up; older guests print none.
    pub apple_family: Option<u64>,
    /// The highest Mac family, 2001 up.
    pub mac_family: Option<u64>,
    /// The highest Common family, 3001 up.
    pub common_family: Option<u64>,
    /// The highest Metal family, 5001 up.
    pub metal_family: Option<u64>,
    /// Whether reductions within a SIMD group are used.
    pub simdgroup_reduction: Option<bool>,
    /// Whether matrix products within a SIMD group are used.
    pub simdgroup_matrix: Option<bool>,
    /// Whether bfloat is used.
    pub bfloat: Option<bool>,
    /// Whether memory is shared with the processor.
    pub unified_memory: Option<bool>,
    /// Recommended working set, in MB as printed.
    pub working_set_mb: Option<f64>,
}

/// What one line says about devices.
pub(super) enum Statement {
    /// Nothing.
    None,
    /// A kernel is not available.
    SkippedKernel,
    /// There is a device of that name.
    Found(String),
    /// The description of a device begins.
    Begins(Device),
    /// A property of the device whose description is going on.
    Says(String, String),
}

/// Reads a line of `ggml_metal_init:` or `ggml_metal_device_init:`.
pub(super) fn statement(line: &str) -> Statement {
    let said = line.strip_prefix("ggml_metal_device_init:").or_else(|| line.strip_prefix("ggml_metal_init:"));
    let Some(said) = said.map(str::trim) else { return Statement::None };
    if said.starts_with("skipping ") {
        return Statement::SkippedKernel;
    }
    if let Some(name) = said.strip_prefix("found device:") {
        return Statement::Found(name.trim().to_owned());
    }
    if let Some(name) = said.strip_prefix("GPU name:") {
        return Statement::Begins(named(name.trim()));
    }
    if let Some(family) = said.strip_prefix("GPU family:") {
        return Statement::Says("GPU family".to_owned(), family.trim().to_owned());
    }
    match said.split_once('=') {
        Some((key, value)) => Statement::Says(key.trim().to_owned(), value.trim().to_owned()),
        None => Statement::None,
    }
}

/// `MTL0 (Apple Paravirtual device (dev p0/v0))` or the bare name.
fn named(text: &str) -> Device {
    if let Some((label, rest)) = text.split_once(" (")
        && label
            .strip_prefix("MTL")
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
        && let Some(name) = rest.strip_suffix(')')
    {
        return Device { label: Some(label.to_owned()), name: name.to_owned(), ..Device::default() };
    }
    Device { name: text.to_owned(), ..Device::default() }
}

impl Device {
    /// Tells whether two descriptions are of the same device.
    pub fn is_same(&self, other: &Self) -> bool {
        self.label == other.label && self.name == other.name
    }

    /// Tells whether it is a guest's device.
    pub fn is_paravirtual(&self) -> bool {
        self.name.starts_with(PARAVIRTUAL)
    }

    /// The device in short.
    pub fn shown(&self) -> String {
        match &self.label {
            Some(label) => format!("{label} ({})", self.name),
            None => self.name.clone(),
        }
    }

    /// Takes in a property; false where it is none of interest.
    pub(super) fn hear(&mut self, key: &str, value: &str) -> bool {
        match key.strip_suffix(" support").unwrap_or(key) {
            "GPU family" => return self.hear_family(value),
            "simdgroup reduction" => self.simdgroup_reduction = truth(value),
            "simdgroup matrix mul." | "simdgroup matrix mul" => self.simdgroup_matrix = truth(value),
            "has bfloat" | "bfloat" => self.bfloat = truth(value),
            "has unified memory" | "hasUnifiedMemory" => self.unified_memory = truth(value),
            "recommendedMaxWorkingSetSize" => self.working_set_mb = megabytes(value),
            _ => return false,
        }
        true
    }

    /// `MTLGPUFamilyApple9  (1009)`; the number decides, and must be of the range that the name says.
    fn hear_family(&mut self, value: &str) -> bool {
        let Some((name, number)) = value.split_once('(') else { return false };
        let Ok(number) = number.trim_end_matches(')').trim().parse::<u64>() else { return false };
        let name = name.trim();
        let (slot, base) = if name.starts_with("MTLGPUFamilyApple") {
            (&mut self.apple_family, 1000)
        } else if name.starts_with("MTLGPUFamilyMac") {
            (&mut self.mac_family, 2000)
        } else if name.starts_with("MTLGPUFamilyCommon") {
            (&mut self.common_family, 3000)
        } else if name.starts_with("MTLGPUFamilyMetal") {
            (&mut self.metal_family, 5000)
        } else {
            return false;
        };
        let fits = (base + 1..base + 1000).contains(&number);
        if fits {
            *slot = Some(number);
        }
        fits
    }
}

fn truth(value: &str) -> Option<bool> {
    match value {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

fn megabytes(value: &str) -> Option<f64> {
    let number = value.strip_suffix("MB")?.trim().parse::<f64>().ok()?;
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_a_label() {
        let device = named("MTL1 (Apple Paravirtual device (dev p0/v1))");
        assert_eq!(device.label.as_deref(), Some("MTL1"));
        assert_eq!(device.name, "Apple Paravirtual device (dev p0/v1)");
        assert!(device.is_paravirtual());
        assert_eq!(named("Apple M1 (x)").name, "Apple M1 (x)");
    }

    #[test]
    fn both_spellings_of_keys_and_families() {
        let mut device = Device::default();
        for (key, value) in [
            ("GPU family", "MTLGPUFamilyApple9  (1009)"),
            ("GPU family", "MTLGPUFamilyCommon3 (3003)"),
            ("simdgroup reduction support", "false"),
            ("simdgroup matrix mul.", "true"),
            ("recommendedMaxWorkingSetSize", "5010.80 MB"),
        ] {
            assert!(device.hear(key, value), "{key}");
        }
        assert_eq!((device.apple_family, device.common_family), (Some(1009), Some(3003)));
        assert_eq!((device.simdgroup_reduction, device.simdgroup_matrix), (Some(false), Some(true)));
        assert_eq!(device.working_set_mb, Some(5010.80));
        assert!(!device.hear("GPU family", "MTLGPUFamilyApple9 (3009)"));
        assert!(!device.hear("use shared buffers", "true"));
    }
}
