"""Running a model for real, and where. How long it takes is nobody's to assert; that it took any time is."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import Device, DeviceNotAvailableError, InputError, ModelInputs, compare, profile
from profilerkit.backend import RunOptions
from profilerkit_torch.running.devices import memory_reader
from profilerkit_torch.untouched.mutable_inputs import InputObjects

NO_GPU = not torch.cuda.is_available()


def call_model(model: nn.Module, x: torch.Tensor, times: int = 3, device: Any = None) -> None:
    with BACKEND.run(model, ModelInputs(x), RunOptions(device=device)) as call:
        for _ in range(times):
            call()


class Counting(nn.Module):
    """Counts its calls in a list of the test's, and notes the modes it runs in."""

    def __init__(self, seen: list[tuple[bool, bool, bool]]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.note = seen.append

    def forward(self, x: torch.Tensor) -> Any:
        self.note((self.training, torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return self.layer(x)


def test_the_model_runs_without_gradients_once_more_than_it_is_called() -> None:
    seen: list[tuple[bool, bool, bool]] = []
    model = Counting(seen).train()
    call_model(model, ones(2, 4))
    assert seen == [(False, False, False)] * 4, "no training, no gradients, and no inference tensors to stay behind"
    assert model.training


def test_a_model_that_inference_mode_would_break_runs() -> None:
    seen: list[bool] = []

    def force(self: Any, x: torch.Tensor) -> Any:
        seen.append(torch.is_inference_mode_enabled())
        if torch.is_inference_mode_enabled():
            raise RuntimeError("Inference tensors do not track version counter.")
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.layer(x).sum(), x)[0]

    model = Call(force, layer=nn.Linear(4, 4))
    call_model(model, ones(2, 4), times=2)
    assert seen == [False, False, False]


def test_gradients_in_the_forward_pass_can_be_timed_and_counted() -> None:
    def force(self: Any, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.layer(x).sum(), x)[0]

    report = profile(Call(force, layer=nn.Linear(4, 4)), ones(2, 4), num_iters=2, warmup=0)
    assert report["macs"] == 2 * (2 * 4 * 4)
    assert float(report["execution_time"]) > 0


def test_an_error_of_the_model_is_the_error() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        call_model(nn.Linear(4, 4), ones(2, 5))


@pytest.mark.parametrize(
    ("device", "resolved"), [(None, "cpu"), (Device.CPU, "cpu"), ("cpu", "cpu"), ("cpu:0", "cpu:0"), ("meta", "meta")]
)
def test_device_strings(device: Any, resolved: str) -> None:
    assert BACKEND.resolve_device(nn.Linear(1, 1), device) == resolved


def test_without_a_device_the_model_runs_where_it_is() -> None:
    with torch.device("meta"):
        assert BACKEND.resolve_device(nn.Linear(1, 1), None) == "meta"
        assert BACKEND.resolve_device(nn.ReLU(), None) == "cpu"
        assert BACKEND.resolve_device(nn.BatchNorm1d(2, affine=False), None) == "meta"


@pytest.mark.parametrize("device", ["abacus", "cuda:99", "cpu:x", ""])
def test_a_device_that_is_not_there(device: str) -> None:
    with pytest.raises(DeviceNotAvailableError, match=r"torch knows no device|is not there; torch .* sees here: cpu"):
        BACKEND.resolve_device(nn.Linear(1, 1), device)


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU here")
@pytest.mark.parametrize("device", [Device.GPU, "cuda", "cuda:0", "mps"])
def test_without_a_gpu_nothing_runs_before_that_is_said(device: Any) -> None:
    seen: list[tuple[bool, bool, bool]] = []
    model = Counting(seen)
    with pytest.raises(DeviceNotAvailableError, match=r"sees no accelerator here; use Device\.CPU|is not there; torch"):
        call_model(model, ones(2, 4), device=device)
    with pytest.raises(DeviceNotAvailableError):
        BACKEND.evaluate(model, lambda: model(ones(2, 4)), device)
    assert seen == []


def test_a_model_on_the_meta_device_has_static_metrics_alone() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    report = profile(model, ones(2, 4), num_iters=2, warmup=0)
    assert (report["macs"], report["total_params"]) == (32, 28)
    assert "the model is on the meta device" in str(report.status("execution_time").missing)
    with pytest.raises(InputError, match=r"materialise it with model\.to_empty"):
        BACKEND.evaluate(model, lambda: 0)


def test_one_weight_on_the_meta_device_is_enough_to_say_so() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, device="meta"))
    with pytest.raises(InputError, match="the model is on the meta device"):
        call_model(model, ones(2, 4))


