//! An arm's name in file names and in `bench.json`: `stock`, `cpu`, `host`, `override-1009-65536`.

use crate::evidence::manifest::Arm;
use crate::profile::Values;

/// The name of an arm; no two arms share one.
pub fn label(arm: Arm) -> String {
    match arm {
        Arm::Override(values) => {
            format!("override-{}-{}", values.apple_family_max, values.max_threadgroup_memory)
        }
        _ => arm.name().to_owned(),
    }
}

/// The arm of a name; none where it is no arm's, or one outside the hard bounds.
pub fn arm(label: &str) -> Option<Arm> {
    match label {
        "stock" => Some(Arm::Stock),
        "host" => Some(Arm::Host),
        "cpu" => Some(Arm::Cpu),
        _ => {
            let (family, memory) = label.strip_prefix("override-")?.split_once('-')?;
            let values =
                Values { apple_family_max: number(family)?, max_threadgroup_memory: number(memory)? };
            values.within_bounds().then_some(Arm::Override(values))
        }
    }
}

/// A number in its one spelling.
fn number(digits: &str) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_has_one_name() {
        let values = Values { apple_family_max: 1009, max_threadgroup_memory: 65_536 };
        for arm_ in [Arm::Stock, Arm::Host, Arm::Cpu, Arm::Override(values)] {
            assert_eq!(arm(&label(arm_)), Some(arm_));
        }
        for other in [
            "",
            "override",
            "override-1009",
            "override-2009-65536",
            "override-1009-65537",
            "override-01009-65536",
        ] {
            assert_eq!(arm(other), None, "{other}");
        }
    }
}
