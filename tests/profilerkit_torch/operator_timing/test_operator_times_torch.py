"""The operators of real models under torch's profiler: structure and counts; no time is asserted."""

from __future__ import annotations

import gc
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn
from torch.autograd.profiler_util import EventList, FunctionEvent
from torch.utils.checkpoint import checkpoint
from waiting import fail_backward

from profilerkit import ModelFailedError, ModelInputs, NotOfferedError, ProfilerBusyError, profile
from profilerkit.times.operator_times import OperatorTimeTable
from profilerkit_torch import TorchBackend
from profilerkit_torch.operator_timing.events import Event, Frame
from profilerkit_torch.operator_timing.ledger import OperatorLedger, Row
from profilerkit_torch.operator_timing.passes import choose_activities, is_free, measure_operator_times


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8 * 64, 10))


X = torch.ones(4, 3, 8, 8)


def make_table(model: nn.Module, *args: Any, **options: Any) -> OperatorTimeTable:
    options = {"passes": 2, "backward": False, **options}
    report = profile(model, ModelInputs(*args), metrics=["operator_table"], **options)
    found = report["operator_table"]
    assert isinstance(found, OperatorTimeTable), report.statuses["operator_table"].missing
    return found


def forward_work(found: OperatorTimeTable) -> dict[tuple[str, str], tuple[Any, Any]]:
    return {(row["operator"], row["layer"]): (row["macs"], row["flops"]) for row in found if row["phase"] == "forward"}


def test_each_row_has_the_work_of_its_formula() -> None:
    found = make_table(network(), X, passes=3)
    convolution = 4 * 8 * 64 * 27  # batch, channels out, positions, a window of 3 by 3 by 3
    linear = 4 * 10 * 512
    assert forward_work(found) == {
        ("aten::conv2d", "0"): (convolution, 2 * convolution + 4 * 8 * 64),
        ("aten::relu_", "1"): (0, 4 * 8 * 64),
        ("aten::flatten", "2"): (0, 0),
        ("aten::linear", "3"): (linear, 2 * linear + 40),
    }
    assert {row["calls"] for row in found} == {1}
    assert all(len(found.samples(index)) == 3 for index in range(len(found)))
    assert sum(row["share"] for row in found) == pytest.approx(1)
    assert {row["missing"] for row in found} == {""}


def test_operators_and_what_is_outside_are_the_whole_pass() -> None:
    found = make_table(network(), X, passes=1, backward=True)
    for phase, whole in found.whole_seconds.items():
        inside = sum(row["seconds"] for row in found if row["phase"] == phase)
        assert 0 < inside <= whole
        assert inside + found.outside_seconds[phase] == pytest.approx(whole)


def test_backward_operators_belong_to_the_layers_whose_gradients_they_compute() -> None:
    found = make_table(network(), X, backward=True)
    backward = {(row["operator"], row["layer"]): row["calls"] for row in found if row["phase"] == "backward"}
    assert backward["aten::convolution_backward", "0"] == 1
    assert backward["aten::threshold_backward", "1"] == 1
    assert backward["aten::mm", "3"] == 2  # for the weight and for the input
    assert backward["torch::autograd::AccumulateGrad", "3"] == 2
    assert backward["torch::autograd::AccumulateGrad", "0"] == 2
    assert {layer for _, layer in backward} == {"0", "1", "2", "3"}


def test_backward_rows_have_the_work_of_the_gradients() -> None:
    """The products of the convolution's weight, and of weight and input of the linear layer; no more is a product."""
    found = make_table(network(), X, backward=True)
    work = {(row["operator"], row["layer"]): row["macs"] for row in found if row["phase"] == "backward"}
    assert {key: macs for key, macs in work.items() if macs} == {
        ("aten::convolution_backward", "0"): 4 * 8 * 64 * 27,
        ("aten::mm", "3"): 2 * 4 * 10 * 512,
    }
    assert {row["missing"] for row in found} == {""}


def test_a_shared_layer_has_a_row_for_each_path_and_its_calls() -> None:
    shared = nn.Linear(4, 4)
    found = make_table(nn.Sequential(shared, nn.Sequential(shared, shared)), torch.ones(2, 4))
    calls = {row["layer"]: (row["calls"], row["macs"]) for row in found if row["operator"] == "aten::linear"}
    assert calls == {"0": (1, 32), "1.0": (2, 64)}


def test_work_that_no_layer_claims_is_the_models_own() -> None:
    found = make_table(Call(lambda self, x: self.inner(x) @ x.T, inner=nn.Identity()), torch.ones(3, 5))
    assert forward_work(found)["aten::matmul", ""][0] == 45


def test_functions_of_the_users_own_and_einsum_have_the_work_of_what_they_call() -> None:
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.exp()

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            return gradients[0]

    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bij,bkj->bik", Exp.apply(x), x)  # type: ignore[no-untyped-call]

    found = forward_work(make_table(Call(work), torch.ones(2, 3, 5)))
    assert found["Exp", ""] == (0, 30)
    assert found["aten::einsum", ""] == (2 * 3 * 3 * 5, 2 * 2 * 3 * 3 * 5)


