"""The settings of torch that change numbers: how each is read, its default, and which of them a profile names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import backends, nn
from torch.backends import opt_einsum

from profilerkit.backend_kit.settings import Setting, list_changes

from ..compat.autograd import top_saved_tensors_hooks
from ..compat.compiler import is_compiled_model
from ..compat.settings import find_getter, get_precision
from .process_state import flushes_denormal

__all__ = ["SETTINGS", "conditions"]

_cuda: Any = backends.cuda
_DEVICES = ("cpu", "cuda", "xpu", "mps")


def _list_settings_in_c() -> Iterator[Setting]:
    """Yield the settings of libraries that this release of torch has, by the names of their getters in C++."""
    for name, getter_name, default in (
        ("cudnn.enabled", "_get_cudnn_enabled", True),
        ("cudnn.benchmark", "_get_cudnn_benchmark", False),
        ("cudnn.deterministic", "_get_cudnn_deterministic", False),
        ("cudnn.allow_tf32", "_get_cudnn_allow_tf32", True),
        ("mkldnn.enabled", "_get_mkldnn_enabled", True),
        ("mkldnn.deterministic", "_get_mkldnn_deterministic", False),
        ("nnpack.enabled", "_get_nnpack_enabled", True),
        ("cuda.matmul.allow_fp16_accumulation", "_get_cublas_allow_fp16_accumulation", False),
    ):
        getter = find_getter(getter_name)
        if getter is not None:
            yield Setting(f"torch.backends.{name}", getter, default)


def _list_reductions() -> Iterator[Setting]:
    """Yield whether products of 16-bit matrices may add up in 16 bits."""
    for dtype in ("fp16", "bf16"):
        name = f"allow_{dtype}_reduced_precision_reduction"
        yield Setting(f"torch.backends.cuda.matmul.{name}", partial(getattr, _cuda.matmul, name), True)


def _list_einsum_settings() -> Iterator[Setting]:
    """Yield the settings of torch's use of opt_einsum; nothing where that package is missing, which nobody switched."""
    if opt_einsum.is_available():
        for name, default in (("enabled", True), ("strategy", "auto")):
            read = partial(getattr, opt_einsum, name)
            yield Setting(f"torch.backends.opt_einsum.{name}", read, default, counts=True)


def _list_precisions() -> Iterator[Setting]:
    """Yield the precisions of float32, which torch 2.9 and newer have for each kind of operator in each library."""
    if get_precision is not None:
        for module, library, operator, default in (
            ("cuda", "cuda", "matmul", "ieee"),
            ("cudnn", "cuda", "conv", "tf32"),
            ("cudnn", "cuda", "rnn", "tf32"),
            ("mkldnn", "mkldnn", "matmul", "ieee"),
            ("mkldnn", "mkldnn", "conv", "ieee"),
            ("mkldnn", "mkldnn", "rnn", "ieee"),
        ):
            read = partial(_read_precision, get_precision, library, operator)
            yield Setting(f"torch.backends.{module}.{operator}.fp32_precision", read, default)


def _read_precision(read: Callable[[str, str], str], library: str, operator: str) -> str:
    """Return the precision that was chosen for these operators, or for all operators; float32 if none was chosen."""
    precision = read(library, operator)
    return "ieee" if precision == "none" else precision


SETTINGS: tuple[Setting, ...] = (
    Setting("torch.set_default_dtype", torch.get_default_dtype, torch.float32, counts=True),
    Setting("torch.use_deterministic_algorithms", torch.are_deterministic_algorithms_enabled, False),
    Setting("torch.set_float32_matmul_precision", torch.get_float32_matmul_precision, "highest"),
    Setting("torch.set_flush_denormal", flushes_denormal, False),
    Setting("torch.autograd.set_detect_anomaly", torch.is_anomaly_enabled, False, counts=True),
    *_list_einsum_settings(),
    Setting("torch.backends.mha.set_fastpath_enabled", backends.mha.get_fastpath_enabled, True),
    # On a CPU too: without it attention makes the matrix of all pairs of positions.
    Setting("torch.backends.cuda.enable_flash_sdp", _cuda.flash_sdp_enabled, True, counts=True),
    Setting("torch.backends.cuda.enable_mem_efficient_sdp", _cuda.mem_efficient_sdp_enabled, True),
    Setting("torch.backends.cuda.enable_math_sdp", _cuda.math_sdp_enabled, True),
    Setting("torch.backends.cuda.enable_cudnn_sdp", _cuda.cudnn_sdp_enabled, True),
    *_list_settings_in_c(),
    *_list_reductions(),
    *_list_precisions(),
)


def conditions(model: nn.Module) -> Iterator[str]:
    """Yield in words each setting that is on: autocast, hooks of saved tensors, a compiled model, global settings.

    The grad mode is not among them: a pass sets its own.
    """
    for device in _DEVICES:
        if torch.is_autocast_enabled(device):
            yield f"autocast of {device} to {torch.get_autocast_dtype(device)}"
    hooks = top_saved_tensors_hooks(False)
    if hooks is not None:
        names = " and ".join(getattr(hook, "__qualname__", type(hook).__name__) for hook in hooks[:2])
        yield f"hooks of saved tensors ({names})"
    if is_compiled_model(model):
        yield "torch.compile: the operators are counted as the model calls them, before they are fused"
    yield from list_changes(SETTINGS, counts=True)
