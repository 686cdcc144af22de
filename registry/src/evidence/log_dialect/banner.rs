//! The line in which an injected shim says that it is active.

use serde::Serialize;

/// Whose shim it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shim {
    /// capgate's own.
    Capgate,
    /// Lume's.
    Lume,
    /// Tart's, part of its base images.
    Tart,
    /// Anka's.
    Anka,
    /// Lunchpail's.
    Lunchpail,
    /// One that is not known, by the name it gives itself.
    Other(String),
}

/// What the shim says it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Banner {
    /// Whose shim it is.
    pub shim: Shim,
    /// The program it is in.
    pub program: String,
    /// The highest Apple family it answers with.
    pub apple_family_max: Option<u64>,
    /// The threadgroup memory it answers with, in bytes.
    pub max_threadgroup_memory: Option<u64>,
    /// The original answers, Apple family and threadgroup memory, where it says them.
    pub stock: Option<(u64, u64)>,
    /// The profile it was granted by, where it says one.
    pub profile: Option<String>,
    /// The name and value of a setting that only a broad research hook has.
    pub research: Option<String>,
}

impl Banner {
    /// Tells whether it is a broad research hook, which changes more than the two answers.
    pub fn is_research_hook(&self) -> bool {
        self.research.is_some()
    }

    /// The banner in short.
    pub fn shown(&self) -> String {
        let number = |value: Option<u64>| value.map_or_else(|| "?".to_owned(), |value| value.to_string());
        let values = match &self.research {
            Some(research) => research.clone(),
            None => format!("{}/{}", number(self.apple_family_max), number(self.max_threadgroup_memory)),
        };
        format!("{}: {values} for {}", self.shim.name(), self.program)
    }
}

impl Shim {
    /// Its name as people use it.
    pub fn name(&self) -> &str {
        match self {
            Self::Capgate => "capgate",
            Self::Lume => "lume",
            Self::Tart => "tart",
            Self::Anka => "anka",
            Self::Lunchpail => "lunchpail",
            Self::Other(name) => name,
        }
    }

    fn of(tag: &str) -> Option<Self> {
        let known = [
            ("lume", Self::Lume),
            ("tart", Self::Tart),
            ("anka", Self::Anka),
            ("lunchpail", Self::Lunchpail),
        ];
        let lower = tag.to_ascii_lowercase();
        if lower == "capgate" {
            return Some(Self::Capgate);
        }
        if !lower.contains("metal") && !lower.contains("capabilit") && !lower.contains("gpu") {
            return None;
        }
        let named = known.into_iter().find(|(name, _)| lower.contains(name)).map(|(_, shim)| shim);
        Some(named.unwrap_or_else(|| Self::Other(tag.to_owned())))
    }
}

/// Reads `[TAG] Enabled for PROGRAM (name=value …)`; any other line is no banner.
pub(super) fn read(line: &str) -> Option<Banner> {
    let (tag, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (program, settings) =
        rest.trim().strip_prefix("Enabled for ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let mut banner = Banner {
        shim: Shim::of(tag)?,
        program: program.to_owned(),
        apple_family_max: None,
        max_threadgroup_memory: None,
        stock: None,
        profile: None,
        research: None,
    };
    for setting in settings.split_whitespace() {
        let Some((name, value)) = setting.split_once('=') else { continue };
        let value = value.trim_end_matches(',');
        match name {
            "appleFamilyMax" => banner.apple_family_max = value.parse().ok(),
            "maxThreadgroupMemory" => banner.max_threadgroup_memory = value.parse().ok(),
            "stock" => banner.stock = pair(value),
            "profile" => banner.profile = Some(value.to_owned()),
            "familyMax" | "featureProfile" if banner.research.is_none() => {
                banner.research = Some(format!("{name}={value}"));
            }
            _ => {}
        }
    }
    Some(banner)
}

fn pair(value: &str) -> Option<(u64, u64)> {
    let (family, memory) = value.split_once('/')?;
    Some((family.parse().ok()?, memory.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shim_is_known() {
        for (tag, shim) in [
            ("LumeMetalCapabilities", Shim::Lume),
            ("TartMetalCapabilities", Shim::Tart),
            ("AnkaGPU", Shim::Anka),
            ("LunchpailMetalCapabilities", Shim::Lunchpail),
            ("capgate", Shim::Capgate),
            ("NewMetalCapabilities", Shim::Other("NewMetalCapabilities".to_owned())),
        ] {
            let line =
                format!("[{tag}] Enabled for llama bench (appleFamilyMax=1009 maxThreadgroupMemory=65536)");
            let banner = read(&line).unwrap();
            assert_eq!(banner.shim, shim);
            assert_eq!(banner.program, "llama bench");
            assert_eq!((banner.apple_family_max, banner.max_threadgroup_memory), (Some(1009), Some(65536)));
            assert!(!banner.is_research_hook());
        }
    }

    #[test]
    fn our_own_says_stock_and_profile() {
        let banner = read(
            "[capgate] Enabled for llama-bench (appleFamilyMax=1009 maxThreadgroupMemory=65536 stock=1005/32768 profile=m1)",
        )
        .unwrap();
        assert_eq!(banner.stock, Some((1005, 32768)));
        assert_eq!(banner.profile.as_deref(), Some("m1"));
    }

    #[test]
    fn a_broad_hook_is_told_apart() {
        let banner =
            read("[LumeMetalCapabilities] Enabled for python3 (familyMax=5001 featureProfile=10 maxThreadgroupMemory=65536)")
                .unwrap();
        assert!(banner.is_research_hook());
        assert_eq!(banner.shown(), "lume: familyMax=5001 for python3");
    }

    #[test]
    fn what_is_no_banner() {
        for line in [
            "[capgate] stock for llama-bench (no-profile)",
            "[server] Enabled for x (a=1)",
            "Enabled for x (appleFamilyMax=1009)",
            "[LumeMetalCapabilities] Enabled for x",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
