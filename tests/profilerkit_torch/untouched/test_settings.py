"""Each setting of torch that changes numbers is named in the reports that it changes, and in no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tiny import Call
from torch import backends, nn

from profilerkit import profile
from profilerkit.backend_kit.settings import Setting
from profilerkit_torch import TorchBackend, TorchProfiler
from profilerkit_torch.compat.settings import get_precision, list_settings
from profilerkit_torch.untouched.caller_context import require_no_tracing
from profilerkit_torch.untouched.settings import SETTINGS, _list_einsum_settings

_C: Any = torch._C
_cuda: Any = backends.cuda

#: The other settings of torch, each with the reason why no report names it.
LEFT_OUT: dict[str, str] = {
    "autograd_fallback_mode": "only warns about operators without a gradient",
    "backcompat_broadcast_warn": "only warns",
    "backcompat_keepdim_warn": "only warns",
    "blas_preferred_backend": "its default is another one on each machine",
    "cpu_allow_fp16_reduced_precision_reduction": "only on ARM processors, where torch documents no default",
    "cublas_allow_bf16_reduced_precision_reduction": "in the table, by its attribute",
    "cublas_allow_fp16_reduced_precision_reduction": "in the table, by its attribute",
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


def _write_precision(module: str, operator: str) -> Callable[[Any], Any]:
    return lambda value: setattr(getattr(getattr(backends, module), operator), "fp32_precision", value)


#: How each is set, and another value than its default.
WRITERS: dict[str, tuple[Any, Any]] = {
    "torch.set_default_dtype": (torch.set_default_dtype, torch.float64),
    "torch.use_deterministic_algorithms": (torch.use_deterministic_algorithms, True),
    "torch.set_float32_matmul_precision": (torch.set_float32_matmul_precision, "high"),
    "torch.set_flush_denormal": (torch.set_flush_denormal, True),
    "torch.autograd.set_detect_anomaly": (torch.set_anomaly_enabled, True),
    "torch.backends.opt_einsum.enabled": (lambda value: setattr(backends.opt_einsum, "enabled", value), False),
    "torch.backends.opt_einsum.strategy": (lambda value: setattr(backends.opt_einsum, "strategy", value), "greedy"),
    "torch.backends.mha.set_fastpath_enabled": (backends.mha.set_fastpath_enabled, False),
    "torch.backends.cuda.enable_flash_sdp": (_cuda.enable_flash_sdp, False),
    "torch.backends.cuda.enable_mem_efficient_sdp": (_cuda.enable_mem_efficient_sdp, False),
    "torch.backends.cuda.enable_math_sdp": (_cuda.enable_math_sdp, False),
    "torch.backends.cuda.enable_cudnn_sdp": (_cuda.enable_cudnn_sdp, False),
    "torch.backends.cudnn.enabled": (_C._set_cudnn_enabled, False),
    "torch.backends.cudnn.benchmark": (_C._set_cudnn_benchmark, True),
    "torch.backends.cudnn.deterministic": (_C._set_cudnn_deterministic, True),
    "torch.backends.cudnn.allow_tf32": (_C._set_cudnn_allow_tf32, False),
    "torch.backends.mkldnn.enabled": (_C._set_mkldnn_enabled, False),
    "torch.backends.mkldnn.deterministic": (_C._set_mkldnn_deterministic, True),
    "torch.backends.nnpack.enabled": (_C._set_nnpack_enabled, False),
    "torch.backends.cuda.matmul.allow_fp16_accumulation": (
        getattr(_C, "_set_cublas_allow_fp16_accumulation", None),
        True,
    ),
    **{
        f"torch.backends.cuda.matmul.{name}": (partial(setattr, backends.cuda.matmul, name), False)
        for name in ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    },
    **{
        f"torch.backends.{module}.{operator}.fp32_precision": (_write_precision(module, operator), value)
        for module, operator, value in (
            ("cuda", "matmul", "tf32"),
            ("cudnn", "conv", "ieee"),
            ("cudnn", "rnn", "ieee"),
            *(("mkldnn", operator, "bf16") for operator in ("matmul", "conv", "rnn")),
        )
    },
}
TABLE = {setting.name: setting for setting in SETTINGS}


def conditions(*metrics: str) -> tuple[str, ...]:
    few: Any = {"num_iters": 2, "warmup": 0} if "execution_time" in metrics else {}
    report = profile(nn.Linear(8, 8), torch.zeros(2, 8), metrics=metrics, **few)
    return report.conditions


@pytest.fixture(params=TABLE)
def setting(request: pytest.FixtureRequest) -> Setting:
    return TABLE[request.param]


@pytest.fixture
def switched_on(setting: Setting) -> Any:
    write, value = WRITERS[setting.name]
    precision = torch.get_float32_matmul_precision()
    previous = setting.read()
    write(value)
    yield f"{setting.name}: {value}"
    write(previous)
    if "precision" in setting.name:  # the old and the new names of one setting
        torch.set_float32_matmul_precision(precision)
    assert setting.read() == setting.default


def test_nothing_is_switched_at_first() -> None:
    assert conditions("macs", "execution_time") == ()


def test_a_setting_is_named_where_it_changes_something(setting: Setting, switched_on: str) -> None:
    assert switched_on in conditions("macs", "execution_time")
    assert (switched_on in conditions("macs")) is setting.counts


@pytest.mark.skipif(get_precision is None, reason="torch 2.9 has it")
def test_a_precision_of_all_libraries_is_named_where_it_changes_one() -> None:
    """The convolutions and recurrent layers of cuDNN compute with tf32 by default."""
    changed = ("cuda.matmul", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
    for name in changed:
        _write_precision(*name.split("."))("none")  # as it is before anything was set
    _C._set_fp32_precision_setter("generic", "all", "tf32")
    try:
        assert conditions("execution_time") == tuple(f"torch.backends.{name}.fp32_precision: tf32" for name in changed)
    finally:
        _C._set_fp32_precision_setter("generic", "all", "none")


def test_a_profiler_does_not_remember_values_under_another_setting(setting: Setting) -> None:
    model = nn.Linear(8, 8)
    before = TorchBackend().fingerprint(model)
    write, value = WRITERS[setting.name]
    previous = setting.read()
    write(value)
    try:
        assert TorchBackend().fingerprint(model) != before
    finally:
        write(previous)


def test_no_report_names_a_setting_after_it_was_put_back() -> None:
    profiler = TorchProfiler(nn.Linear(8, 8), inputs=torch.zeros(2, 8)).register_defaults()
    torch.set_default_dtype(torch.float64)
    try:
        assert profiler.compute_status("trace").conditions == ("torch.set_default_dtype: torch.float64",)
    finally:
        torch.set_default_dtype(torch.float32)
    assert profiler.compute_status("trace").conditions == ()


def test_every_setting_of_torch_is_in_the_table_or_left_out_with_a_reason() -> None:
    """A setting that a new release adds is noticed here."""
    in_table = {getattr(setting.read, "__name__", "").removeprefix("_get_") for setting in SETTINGS}
    names = {name.removeprefix("_get_") for name in dir(_C) if name.startswith("_get_")}
    names = {name for name in names if hasattr(_C, f"_set_{name}")}
    assert names - in_table <= LEFT_OUT.keys()


def test_the_kernels_of_attention_are_all_in_the_table() -> None:
    switches = {name for name in vars(backends.cuda) if name.startswith("enable_")}
    assert {f"torch.backends.cuda.{name}" for name in switches} <= TABLE.keys()


def test_a_package_that_is_not_installed_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch reads as if it had been switched off, which a report would say to all who installed torch alone."""
    monkeypatch.setattr(backends.opt_einsum, "is_available", lambda: False)
    assert list(_list_einsum_settings()) == []


