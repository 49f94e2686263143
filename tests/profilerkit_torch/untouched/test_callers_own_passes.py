"""What the caller has under way stays usable: graphs of his own passes, hooks of his optimizers, deep models."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import ModelInputs, profile
from profilerkit.backend import RunOptions
from profilerkit_torch import ComputeEvalMetric, TorchProfiler, layer_times

TRAINING = ("training_time", "layer_times", "operator_table")
TIMED = ("execution_time", "measured_memory", *TRAINING)


def measure_metric(model: nn.Module, metric: str, *x: torch.Tensor) -> Any:
    few: dict[str, Any] = {}
    if metric in ("layer_times", "operator_table"):
        few = {"passes": 2}
    elif metric in ("execution_time", "training_time"):
        few = {"num_iters": 2, "warmup": 0}
    return profile(model, ModelInputs(*(x or (ones(2, 4),))), metrics=[metric], **few).status(metric)


def make_scaled() -> nn.Module:
    """Writes to a tensor that its backward pass needs."""
    model: Any = Call(lambda self, x: self.linear(x) * self.scale.add_(1), linear=nn.Linear(4, 4))
    model.register_buffer("scale", torch.ones(4))
    return model  # type: ignore[no-any-return]


@pytest.mark.parametrize("metric", TIMED)
def test_the_backward_pass_of_a_graph_from_before(metric: str) -> None:
    """Autograd refuses it where a tensor that it needs was written to since, even if the values are there again."""
    model = make_scaled()
    loss, version = model(ones(2, 4)).sum(), model.scale._version
    measure_metric(model, metric)
    assert model.scale._version == version
    loss.backward()
    assert model.linear.weight.grad is not None  # type: ignore[union-attr]


def test_a_version_counts_where_the_values_are_not_put_back() -> None:
    """What is written to the first time after the guarded pass stays changed, and autograd must know of it."""
    calls: list[int] = []

    def late(self: Any, x: torch.Tensor) -> Any:
        calls.append(1)
        if len(calls) > 2:
            self.linear.weight.data.add_(0)
            self.linear.weight.detach().add_(1)
        return self.linear(x)

    model: Any = Call(late, linear=nn.Linear(4, 4))
    before = model.linear.weight._version
    with pytest.warns(UserWarning, match="in place"), BACKEND.run(model, ModelInputs(ones(2, 4))) as call:
        for _ in range(4):
            call()
    assert model.linear.weight._version > before


@pytest.mark.parametrize("metric", TRAINING)
def test_a_graph_that_the_model_has_kept_is_not_gone_through(metric: str) -> None:
    """Neither freed nor given gradients: what the caller's own backward pass finds is as if nothing had run."""
    before = nn.Linear(4, 4)  # a part of the caller's that the measured model knows nothing of
    model: Any = Call(lambda self, x: self.linear(x) + self.kept, linear=nn.Linear(4, 4))
    model.kept = kept = before(ones(2, 4))
    assert measure_metric(model, metric).value
    assert model.kept is kept
    assert before.weight.grad is None
    model(ones(2, 4)).sum().backward()
    assert before.weight.grad is not None


class Momentum:
    """An optimizer in the backward pass, with a state of its own outside the model."""

    def __init__(self) -> None:
        self.steps = 0

    def __call__(self, parameter: torch.Tensor) -> None:
        self.steps += 1
        with torch.no_grad():
            parameter.sub_(0.1)


@pytest.mark.parametrize("metric", TRAINING)
def test_an_optimizer_in_the_backward_pass_makes_no_step(metric: str) -> None:
    model, optimizer = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), Momentum()
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(optimizer)
    versions = [parameter._version for parameter in model.parameters()]
    assert measure_metric(model, metric).value
    assert optimizer.steps == 0
    assert [parameter._version for parameter in model.parameters()] == versions
    model(ones(2, 4)).sum().backward()
    assert optimizer.steps == 4


