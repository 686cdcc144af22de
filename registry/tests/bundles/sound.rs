//! A sound bundle in memory, in which nothing is wrong and nobody is warned of anything.

use capgate_registry::combination::Hex;
use capgate_registry::evidence::codes::Code;
use capgate_registry::evidence::judge::{self, CheckError, Judgement};
use sha2::{Digest as _, Sha256};

use super::Memory;

/// Its manifest.
pub const MANIFEST: &str = r#"schema = "1.0.0"
source = "https://example.org/bundle"

[[workload]]
name = "w"
verdict = "override"
program = { name = "llama-bench", version = "b10167", sha256 = "28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7", image = [{ name = "libggml-metal.so", sha256 = "77ea18086bba933176cdf2a830c0af1554d5746204c068b718ea4eab67530409" }] }
model = { name = "m.gguf", sha256 = "9fecc3b3cd76bba89d504f29b616eedf7da85b96540e490ca5824d3f7d2776a0" }
host = { chip = "Apple M1 Ultra", os = { version = "26.6.1", build = "25G76" }, apple_family = 1007, max_threadgroup_memory = 32768, feature_level = "default" }
guest = { os = { version = "26.5.2", build = "25F84" }, model = "VirtualMac2,1", stock = { apple_family = 1005, max_threadgroup_memory = 32768 } }
file = [
  { path = "stock.json", arm = "stock" },
  { path = "stock.log", role = "log", of = "stock" },
  { path = "over.json", arm = "override", claims = { apple_family_max = 1007, max_threadgroup_memory = 32768 }, shim = { name = "capgate", sha256 = "515b9d84ab67e86d959282e95c194a5ad8a947261514b947d6f7483c57797b31" } },
  { path = "over.log", role = "log", of = "override" },
  { path = "over.ops", role = "correctness", of = "override" },
  { path = "over.probe", role = "probe", of = "override" },
  { path = "stock.probe", role = "probe", of = "stock" },
  { path = "host.json", arm = "host" },
  { path = "host.log", role = "log", of = "host" },
  { path = "cpu.json", arm = "cpu" },
  { path = "machines.txt", role = "environment" },
  { path = "old.csv", arm = "control" },
]
"#;

/// The banner in the override arm's log.
pub const BANNER: &str = "[capgate] Enabled for llama-bench (appleFamilyMax=1007 maxThreadgroupMemory=32768 stock=1005/32768 profile=p)\n";

/// Two rows of llama-bench, one for prompt and one for generation.
pub fn rows(cpu: &str, gpu: &str, time: &str, scale: u64, layers: i64) -> String {
    let row = |prompt: u64, generated: u64, base: u64| {
        let samples: Vec<String> =
            [3, 1, 4, 1, 5, 9, 2, 6, 5, 3].iter().map(|n| (base * scale + n * 1000).to_string()).collect();
        format!(
            r#"{{"build_commit": "ee3d1b54c", "build_number": 10167, "cpu_info": "{cpu}", "gpu_info": "{gpu}", "backends": "MTL,BLAS",
            "model_filename": "/x/m.gguf", "model_type": "llama", "model_size": 667078656, "model_n_params": 1100048384,
            "n_batch": 2048, "n_threads": 8, "n_gpu_layers": {layers}, "flash_attn": -1, "load_mode": "mmap",
            "n_prompt": {prompt}, "n_gen": {generated}, "n_depth": 0, "test_time": "{time}", "samples_ns": [{}]}}"#,
            samples.join(", ")
        )
    };
    format!("[\n{},\n{}\n]\n", row(512, 0, 10_000_000), row(0, 128, 20_000_000))
}

/// A log that describes one device.
pub fn log(name: &str, family: u64, on: bool) -> String {
    format!(
        "ggml_metal_device_init: GPU name:   MTL0 ({name})\nggml_metal_device_init: GPU family: MTLGPUFamilyApple{}  ({family})\n\
         ggml_metal_device_init: simdgroup reduction   = {on}\nggml_metal_device_init: simdgroup matrix mul. = {on}\n\
         ggml_metal_device_init: has bfloat            = {on}\n",
        family - 1000
    )
}

/// The bundle, without its list of digests.
pub fn sound() -> Memory {
    let (guest, bare) = ("Apple M1 Ultra (Virtual)", "Apple M1 Ultra");
    let device = "Apple Paravirtual device";
    let mut bundle = Memory::default();
    for (path, text) in [
        ("bundle.toml", MANIFEST.to_owned()),
        ("stock.json", rows(guest, device, "2026-08-09T18:00:00Z", 10, -1)),
        ("stock.log", log(device, 1005, false)),
        ("over.json", rows(guest, device, "2026-08-09T18:20:00Z", 2, -1)),
        ("over.log", format!("{BANNER}{}", log(device, 1007, true))),
        ("over.ops", "  9/9 tests passed\n1/1 backends passed\nOK\n".to_owned()),
        ("over.probe", "family=1007\nsupports_family=true\nmax_threadgroup_memory=32768\n".to_owned()),
        ("stock.probe", "family=1007\nsupports_family=false\nmax_threadgroup_memory=32768\n".to_owned()),
        ("host.json", rows(bare, bare, "2026-08-09T18:40:00Z", 1, -1)),
        ("host.log", log(bare, 1007, true)),
        ("cpu.json", rows(guest, device, "2026-08-09T18:50:00Z", 20, 0)),
        ("machines.txt", "Host macOS: 26.6.1 (25G76)\nGuest macOS: 26.5.2 (25F84)\n".to_owned()),
        ("old.csv", "build_commit,build_number,x\n".to_owned()),
    ] {
        bundle.files.insert(path.to_owned(), text.into_bytes());
    }
    bundle
}

/// Writes the list of digests.
pub fn pin(bundle: &mut Memory) {
    let line =
        |(path, bytes): (&String, &Vec<u8>)| format!("{}  {path}\n", Hex::<32>(Sha256::digest(bytes).into()));
    let sums: String = bundle.files.iter().filter(|(path, _)| *path != "SHA256SUMS").map(line).collect();
    bundle.files.insert("SHA256SUMS".to_owned(), sums.into_bytes());
}

/// Judges it by the manifest inside.
pub fn judged(bundle: &Memory) -> Judgement {
    match judge::check(bundle, None) {
        Ok((_, judgement)) => judgement,
        Err(CheckError::Manifest(problems)) => panic!("{problems:?}"),
        Err(error) => panic!("{error}"),
    }
}

/// Codes of refusals and of warnings, each once.
pub fn codes(judgement: &Judgement) -> (Vec<Code>, Vec<Code>) {
    let sorted = |findings: &[capgate_registry::evidence::finding::Finding]| {
        let mut codes: Vec<Code> = findings.iter().map(|finding| finding.code).collect();
        codes.sort();
        codes.dedup();
        codes
    };
    (sorted(&judgement.refusals), sorted(&judgement.warnings))
}