def test_a_fused_transformer_layer_has_the_work_of_its_parts() -> None:
    """In inference mode torch runs a whole layer in one operator, and calls none of the modules inside."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    model = Call(lambda self, x: self.layer(x), layer=layer)
    report = profile(model, torch.ones(2, 5, 16), metrics=["operator_table", "macs", "flops"], passes=2, backward=False)
    found = report["operator_table"]
    assert forward_work(found) == {("aten::_transformer_encoder_layer_fwd", "layer"): (report["macs"], report["flops"])}


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # of the pass without gradients
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_a_checkpoint_runs_again_is_backward_in_its_layer(use_reentrant: bool) -> None:
    def work(self: Any, x: torch.Tensor) -> Any:
        return checkpoint(self.block, self.first(x), use_reentrant=use_reentrant)

    model = Call(work, first=nn.Linear(4, 4), block=nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    found = make_table(model, torch.ones(2, 4), backward=True)
    calls = Counter((row["operator"], row["layer"], row["phase"]) for row in found)
    assert calls["aten::tanh", "block.1", "forward"] == 1
    assert calls["aten::tanh", "block.1", "backward"] == 1  # the run again
    assert calls["aten::tanh_backward", "block.1", "backward"] == 1
    assert calls["aten::linear", "block.0", "backward"] == 1
    assert calls["aten::linear", "first", "backward"] == 0


def test_an_operator_without_a_formula_has_none_and_says_so() -> None:
    with torch.library._scoped_library("profilerkit_operators", "DEF") as library:
        library.define("odd(Tensor x) -> Tensor")
        library.impl("odd", lambda x: x.clone(), "CompositeExplicitAutograd")
        found = make_table(Call(lambda self, x: torch.ops.profilerkit_operators.odd(x)), torch.eye(3))
    (row,) = found
    assert (row["operator"], row["flops"]) == ("profilerkit_operators::odd", None)
    assert row["missing"] == "not counted: profilerkit_operators::odd"


def test_backward_work_that_is_not_traced_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, model: Any, inputs: Any) -> Any:
        raise NotOfferedError("no steps today")

    monkeypatch.setattr(TorchBackend, "trace_training", refuse)
    found = make_table(network(), X, backward=True)
    said = {row["missing"] for row in found if row["phase"] == "backward"}
    assert said == {"not counted: no steps today"}


@pytest.mark.parametrize("is_whole", [True, False])
def test_operators_of_a_compiled_model_are_its_own(is_whole: bool) -> None:
    """Hooks would have it compiled anew: no layer is followed, and nothing warns of any."""
    model: Any = nn.Sequential(nn.Linear(3, 5))
    if is_whole:
        model = torch.compile(model, backend="eager")
    else:
        model[0].compile(backend="eager")
    report = profile(model, torch.ones(2, 3), metrics=["macs", "operator_table"], passes=1)
    assert report.statuses["macs"].missing == ()
    record = report.statuses["operator_table"]
    assert record.missing == (
        "which layers the operators are of: torch.compile has compiled the model, or a part of it",
    )
    assert {row["layer"] for row in record.value} == {""}
    assert next(row["macs"] for row in record.value.by("layer") if row["phase"] == "forward") == 30


def test_a_step_that_fails_for_another_reason_is_no_step_without_gradients() -> None:
    """In training mode the output is still to be computed, so that the report says no more than why."""

    class Unfinished(nn.Linear):
        def forward(self, x: torch.Tensor) -> Any:
            output = super().forward(x)
            return (row for row in output) if self.training else output

    report = profile(Unfinished(2, 2).eval(), torch.ones(1, 2), metrics=["operator_table"], passes=1)
    (missing,) = report.statuses["operator_table"].missing
    assert "generator" in missing
    assert "no backward pass" not in missing


def test_nothing_to_train_is_said() -> None:
    model = nn.Linear(2, 2).requires_grad_(False)
    report = profile(model, torch.ones(1, 2), metrics=["operator_table"], passes=1)
    record = report.statuses["operator_table"]
    assert record.missing == ("it has no backward pass: none of its outputs needs a gradient",)
    assert {row["phase"] for row in record.value} == {"forward"}


def refuse_training(self: Any, x: torch.Tensor) -> Any:
    if torch.is_grad_enabled():
        raise ValueError("in training")
    return self.fc(x)


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda self, x: fail_backward(self.fc(x)), "ArithmeticError: on the way back"),
        (refuse_training, "ValueError: in training"),
    ],
)
def test_a_step_that_raises_leaves_the_times_of_forward_passes(forward: Any, reason: str, tmp_path: Path) -> None:
    model = Call(forward, fc=nn.Linear(4, 5))
    report = profile(model, torch.ones(2, 4), metrics=["operator_table"], passes=1, export=tmp_path / "t")
    record = report.statuses["operator_table"]
    assert record.missing == (f"its backward pass is not timed: a training step raised {reason}",)
    assert {row["phase"] for row in record.value} == {"forward"}
    assert forward_work(record.value)["aten::linear", "fc"] == (2 * 4 * 5, 2 * 2 * 4 * 5 + 2 * 5)
    assert "aten::linear" in (tmp_path / "t").read_text()


def test_a_step_without_enough_memory_raises() -> None:
    def work(self: Any, x: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.fc(x)

    with pytest.raises(ModelFailedError, match="its training step raised OutOfMemoryError: CUDA out of memory; use b"):
        measure_operator_times(Call(work, fc=nn.Linear(2, 2)), ModelInputs(torch.ones(1, 2)), passes=1)


def test_the_trace_file_has_the_operators_and_the_layers(tmp_path: Path) -> None:
    for backward, expected in ((False, set()), (True, {"AddmmBackward0"})):
        path = tmp_path / f"{backward}.json"
        make_table(network(), X, backward=backward, export=path)
        names = {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}
        assert {"aten::conv2d", "profilerkit layer: 3", *expected} <= names


def test_a_trace_file_of_a_model_without_gradients_is_that_of_a_forward_pass(tmp_path: Path) -> None:
    profile(nn.Linear(2, 2).requires_grad_(False), torch.ones(1, 2), metrics=["operator_table"], export=tmp_path / "t")
    assert "aten::linear" in (tmp_path / "t").read_text()


KINDS = (FunctionEvent, EventList, Event, Frame, Row)


def test_many_passes_keep_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stays after 100 passes is as much as after 10, but for the samples; and sessions hold few events."""
    held: list[int] = []
    add = OperatorLedger.add

    def counted(self: Any, events: Any) -> None:
        add(self, events)
        held.append(len(events))

    monkeypatch.setattr(OperatorLedger, "add", counted)
    monkeypatch.setattr("profilerkit_torch.operator_timing.passes._EVENTS_OF_A_SESSION", 400)
    left = {}
    gc.collect()
    before = Counter(map(type, gc.get_objects()))
    for passes in (10, 100):
        times = measure_operator_times(network(), ModelInputs(X), None, passes, False)
        gc.collect()
        every = Counter(map(type, gc.get_objects()))
        left[passes] = [every[kind] for kind in KINDS]
        assert len(times.operators[0].seconds) == passes
        assert sum(len(row.called or ()) for row in times.operators) == 4
    assert left[10] == left[100] == [before[kind] for kind in KINDS]
    assert max(held) <= 400


