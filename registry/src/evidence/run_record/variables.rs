//! Which variables of the environment matter to a run.

/// How the names of such variables begin: of loaders, of maths and GPU libraries, of inference programs, of shims.
const STARTS: [&str; 46] = [
    "AMD_",
    "BLIS_",
    "CAPGATE_",
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "DYLD_",
    "GGML_",
    "GLIBC_",
    "GOMP_",
    "GPU_",
    "GRADIO_",
    "HF_",
    "HIP_",
    "HSA_",
    "HUGGINGFACE_",
    "KMP_",
    "LC_",
    "LD_",
    "LLAMA_",
    "LUME_",
    "LUNCHPAIL_",
    "MALLOC_",
    "METAL_",
    "MKL_",
    "MLX_",
    "MTL_",
    "NCCL_",
    "NUMEXPR_",
    "NVIDIA_",
    "OLLAMA_",
    "OMP_",
    "ONEAPI_",
    "OPENBLAS_",
    "PYTHON",
    "PYTORCH_",
    "ROCR_",
    "SYCL_",
    "TART_",
    "TORCH_",
    "TRANSFORMERS_",
    "VECLIB_",
    "VEERTU_",
    "VK_",
    "VLLM_",
    "WGPU_",
];
/// Others, by their whole names.
const NAMES: [&str; 6] = ["PATH", "LANG", "TMPDIR", "TZ", "TOKENIZERS_PARALLELISM", "VIRTUAL_ENV"];

/// Tells whether a variable is recorded. Of all others only the number is.
pub fn matters(name: &str) -> bool {
    NAMES.contains(&name) || STARTS.iter().any(|start| name.starts_with(start)) || name.contains("_METAL_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_run_is_recorded_and_what_says_who_ran_it_is_not() {
        for name in
            ["GGML_METAL_TENSOR", "LUME_METAL_APPLE_FAMILY_MAX", "LD_PRELOAD", "OMP_NUM_THREADS", "X_METAL_Y"]
        {
            assert!(matters(name), "{name}");
        }
        for name in ["HOME", "USER", "SSH_CONNECTION", "PWD", "AWS_SECRET_ACCESS_KEY", "HISTFILE"] {
            assert!(!matters(name), "{name}");
        }
    }
}
