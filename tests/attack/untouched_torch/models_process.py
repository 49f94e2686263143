"""Models that change the process around them while they run, and do not put it back."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import sys
import threading
import warnings
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as torch_module

from .subjects import behaviour

__all__: list[str] = []

#: A module with settings of its own, which type checkers do not see.
_deterministic: Any = torch.utils.deterministic


@behaviour()
def sets_grad_enabled(self: Any, x: Any, y: Any) -> None:
    torch.set_grad_enabled(not torch.is_grad_enabled())


@behaviour()
def sets_default_dtype(self: Any, x: Any, y: Any) -> None:
    torch.set_default_dtype(torch.float64)


@behaviour()
def sets_default_device(self: Any, x: Any, y: Any) -> None:
    torch.set_default_device("meta" if y.is_meta else "cpu")


@behaviour()
def sets_threads(self: Any, x: Any, y: Any) -> None:
    torch.set_num_threads(1 if torch.get_num_threads() > 1 else 2)


@behaviour()
def leaves_autocast_on(self: Any, x: Any, y: Any) -> None:
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.float16)
    torch.set_autocast_cache_enabled(False)


@behaviour()
def enters_autocast(self: Any, x: Any, y: Any) -> None:
    torch.autocast("cpu", dtype=torch.bfloat16).__enter__()


@behaviour()
def sets_deterministic(self: Any, x: Any, y: Any) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    _deterministic.fill_uninitialized_memory = False


@behaviour()
def sets_backend_flags(self: Any, x: Any, y: Any) -> None:
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = True
    torch.backends.mha.set_fastpath_enabled(False)
    torch.set_float32_matmul_precision("medium")
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_math_sdp(True)


@behaviour()
def sets_flush_denormal(self: Any, x: Any, y: Any) -> None:
    torch.set_flush_denormal(True)


@behaviour()
def seeds_everything(self: Any, x: Any, y: Any) -> Any:
    torch.manual_seed(7), random.seed(7), np.random.seed(7)
    return y + torch.rand(4, device=y.device)


@behaviour()
def leaves_anomaly_mode_on(self: Any, x: Any, y: Any) -> None:
    torch.autograd.set_detect_anomaly(True)


@behaviour()
def leaves_global_hooks(self: Any, x: Any, y: Any) -> None:
    torch_module.register_module_forward_hook(lambda module, args, output: None)
    torch_module.register_module_full_backward_hook(lambda module, grad_input, grad_output: None)


def pack(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


@behaviour()
def leaves_saved_tensors_hooks(self: Any, x: Any, y: Any) -> None:
    torch.autograd.graph.saved_tensors_hooks(pack, pack).__enter__()


@behaviour()
def patches_torch(self: Any, x: Any, y: Any) -> None:
    held = torch.nn.functional.gelu
    torch.nn.functional.gelu = held


@behaviour()
def changes_warnings(self: Any, x: Any, y: Any) -> None:
    warnings.simplefilter("always", UserWarning)
    torch.set_warn_always(True)


@behaviour()
def changes_the_environment(self: Any, x: Any, y: Any) -> None:
    os.environ["ATTACKED"] = "1"
    sys.path.append("/attacked")
    os.chdir("/")
    os.umask(0o077)


@behaviour()
def changes_logging_and_signals(self: Any, x: Any, y: Any) -> None:
    logging.getLogger().setLevel(logging.CRITICAL)
    logging.getLogger("attacked").setLevel(logging.DEBUG)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)


@behaviour()
def changes_the_interpreter(self: Any, x: Any, y: Any) -> None:
    gc.disable()
    sys.setrecursionlimit(sys.getrecursionlimit() + 10)
    np.seterr(all="ignore")
    torch.set_printoptions(precision=2)


def tracer(*args: Any) -> None:
    """Trace nothing."""


@behaviour()
def leaves_a_trace_function(self: Any, x: Any, y: Any) -> None:
    sys.setprofile(tracer)
    sys.settrace(tracer)


@behaviour()
def starts_threads(self: Any, x: Any, y: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(torch.rand(4)))
    thread.start()
    thread.join()
    return y * 2


@behaviour()
def runs_its_layers_in_threads(self: Any, x: Any, y: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(self.linear(x)))
    thread.start()
    thread.join()
    return y + (found[0] if found else 0)


@behaviour(open=list)
def leaves_a_file_open(self: Any, x: Any, y: Any) -> None:
    self.open.append(open(os.devnull))  # noqa: PTH123, SIM115


class Counting(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@behaviour()
def leaves_a_function_mode(self: Any, x: Any, y: Any) -> None:
    Counting().__enter__()  # type: ignore[no-untyped-call]
