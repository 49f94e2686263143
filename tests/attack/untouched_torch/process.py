"""The state of the process: what a library must leave as it was, and what code of the caller's may have changed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import attack_process
import torch
from attack_process import Facts, Same
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from profilerkit_torch.costs import registry as costs
from profilerkit_torch.untouched.preservation import one_at_a_time

__all__ = ["PROCESS", "SURROUNDINGS", "pristine", "process_facts"]

#: A module with settings of its own, which type checkers do not see.
_deterministic: Any = torch.utils.deterministic

_CUDNN = ("enabled", "benchmark", "deterministic", "allow_tf32")
_HOOKS = (
    *("_global_forward_hooks", "_global_forward_pre_hooks", "_global_forward_hooks_always_called"),
    *("_global_forward_hooks_with_kwargs", "_global_backward_hooks", "_global_backward_pre_hooks"),
    *("_global_buffer_registration_hooks", "_global_module_registration_hooks", "_global_parameter_registration_hooks"),
)


def _each(mapping: Any) -> Any:
    return [(key, Same(value)) for key, value in mapping.items()]


def _autocast() -> Any:
    kinds = ("cpu", "cuda", "xpu")
    states = [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]
    return states, torch.is_autocast_cache_enabled()


def _list_saved_tensor_hooks() -> Any:
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return [] if hooks is None else [Same(hook) for hook in hooks]


def _functorch() -> Any:
    top = torch._C._functorch.peek_interpreter_stack()
    return None if top is None else (str(top.key()), top.level())


def _cost_tables() -> list[Any]:
    return [block.formulas for block in costs.COSTS._blocks.get()]


def _functions() -> Any:
    """Return what torch's namespaces and classes have under each name; what is imported later is no change."""
    owners = (torch, nn.functional, torch.Tensor, nn.Module, nn.Parameter, torch.autograd, torch.nn.init, torch.linalg)
    found = {(id(owner), name): value for owner in owners for name, value in vars(owner).items() if callable(value)}
    for cls in vars(nn).values():
        if isinstance(cls, type) and "forward" in vars(cls):
            found[id(cls), "forward"] = vars(cls)["forward"]
    return Functions(found)


class Functions:
    """Equal to a later look that has the same under every name it has; what is new there makes no difference."""

    def __init__(self, found: dict[tuple[int, str], Any]) -> None:
        self.found = found

    def __eq__(self, later: object) -> bool:
        return isinstance(later, Functions) and not self.list_changed(later)

    __hash__ = None  # type: ignore[assignment]

    def list_changed(self, later: Functions) -> list[str]:
        return [key[1] for key, value in self.found.items() if later.found.get(key) is not value]

    def __repr__(self) -> str:
        return f"<{len(self.found)} functions>"


#: What profilerkit promises to leave as it was, even where the model itself does not.
PROCESS: dict[str, Callable[[], Any]] = {
    **attack_process.PROCESS,
    "torch random state": lambda: torch.default_generator.get_state().numpy().tobytes(),
    "default dtype": torch.get_default_dtype,
    "default device": lambda: str(torch.get_default_device()),
    "grad mode": torch.is_grad_enabled,
    "inference mode": torch.is_inference_mode_enabled,
    "threads of an operator": torch.get_num_threads,
    "autocast": _autocast,
    "deterministic": lambda: (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        _deterministic.fill_uninitialized_memory,
    ),
    "cudnn": lambda: [getattr(torch.backends.cudnn, name) for name in _CUDNN],
    "mkldnn": lambda: (torch._C._get_mkldnn_enabled(), torch._C._get_mkldnn_deterministic()),
    "matmul precision": torch.get_float32_matmul_precision,
    "attention kernels": lambda: (
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
    ),
    "fast path": torch.backends.mha.get_fastpath_enabled,
    "quantized engine": lambda: torch.backends.quantized.engine,
    "denormals": lambda: (torch.tensor([1e-310], dtype=torch.float64) * 1).item() != 0,
    "anomaly mode": lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
    "multithreading of autograd": torch.autograd.is_multithreading_enabled,
    "saved tensors hooks": _list_saved_tensor_hooks,
    "global hooks": lambda: {name: _each(getattr(torch_module, name)) for name in _HOOKS},
    "optimizer hooks": lambda: (
        _each(torch_optimizer._global_optimizer_pre_hooks),
        _each(torch_optimizer._global_optimizer_post_hooks),
    ),
    "dispatch modes": lambda: [Same(mode) for mode in _get_current_dispatch_mode_stack()],
    "function modes": lambda: [Same(mode) for mode in torch.overrides._get_current_function_mode_stack()],
    "functorch level": _functorch,
    "stance of the compiler": lambda: (
        repr(sys.modules["torch._dynamo.eval_frame"]._stance)
        if "torch._dynamo.eval_frame" in sys.modules
        else "as at first"
    ),
    "profilerkit's cost formulas": lambda: [_each(table) for table in _cost_tables()],
    "profilerkit's lock": lambda: one_at_a_time.is_held,
}

