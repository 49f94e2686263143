"""Whatever a model is made of: what its layers do themselves adds up to the total, and parameters count once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Call, ones, trace_complete
from torch import nn

from profilerkit import profile

ROWS = 2
#: What a block does, one after the other: calls a layer of its own, one that another block holds, or one made by the
#: model for all; multiplies by itself; calls a layer and raises; makes a layer and calls it.
ACTIONS = ("own", "other", "shared", "product", "raise", "inline")


class Block(nn.Module):
    """Does as it is told."""

    def __init__(self, plan: list[Any], shared: nn.Module, others: list[nn.Module]) -> None:
        super().__init__()
        self.plan = plan
        self.own = nn.Linear(8, 8, bias=False)
        self.shared = shared
        self.blocks = nn.ModuleList(Block(step, shared, others) for step in plan if isinstance(step, list))
        self.others = others  # a plain list: these layers are not this block's

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = iter(self.blocks)
        result = x
        for step in self.plan:
            result = next(inside)(result) if isinstance(step, list) else self.does(step, result)
        return result

    def does(self, step: str, x: torch.Tensor) -> torch.Tensor:
        if step == "product":
            return x @ torch.ones(8, 8)
        if step == "inline":
            made: torch.Tensor = nn.Linear(8, 8, bias=False)(x)
            return made
        if step == "raise":
            try:
                Call(refuse, held=[self.own])(x)
            except ValueError:
                return x
        layer: nn.Module = {"own": self.own, "shared": self.shared, "other": self.others[0]}[step]
        result: torch.Tensor = layer(x)
        return result


def refuse(self: Any, x: torch.Tensor) -> None:
    """Call a layer that is not the module's own, and raise."""
    self.held[0](x)
    raise ValueError("not today")


def make_net(plan: list[Any]) -> Call:
    elsewhere, idle, shared = (nn.Linear(8, 8, bias=False) for _ in range(3))
    top = Block(plan, shared, [elsewhere])
    return Call(lambda self, x: self.top(x).relu(), elsewhere=elsewhere, idle=idle, top=top)


def products(plan: list[Any]) -> int:
    """Return how many products of 8 x 8 a plan leads to: one for each of its steps."""
    return sum(products(step) if isinstance(step, list) else 1 for step in plan)


STEPS = st.sampled_from(ACTIONS)
PLANS = st.recursive(st.lists(STEPS, max_size=4), lambda inner: st.lists(inner | STEPS, max_size=4), max_leaves=12)


@settings(max_examples=60)
@given(plan=PLANS, rows=st.integers(1, 3))
def test_own_work_adds_up_however_modules_are_nested_shared_and_called(plan: list[Any], rows: int) -> None:
    model = make_net(plan)
    found = trace_complete(model, ones(rows, 8))
    expected = products(plan) * rows * 8 * 8
    assert found.macs == expected
    assert found.flops == 2 * expected + rows * 8  # the ReLU at the end
    for column in ("macs", "flops"):
        total = getattr(found, column)
        assert sum(row[f"own_{column}"] for row in found.table) == total
        assert sum(row[f"own_{column}"] for row in found.call_table) == total
        assert sum(row[column] for row in found.table.by_type()) == total
        assert found.table[""][column] == found.call_table[0][column] == total
    params = sum(parameter.numel() for parameter in model.parameters())
    assert found.total_params == found.table[""]["params"] == params
    assert sum(row["calls"] for row in found.table) == sum(1 for _ in found.call_table)
    assert found.table["idle"]["calls"] == 0
    assert all(0 <= row["params_share"] <= 1 for row in found.table)


@settings(max_examples=20)
@given(plan=PLANS, left=st.sampled_from(["Linear", "top.*", "elsewhere", "*.own"]))
def test_leaving_layers_out_leaves_the_sum_of_the_others(plan: list[Any], left: str) -> None:
    from profilerkit.trace.ignoring import without_layers

    found = trace_complete(make_net([*plan, ["own"]]), ones(ROWS, 8))
    rest = without_layers(found, [left])
    kept = {layer.path for layer in rest.layers}
    assert 0 < len(kept) < len(found.layers)
    assert rest.macs == sum(row["own_macs"] for row in found.table if row["path"] in kept)
    assert sum(row["own_macs"] for row in rest.table) == rest.macs
    assert sum(row["own_macs"] for row in rest.call_table) == rest.macs
    assert rest.memory == found.memory


def test_a_layer_that_calls_itself_has_its_calls_in_order() -> None:
    def halve(self: Any, x: torch.Tensor) -> Any:
        if len(x) > 1:
            self(x[: len(x) // 2])
        return self.linear(x)

    found = trace_complete(Call(halve, linear=nn.Linear(8, 8, bias=False)), ones(4, 8))
    assert [call.inputs[0].shape for call in found.layers[0].calls] == [(4, 8), (2, 8), (1, 8)]
    assert [call.caller for call in found.layers[0].calls] == [None, ("", 0), ("", 1)]
    rows = [(row["call"], row["macs"], row["own_macs"]) for row in found.call_table if row["path"] == ""]
    assert rows == [(0, 7 * 64, 0), (1, 3 * 64, 0), (2, 64, 0)]
    assert [call.inputs[0].shape for call in found.layer("linear").calls] == [(1, 8), (2, 8), (4, 8)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_of_weights_and_tensors_are_in_the_table(dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    model = nn.Sequential(nn.Linear(8, 8, dtype=dtype), nn.Linear(8, 2, dtype=dtype).requires_grad_(False))
    row = trace_complete(model, ones(ROWS, 8, dtype=dtype)).table[""]
    assert (row["input_dtypes"], row["output_dtypes"], row["params_by_dtype"]) == ((name,), (name,), {name: 90})
    assert (row["trainable_params"], row["weight_bytes"]) == (72, 90 * dtype.itemsize)
    assert trace_complete(model, ones(ROWS, 8, dtype=dtype)).layer("0").parameters[0].shape == (8, 8)


def test_layers_are_left_out_of_a_training_step_and_of_what_is_left_after_pruning_too() -> None:
    """One product forward and one for each weight backward; the second layer's input needs a gradient as well."""
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 4, bias=False))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    metrics = ["macs", "training_macs", "effective_macs"]
    whole = profile(model, ones(ROWS, 8), metrics=metrics)
    assert [whole[name] for name in metrics] == [
        ROWS * (64 + 32),
        ROWS * (2 * 64 + 3 * 32),
        ROWS * (64 + 32),
    ]
    rest = profile(model, ones(ROWS, 8), metrics=metrics, ignore="0")
    assert [rest[name] for name in metrics] == [ROWS * 32, ROWS * 3 * 32, ROWS * 32]