def test_the_order_of_hooks_stays_and_one_that_was_removed_meanwhile_is_there_again() -> None:
    model = nn.Linear(4, 4)
    handles = [model.weight.register_post_accumulate_grad_hook(hook) for hook in (Momentum(), Momentum())]
    hooks: Any = model.weight._post_accumulate_grad_hooks
    before = list(hooks.items())
    with BACKEND.run(model, ModelInputs(ones(2, 4)), options=RunOptions(training=True)) as call:
        call()
        assert not hooks
        handles[0].remove()
    assert list(hooks.items()) == before


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_tensors_that_nothing_wrote_to_keep_their_storage(layout: str) -> None:
    model: Any = Call(lambda self, x: self.linear(torch.sparse.mm(self.edges, x)), linear=nn.Linear(4, 4))
    dense = torch.eye(2)
    model.register_buffer("edges", dense.to_sparse() if layout == "coo" else dense.to_sparse_csr())
    values = model.edges._values if layout == "coo" else model.edges.values
    before = values().data_ptr(), model.edges._version
    profiler = TorchProfiler(model, {"test": [1]})
    profiler.register_profiler_function(ComputeEvalMetric(lambda model, loader: float(model(ones(2, 4)).sum())))
    profiler.compute_status("eval_metric")
    measure_metric(model, "execution_time")
    assert (values().data_ptr(), model.edges._version) == before


def nest(depth: int) -> nn.Module:
    model: nn.Module = nn.Linear(4, 4)
    for _ in range(depth):
        model = nn.Sequential(model)
    return model


@pytest.fixture(scope="module")
def deepest() -> nn.Module:
    """As deep a model as runs by itself, called from as deep as a test is."""
    if sys.version_info[:2] == (3, 12):
        pytest.skip("Python 3.12 has a limit of calls that no setting lifts")

    def runs(depth: int) -> bool:
        try:
            nest(depth)(ones(2, 4))
        except RecursionError:
            return False
        return True

    low, high = 1, sys.getrecursionlimit()
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if runs(middle) else (low, middle)
    return nest(low - 10)  # the tests are called from a little deeper


@pytest.mark.parametrize("metric", ["macs", "training_macs", *TIMED])
def test_what_is_nested_deep_enough_to_run_can_be_measured(deepest: nn.Module, metric: str) -> None:
    limit = sys.getrecursionlimit()
    status = measure_metric(deepest, metric)
    assert status.completeness.value == "complete", status.missing
    assert sys.getrecursionlimit() == limit


def test_what_is_nested_deep_enough_to_run_can_be_timed_in_a_block(deepest: nn.Module) -> None:
    with layer_times(deepest) as timer:
        deepest(ones(2, 4)).sum().backward()
    assert len(timer.table) == len(list(deepest.modules()))


def note(*given: Any) -> None:
    """Do nothing, as a hook."""


@pytest.mark.parametrize("metric", ["macs", *TIMED])
def test_what_forward_writes_on_parameters_themselves_is_taken_away(metric: str) -> None:
    def mark(self: Any, x: torch.Tensor) -> Any:
        weight = self.linear.weight
        weight.seen, weight.name_of_mine = True, "changed"
        weight.register_hook(note)
        self.linear.bias.register_post_accumulate_grad_hook(note)
        return self.linear(x)

    model: Any = Call(mark, linear=nn.Linear(4, 4))
    weight, bias = model.linear.weight, model.linear.bias
    weight.name_of_mine = "kept"
    handle = weight.register_hook(lambda gradient: gradient * 2)
    hooks, content = weight._backward_hooks, dict(weight._backward_hooks)
    assert measure_metric(model, metric).value
    assert weight.__dict__ == {"name_of_mine": "kept"}
    assert weight._backward_hooks is hooks
    assert dict(hooks) == content
    assert not bias._post_accumulate_grad_hooks
    handle.remove()


def test_what_the_compiler_writes_on_parameters_is_taken_away() -> None:
    model = nn.Linear(4, 4)
    profile(model, ones(2, 4), metrics=["execution_time"], compile="eager", num_iters=2, warmup=0)
    assert [parameter.__dict__ for parameter in model.parameters()] == [{}, {}]