def test_lazy_layers_must_be_sized_before_a_run() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    for run in (lambda: call_model(model, ones(2, 4)), lambda: BACKEND.evaluate(model, lambda: 0)):
        with pytest.raises(InputError, match="lazy parameters without values; call it once"):
            run()


@pytest.mark.gpu
@pytest.mark.skipif(NO_GPU, reason="no GPU here")
def test_a_run_on_the_gpu_leaves_the_model_on_the_cpu() -> None:
    seen: list[torch.device] = []

    def run(self: Any, x: torch.Tensor) -> Any:
        seen.extend((x.device, self.layer.weight.device))
        return self.layer(x)

    layer = nn.Linear(4, 4)
    model, weight = Call(run, layer=layer), layer.weight
    call_model(model, ones(2, 4), times=1, device=Device.GPU)
    assert {device.type for device in seen} == {"cuda"}
    assert layer.weight is weight
    assert weight.device.type == "cpu"


@pytest.mark.gpu
@pytest.mark.skipif(NO_GPU, reason="no GPU here")
def test_counts_on_the_gpu_are_those_of_the_cpu() -> None:
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).half()
    x = ones(2, 5, 16, dtype=torch.float16)
    on_cpu = BACKEND.trace(model, ModelInputs(x))
    on_gpu = BACKEND.trace(model.cuda(), ModelInputs(x.cuda()))
    assert (on_gpu.macs, on_gpu.flops) == (on_cpu.macs, on_cpu.flops)