def snapshot(model: nn.Module) -> Any:
    values = [(name, tensor.tolist(), tensor.grad, id(tensor)) for name, tensor in model.named_parameters()]
    hooks = [(dict(m._forward_hooks), dict(m._forward_pre_hooks), m.training) for m in model.modules()]
    every = torch.nn.modules.module
    process = [len(every._global_forward_hooks), len(every._global_forward_pre_hooks), torch.is_grad_enabled()]
    return values, hooks, process, torch.get_rng_state().tolist(), random.getstate()


@pytest.mark.parametrize("fails", [False, True])
def test_model_and_process_are_as_before(fails: bool) -> None:
    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        if fails and torch.is_grad_enabled():
            raise ValueError("in training")
        return self.drop(self.first(x))  # type: ignore[no-any-return]

    model = Call(work, first=nn.Linear(2, 2), drop=nn.Dropout())
    before = snapshot(model)
    times = measure_operator_times(model, ModelInputs(torch.ones(1, 2)), passes=1)
    assert ("backward" in times.whole) == (not fails)
    assert snapshot(model) == before
    assert not torch._C._autograd._profiler_enabled()


def test_a_running_profiler_is_left_alone() -> None:
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as theirs,
        pytest.raises(ProfilerBusyError, match=r"one per process, and it runs already; leave its block"),
    ):
        measure_operator_times(network(), ModelInputs(X), passes=1)
    assert theirs.events() is not None


def test_a_device_that_the_profiler_does_not_see_is_said() -> None:
    with pytest.raises(NotOfferedError, match="torch's profiler does not time what operators do on mps; use layer_tim"):
        choose_activities({"cpu", "mps"})
    assert choose_activities({"cpu"}) == ([torch.profiler.ProfilerActivity.CPU], False)
    assert choose_activities({"cpu", "cuda"})[1]


def test_only_operators_that_never_compute_are_free() -> None:
    free = {
        name: is_free(name) for name in ("aten::view", "aten::slice", "aten::empty", "aten::mm", "aten::relu", "Exp")
    }
    assert free == {
        "aten::view": True,
        "aten::slice": True,
        "aten::empty": True,
        "aten::mm": False,
        "aten::relu": False,
        "Exp": False,
    }


def test_a_model_without_values_has_no_table() -> None:
    report = profile(network().to("meta"), X, metrics=["operator_table"])
    assert "no values" in report.statuses["operator_table"].missing[0]
