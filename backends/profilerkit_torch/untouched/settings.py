"""The settings of torch that change numbers: how each is read, its default, and whether counts depend on it."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import backends
from torch.backends import opt_einsum

from profilerkit.backend_kit.settings import Setting

from ..compat import find_getter, get_precision
from .process_state import flushes_denormal

__all__ = ["LEFT_OUT", "SETTINGS"]

_cuda: Any = backends.cuda


def _of_c(name: str, read: str, default: Any) -> tuple[Setting, ...]:
    """Return a setting by the name of its getter; nothing where this release of torch has none."""
    getter = find_getter(read)
    return () if getter is None else (Setting(name, getter, default),)


def _of_opt_einsum(name: str, default: Any) -> tuple[Setting, ...]:
    """Return a setting of torch's use of opt_einsum; nothing where that package is missing, which nobody switched."""
    if not opt_einsum.is_available():
        return ()
    return (Setting(f"torch.backends.opt_einsum.{name}", partial(getattr, opt_einsum, name), default, True),)


def _precisions() -> tuple[Setting, ...]:
    """Return the precisions of float32, which torch 2.9 and newer have for each library."""
    if get_precision is None:
        return ()
    return tuple(
        Setting(f"torch.backends: fp32_precision of {backend}", partial(get_precision, backend, "all"), "none")
        for backend in ("generic", "cuda", "mkldnn")
    )


SETTINGS: tuple[Setting, ...] = (
    Setting("torch.set_default_dtype", torch.get_default_dtype, torch.float32, counts=True),
    Setting("torch.use_deterministic_algorithms", torch.are_deterministic_algorithms_enabled, False),
    Setting("torch.set_float32_matmul_precision", torch.get_float32_matmul_precision, "highest"),
    Setting("torch.set_flush_denormal", flushes_denormal, False),
    Setting("torch.autograd.set_detect_anomaly", torch.is_anomaly_enabled, False, counts=True),
    *_of_opt_einsum("enabled", True),
    *_of_opt_einsum("strategy", "auto"),
    Setting("torch.backends.mha.set_fastpath_enabled", backends.mha.get_fastpath_enabled, True),
    Setting("torch.backends.cuda.enable_flash_sdp", _cuda.flash_sdp_enabled, True, counts=True),
    Setting("torch.backends.cuda.enable_mem_efficient_sdp", _cuda.mem_efficient_sdp_enabled, True),
    Setting("torch.backends.cuda.enable_math_sdp", _cuda.math_sdp_enabled, True),
    Setting("torch.backends.cuda.enable_cudnn_sdp", _cuda.cudnn_sdp_enabled, True),
    *_of_c("torch.backends.cudnn.enabled", "_get_cudnn_enabled", True),
    *_of_c("torch.backends.cudnn.benchmark", "_get_cudnn_benchmark", False),
    *_of_c("torch.backends.cudnn.deterministic", "_get_cudnn_deterministic", False),
    *_of_c("torch.backends.cudnn.allow_tf32", "_get_cudnn_allow_tf32", True),
    *_of_c("torch.backends.mkldnn.enabled", "_get_mkldnn_enabled", True),
    *_of_c("torch.backends.mkldnn.deterministic", "_get_mkldnn_deterministic", False),
    *_of_c("torch.backends.nnpack.enabled", "_get_nnpack_enabled", True),
    *_of_c("torch.backends.cuda.matmul.allow_fp16_accumulation", "_get_cublas_allow_fp16_accumulation", False),
    *_precisions(),
)
#: The other settings of torch, each with the reason why no report names it.
LEFT_OUT: dict[str, str] = {
    "autograd_fallback_mode": "only warns about operators without a gradient",
    "backcompat_broadcast_warn": "only warns",
    "backcompat_keepdim_warn": "only warns",
    "blas_preferred_backend": "its default is another one on each machine",
    "cpu_allow_fp16_reduced_precision_reduction": "only on ARM processors, where torch documents no default",
    "cublas_allow_bf16_reduced_precision_reduction": "a pair of values whose form changes between releases",
    "cublas_allow_fp16_reduced_precision_reduction": "a pair of values whose form changes between releases",
    "cublas_allow_tf32": "the same as torch.set_float32_matmul_precision",
    "cublaslt_prefer_grouped_gemm": "a choice of kernel, of torch 2.15 on",
    "cudnn_depthwise_kernel": "a choice of kernel, of torch 2.13 on",
    "deterministic_algorithms": "in the table, by its function",
    "deterministic_fill_uninitialized_memory": "acts only with torch.use_deterministic_algorithms, which is named",
    "dispatch_mode": "modes are off during a profile",
    "dtensor_allow_implicit_replication": "acts on distributed tensors alone",
    "fake_constant": "of one tensor without values",
    "float32_matmul_precision": "in the table, by its function",
    "graph_exec_group": "a group of processes",
    "graph_executor_optimize": "scripts run without it in a pass",
    "linalg_preferred_backend": "its default is another one on each machine",
    "math_sdp_allow_fp16_bf16_reduction": "precision of one kernel of attention, of no other cost",
    "miopen_immediate": "only on AMD's accelerators",
    "native_aot_enabled": "a choice of kernel, of torch 2.15 on",
    "native_aot_unconditional_masked": "a choice of kernel, of torch 2.15 on",
    "onednn_allow_tf32": "the same as the fp32_precision of mkldnn",
    "qengine": "its default is another one on each machine",
    "rocm_fa_preferred_backend": "only on AMD's accelerators",
    "sdp_priority_order": "a list of all kernels of attention; those that are switched off are named",
    "sm_carveout_experimental": "how many processors of a GPU a kernel leaves free; experimental",
    "tensor_metadata": "of one tensor",
    "thread_name": "a name",
    "torch_function_state": "a profile has modes of its own",
    "tracing_state": "nothing can be profiled while torch records code",
    "value_trace": "of a recording",
    "warnAlways": "only warns",
}
