"""Layer times of real models by real clocks, as a metric and in a training loop, and that all comes back."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from source_tree import ROOT
from tiny import Call
from torch import nn
from waiting import fail_backward

from profilerkit import Completeness, InputError, ModelFailedError, ModelInputs, Profiler, WithoutValuesError, profile
from profilerkit.piping.outcome import Outcome
from profilerkit.times.layer_times import LayerTime, LayerTimeTable, layer_time_table
from profilerkit_metrics import ComputeLayerTimes
from profilerkit_torch import TorchBackend, TorchProfiler, layer_times

sys.path.insert(0, str(ROOT / "examples"))

from models import resnet18

BACKEND = TorchBackend()
X = torch.ones(4, 8)


def make_table(model: nn.Module, *args: Any, **options: Any) -> LayerTimeTable:
    return layer_time_table(BACKEND.layer_times(model, ModelInputs(*args), **{"passes": 2, **options}))


def without_times(table: LayerTimeTable) -> list[str]:
    """Return the layers that lack a time in either direction."""
    return [row["path"] for row in table if not (row["forward_seconds"] and row["backward_seconds"])]


#: How long the sleeps really were, by what was asked for; outside of the model, whose attributes are put back.
_SLEPT: dict[float, list[float]] = {}


def sleep(seconds: float) -> None:
    start = time.perf_counter()
    time.sleep(seconds)
    _SLEPT.setdefault(seconds, []).append(time.perf_counter() - start)


class Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, sleeper: Sleeper) -> torch.Tensor:
        ctx.sleeper = sleeper
        sleep(sleeper.forward_seconds)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        sleep(ctx.sleeper.backward_seconds)
        return gradients[0], None


class Sleeper(nn.Module):
    def __init__(self, forward: float, backward: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.forward_seconds, self.backward_seconds = forward, backward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Sleep.apply(x * self.weight, self)  # type: ignore[no-any-return,no-untyped-call]


def test_known_sleeps_are_found_again() -> None:
    """Within 2 ms of a sleep as long as it really was, in one pass at least: this machine may be in use."""
    model = nn.Sequential(nn.Sequential(Sleeper(0.03, 0.04), nn.ReLU(inplace=True)), Sleeper(0.05, 0.02))
    table = make_table(model, X, passes=5)
    for path, forward, backward in (("0", 0.03, 0.04), ("0.0", 0.03, 0.04), ("1", 0.05, 0.02)):
        for seconds, direction in ((forward, "forward_seconds"), (backward, "backward_seconds")):
            beyond = [measured - slept for measured in table.samples(path, direction) for slept in _SLEPT[seconds]]
            assert any(-1e-4 < difference < 0.002 for difference in beyond), (path, direction, beyond)
    for direction in ("forward_seconds", "backward_seconds"):
        whole, own = table.samples("", direction), table.samples("", f"own_{direction}")
        inside = zip(own, table.samples("0", direction), table.samples("1", direction), strict=True)
        assert whole == pytest.approx([sum(parts) for parts in inside])


@pytest.mark.slow
def test_every_layer_of_a_resnet_with_operations_in_place_has_both_times() -> None:
    model = resnet18()
    table = make_table(model, torch.randn(2, 3, 32, 32))
    assert without_times(table) == [
        row["path"] for row in table if row["path"].endswith("downsample") and row["is_leaf"]
    ]
    assert all(row["missing"] == "" for row in table)
    assert {row["path"] for row in table} == {row.path for row in BACKEND.trace(model, ModelInputs(X)).layers}
    assert (table["layer1.0.relu"]["calls"], table["layer1.0.relu"]["type"]) == (2, "ReLU")


def test_every_layer_of_a_transformer_that_returns_a_dataclass_has_both_times() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 50}
    config = transformers.BertConfig(num_hidden_layers=2, num_attention_heads=2, **sizes)
    table = make_table(transformers.BertForSequenceClassification(config), torch.ones(2, 8, dtype=torch.long))
    uncalled = [row["path"] for row in table if row["is_leaf"] and row["calls"] == 0]
    assert without_times(table) == uncalled
    assert all(row["missing"] for row in table if row["path"] in uncalled)
    assert table["bert.encoder"]["backward_seconds"] > 0


def test_the_modes_are_inference_and_a_training_step() -> None:
    seen: list[tuple[bool, bool]] = []

    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        seen.append((self.training, torch.is_grad_enabled()))
        return self.linear(x)  # type: ignore[no-any-return]

    model = Call(work, linear=nn.Linear(8, 8)).eval()
    make_table(model, X)
    assert set(seen) == {(False, False), (True, True)}
    seen.clear()
    assert make_table(model, X, backward=False)[""]["backward_seconds"] is None
    assert set(seen) == {(False, False)}


def test_the_metric_has_the_words_of_every_backend() -> None:
    report = profile(nn.Linear(8, 2), X, metrics=["layer_times"], passes=2)
    record = report.status("layer_times")
    assert (record.shown, record.completeness.value) == ("1 layer", "complete")
    assert (report["layer_times"][""]["type"], report["layer_times"][""]["calls"]) == ("Linear", 1)
    columns = ["path", "type", "depth", "is_leaf", "calls", "forward_seconds", "backward_seconds"]
    columns += ["own_forward_seconds", "own_backward_seconds", "overhead_seconds", "missing"]
    assert list(report["layer_times"][""]) == columns


def test_an_output_without_a_gradient_makes_the_table_partial() -> None:
    frozen = nn.Linear(8, 2).requires_grad_(False)
    for model in (frozen, Call(lambda self, x: self.inner(x).argmax(), inner=nn.Linear(8, 2))):
        record = profile(model, X, metrics=["layer_times"], passes=1).status("layer_times")
        assert record.missing == ("it has no backward pass: none of its outputs needs a gradient",)
        assert record.value[""]["backward_seconds"] is None
        assert record.value[""]["forward_seconds"] > 0


def test_errors_say_what_to_do() -> None:
    with pytest.raises(InputError, match="passes=0: at least one pass is needed to time anything"):
        make_table(nn.Linear(8, 2), X, passes=0)
    with pytest.raises(WithoutValuesError, match="lazy parameters"):
        make_table(nn.LazyLinear(2), X)
    with pytest.raises(ModelFailedError):
        make_table(nn.Linear(8, 2), torch.ones(1, 3))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Sequential(nn.Linear(8, 2), nn.BatchNorm1d(2)), "ValueError: Expected more than 1 value per channel when "),
        (nn.Sequential(nn.Linear(8, 2), Call(lambda self, x: fail_backward(x))), "ArithmeticError: on the way back"),
    ],
)
def test_a_training_step_that_fails_leaves_the_forward_times(model: nn.Module, reason: str) -> None:
    record = profile(model, torch.ones(1, 8), metrics=["layer_times"], passes=2).status("layer_times")
    (missing,) = record.missing
    assert missing.startswith(f"its backward pass is not timed: a training step raised {reason}")
    assert record.completeness is Completeness.PARTIAL
    assert all(row["forward_seconds"] > 0 and row["backward_seconds"] is None for row in record.value if row["calls"])
    assert make_table(model, torch.ones(1, 8), backward=False)[""]["missing"] == ""


def test_a_training_step_without_memory_is_an_error() -> None:
    model = Call(lambda self, x: self.linear(x) if not self.training else fill_memory(), linear=nn.Linear(8, 2)).eval()
    with pytest.raises(ModelFailedError, match="its training step raised RuntimeError: CUDA out of memory; use"):
        make_table(model, X)


def fill_memory() -> None:
    raise RuntimeError("CUDA out of memory")


def test_a_profiler_times_what_its_users_code_runs() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True))
    for profiler in (TorchProfiler(model), Profiler(model)):
        with profiler.layer_times() as timer:
            model(X).sum().backward()
        assert without_times(timer.table) == []
    other = nn.Tanh()
    with TorchProfiler(model).layer_times(other) as timer:
        other(X)
    assert [row["type"] for row in timer.table] == ["Tanh"]


def copy_state(model: nn.Module) -> Any:
    tensors = [(name, id(tensor), tensor.clone()) for name, tensor in model.state_dict(keep_vars=True).items()]
    modules = [
        (id(module), type(module), module.training, {key: id(value) for key, value in module.__dict__.items()})
        for module in model.modules()
    ]
    gradients = [(p.grad, p.requires_grad, p._backward_hooks) for p in model.parameters()]
    process = torch.is_grad_enabled(), torch.get_num_threads(), torch.get_rng_state()
    return tensors, modules, gradients, process


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def model_with_state(fails: Callable[[Any], bool] = lambda self: False) -> Any:
    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        if fails(self):
            raise ArithmeticError("half-way")
        return self.last(self.first(x))  # type: ignore[no-any-return]

    first = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(inplace=True))
    model: Any = Call(work, first=first, last=nn.Linear(8, 2))
    model.first.requires_grad_(False)
    model.last.weight.grad = torch.ones(2, 8)
    first[1].eval()
    return model


@pytest.mark.parametrize("where", ["nowhere", "for inference", "in training"])
def test_the_model_comes_back(where: str) -> None:
    fails = {"nowhere": lambda self: False, "for inference": lambda self: not self.training}
    model = model_with_state(fails.get(where, lambda self: self.training)).eval()
    x = X.clone()
    before = copy_state(model)
    with pytest.raises(ModelFailedError, match="half-way") if where == "for inference" else nullcontext():
        table = make_table(model, x)
        assert ("half-way" in table[""]["missing"]) is (where == "in training")
    assert same(before, copy_state(model))
    assert torch.equal(x, X), "an operation in place may not write to the caller's input"


def test_the_model_comes_back_where_its_gradient_fails() -> None:
    model = nn.Sequential(model_with_state(), Call(lambda self, x: fail_backward(x)))
    before = copy_state(model)
    assert make_table(model, X)[""]["missing"].endswith("a training step raised ArithmeticError: on the way back")
    assert same(before, copy_state(model))


def test_a_block_leaves_nothing_but_what_it_did() -> None:
    model, twin = model_with_state(), model_with_state()
    twin.load_state_dict(model.state_dict())
    attributes = [set(module.__dict__) for module in model.modules()]
    outputs = []
    for trained, timer in ((model, layer_times(model)), (twin, None)):
        torch.manual_seed(3)
        with timer or torch.enable_grad():
            kept = trained(X)
            kept.sum().backward(retain_graph=True)
        outputs.append(kept.detach())
        before = timer.table if timer else None
        kept.sum().backward()  # no hook of a graph that somebody keeps is called any more
        assert (timer.table if timer else None) == before
    assert torch.equal(*outputs)
    assert all(same(a.grad, b.grad) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    assert same([*model.state_dict().values()], [*twin.state_dict().values()])
    assert [set(module.__dict__) for module in model.modules()] == attributes


def test_the_conventions_are_those_of_tensorflow() -> None:
    """What is not called has 0.0, and passes without a backward pass have None, on both."""
    unused = Call(lambda self, x: self.used(x), used=nn.Linear(8, 2), unused=nn.Linear(8, 2))
    times = {time.path: time for time in BACKEND.layer_times(unused, ModelInputs(X), passes=2)}
    assert times["unused"].own_forward == times["unused"].own_backward == (0.0, 0.0)
    assert times["unused"].calls == 0
    assert all(isinstance(time, LayerTime) for time in times.values())
    alone = Outcome.of(ComputeLayerTimes()(unused, BACKEND, X, passes=1, backward=False)).value
    assert alone["used"]["backward_seconds"] is None
