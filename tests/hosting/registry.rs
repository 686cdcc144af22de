//! What is published in these tests, and what everybody must find.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use crate::support::{B10167, NOW, Run, World, capgate};

pub const KEYS: &str = "--key alice.key --registry-key registry.key";

/// Profiles of programs that nobody has, each under an id of its own, in the folder of that name.
pub fn profiles(world: &World, folder: &str, ids: &[String]) {
    fs::create_dir(world.path(folder)).unwrap();
    let text = world.read(&format!("profiles.d/{B10167}.toml"));
    let digest = text.lines().find_map(|line| line.strip_prefix("sha256 = ")).unwrap().to_owned();
    let prefix: String = folder.bytes().map(|b| format!("{b:02x}")).collect();
    for (n, id) in ids.iter().enumerate() {
        let own = format!("\"{prefix:0>32}{:032x}\"", n + 1);
        let text = text.replace(B10167, id).replace(&digest, &own);
        world.put(&format!("{folder}/{id}.toml"), &text);
    }
}

/// `capgate verify`, of a folder or a URL.
pub fn verify(world: &World, place: &str) -> Run {
    Run::of(capgate(world.folder.path()).args(["verify", place, "--root", &world.root, "--now", NOW]))
}

/// The ids in force in a folder.
pub fn listed(world: &World, folder: &str) -> BTreeSet<String> {
    let json = world.run(&format!("list --registry {folder} --now {NOW} --format json")).ok().json();
    let rows = json.as_array().cloned().unwrap_or_else(|| json["profiles"].as_array().unwrap().clone());
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// Every file of a registry and a digest of its bytes. Hidden ones are the folder's own; snapshots of earlier versions stay
/// where they were published, and are not copied.
pub fn files(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    walk(folder, "", &mut found);
    found
}

fn walk(folder: &Path, name: &str, found: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let own = entry.file_name().into_string().unwrap();
        if own.starts_with('.') || own.ends_with(".snap") {
            continue;
        }
        let name = format!("{name}/{own}");
        if entry.path().is_dir() {
            walk(&entry.path(), &name, found);
        } else {
            let mut hasher = DefaultHasher::new();
            hasher.write(&fs::read(entry.path()).unwrap());
            found.insert(name, hasher.finish());
        }
    }
}
