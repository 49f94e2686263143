"""Which layer did what, and what could not be counted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import Call, ones, trace, trace_complete
from torch import nn

from profilerkit import ModelTrace, RegistrationConflictError, profile
from profilerkit.results.saving import parse, to_json
from profilerkit_torch import Cost, Shape, register_module_cost, register_op_cost
from profilerkit_torch.costs import scoped_costs

LINEAR = 2 * 8 * 8  # MACs of an 8 x 8 linear layer for two samples


def linear() -> nn.Linear:
    return nn.Linear(8, 8, bias=False)


def x() -> torch.Tensor:
    return ones(2, 8)


def own_macs(found: ModelTrace) -> dict[str, int]:
    assert sum(row["own_macs"] for row in found.table) == found.macs
    assert sum(row["own_flops"] for row in found.table) == found.flops
    return {row["path"]: row["own_macs"] for row in found.table if row["own_macs"]}


def test_work_belongs_to_the_innermost_layer_around_it() -> None:
    weight = nn.Parameter(ones(8, 8))
    block = Call(lambda self, x: torch.matmul(self.inner(x), self.weight), inner=linear(), weight=weight)
    model = Call(lambda self, x: F.linear(self.block(x), ones(4, 8)), block=block)
    found = trace_complete(model, x())
    assert own_macs(found) == {"": 2 * 8 * 4, "block": LINEAR, "block.inner": LINEAR}
    assert found.table[""]["macs"] == found.macs == 2 * LINEAR + 64
    assert found.table["block"]["macs"] == 2 * LINEAR
    assert found.table["block"]["params"] == 2 * 64
    assert [row["is_leaf"] for row in found.table] == [False, False, True]


def test_a_layer_called_twice_does_its_work_twice_and_owns_its_parameters_once() -> None:
    found = trace_complete(Call(lambda self, x: self.a(self.a(x)), a=linear()), x())
    assert own_macs(found) == {"a": 2 * LINEAR}
    assert (found.total_params, found.table["a"]["calls"]) == (64, 2)
    assert [op.call for op in found.operators] == [0, 1]


def test_a_shared_layer_is_found_under_the_parent_that_calls_it() -> None:
    shared = linear()
    model = nn.Sequential(nn.Sequential(shared, nn.ReLU()), nn.Sequential(shared))
    found = trace_complete(model, x())
    assert own_macs(found) == {"0.0": LINEAR, "1.0": LINEAR}
    assert found.total_params == 64
    assert found.table[""]["params"] == 64
    assert found.table["1"]["params"] == 64


def test_a_shared_stack_of_layers_is_found_under_the_parent_that_calls_it() -> None:
    layers = nn.ModuleList([linear(), linear()])
    encoder, decoder = (Call(lambda self, x: self.layers[1](self.layers[0](x)), layers=layers) for _ in range(2))
    found = trace_complete(nn.Sequential(OrderedDict(encoder=encoder, decoder=decoder)), x())
    assert found.table["encoder"]["macs"] == found.table["decoder"]["macs"] == 2 * LINEAR
    assert found.total_params == 2 * 64


def test_one_module_under_several_names_of_one_parent_is_one_layer() -> None:
    block = linear()
    model = Call(lambda self, x: self.blocks[2](self.blocks[0](x)), blocks=nn.ModuleList([block] * 3))
    found = trace_complete(model, x())
    assert own_macs(found) == {"blocks.0": 2 * LINEAR}


def test_module_lists_and_dicts_hold_the_work_of_what_is_in_them() -> None:
    model = Call(
        lambda self, x: self.named["b"](self.listed[1](self.listed[0](x))),
        listed=nn.ModuleList([linear(), linear()]),
        named=nn.ModuleDict({"a": linear(), "b": linear()}),
    )
    found = trace_complete(model, x())
    assert own_macs(found) == {"listed.0": LINEAR, "listed.1": LINEAR, "named.b": LINEAR}
    assert found.table["listed"]["macs"] == 2 * LINEAR
    assert found.table["listed"]["calls"] == 0


def test_a_layer_that_is_never_called_has_parameters_and_no_work() -> None:
    found = trace_complete(Call(lambda self, x: self.used(x), used=linear(), unused=linear()), x())
    assert own_macs(found) == {"used": LINEAR}
    assert found.total_params == 2 * 64
    assert found.table["unused"]["input_shapes"] == ()


def test_layers_remember_the_shapes_that_went_in_and_out() -> None:
    found = trace_complete(nn.Sequential(nn.Linear(8, 3)), x())
    row = found.table["0"]
    assert (row["input_shapes"], row["output_shapes"]) == (((2, 8),), ((2, 3),))


def test_a_layer_that_raises_and_is_caught_does_not_confuse_the_ones_after_it() -> None:
    def refuse(self: Any, x: torch.Tensor) -> Any:
        self.inside(x)
        raise ValueError("not today")

    def run(self: Any, x: torch.Tensor) -> Any:
        try:
            return self.refusing(x)
        except ValueError:
            return self.other(x)

    found = trace_complete(Call(run, refusing=Call(refuse, inside=linear()), other=linear()), x())
    assert own_macs(found) == {"refusing.inside": LINEAR, "other": LINEAR}


def test_layers_made_while_the_model_runs_are_work_without_parameters_and_said_to_be() -> None:
    model = Call(lambda self, x: nn.Linear(8, 8, bias=False)(nn.ReLU()(x)))
    found = trace_complete(model, x())
    assert own_macs(found) == {"": LINEAR}
    assert found.total_params == 0
    assert "calls layers that it does not register (Linear)" in found.notes[0]


@pytest.fixture
def attend() -> Iterator[Callable[..., Any]]:
    """An operator nobody has a formula for; it has a meta kernel."""
    with torch.library._scoped_library("profilerkit_tests", "FRAGMENT") as library:
        library.define("attend(Tensor x, Tensor y) -> Tensor")
        library.impl("attend", lambda x, y: x @ y, "CompositeExplicitAutograd")
        yield torch.ops.profilerkit_tests.attend


@pytest.mark.parametrize("by", ["name", "packet", "overload"])
def test_registering_a_formula_completes_the_count(attend: Any, by: str) -> None:
    def formula(x: Shape, y: Shape, *, out: Shape) -> Cost:
        assert out == (2, 8)
        return Cost.of_macs(x.numel * y[-1], 5)

    operator = {"name": "profilerkit_tests::attend", "packet": attend, "overload": attend.default}[by]
    model = Call(lambda self, x: attend(x, ones(8, 8)))
    with scoped_costs():
        assert register_op_cost(operator, formula) is formula
        found = trace_complete(model, x())
        assert (found.macs, found.flops) == (LINEAR, 2 * LINEAR + 5)
        with pytest.raises(RegistrationConflictError, match=r"attend(\.default)? has a cost formula already"):
            register_op_cost(operator, formula)
        register_op_cost(operator, lambda x, y, *, out: Cost(1, 2), override=True)
        assert trace_complete(model, x()).flops == 2
    assert trace(model, x()).uncounted


def test_a_formula_of_one_overload_comes_before_the_one_for_all() -> None:
    with scoped_costs():
        register_op_cost("aten::add", lambda *_, **__: Cost(0, 1))
        register_op_cost(torch.ops.aten.add.Tensor, lambda *_, **__: Cost(0, 100))
        assert trace_complete(Call(lambda self, x: x + x), x()).flops == 100


def test_a_module_formula_covers_everything_inside_the_module(attend: Callable[..., Any]) -> None:
    class Kernel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear()

        def forward(self, x: torch.Tensor) -> Any:
            return attend(torch.matmul(self.inner(x), ones(8, 2)), ones(2, 2))

    class Derived(Kernel):
        pass

    def formula(module: nn.Module, inputs: tuple[Shape, ...], outputs: tuple[Shape, ...]) -> Cost:
        assert (inputs, outputs) == (((2, 8),), ((2, 2),))
        return Cost(7, 11)

    with scoped_costs():
        register_module_cost(Kernel, formula)
        found = trace_complete(nn.Sequential(linear(), Kernel(), nn.ReLU()), x())
        assert own_macs(found) == {"0": LINEAR, "1": 7}
        assert found.flops == 2 * LINEAR + 11 + 4
        assert trace(Derived(), x()).missing  # subclasses do not inherit it
        with pytest.raises(RegistrationConflictError, match="module Kernel has a cost formula already"):
            register_module_cost(Kernel, formula)
        with pytest.raises(TypeError, match=r"give a subclass of torch\.nn\.Module"):
            register_module_cost(int, formula)  # type: ignore[arg-type]
    assert trace(Kernel(), x()).missing


def test_layers_in_other_threads_are_named() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.there, self.here(x)).result()

    found = trace(Call(run, here=linear(), there=linear()), x())
    outside = "work outside torch's operators in the model itself (1 call)"  # its result reaches the pool's caller
    assert (found.macs, found.missing) == (LINEAR, ("Linear in another thread (1 call)", outside))


def test_a_name_with_a_dot_is_one_name() -> None:
    """A module that was put past ``add_module``, which refuses such names: its layer must lie inside another."""
    model = torch.nn.Sequential()
    model._modules["first.one"] = torch.nn.Linear(4, 2)
    report = profile(model, torch.ones(1, 4), metrics=["macs", "layerwise_data"])
    assert report.layers is not None
    assert [(row["path"], row["depth"]) for row in report.layers] == [("", 0), ("first_one", 1)]
    assert report["macs"] == 4 * 2
    assert parse(to_json(report).encode(), "it") == report


def test_a_result_that_contains_itself_is_looked_at_once() -> None:
    """As a graph whose nodes know each other; of a layer, and of the model."""

    class Looped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = linear()

        def forward(self, x: torch.Tensor) -> list[Any]:
            result: list[Any] = [self.linear(x)]
            result.append({"again": result})
            return result

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Looped()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.inner(x)[0]
            return result

    for model, path in ((Looped(), ""), (Outer(), "inner")):
        traced = trace_complete(model, x())
        assert (traced.macs, traced.layer(path).calls[0].outputs[0].shape) == (LINEAR, (2, 8))
        assert len(traced.layer(path).calls[0].outputs) == 1
