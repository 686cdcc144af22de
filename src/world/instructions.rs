//! Vector and matrix instructions that work here: what the processor says and the kernel has switched on.
//!
//! `/proc/cpuinfo` is what the kernel lists, and some programs read that; most ask the processor. The two can differ, in
//! a sandbox or under an emulator, and then programs disagree about the same machine.

/// Names of those that work, sorted; empty on other processors.
pub fn usable() -> Vec<String> {
    let mut found: Vec<String> =
        asked().into_iter().filter(|(_, works)| *works).map(|(name, _)| name.to_owned()).collect();
    found.sort();
    found
}

#[cfg(target_arch = "x86_64")]
fn asked() -> Vec<(&'static str, bool)> {
    macro_rules! ask {
        ($($name:tt)*) => { vec![$(($name, std::arch::is_x86_feature_detected!($name)),)*] };
    }
    ask!("ssse3" "sse4.1" "sse4.2" "avx" "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512vl" "avx512vnni" "avx512bf16" "avxvnni")
}

#[cfg(target_arch = "aarch64")]
fn asked() -> Vec<(&'static str, bool)> {
    macro_rules! ask {
        ($($name:tt)*) => { vec![$(($name, std::arch::is_aarch64_feature_detected!($name)),)*] };
    }
    ask!("neon" "fp16" "dotprod" "i8mm" "bf16" "sve" "sve2")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn asked() -> Vec<(&'static str, bool)> {
    Vec::new()
}

/// Features that `GLIBC_TUNABLES` hides from the C library and the loader: `glibc.cpu.hwcaps=-AVX2,-AVX512F`.
pub fn masked(tunables: &str) -> Vec<String> {
    let values = tunables.split(':').filter_map(|tunable| tunable.strip_prefix("glibc.cpu.hwcaps="));
    let mut found: Vec<String> = values
        .flat_map(|value| value.split(','))
        .filter_map(|word| word.trim().strip_prefix('-'))
        .map(|word| word.trim_end_matches("_Usable").to_ascii_lowercase())
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_variable_hides_is_named_once() {
        assert_eq!(masked("a=1:glibc.cpu.hwcaps=-AVX2_Usable,AVX,-FMA,-AVX2:b=2"), ["avx2", "fma"]);
        assert_eq!(masked("glibc.malloc.check=3"), Vec::<String>::new());
    }
}