#: What a model may change for reasons of its own: a difference counts where its plain call makes none.
SURROUNDINGS: dict[str, Callable[[], Any]] = {
    **attack_process.SURROUNDINGS,
    "torch warns always": torch.is_warn_always_enabled,
    "patched functions": _functions,
    "print options": lambda: repr(vars(torch._tensor_str.PRINT_OPTS)),
}


def process_facts() -> tuple[Facts, Facts]:
    """Return the facts that profilerkit answers for, and those that a model may change itself."""
    stacks = ("dispatch modes", "function modes", "functorch level", "default device")
    found = {f"process {name}": PROCESS[name]() for name in stacks}
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch._C._DisableFuncTorch():
        found |= {f"process {name}": read() for name, read in PROCESS.items() if name not in stacks}
        around = {f"process {name}": read() for name, read in SURROUNDINGS.items()}
    return found, around


# Cleaning up after a case -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def pristine() -> Iterator[None]:
    """Put the process back after a case, whatever the model, the fault or the library have made of it."""
    hooks = [(mapping, dict(mapping)) for name in _HOOKS if (mapping := getattr(torch_module, name)) is not None]
    random_state, restore = torch.default_generator.get_state(), _torch_state()
    with attack_process.put_back():
        try:
            yield
        finally:
            restore()
            for mapping, content in hooks:
                mapping.clear()
                mapping.update(content)
            torch.default_generator.set_state(random_state)


#: The ways in which torch may compute attention.
_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")


def _torch_state() -> Callable[[], None]:
    """Return what puts torch's settings back."""
    dtype, threads, fast = torch.get_default_dtype(), torch.get_num_threads(), torch.backends.mha.get_fastpath_enabled()
    precision, options = torch.get_float32_matmul_precision(), dict(vars(torch._tensor_str.PRINT_OPTS))
    cudnn = [(name, getattr(torch.backends.cudnn, name)) for name in _CUDNN]
    attention = [(name, getattr(torch.backends.cuda, f"{name}_sdp_enabled")()) for name in _ATTENTION]
    modes = len(torch.overrides._get_current_function_mode_stack())

    def restore() -> None:
        torch.set_default_device(None)
        while len(torch.overrides._get_current_function_mode_stack()) > modes:
            torch.overrides._pop_mode()
        while torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
            torch._C._autograd._pop_saved_tensors_default_hooks()
        torch.set_grad_enabled(True)
        torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        for kind in ("cpu", "cuda"):
            torch.set_autocast_enabled(kind, False)
        torch.clear_autocast_cache()
        torch.set_autocast_cache_enabled(True)
        torch.use_deterministic_algorithms(False)
        torch.set_flush_denormal(False)
        torch.set_float32_matmul_precision(precision)
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.autograd.set_detect_anomaly(False)
        for name, value in cudnn:
            setattr(torch.backends.cudnn, name, value)
        for name, value in attention:
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(value)
        vars(torch._tensor_str.PRINT_OPTS).update(options)

    return restore
