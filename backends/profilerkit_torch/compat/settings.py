"""Settings of the process that torch keeps, and the default device of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from profilerkit.backend_kit.private_names import find

from .names import find_first

_device_module: Any = find("torch.utils._device")
_device_context: Any = find("torch._GLOBAL_DEVICE_CONTEXT")
#: Whether the default device can be read and restored; else a model that changes it leaves it changed.
_HAS_DEVICE = find_first(
    "torch.utils._device.CURRENT_DEVICE.__class__",
    instead=None,
    off="a default device that a model sets while it runs is not put back",
)


#: In place of the mode, an attribute that torch has from the first call on; torch 2.6 accepts no None for it.
_NEVER_SET = object()


def read_default_device() -> tuple[Any, Any]:
    """Return the default device of tensors in the form for `set_default_device`: the device, and its mode."""
    return getattr(_device_module, "CURRENT_DEVICE", None), getattr(_device_context, "device_context", _NEVER_SET)


def set_default_device(value: tuple[Any, Any]) -> None:
    """Restore the default device."""
    if _HAS_DEVICE is None or _device_context is None:
        return
    _device_module.CURRENT_DEVICE, mode = value
    if mode is not _NEVER_SET:
        _device_context.device_context = mode
    elif hasattr(_device_context, "device_context"):
        del _device_context.device_context


#: Whether scripts fuse operators; else a forked child is left with the setting of a pass.
graph_executor: tuple[Callable[[], bool], Callable[[bool], None]] = (
    find_first("torch._C._get_graph_executor_optimize", instead=lambda: True),
    find_first("torch._C._set_graph_executor_optimize", instead=lambda value: None),
)


#: Pairs of a getter and a setter whose values are restored elsewhere, or are no settings of the process.
_NO_SETTINGS = frozenset(
    {
        *("cublas_allow_tf32", "onednn_allow_tf32", "float32_matmul_precision"),  # other names of a precision
        *("deterministic_algorithms", "dispatch_mode", "graph_exec_group", "graph_executor_optimize", "rng_state"),
        *("tensor_metadata", "thread_name", "torch_function_state", "tracing_state", "value_trace"),
    }
)


def list_settings() -> Iterator[tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Yield the getter and the setter of each setting that torch keeps in C++, also of settings of later releases.

    The setter of a pair of values gets both of them.
    """
    functions = getattr(find("torch._C"), "__dict__", {})
    for name, read in functions.items():
        kept = name.removeprefix("_cuda").removeprefix("_get_")
        write = functions.get(name.replace("get_", "set_", 1))
        is_getter = name in (f"_get_{kept}", f"_cuda_get_{kept}") and kept not in _NO_SETTINGS
        if write is not None and is_getter and _takes_nothing(read):
            yield read, partial(_write, write)


def _takes_nothing(read: Callable[[], Any]) -> bool:
    """Return whether a getter can be called without arguments."""
    try:
        read()
    except TypeError:
        return False
    except RuntimeError:  # the setting cannot be read now
        pass
    return True


def _write(write: Callable[..., Any], value: Any) -> None:
    write(*value) if isinstance(value, tuple) else write(value)


def find_getter(name: str) -> Callable[[], Any] | None:
    """Return the getter of a setting that torch keeps in C++; None if this release has none, and no report names it."""
    getter: Callable[[], Any] | None = find(f"torch._C.{name}")
    return getter


#: The precision of float32 for an operator of a library: torch 2.9 and newer; else there is no such setting.
get_precision: Callable[[str, str], str] | None = find_first("torch._C._get_fp32_precision_getter")
set_precision: Callable[[str, str, str], None] | None = find_first("torch._C._set_fp32_precision_setter")