def test_an_einsum_of_three_depends_on_the_search_for_an_order() -> None:
    """50 x 2, 2 x 50, 50 x 2: from the left 2 * 50 * 2 * 50 products, from the right 2 * 2 * 50 * 2."""
    if not backends.opt_einsum.is_available():
        pytest.skip("opt_einsum is not installed")

    products = Call(lambda self, *matrices: torch.einsum("ij,jk,kl->il", *matrices))
    inputs = torch.zeros(50, 2), torch.zeros(2, 50), torch.zeros(50, 2)
    assert profile(products, inputs, metrics=["macs"])["macs"] == 400
    setattr(backends.opt_einsum, "enabled", False)  # noqa: B010 - torch gives it no type
    try:
        report = profile(products, inputs, metrics=["macs"])
    finally:
        setattr(backends.opt_einsum, "enabled", True)  # noqa: B010
    assert report["macs"] == 10_000
    assert report.conditions == ("torch.backends.opt_einsum.enabled: False",)


def _another(value: Any) -> Any:
    """Return another value of a setting; None where it is neither true nor false."""
    if isinstance(value, bool):
        return not value
    return tuple(not part for part in value) if isinstance(value, tuple) else None


SWITCHES = {read.__name__: (read, write) for read, write in list_settings() if _another(read()) is not None}


@pytest.mark.parametrize("name", SWITCHES)
def test_what_a_model_switches_in_torchs_own_code_is_put_back(name: str) -> None:
    """Each setting that torch keeps in C++, those that a later release adds too."""
    read, write = SWITCHES[name]
    before = read()
    other = _another(before)

    def switch(self: Any, x: torch.Tensor) -> torch.Tensor:
        write(other)
        return x * 2

    profile(Call(switch), torch.zeros(2), metrics=["macs", "execution_time"], num_iters=2, warmup=0)
    after = read()
    write(before)
    assert after == before


def test_a_device_whose_kernel_failed_is_not_asked_whether_it_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> bool:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", fail)
    require_no_tracing()