def test_the_environment_says_what_a_repetition_needs() -> None:
    facts = BACKEND.environment()
    assert facts["torch"] == torch.__version__
    assert facts["intra_op_threads"] == str(torch.get_num_threads())


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (
            "cuda",
            {"accelerators": "GPU 0, GPU 1", "accelerator_memory_bytes": "80, 80", "cuda": "12.9", "cudnn": "91000"},
        ),
        ("mps", {"accelerators": "mps:0, mps:1"}),
        (None, {}),
    ],
)
def test_the_environment_names_accelerators(
    kind: str | None, facts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for what torch says of a machine that has two of them."""

    def properties(index: int) -> SimpleNamespace:
        return SimpleNamespace(name=f"GPU {index}", total_memory=80)

    found = None if kind is None else torch.device(kind)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: found)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: found is not None)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91000)
    environment = BACKEND.environment()
    assert environment["intra_op_threads"] == str(torch.get_num_threads())
    assert environment["inter_op_threads"] == str(torch.get_num_interop_threads())
    assert {name: value for name, value in environment.items() if "threads" not in name and name != "torch"} == facts


CALLS = {"n": 0}


class CountsItsRuns(nn.Module):
    """Changes a global variable that its code reads, as a model does that counts its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        CALLS["n"] += 1
        return self.layer(x)


def test_models_that_change_with_every_run_are_measured_once_in_turn() -> None:
    """A pass each to begin with, one to warm up, five samples, one that is observed: not all of it one by one again."""
    CALLS["n"] = 0
    comparison = compare(
        CountsItsRuns(), CountsItsRuns(), inputs=torch.zeros(1, 4), metrics=["execution_time"], num_iters=5, warmup=1
    )
    assert comparison.ratio("execution_time").paired
    assert CALLS["n"] == 2 * (1 + 1 + 5 + 1)


class _Memory:
    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def max_memory_allocated(self, device: torch.device) -> int:
        if self._error is not None:
            raise self._error
        return 7


@pytest.mark.parametrize(
    ("own", "general", "reads"),
    [
        (_Memory(None), _Memory(None), "own"),
        (_Memory(NotImplementedError()), _Memory(None), "general"),
        (object(), _Memory(None), "general"),  # MPS has other names
        (object(), _Memory(RuntimeError("no allocator")), None),
        (object(), object(), None),  # before torch 2.9
    ],
)
def test_memory_is_read_where_torch_reports_it(
    own: Any, general: Any, reads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "xpu", own)
    monkeypatch.setattr(torch, "accelerator", general)
    found = memory_reader(torch.device("xpu"))
    assert found is {"own": own, "general": general, None: None}[reads]


class Promising(nn.Module):
    """Returns a future, alone or inside a structure."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.linear, self.wrap = nn.Linear(3, 3), wrap

    def forward(self, x: torch.Tensor) -> Any:
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(self.linear(x))
        return self.wrap(future)


@pytest.mark.parametrize("metric", ["macs", "training_macs", "execution_time", "training_time"])
@pytest.mark.parametrize("wrap", [lambda future: future, lambda future: {"y": [future]}], ids=["alone", "inside"])
def test_a_future_is_no_result(wrap: Any, metric: str) -> None:
    """Its work may still be under way when the call returns."""
    with pytest.raises(InputError, match="^the model returned a Future, and its work is done only when that is read"):
        profile(Promising(wrap).eval(), torch.ones(1, 3), metrics=[metric], strict=True)


@pytest.mark.parametrize("training", [False, True])
def test_what_restores_the_inputs_is_not_timed(training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass takes a second forward; to give a cache its contents back takes a hundred."""
    now = [0.0]

    def tick(seconds: float) -> None:
        now[0] += seconds

    class Ticking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, cache: list[int]) -> torch.Tensor:
            tick(1)
            assert cache == [1], "it was restored"
            cache.append(2)
            output: torch.Tensor = self.linear(x)
            return output

    restore = InputObjects.restore

    def restore_slowly(objects: InputObjects) -> None:
        tick(100)
        restore(objects)

    monkeypatch.setattr(InputObjects, "restore", restore_slowly)
    with BACKEND.run(Ticking(), ModelInputs(ones(1, 3), [1]), RunOptions(training=training)) as run:
        assert run.seconds(lambda: now[0]) == 1
        assert run.parts(lambda: now[0]) == ({"forward": 1, "backward": 0} if training else {})
        run()


@dataclass
class Keys:
    keys: torch.Tensor


def grow(cache: Any, keys: torch.Tensor) -> int:
    """Add keys to a cache; return how many it has then."""
    if isinstance(cache, list):
        cache[0] = torch.cat((cache[0], keys))
        return len(cache[0])
    if isinstance(cache, dict):
        return grow(cache["layers"], keys)
    cache.keys = torch.cat((cache.keys, keys))
    return len(cache.keys)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make", [lambda x: [x], lambda x: {"layers": [x]}, Keys, lambda x: {"layers": Keys(x)}])
def test_a_cache_among_the_inputs_grows_in_no_later_pass(make: Any, training: bool) -> None:
    """Each pass has the same work: one more key than the three that were given."""
    lengths: list[int] = []

    class Caching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
            output: torch.Tensor = self.linear(x)
            lengths.append(grow(cache, output.detach()))
            return output

    cache = make(ones(3, 3))
    with BACKEND.run(Caching(), ModelInputs(ones(1, 3), cache), RunOptions(training=training)) as run:
        for _ in range(3):
            run()
        run.seconds()
    assert lengths == [4] * 5
    assert grow(cache, ones(1, 3)) == 4, "the user's own has not grown"
