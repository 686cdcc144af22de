//! The first site policy: it narrows nothing, and its comments say what could.

use std::path::Path;

use capgate_policy::site::{MAX_POLICY, SitePolicy};
use capgate_registry::keys::VerifierKey;

use crate::exit::Failure;
use crate::ui::Ui;
use crate::world::file;

const START: &str = "\
# Site policy of capgate: how this site narrows what its registry may grant. It can refuse a tested set or prefer another
# tested one; it never adds a value. `capgate policy check FILE` finds every slip.
schema = \"1.0.0\"

# enforce: grants count. observe: they are logged, and programs stay stock. off: nothing is looked up.
mode = \"enforce\"

";

const STATEMENT: &str = "
# Where this guest sees its host's statement (`capgate host attest`), for example in a shared folder. `capgate sync` carries
# it from there to etc/capgate/host.note, which is where programs look; let `sync --watch` do so, since it counts for an hour:
# statement = \"/Volumes/My Shared Files/capgate/host.note\"

# The most that may be reported:
# [ceiling]
# apple_family_max = 1007
# max_threadgroup_memory = 32768

# What evidence must show:
# [demand]
# correctness = true
# samples = 5
# max_age_days = 180

# What is refused although it was tested; each rule has an owner, and a temporary one a date:
# [[deny]]
# id = \"hold-back-llama-bench\"
# reason = \"wait for a correctness test\"
# owner = \"gpu-team\"
# expires = 2027-01-31T00:00:00Z
# workload_name = \"llama-bench\"
";

/// The policy with these host keys.
pub fn template(keys: &[VerifierKey]) -> String {
    let keys_text = match keys {
        [] => "# Public keys of the hosts whose statements count, each the line that `capgate keygen` printed there:\n\
               # host_keys = [\"host-7+…\"]\n"
            .to_owned(),
        keys => {
            let list: Vec<String> = keys.iter().map(|key| format!("    \"{}\",\n", toml_text(key))).collect();
            let list = list.concat();
            format!("# Public keys of the hosts whose statements count.\nhost_keys = [\n{list}]\n")
        }
    };
    format!("{START}{keys_text}{STATEMENT}")
}

/// Key names may hold quotes and backslashes.
fn toml_text(key: &VerifierKey) -> String {
    key.to_string().replace('\\', "\\\\").replace('"', "\\\"")
}

/// A policy that is there already is the operator's. It must be one, and know the host keys that were given.
pub fn judge_kept(ui: &Ui, path: &Path, keys: &[VerifierKey]) -> Result<(), Failure> {
    let shown = path.display();
    let bytes = file::read_shared(path, MAX_POLICY as u64)
        .map_err(|e| Failure::failed(format!("`{shown}` cannot be read: {e}")))?;
    let Ok(policy) = SitePolicy::parse(&bytes) else {
        ui.warn(format!("`{shown}` is kept, but it cannot be used; `capgate policy check {shown}` says why"));
        return Ok(());
    };
    match keys.iter().find(|key| !policy.host_keys.contains(key)) {
        None => Ok(()),
        Some(key) => Err(Failure::failed(format!(
            "`{shown}` is there and does not name the host key `{}`",
            key.name()
        ))
        .help(format!("add \"{}\" to its `host_keys`", toml_text(key)))),
    }
}

#[cfg(test)]
mod tests {
    use capgate_registry::keys::SigningKey;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_template_is_a_policy_with_and_without_its_comments() {
        let key = |name: &str, seed| SigningKey::from_seed(name, [seed; 32]).unwrap().verifier().clone();
        for keys in [vec![], vec![key("host-7", 1)], vec![key("a\"\\b", 1), key("c", 2)]] {
            let text = template(&keys);
            let policy = SitePolicy::parse(text.as_bytes()).unwrap();
            assert_eq!(policy.host_keys, keys);
            // Every commented line of TOML must be right too, once somebody takes it into use.
            let used: String = text
                .lines()
                .map(|line| {
                    let bare = line.strip_prefix("# ").unwrap_or(line);
                    let is_toml = bare.contains(" = ") || bare.starts_with('[');
                    let is_toml = is_toml && !bare.starts_with("host_keys = [\"host-7+");
                    format!("{}\n", if is_toml { bare } else { line })
                })
                .collect();
            let problems = capgate_policy::site::check(used.as_bytes(), Timestamp::UNIX_EPOCH);
            let graver = problems.iter().filter(|p| !keys.is_empty() || !p.message.contains("`statement`"));
            assert_eq!(graver.count(), 0, "{problems:?}\n{used}");
            let policy = SitePolicy::parse(used.as_bytes()).unwrap();
            assert_eq!((policy.deny.len(), policy.demand.samples), (1, Some(5)));
        }
    }
}
