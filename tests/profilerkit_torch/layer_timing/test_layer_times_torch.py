"""Whose the time is, to the second: layers that let a clock of the test's own go on, and nothing else does."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn
from torch.utils.checkpoint import checkpoint
from waiting import CLOCK, Busy, X, make_timer, seconds, time_steps, wait

from profilerkit_torch import layer_times
from profilerkit_torch.layer_timing.clocks import HostClock
from profilerkit_torch.layer_timing.graph_hooks import GraphHooks
from profilerkit_torch.layer_timing.timed_calls import Overhead
from profilerkit_torch.layer_timing.timer import TorchLayerTimer


def test_parents_are_their_children_and_their_own() -> None:
    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = wait(self.first(x), 0.5, 0.25)
        return self.second(x)  # type: ignore[no-any-return]

    block = Call(work, first=Busy(1, 10), second=Busy(2, 20))
    table = time_steps(nn.Sequential(block, Busy(4, 40)))
    assert seconds(table, "forward_seconds") == {"": 7.5, "0": 3.5, "0.first": 1, "0.second": 2, "1": 4}
    assert seconds(table, "backward_seconds") == {"": 70.25, "0": 30.25, "0.first": 10, "0.second": 20, "1": 40}
    assert seconds(table, "own_forward_seconds") == {"": 0, "0": 0.5, "0.first": 1, "0.second": 2, "1": 4}
    assert seconds(table, "own_backward_seconds") == {"": 0, "0": 0.25, "0.first": 10, "0.second": 20, "1": 40}
    assert [row["missing"] for row in table] == [""] * 5


def test_several_passes_are_samples() -> None:
    model: Any = nn.Sequential(Busy(1, 10))
    with make_timer(model) as timer:
        for taken in (1.0, 5.0, 2.0):
            model[0].seconds = taken, 10 * taken
            model(X).sum().backward()
    assert timer.table.samples("0") == (1, 5, 2)
    assert timer.table.samples("", "backward_seconds") == (10, 50, 20)
    assert timer.table[""]["forward_seconds"] == 2
    assert timer.table.measurement("0", "backward_seconds").median == 20
    with timer:
        model(X)
    assert timer.table.samples("0") == (1, 5, 2, 2)
    assert timer.table.samples("0", "backward_seconds") == (10, 50, 20), "the last pass had no backward pass"
    assert [row["backward_seconds"] for row in timer.table.iterations if row["path"] == "0"] == [10, 50, 20, None]


def test_only_the_last_passes_are_kept() -> None:
    model = Busy(1, 2)
    with TorchLayerTimer(model, keep=2, clock=HostClock(CLOCK.read)) as timer:
        for taken in (1.0, 2.0, 3.0):
            model.seconds = taken, 0
            model(X)
    assert timer.table.samples("") == (2, 3)
    with pytest.raises(ValueError, match="keep=0: give a whole number from 1: at least one pass must be kept"):
        layer_times(model, keep=0)


def test_operations_in_place() -> None:
    model = nn.Sequential(Busy(1, 10), nn.ReLU(inplace=True), Busy(2, 20), nn.Dropout(0.0, inplace=True))
    table = time_steps(model)
    assert seconds(table, "forward_seconds") == {"": 3, "0": 1, "1": 0, "2": 2, "3": 0}
    assert seconds(table, "backward_seconds") == {"": 30, "0": 10, "1": 0, "2": 20, "3": 0}


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    nothing: None
    more: tuple[dict[str, torch.Tensor], ...]


def test_outputs_of_any_shape() -> None:
    def work(self: Any, x: torch.Tensor) -> Output:
        return Output(self.a(x), None, ({"b": self.b(x)}, {}))

    model = Call(work, a=Busy(1, 10), b=Call(lambda self, x: {"only": self.c(x)}["only"], c=Busy(2, 20)))
    table = time_steps(model, use=lambda output: (output.logits + output.more[0]["b"]).sum())
    assert seconds(table, "forward_seconds") == {"": 3, "a": 1, "b": 2, "b.c": 2}
    assert seconds(table, "backward_seconds") == {"": 30, "a": 10, "b": 20, "b.c": 20}


def test_what_modules_keep_leads_to_their_graph_too() -> None:
    class Balanced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.expert = Busy(1, 10), Busy(2, 20)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.balance = self.gate(x)
            self.losses = [self.gate(x)]
            self.parts = {"routing": self.gate(x)}
            self.state = self.gate(x)
            return self.expert(x)  # type: ignore[no-any-return]

    def use(output: torch.Tensor) -> Any:
        return (output + model.balance + model.losses[0] + model.parts["routing"] + model.state).sum()

    model = Balanced()
    model.register_buffer("state", None)
    table = time_steps(model, use=use)
    assert seconds(table, "backward_seconds") == {"": 60, "gate": 40, "expert": 20}


def test_a_shared_layer_has_a_row_for_each_path_and_a_sample_for_each_call() -> None:
    shared = Busy(1, 10)

    def twice(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.layer.seconds = 1, 10
        x = self.layer(x)
        self.layer.seconds = 3, 30
        return self.layer(x)  # type: ignore[no-any-return]

    table = time_steps(
        nn.Sequential(Call(twice, layer=shared), Call(lambda self, x: self.tied(x), tied=shared)), runs=2
    )
    assert {row["path"]: row["calls"] for row in table} == {"": 1, "0": 1, "0.layer": 2, "1": 1, "1.tied": 1}
    assert seconds(table, "forward_seconds") == {"": 7, "0": 4, "0.layer": 4, "1": 3, "1.tied": 3}
    assert seconds(table, "backward_seconds") == {"": 70, "0": 40, "0.layer": 40, "1": 30, "1.tied": 30}
    rows = [row for row in table.iterations if row["path"] == "0.layer"]
    assert [(row["pass"], row["call"], row["forward_seconds"], row["backward_seconds"]) for row in rows] == [
        (0, 0, 1, 10),
        (0, 1, 3, 30),
        (1, 0, 1, 10),
        (1, 1, 3, 30),
    ]
    pytest.importorskip("pandas")
    assert list(table.iterations.to_pandas().columns)[:4] == ["path", "type", "pass", "call"]


@pytest.mark.parametrize(("reentrant", "last"), [(False, 20), (True, 22)])
def test_what_a_checkpoint_runs_again_is_backward_time(reentrant: bool, last: float) -> None:
    """Forward again, 1 + 2; without re-entering, torch stops once it has all tensors, before the last layer waits."""

    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.inner, x, use_reentrant=reentrant)  # type: ignore[no-any-return]

    inner = nn.Sequential(Busy(1, 10), nn.Tanh(), Busy(2, 20))
    model = nn.Sequential(Busy(4, 40), Call(work, inner=inner))
    table = time_steps(model)
    leaves: dict[str, float] = {"0": 4, "1.inner.0": 1, "1.inner.1": 0, "1.inner.2": 2}
    assert seconds(table, "forward_seconds") == {"": 7, "1": 3, "1.inner": 3, **leaves}
    leaves = {"0": 40, "1.inner.0": 11, "1.inner.1": 0, "1.inner.2": last}
    assert seconds(table, "backward_seconds") == {"": 51 + last, "1": 11 + last, "1.inner": 11 + last, **leaves}
    assert {row["path"]: row["calls"] for row in table}["1.inner.2"] == 1


def test_what_runs_again_counts_for_the_call_that_it_was() -> None:
    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.a(checkpoint(self.a, x, use_reentrant=True))  # type: ignore[no-any-return]

    table = time_steps(nn.Sequential(Busy(0, 0), Call(work, a=Busy(1, 10))))
    assert [row["backward_seconds"] for row in table.iterations if row["path"] == "1.a"] == [11, 10]


def test_registering_hooks_is_nobodys_time(monkeypatch: pytest.MonkeyPatch) -> None:
    register = GraphHooks.register

    def slow(self: GraphHooks, outputs: Any, span: Any) -> None:
        CLOCK.now += 1000
        register(self, outputs, span)

    monkeypatch.setattr(GraphHooks, "register", slow)

    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.a, x, use_reentrant=True)  # type: ignore[no-any-return]

    table = time_steps(nn.Sequential(Busy(2, 20), Call(work, a=Busy(1, 10))))
    assert (table[""]["forward_seconds"], table[""]["backward_seconds"]) == (3, 31)


def test_a_node_that_outlives_its_graph_is_hooked_once() -> None:
    """The node that adds to a gradient lives as long as anybody holds it, as data-parallel training does."""
    model = Busy(1, 10)
    node: Any = model.weight.expand_as(model.weight).grad_fn
    (held, _), *_ = node.next_functions
    with make_timer(model, Overhead(hook=0.25)) as timer:
        for _ in range(3):
            model(X).sum().backward()
    taken = [run.calls[0].backward.extra_seconds for run in timer.runs()]
    assert taken == [taken[0]] * 3
    before = timer.table
    model(X).sum().backward()
    assert timer.table == before
    assert held.variable is model.weight


def test_frozen_layers_have_no_backward_time() -> None:
    model = nn.Sequential(Busy(1, 10), Busy(2, 20), Busy(4, 40))
    model[0].requires_grad_(False)
    table = time_steps(model)
    assert seconds(table, "backward_seconds") == {"": 60, "0": 0, "1": 20, "2": 40}
    frozen = "it has no backward pass: its weights are frozen, and nothing before it needs a gradient"
    assert [row["missing"] for row in table] == ["", frozen, "", ""]


def test_without_a_backward_pass_there_are_no_backward_times() -> None:
    model = nn.Sequential(Busy(1, 10))
    with make_timer(model) as timer, torch.no_grad():
        model(X)
    assert [row["backward_seconds"] for row in timer.table] == [None, None]
    assert timer.table[""]["missing"] == "no backward pass came through it"
    assert timer.table.samples("", "backward_seconds") == ()
    with pytest.raises(ValueError, match="backward_seconds of layer '0' has no samples: no backward pass was timed"):
        timer.table.measurement("0", "backward_seconds")


def test_an_input_with_a_gradient_and_what_came_before_it() -> None:
    before, model = Busy(100, 1000), nn.Sequential(Busy(1, 10))
    leaf = X.clone().requires_grad_()
    with make_timer(model) as timer:
        wait(model(before(leaf)), 7.0, 8.0).sum().backward()
    assert seconds(timer.table, "forward_seconds") == {"": 1, "0": 1}
    assert seconds(timer.table, "backward_seconds") == {"": 10, "0": 10}
    assert leaf.grad is not None


def test_what_lies_between_two_passes_of_one_backward_pass_is_nobodys() -> None:
    model = nn.Sequential(Busy(1, 10), Busy(2, 20))
    with make_timer(model) as timer:
        losses = [wait(model(X), 0.0, 500.0).sum() for _ in range(2)]
        (losses[0] + losses[1]).backward()
    assert timer.table.samples("", "backward_seconds") == (30, 30)
    assert timer.table.samples("1", "backward_seconds") == (20, 20)


def test_layers_called_without_the_model() -> None:
    model = nn.Sequential(Busy(1, 10), Busy(2, 20))
    with make_timer(model) as timer:
        for _ in range(2):
            wait(model[1](wait(model[0](X), 50.0, 500.0)), 50.0, 500.0).sum().backward()
    assert {row["path"]: row["calls"] for row in timer.table} == {"": 0, "0": 1, "1": 1}
    assert timer.table.samples("", "forward_seconds") == (3, 3)
    assert timer.table.samples("", "backward_seconds") == (30, 30)


def test_a_pass_of_more_calls_than_passes_are_kept_has_the_gradients_of_all() -> None:
    """The first layer's output is used again behind five others, each of which the block calls by itself."""

    class First(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return wait(x, 1, 100)

    last = Call(lambda self, x, skipped: self.inner(x) + skipped, inner=Busy(1, 10))
    model = nn.ModuleList([First(), *(Busy(1, 10) for _ in range(5)), last])
    with TorchLayerTimer(model, keep=1, clock=HostClock(CLOCK.read)) as timer:
        first = x = model[0](X.clone().requires_grad_())
        for layer in list(model)[1:-1]:
            x = layer(x.detach())
        last(x, first).sum().backward()
    assert seconds(timer.table, "own_backward_seconds")["0"] == 100


def test_a_second_backward_pass_through_one_graph_adds_to_the_first() -> None:
    model = Busy(1, 10)
    with make_timer(model) as timer:
        loss = model(X).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    assert timer.table[""]["backward_seconds"] == 20


def penalize(self: Any, x: torch.Tensor) -> torch.Tensor:
    (gradient,) = torch.autograd.grad(self.inner(x).sum(), x, create_graph=True)
    return wait(gradient, 3, 30)


def test_the_time_of_gradients_of_gradients_is_said_to_be_missing() -> None:
    """Of a penalty, as in physics-informed networks: torch makes its nodes in the backward pass, where none is seen."""
    model, x = Busy(1, 10), X.clone().requires_grad_()
    with make_timer(model) as timer:
        penalize(SimpleNamespace(inner=model), x).sum().backward()
    reason = "with create_graph=True gradients have gradients, whose time is in no layer or a wrong one"
    assert timer.table[""]["missing"] == f"its backward time is a lower bound: {reason}"


def test_gradients_of_gradients_inside_a_layer_are_of_this_layer() -> None:
    """The gradient takes 10 in the forward pass; 30 are in a node that was made in the layer itself."""
    model, x = Call(penalize, inner=Busy(1, 10)), X.clone().requires_grad_()
    with make_timer(model) as timer:
        model(x).sum().backward()
    assert seconds(timer.table, "forward_seconds") == {"": 1 + 10 + 3, "inner": 1}
    assert seconds(timer.table, "own_backward_seconds")[""] == 30
    assert timer.table[""]["missing"] == ""


def test_gradients_of_inputs_alone() -> None:
    model, x = Busy(1, 10), X.clone().requires_grad_()
    with make_timer(model) as timer:
        torch.autograd.grad(model(x).sum(), x)
    assert timer.table[""]["backward_seconds"] == 10
    assert model.weight.grad is None


def test_views_written_to_later() -> None:
    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        y[:1].mul_(2)
        return self.b(y[:1])  # type: ignore[no-any-return]

    model = Call(work, a=Busy(1, 10), b=Call(lambda self, x: wait(x, 2, 20)))
    assert seconds(time_steps(model), "backward_seconds") == {"": 30, "a": 10, "b": 20}


def test_hooks_of_the_users_run_and_count_in_their_layer() -> None:
    model = nn.Sequential(Busy(1, 10), Busy(2, 20))
    seen: list[str] = []

    def before(module: nn.Module, args: Any) -> None:
        CLOCK.now += 0.25
        seen.append("before")

    def after(module: nn.Module, args: Any, output: Any) -> Any:
        seen.append("after")
        return wait(output, 0.5, 5)

    model[1].register_forward_pre_hook(before)
    model[1].register_forward_hook(after)
    table = time_steps(model)
    assert seen == ["before", "after"]
    assert seconds(table, "forward_seconds") == {"": 3.75, "0": 1, "1": 2.75}
    assert seconds(table, "backward_seconds") == {"": 35, "0": 10, "1": 25}


def test_overhead_is_taken_out_and_said() -> None:
    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(wait(x, 1, 0)))  # type: ignore[no-any-return]

    with make_timer(Call(work, a=Busy(1, 10), b=Busy(2, 20)), Overhead(inside=0.125, outside=0.25, hook=0.5)) as timer:
        timer.layers[0][1](X)
    assert seconds(timer.table, "own_forward_seconds") == {"": 0.375, "a": 0.875, "b": 1.875}
    assert seconds(timer.table, "overhead_seconds") == {"": 0.625, "a": 0.125, "b": 0.125}
    assert timer.table[""]["forward_seconds"] == 3.125, "the 4 seconds in all, without 0.125 * 3 and 0.25 * 2"
    assert [row["missing"] for row in timer.table][1:] == ["", ""]


def test_the_overhead_of_a_real_clock_is_measured() -> None:
    with layer_times(nn.ReLU()) as timer:
        timer.layers[0][1](X)
    assert 0 < timer.table[""]["overhead_seconds"] < 0.001
