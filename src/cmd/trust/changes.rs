//! What one version of the trust changes in the one before it, in words.

use capgate_registry::trust::{Role, Trust};

/// One line for each difference; none where only the dates differ.
pub fn changes(before: &Trust, after: &Trust) -> Vec<String> {
    let mut lines = Vec::new();
    for ((name, old), (_, new)) in before.roles().into_iter().zip(after.roles()) {
        role(name, old, new, &mut lines);
    }
    for known in after.compromised.iter().filter(|known| !before.compromised.contains(known)) {
        lines.push(format!(
            "compromised: {}, whose signatures count no longer from log index {} on",
            known.key, known.from
        ));
    }
    if before.expires != after.expires {
        lines.push(format!("ends {} instead of {}", after.expires, before.expires));
    }
    lines
}

fn role(name: &str, old: &Role, new: &Role, lines: &mut Vec<String>) {
    lines.extend(new.keys.iter().filter(|key| !old.keys.contains(key)).map(|key| format!("{name}: + {key}")));
    lines.extend(old.keys.iter().filter(|key| !new.keys.contains(key)).map(|key| format!("{name}: - {key}")));
    if old.threshold != new.threshold {
        lines.push(format!("{name}: {} must sign instead of {}", new.threshold, old.threshold));
    }
}
