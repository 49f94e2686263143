"""Formulas for the time of a block, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hook_plugins import lasting_for_a_test
from tiny import Call, ones, trace, trace_complete
from torch import nn
from torch.nn import functional as F

from profilerkit import RegistrationConflictError
from profilerkit_torch import Cost, TorchProfiler, costs
from profilerkit_torch.costs.registry import COSTS


def seven(*_: Any, **__: Any) -> Cost:
    return Cost(7, 14)


def eight(*_: Any, **__: Any) -> Cost:
    return Cost(8, 16)


LINEAR = nn.Linear(3, 4, bias=False)
ITS_OWN = 2 * 3 * 4


def macs(model: nn.Module = LINEAR) -> int:
    return trace_complete(model, ones(2, 3)).macs


@pytest.mark.parametrize(
    "key", ["aten::linear", torch.ops.aten.linear, torch.ops.aten.linear.default, nn.Linear], ids=str
)
def test_a_formula_counts_inside_its_block_alone(key: Any) -> None:
    with costs.override({key: seven}):
        assert macs() == 7
    assert macs() == ITS_OWN


def test_the_inner_block_stands_before_the_outer_one() -> None:
    with costs.override({"aten::linear": seven}):
        with costs.override({"aten::linear": eight}):
            assert macs() == 8
        assert macs() == 7


def test_a_formula_for_all_overloads_stands_before_one_for_a_single_overload_outside() -> None:
    with costs.override({"aten::lstm": seven}):
        assert trace_complete(nn.LSTM(3, 4), ones(2, 5, 3)).macs == 7


def test_a_block_that_raises_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError), costs.override({nn.Linear: seven}):
        raise ZeroDivisionError
    assert macs() == ITS_OWN


def test_what_is_registered_inside_a_block_stays() -> None:
    """A plugin may be loaded at any time, and its formulas are not the block's."""
    with costs.scoped_costs():
        with costs.override({"aten::linear": seven}):
            costs.register_op_cost("mylib::mine", eight)
        with pytest.raises(RegistrationConflictError, match="mylib::mine has a cost formula already"):
            costs.register_op_cost("mylib::mine", seven)


@pytest.mark.parametrize(
    ("formulas", "said"),
    [
        ({"aten::linear": 3}, "formula=3 for operator aten::linear is no function"),
        ({"linear": seven}, "op='linear': cannot tell which operator it is"),
        ({int: seven}, "module_type=<class 'int'>: give a subclass of torch.nn.Module"),
    ],
)
def test_what_is_no_operator_or_no_formula_is_refused_before_anything_changes(
    formulas: dict[Any, Callable[..., Cost]], said: str
) -> None:
    with pytest.raises(TypeError, match=said), costs.override({nn.Linear: eight, **formulas}):
        pass
    assert macs() == ITS_OWN


def test_a_formula_may_say_that_shapes_do_not_tell() -> None:
    from tiny import trace

    with costs.override({"aten::linear": lambda *_, out, **__: costs.UNCOUNTED}):
        found = trace(LINEAR, ones(2, 3))
    assert (found.macs, dict(found.uncounted)) == (0, {"aten::linear": 1})


@pytest.mark.parametrize("registers", [False, True])
def test_a_formula_that_torch_has_for_another_operator_is_the_callers(registers: bool) -> None:
    """It counts while it is there, also for what was traced before, and is named; no other trace has its numbers."""
    before, inputs = nn.Sequential(nn.Tanh()), torch.ones(2, 8)
    profiler = TorchProfiler(before, inputs=inputs)
    gelu = COSTS.get("aten::gelu")
    assert gelu is not None
    as_gelu = costs.scoped_costs() if registers else costs.override({"aten::tanh": gelu})

    def flops_of_new() -> tuple[int, tuple[str, ...]]:
        trace = TorchProfiler(nn.Sequential(nn.Tanh()), inputs=inputs).compute_status("trace")
        return trace.flops, trace.conditions

    # One FLOP for each element; x * 0.5 * (1 + erf(x * constant)) has five.
    tanh, named = (2 * 8, ()), (5 * 2 * 8, ("your own cost formulas for aten::tanh",))
    assert (flops_of_new(), profiler.compute_status("trace").flops) == (tanh, tanh[0])
    with as_gelu:
        if registers:
            costs.register_op_cost("aten::tanh", gelu, override=True)
        assert (flops_of_new(), profiler.compute_status("trace").flops) == (named, named[0])
        assert TorchProfiler(nn.Tanh(), inputs=torch.ones(3, 7)).compute_status("trace").flops == 5 * 21
    assert (flops_of_new(), profiler.compute_status("trace").flops) == (tanh, tanh[0])
    assert TorchProfiler(nn.Tanh(), inputs=torch.ones(3, 7)).compute_status("trace").flops == 21


#: By the operator that is given a formula to last: two calls of it, in place or by an overload with a shipped formula.
REPLACED: dict[str, Callable[[torch.Tensor], Any]] = {
    "aten::silu": lambda x: (F.silu(x), F.silu(x.clone(), inplace=True)),
    "aten::elu": lambda x: (F.elu(x), F.elu(x.clone(), inplace=True)),
    "aten::clamp": lambda x: (x.clamp(0, 1), x.clone().clamp_(0, 1)),
    "aten::scatter_add": lambda x: [y.scatter_add_(0, torch.arange(4), x) for y in (x.clone(), x.clone())],
    "aten::rnn_relu": lambda x: [nn.RNN(4, 2, nonlinearity="relu")(x[None]) for _ in range(2)],
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_formula_that_is_registered_to_last_comes_before_all_that_are_shipped(name: str) -> None:
    with lasting_for_a_test(COSTS):
        costs.register_op_cost(name, lambda *_, out, **__: costs.Cost(0, 1000), override=True)
        found = trace(Call(lambda self, x: REPLACED[name](x)), torch.ones(4))
    assert [operator.flops for operator in found.operators if operator.flops] == [1000, 1000]
