"""The state of the process: what a library must leave as it was, and what code of the caller's may have changed."""

from __future__ import annotations

import contextlib
import gc
import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from profilerkit_torch.costs import registry as costs
from profilerkit_torch.untouched.preservation import one_at_a_time

from .facts import Facts, Same

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


def _numpy_state() -> Any:
    return np.random.get_state()


def _list_saved_tensor_hooks() -> Any:
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return [] if hooks is None else [Same(hook) for hook in hooks]


def _functorch() -> Any:
    top = torch._C._functorch.peek_interpreter_stack()
    return None if top is None else (str(top.key()), top.level())


def _cost_tables() -> list[Any]:
    return [costs.COSTS._formulas, *(scope.formulas for scope in costs.COSTS._scopes.get())]


def _log_levels() -> Any:
    loggers = {
        name: value for name, value in logging.root.manager.loggerDict.items() if isinstance(value, logging.Logger)
    }
    noted = {name: (value.level, value.disabled, len(value.handlers)) for name, value in loggers.items()}
    return {"root": (logging.root.level, logging.root.disabled, len(logging.root.handlers)), **noted}


class Files(frozenset[str]):
    """Equal to a later look that has none but these: what only the collector had not closed yet may be gone."""

    def __eq__(self, later: object) -> bool:
        return isinstance(later, frozenset) and later <= self

    __hash__ = None  # type: ignore[assignment]


def _open_files() -> Files:
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):  # the one of the folder itself
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")  # noqa: PTH115
    return Files(found)


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
    "python random state": lambda: hash(random.getstate()),
    "numpy random state": lambda: [
        part if isinstance(part, (str, int, float)) else part.tobytes() for part in _numpy_state()
    ],
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
    "torch warns always": torch.is_warn_always_enabled,
    "switch interval": sys.getswitchinterval,
    "recursion limit": sys.getrecursionlimit,
    "garbage collector": lambda: (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
    "profile function": lambda: (Same(sys.getprofile()), Same(threading.getprofile())),
    "trace function": lambda: (Same(sys.gettrace()), Same(threading.gettrace())),
    "patched functions": _functions,
    "warnings filters": lambda: (list(warnings.filters), Same(warnings.showwarning)),
    "environment": lambda: dict(os.environ),
    "working folder": os.getcwd,
    "sys.path": lambda: list(sys.path),
    "import hooks": lambda: ([Same(part) for part in sys.meta_path], [Same(name) for name in sys.path_hooks]),
    "standard streams": lambda: [Same(getattr(sys, name)) for name in ("stdin", "stdout", "stderr")],
    "exception hooks": lambda: [Same(sys.excepthook), Same(threading.excepthook), Same(sys.unraisablehook)],
    "log levels": _log_levels,
    "signal handlers": lambda: {number: signal.getsignal(number) for number in signal.valid_signals()},
    "timers": lambda: [signal.getitimer(which)[1] for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)],
    "open files": _open_files,
    "threads": lambda: sorted(f"{thread.name} {thread.daemon}" for thread in threading.enumerate()),
    "umask": lambda: next(
        line for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if "Umask" in line
    ),
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "numpy's errors": np.geterr,
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
    environment, folder, path = dict(os.environ), os.getcwd(), list(sys.path)  # noqa: PTH109
    signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
    levels = {logger: (logger.level, logger.disabled) for logger in _loggers()}
    random_states = random.getstate(), np.random.get_state(), torch.default_generator.get_state()
    hooks = [(mapping, dict(mapping)) for name in _HOOKS if (mapping := getattr(torch_module, name)) is not None]
    limit, tracer, profiler, collects = sys.getrecursionlimit(), sys.gettrace(), sys.getprofile(), gc.isenabled()
    thread_hook, hook = threading.excepthook, sys.excepthook
    torch_state, mask = _torch_state(), os.umask(0)
    os.umask(mask)
    with warnings.catch_warnings(), np.errstate():
        try:
            yield
        finally:
            torch_state()
            for mapping, content in hooks:
                mapping.clear()
                mapping.update(content)
            random.setstate(random_states[0])
            np.random.set_state(random_states[1])
            torch.default_generator.set_state(random_states[2])
            _restore_signals(signals)
            for logger, (level, disabled) in levels.items():
                logger.setLevel(level)
                logger.disabled = disabled
            if dict(os.environ) != environment:
                os.environ.clear()
                os.environ.update(environment)
            os.chdir(folder)
            os.umask(mask)
            sys.path[:] = path
            sys.setrecursionlimit(limit)
            sys.settrace(tracer)
            sys.setprofile(profiler)
            threading.excepthook, sys.excepthook = thread_hook, hook
            (gc.enable if collects else gc.disable)()


def _loggers() -> list[logging.Logger]:
    return [
        logging.root,
        *(value for value in logging.root.manager.loggerDict.values() if isinstance(value, logging.Logger)),
    ]


def _restore_signals(signals: dict[Any, Any]) -> None:
    for number, handler in signals.items():
        if signal.getsignal(number) is not handler and handler is not None:
            signal.signal(number, handler)


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
