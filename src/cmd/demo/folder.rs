//! The folder of the demonstration: made new, or one that a demonstration made before.

use std::fs;
use std::io;
use std::path::Path;

use crate::exit::Failure;

/// Says that a demonstration made the folder.
const MARK: &str = ".capgate-demo";
/// Everything that a demonstration makes.
const MADE: &[&str] = &[
    "registry",
    "profiles.d",
    "facts",
    "root.key",
    "alice.key",
    "registry.key",
    "site.toml",
    "decisions.jsonl",
];

macro_rules! profile {
    ($id:literal) => {
        (concat!("profiles.d/", $id, ".toml"), include_str!(concat!("../../../profiles.d/", $id, ".toml")))
    };
}

/// The profiles, so that nothing but this program is needed.
const PROFILES: &[(&str, &str)] = &[
    profile!("m1-ultra-25g76-25f84-llama-bench-b10167"),
    profile!("m1-ultra-25g76-25f84-llama-bench-b10359"),
    profile!("m1-ultra-25g76-25f84-mlx-lm-0-31-3"),
];

const TESTED: &str = "host_chip = \"Apple M1 Ultra\"
host_os_build = \"25G76\"
guest_os_build = \"25F84\"
workload = \"sha256:28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7\"
";
const HOST_UPDATED: &str = "host_chip = \"Apple M1 Ultra\"
host_os_build = \"25G90\"
guest_os_build = \"25F84\"
workload = \"sha256:28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7\"
";
const HOST_UNKNOWN: &str = "host_chip = \"Apple M1 Ultra\"
guest_os_build = \"25F84\"
workload = \"sha256:28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7\"
";
const REVOKED: &str = "host_chip = \"Apple M1 Ultra\"
host_os_build = \"25G76\"
guest_os_build = \"25F84\"
workload = \"sha256:8a0ea51a40658436b4ec34a3f3ada1085f5feaa1d049e87ee7205f725a689f69\"
";
const SITE: &str = "schema = \"1.0.0\"
mode = \"enforce\"

[[deny]]
id = \"no-llama-bench\"
reason = \"waiting for a correctness test\"
owner = \"gpu-team\"
workload_name = \"llama-bench\"
";

const FILES: &[(&str, &str)] = &[
    ("facts/tested.toml", TESTED),
    ("facts/host-updated.toml", HOST_UPDATED),
    ("facts/host-unknown.toml", HOST_UNKNOWN),
    ("facts/revoked.toml", REVOKED),
    ("site.toml", SITE),
];

/// Makes the folder and what the commands start from.
pub fn make(folder: &Path) -> Result<(), Failure> {
    let error =
        |e: io::Error| Failure::failed(format!("the folder `{}` cannot be made: {e}", folder.display()));
    fs::create_dir_all(folder).map_err(error)?;
    let is_empty = fs::read_dir(folder).map_err(error)?.next().is_none();
    if !is_empty && !folder.join(MARK).exists() {
        let message = format!("the folder `{}` is not empty, and no demonstration made it", folder.display());
        return Err(Failure::failed(message).help("name another one with `--keep DIR`"));
    }
    clear(folder).map_err(error)?;
    fill(folder).map_err(error)
}

/// Removes what an earlier demonstration made, and nothing else.
fn clear(folder: &Path) -> io::Result<()> {
    for path in MADE.iter().map(|name| folder.join(name)) {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path)?,
            Ok(_) => fs::remove_file(&path)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn fill(folder: &Path) -> io::Result<()> {
    fs::write(folder.join(MARK), "made by `capgate demo`, which may remove what it made here\n")?;
    for name in ["profiles.d", "facts"] {
        fs::create_dir(folder.join(name))?;
    }
    PROFILES.iter().chain(FILES).try_for_each(|(name, text)| fs::write(folder.join(name), text))
}
