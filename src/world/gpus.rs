//! GPUs that a process on Linux can see as devices.

use std::fs;
use std::path::Path;

use capgate_registry::evidence::run_record::Gpu;

/// Most devices that are named.
const MOST: usize = 64;

/// Render nodes, NVIDIA's own devices, and AMD's compute device; `root` is `/`.
pub fn visible(root: &Path) -> Vec<Gpu> {
    let mut found = Vec::new();
    for name in names(&root.join("dev/dri")) {
        let driver = root.join("sys/class/drm").join(&name).join("device/driver");
        let driver = fs::read_link(driver).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        found.push(Gpu { device: format!("/dev/dri/{name}"), name: driver });
    }
    let is_card = |name: &String| {
        name.strip_prefix("nvidia")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let models = nvidia_models(root);
    for name in names(&root.join("dev")).into_iter().filter(|name| is_card(name) || name == "kfd") {
        let minor = name.strip_prefix("nvidia").unwrap_or_default();
        let model = models.iter().find(|(number, _)| number == minor).map(|(_, model)| model.clone());
        found.push(Gpu { device: format!("/dev/{name}"), name: model });
    }
    found.truncate(MOST);
    found
}

/// The version of NVIDIA's kernel driver, as its own file says it.
pub fn nvidia_driver(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("proc/driver/nvidia/version")).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

/// Minor number and model of each card.
fn nvidia_models(root: &Path) -> Vec<(String, String)> {
    let folder = root.join("proc/driver/nvidia/gpus");
    let of = |name: String| {
        let text = fs::read_to_string(folder.join(name).join("information")).ok()?;
        let field = |wanted: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(wanted));
            line.map(|rest| rest.trim_start_matches(':').trim().to_owned())
        };
        Some((field("Device Minor")?, field("Model")?))
    };
    names(&folder).into_iter().filter_map(of).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).take(MOST * 64).collect();
    names.retain(|name| !name.starts_with("by-"));
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_named_by_their_driver_or_model() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for device in
            ["dev/dri/renderD128", "dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm", "dev/null", "dev/kfd"]
        {
            put(device, "");
        }
        put("dev/dri/by-path/x", "");
        put("sys/drivers/amdgpu/x", "");
        let device = root.path().join("sys/class/drm/renderD128/device");
        fs::create_dir_all(&device).unwrap();
        std::os::unix::fs::symlink("../../../../drivers/amdgpu", device.join("driver")).unwrap();
        put("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t NVIDIA A10\nDevice Minor: \t 0\n");
        put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\nGCC\n");
        let found = visible(root.path());
        let shown: Vec<(&str, Option<&str>)> =
            found.iter().map(|gpu| (gpu.device.as_str(), gpu.name.as_deref())).collect();
        let wanted = [
            ("/dev/dri/renderD128", Some("amdgpu")),
            ("/dev/kfd", None),
            ("/dev/nvidia0", Some("NVIDIA A10")),
        ];
        assert_eq!(shown, wanted);
        assert!(nvidia_driver(root.path()).unwrap().ends_with("550.54.15"));
        assert_eq!(visible(Path::new("/nowhere")), []);
    }
}
