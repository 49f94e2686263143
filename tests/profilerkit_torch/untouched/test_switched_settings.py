"""What a forward pass switches on in torch and in the process is switched off again."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import Call, trace
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from profilerkit import profile
from profilerkit_torch import ComputeEvalMetric, TorchProfiler

X = torch.ones(2, 4)
DETERMINISTIC: Any = torch.utils.deterministic


def _list_existing(holder: Any, name: str) -> list[Callable[..., Any]]:
    return [getattr(holder, name)] if hasattr(holder, name) else []


def fp32_precision() -> Any:
    try:
        return torch.backends.cuda.matmul.fp32_precision
    except AttributeError:  # before torch 2.9
        return None


#: What only later releases of torch than 2.6 have.
OTHER_MODES = _list_existing(_python_dispatch, "is_in_any_mode_without_ignore_compile_internals")
SAVED = _list_existing(torch._C._autograd, "_top_saved_tensors_default_hooks")


def settings() -> Any:
    return {
        "autocast": (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ),
        "device": torch.get_default_device(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "precision": (torch.get_float32_matmul_precision(), fp32_precision()),
        "anomaly": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "attention": (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()),
        "mkldnn": torch.backends.mkldnn.enabled,
        "hooks": list(nn.modules.module._global_forward_hooks),
        "saved": [ask(True) for ask in SAVED],
        "modes": len(_get_current_dispatch_mode_stack()),
        "whether in modes": (
            _python_dispatch.is_in_torch_dispatch_mode(),
            _python_dispatch.is_in_torch_dispatch_mode(False),
            *(ask() for ask in OTHER_MODES),
        ),
        "filled": DETERMINISTIC.fill_uninitialized_memory,
        "multithreading": torch.autograd.is_multithreading_enabled(),
        "exceptions": (sys.excepthook, sys.unraisablehook, threading.excepthook),
    }


def switch_everything() -> None:
    torch.set_autocast_enabled("cpu", not torch.is_autocast_enabled("cpu"))
    torch.set_autocast_dtype("cpu", torch.float16)
    torch.set_autocast_cache_enabled(False)
    torch.set_default_device("cpu")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_float32_matmul_precision("high")
    torch.set_anomaly_enabled(True, False)
    torch.backends.cuda.enable_flash_sdp(False)
    torch._C._set_mkldnn_enabled(False)
    register_module_forward_hook(lambda module, args, output: None)
    if SAVED:
        torch._C._autograd._push_saved_tensors_default_hooks(lambda tensor: tensor, lambda tensor: tensor)
    if torch.__version__ >= "2.11":  # torch 2.6 and 2.10 crash in the next pass
        torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True).__enter__()
    DETERMINISTIC.fill_uninitialized_memory = False
    torch._C._set_multithreading_enabled(False)
    ignored: Any = repr
    sys.excepthook = sys.unraisablehook = threading.excepthook = ignored


def trace_model(model: nn.Module) -> None:
    trace(model, X)


def time_model(model: nn.Module) -> None:
    profile(model, X, metrics=["execution_time"], num_iters=2, warmup=0)


def evaluate(model: nn.Module) -> None:
    profiler = TorchProfiler(model, {"test": [X]})
    profiler.register_profiler_function(ComputeEvalMetric(lambda network, loader: float(network(X) is not None)))
    profiler.compute_status("eval_metric")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("run", [trace_model, time_model, evaluate])
def test_what_forward_switches_on_is_switched_off(run: Callable[[nn.Module], Any], raises: bool) -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        y = self.layer(x)
        switch_everything()
        if raises:
            raise RuntimeError("half-way")
        return y

    model, before = Call(forward, layer=nn.Linear(4, 4)), settings()
    try:
        run(model)
    except RuntimeError:
        assert raises
    assert settings() == before
    assert torch.equal(nn.Linear(4, 4).weight.data * 0, torch.zeros(4, 4))


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="this release of torch has no newer names")
def test_settings_that_torch_refuses_to_read_do_no_harm() -> None:
    """With the newer names of the precision set differently, the older ones raise when they are read."""
    convolutions: Any = torch.backends.cudnn.conv  # type: ignore[attr-defined]
    before = convolutions.fp32_precision
    convolutions.fp32_precision = "ieee"
    try:
        with pytest.raises(RuntimeError):
            torch.backends.cudnn.allow_tf32  # noqa: B018
        assert trace(nn.Linear(4, 3), X).failure is None
        assert convolutions.fp32_precision == "ieee"
    finally:
        convolutions.fp32_precision = before
