"""One static pass: which layer did what, what could not be counted, and what a model may be like."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import BACKEND, Call, ones, trace, traced
from torch import nn

from profilerkit import ModelFailedError, ModelInputs, ModelTrace, RegistrationConflictError, profile
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


# Layers ------------------------------------------------------------------------------------------------------------


def test_work_belongs_to_the_innermost_layer_around_it() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear()
            self.weight = nn.Parameter(ones(8, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.matmul(self.inner(x), self.weight)

    model = Call(lambda self, x: F.linear(self.block(x), ones(4, 8)), block=Block())
    found = traced(model, x())
    assert own_macs(found) == {"": 2 * 8 * 4, "block": LINEAR, "block.inner": LINEAR}
    assert found.table[""]["macs"] == found.macs == 2 * LINEAR + 64
    assert found.table["block"]["macs"] == 2 * LINEAR
    assert found.table["block"]["params"] == 2 * 64
    assert [row["is_leaf"] for row in found.table] == [False, False, True]


def test_a_layer_called_twice_does_its_work_twice_and_owns_its_parameters_once() -> None:
    found = traced(Call(lambda self, x: self.a(self.a(x)), a=linear()), x())
    assert own_macs(found) == {"a": 2 * LINEAR}
    assert (found.total_params, found.table["a"]["calls"]) == (64, 2)
    assert [op.call for op in found.operators] == [0, 1]


def test_a_shared_layer_is_found_under_the_parent_that_calls_it() -> None:
    shared = linear()
    model = nn.Sequential(nn.Sequential(shared, nn.ReLU()), nn.Sequential(shared))
    found = traced(model, x())
    assert own_macs(found) == {"0.0": LINEAR, "1.0": LINEAR}
    assert found.total_params == 64
    assert found.table[""]["params"] == 64
    assert found.table["1"]["params"] == 64


def test_a_shared_stack_of_layers_is_found_under_the_parent_that_calls_it() -> None:
    class Stack(nn.Module):
        def __init__(self, layers: nn.ModuleList) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    layers = nn.ModuleList([linear(), linear()])
    found = traced(nn.Sequential(OrderedDict(encoder=Stack(layers), decoder=Stack(layers))), x())
    assert found.table["encoder"]["macs"] == found.table["decoder"]["macs"] == 2 * LINEAR
    assert found.total_params == 2 * 64


def test_one_module_under_several_names_of_one_parent_is_one_layer() -> None:
    block = linear()
    model = Call(lambda self, x: self.blocks[2](self.blocks[0](x)), blocks=nn.ModuleList([block] * 3))
    found = traced(model, x())
    assert own_macs(found) == {"blocks.0": 2 * LINEAR}


def test_module_lists_and_dicts_hold_the_work_of_what_is_in_them() -> None:
    model = Call(
        lambda self, x: self.named["b"](self.listed[1](self.listed[0](x))),
        listed=nn.ModuleList([linear(), linear()]),
        named=nn.ModuleDict({"a": linear(), "b": linear()}),
    )
    found = traced(model, x())
    assert own_macs(found) == {"listed.0": LINEAR, "listed.1": LINEAR, "named.b": LINEAR}
    assert found.table["listed"]["macs"] == 2 * LINEAR
    assert found.table["listed"]["calls"] == 0


def test_a_layer_that_is_never_called_has_parameters_and_no_work() -> None:
    found = traced(Call(lambda self, x: self.used(x), used=linear(), unused=linear()), x())
    assert own_macs(found) == {"used": LINEAR}
    assert found.total_params == 2 * 64
    assert found.table["unused"]["input_shapes"] == ()


def test_layers_remember_the_shapes_that_went_in_and_out() -> None:
    found = traced(nn.Sequential(nn.Linear(8, 3)), x())
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

    found = traced(Call(run, refusing=Call(refuse, inside=linear()), other=linear()), x())
    assert own_macs(found) == {"refusing.inside": LINEAR, "other": LINEAR}


def test_layers_made_while_the_model_runs_are_work_without_parameters_and_said_to_be() -> None:
    model = Call(lambda self, x: nn.Linear(8, 8, bias=False)(nn.ReLU()(x)))
    found = traced(model, x())
    assert own_macs(found) == {"": LINEAR}
    assert found.total_params == 0
    assert "makes layers while it runs (Linear)" in found.notes[0]


# What is not counted -----------------------------------------------------------------------------------------------


@pytest.fixture
def attend() -> Iterator[Callable[..., Any]]:
    """An operator nobody has a formula for; it has a meta kernel."""
    with torch.library._scoped_library("profilerkit_tests", "FRAGMENT") as library:
        library.define("attend(Tensor x, Tensor y) -> Tensor")
        library.impl("attend", lambda x, y: x @ y, "CompositeExplicitAutograd")
        yield torch.ops.profilerkit_tests.attend


def test_an_operator_without_a_formula_is_named(attend: Callable[..., Any]) -> None:
    model = Call(lambda self, x: attend(attend(self.layer(x), ones(8, 8)), ones(8, 8)), layer=linear())
    found = trace(model, x())
    assert found.uncounted == {"profilerkit_tests::attend": 2}
    assert found.missing == ("profilerkit_tests::attend (2 calls)",)
    assert found.macs == LINEAR
    report = profile(model, x(), metrics=["macs", "flops", "total_params"])
    assert report.status("macs").completeness.value == "partial"
    assert report.status("macs").missing == found.missing
    assert report.status("total_params").completeness.value == "complete"


@pytest.mark.parametrize("by", ["name", "packet", "overload"])
def test_registering_a_formula_completes_the_count(attend: Any, by: str) -> None:
    def formula(x: Shape, y: Shape, *, out: Shape) -> Cost:
        assert out == (2, 8)
        return Cost.of_macs(x.numel * y[-1], 5)

    operator = {"name": "profilerkit_tests::attend", "packet": attend, "overload": attend.default}[by]
    model = Call(lambda self, x: attend(x, ones(8, 8)))
    with scoped_costs():
        assert register_op_cost(operator, formula) is formula
        found = traced(model, x())
        assert (found.macs, found.flops) == (LINEAR, 2 * LINEAR + 5)
        with pytest.raises(RegistrationConflictError, match=r"attend(\.default)? has a cost formula already"):
            register_op_cost(operator, formula)
        register_op_cost(operator, lambda x, y, *, out: Cost(1, 2), override=True)
        assert traced(model, x()).flops == 2
    assert trace(model, x()).uncounted


def test_a_formula_of_one_overload_comes_before_the_one_for_all() -> None:
    with scoped_costs():
        register_op_cost("aten::add", lambda *_, **__: Cost(0, 1))
        register_op_cost(torch.ops.aten.add.Tensor, lambda *_, **__: Cost(0, 100))
        assert traced(Call(lambda self, x: x + x), x()).flops == 100


@pytest.mark.parametrize("operator", ["attend", 3, torch.add])
def test_what_is_no_operator_is_refused(operator: Any) -> None:
    with pytest.raises(TypeError, match="cannot tell which operator"):
        register_op_cost(operator, lambda *_, **__: Cost(0, 0))


def test_a_module_formula_covers_everything_inside_the_module() -> None:
    class Kernel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear()

        def forward(self, x: torch.Tensor) -> Any:
            return torch.linalg.inv(torch.matmul(self.inner(x), ones(8, 2)))

    class Derived(Kernel):
        pass

    def formula(module: nn.Module, inputs: tuple[Shape, ...], outputs: tuple[Shape, ...]) -> Cost:
        assert (inputs, outputs) == (((2, 8),), ((2, 2),))
        return Cost(7, 11)

    with scoped_costs():
        register_module_cost(Kernel, formula)
        found = traced(nn.Sequential(linear(), Kernel(), nn.ReLU()), x())
        assert own_macs(found) == {"0": LINEAR, "1": 7}
        assert found.flops == 2 * LINEAR + 11 + 4
        assert trace(Derived(), x()).missing  # subclasses do not inherit it
        with pytest.raises(RegistrationConflictError, match="module Kernel has a cost formula already"):
            register_module_cost(Kernel, formula)
        with pytest.raises(TypeError, match=r"takes a subclass of torch\.nn\.Module"):
            register_module_cost(int, formula)  # type: ignore[arg-type]
    assert trace(Kernel(), x()).missing


def test_an_operator_over_functions_is_named() -> None:
    model = Call(lambda self, x: torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x, (x,)))
    found = trace(model, ones(4, 4))
    assert found.failure is None
    assert found.missing == ("higher_order::cond (1 call)",)


def test_layers_in_other_threads_are_named() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.there, self.here(x)).result()

    found = trace(Call(run, here=linear(), there=linear()), x())
    assert (found.macs, found.missing) == (LINEAR, ("Linear in another thread (1 call)",))


# Ways to run -------------------------------------------------------------------------------------------------------


def test_shapes_alone_are_enough_for_most_models() -> None:
    assert traced(linear(), x()).method == "meta tensors"


def test_a_model_that_asks_for_its_device_meets_fake_tensors() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        if x.device.type != "cpu":
            raise RuntimeError("this model runs on the CPU alone")
        return self.layer(x)

    found = traced(Call(run, layer=linear()), x())
    assert (found.method, found.macs, found.notes) == ("fake tensors", LINEAR, ())


def test_a_model_that_reads_its_activations_is_run_for_real_and_that_is_said() -> None:
    model = Call(lambda self, x: self.layer(x) if float(x.sum()) > 0 else x, layer=linear())
    found = traced(model, x())
    assert (found.method, found.macs) == ("a real run", LINEAR)
    assert "counted in a real run" in found.notes[0]
    assert "item() cannot be called on meta tensors" in found.notes[0]
    assert traced(model, -x()).macs == 0


def test_integers_keep_their_values() -> None:
    def run(self: Any, x: torch.Tensor, steps: torch.Tensor) -> Any:
        for _ in range(int(steps.max())):
            x = self.layer(x)
        return x

    found = traced(Call(run, layer=linear()), x(), torch.tensor([1, 3]))
    assert (found.method, found.macs) == ("meta tensors", 3 * LINEAR)


def test_embeddings_take_integers() -> None:
    model = nn.Sequential(nn.Embedding(10, 8), linear())
    assert traced(model, torch.tensor([[1, 2]])).macs == LINEAR


def test_routing_by_values_is_counted_for_the_values_given() -> None:
    """A mixture of experts: each of six tokens goes to two of four experts."""

    def run(self: Any, x: torch.Tensor) -> Any:
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, slot = (chosen == number).nonzero(as_tuple=True)
            out.index_add_(0, token, expert(x[token]) * weights[token, slot, None])
        return out

    model = Call(run, gate=nn.Linear(8, 4), experts=nn.ModuleList(linear() for _ in range(4)))
    assert traced(model, torch.randn(6, 8)).macs == 6 * 8 * 4 + 6 * 2 * 8 * 8


@dataclass
class Output:
    logits: torch.Tensor
    extra: list[torch.Tensor]


class ModelOutput(OrderedDict[str, torch.Tensor]):
    """Like the outputs of a well-known library, which may not be updated."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("You cannot use update on a ModelOutput instance.")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: (y, y),
        lambda y: [y, (y,)],
        lambda y: {"a": y, "b": {"c": y}},
        lambda y: Output(y, [y]),
        lambda y: ModelOutput(logits=y, other=y),
        lambda y: y.max(dim=1),
    ],
    ids=["tuple", "list", "dict", "dataclass", "model output", "torch's named tuple"],
)
def test_outputs_of_any_structure(wrap: Callable[[torch.Tensor], Any]) -> None:
    found = traced(Call(lambda self, x: wrap(self.layer(x)), layer=linear()), x())
    assert found.macs == LINEAR
    assert len(found.table[""]["output_shapes"]) == 2


def test_inputs_of_any_structure() -> None:
    def run(self: Any, batch: dict[str, Any], pair: tuple[torch.Tensor, ...], *, scale: float, mask: Any = None) -> Any:
        assert mask is None
        return self.layer(batch["x"]) * scale + pair[0] + pair[1]

    model = Call(run, layer=linear())
    found = traced(model, {"x": x()}, (x(), x()), scale=2.0, mask=None)
    assert (found.macs, found.flops) == (LINEAR, 2 * LINEAR + 3 * 16)


def test_an_input_given_twice_stays_one_tensor() -> None:
    def run(self: Any, query: torch.Tensor, key: torch.Tensor) -> Any:
        return self.layer(query) if query is key else query

    shared = x()
    found = traced(Call(run, layer=linear()), shared, shared)
    assert (found.macs, found.memory.input_bytes) == (LINEAR, 2 * 8 * 4)


def test_a_failing_model_still_has_layers_and_parameters() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        return self.second(self.first(x))

    found = trace(Call(run, first=linear(), second=nn.Linear(9, 9)), x())
    assert isinstance(found.failure, ModelFailedError)
    assert "do these inputs fit it?" in str(found.failure)
    assert "ModelInputs(Tensor(2, 8))" in str(found.failure)
    assert isinstance(found.failure.__cause__, RuntimeError)
    assert (found.total_params, found.operators) == (64 + 90, ())
    report = profile(Call(run, first=linear(), second=nn.Linear(9, 9)), x(), metrics=["macs", "total_params"])
    assert report.status("macs").completeness.value == "failed"
    assert report["total_params"] == 154


def test_without_inputs_there_are_layers_alone() -> None:
    found = BACKEND.trace(linear(), None)
    assert (found.total_params, found.operators, found.failure) == (64, (), None)


# Weights -----------------------------------------------------------------------------------------------------------


def test_tied_weights_count_once() -> None:
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10, bias=False))
    model[1].weight = model[0].weight
    found = traced(model, torch.tensor([[1]]))
    assert (found.total_params, found.size_bytes) == (80, 320)
    assert [row["params"] for row in found.table] == [80, 80, 80]


def test_views_of_one_storage_are_distinct_parameters() -> None:
    flat = torch.zeros(16)
    model = Call(lambda self, x: x * self.first * self.second)
    model.first, model.second = nn.Parameter(flat[:8]), nn.Parameter(flat[8:])
    assert traced(model, x()).total_params == 16


def test_frozen_weights_count_but_are_not_trainable() -> None:
    model = nn.Sequential(nn.Linear(8, 8), linear())
    model[0].requires_grad_(False)
    found = traced(model, x())
    assert (found.total_params, found.trainable_params) == (72 + 64, 64)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float16, 2), (torch.bfloat16, 2), (torch.float32, 4), (torch.float64, 8), (torch.complex64, 8)],
)
def test_size_goes_by_the_real_dtype_and_counts_do_not(dtype: torch.dtype, size: int) -> None:
    found = traced(nn.Linear(8, 8, bias=False, dtype=dtype), x().to(dtype))
    assert (found.macs, found.flops, found.total_params) == (LINEAR, 2 * LINEAR, 64)
    assert found.size_bytes == 64 * size
    assert found.memory.peak_bytes(include_weights=False) == 2 * (2 * 8 * size)


def test_mixed_dtypes() -> None:
    model = nn.Sequential(linear().half(), linear())
    found = traced(Call(lambda self, x: self.m[1](self.m[0](x.half()).float()), m=model), x())
    assert (found.macs, found.size_bytes) == (2 * LINEAR, 64 * 2 + 64 * 4)


def test_buffers_are_no_parameters_and_only_persistent_ones_are_saved() -> None:
    model = nn.BatchNorm1d(8)
    model.register_buffer("scratch", torch.zeros(100), persistent=False)
    found = traced(model, x())
    assert found.total_params == 16
    assert found.size_bytes == (16 + 16) * 4 + 8  # weight, bias, mean and variance; the counter has 8 bytes
    assert found.memory.weight_bytes == found.size_bytes + 400


def test_lazy_layers_get_their_size_from_the_inputs_and_stay_lazy() -> None:
    first = nn.LazyLinear(4)
    model = nn.Sequential(first, nn.LazyBatchNorm1d(), nn.Linear(4, 2))
    found = traced(model, x())
    assert found.total_params == (8 * 4 + 4) + 2 * 4 + (4 * 2 + 2)
    assert found.macs == 2 * 8 * 4 + 2 * 4 * 2
    assert "lazy parameters" in found.notes[0]
    assert [type(layer) for layer in model] == [nn.LazyLinear, nn.LazyBatchNorm1d, nn.Linear]
    assert nn.parameter.is_lazy(first.weight)
    assert model(ones(2, 5)).shape == (2, 2)  # still open to another size


def test_lazy_layers_stay_lazy_when_the_model_fails() -> None:
    first = nn.LazyLinear(4)
    found = trace(nn.Sequential(first, nn.Linear(5, 5)), x())
    assert (found.operators, found.total_params) == ((), 30)
    assert isinstance(first, nn.LazyLinear)
    assert nn.parameter.is_lazy(first.weight)


def test_a_model_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8))
    found = traced(model, x())
    assert (found.macs, found.total_params) == (LINEAR, 64 + 16)


def test_a_billion_parameters_take_no_memory_and_little_time() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(4096, 4096, bias=False) for _ in range(60)))
        inputs = torch.empty(1, 2048, 4096)
    start = time.perf_counter()
    found = traced(model, inputs)
    assert found.total_params == 60 * 4096**2 > 10**9
    assert found.macs == 60 * 2048 * 4096**2
    assert time.perf_counter() - start < 5


def test_real_weights_are_never_copied() -> None:
    model = nn.Sequential(linear(), nn.BatchNorm1d(8))
    pointers = [tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())]
    traced(model, x())
    assert [tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())] == pointers


# The count does not depend on ... ----------------------------------------------------------------------------------


def convolutional() -> nn.Module:
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    head = Call(lambda self, x: self.layer(x.flatten(2).transpose(1, 2)), layer=attention)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), head)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad_mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_grad_mode_training_flag_and_dtype_change_nothing(training: bool, grad_mode: Any, dtype: torch.dtype) -> None:
    """27 * 8 * 36 for the convolution; four projections, two products and a feed-forward over 36 positions."""
    model = convolutional().train(training).to(dtype)
    with grad_mode():
        found = traced(model, ones(1, 3, 8, 8, dtype=dtype))
    assert found.macs == 27 * 8 * 36 + 4 * 36 * 64 + 2 * 36 * 36 * 8 + 2 * 36 * 8 * 16
    assert found.flops == traced(convolutional(), ones(1, 3, 8, 8)).flops


def test_all_ways_to_run_count_the_same() -> None:
    def asks(self: Any, x: torch.Tensor) -> Any:
        if x.device.type != "cpu":
            raise RuntimeError("only on the CPU")
        return self.inner(x)

    def reads(self: Any, x: torch.Tensor) -> Any:
        float(x.sum())
        return self.inner(x)

    image = ones(1, 3, 8, 8)
    found = [traced(Call(asks, inner=convolutional()), image), traced(convolutional(), image)]
    assert [one.method for one in found] == ["fake tensors", "meta tensors"]
    real = traced(Call(reads, inner=convolutional()), image)
    assert real.macs == found[0].macs == found[1].macs
    assert real.flops - 3 * 64 == found[0].flops == found[1].flops  # the sum it reads is work too
    assert found[0].memory.peak_bytes() == found[1].memory.peak_bytes()


@pytest.mark.filterwarnings("ignore:.*torch.jit")  # importing the compiler warns
@pytest.mark.parametrize("how", ["wrapped", "in place", "inside"])
def test_a_compiled_model_is_counted_as_what_it_was(how: str) -> None:
    model = nn.Sequential(linear(), nn.ReLU())
    compiled: Any
    if how == "wrapped":
        compiled = torch.compile(model)
    elif how == "in place":
        model.compile()
        compiled = model
    else:
        compiled = nn.Sequential(torch.compile(model))  # type: ignore[call-overload]
    found = traced(compiled, x())
    assert (found.macs, found.flops, found.total_params) == (LINEAR, 2 * LINEAR + 16, 64)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("make", [torch.jit.script, lambda model: torch.jit.trace(model, x())])
def test_a_scripted_model_is_counted_in_a_real_run(make: Callable[[nn.Module], Any]) -> None:
    model = nn.Sequential(linear(), nn.ReLU())
    for scripted in (make(model), nn.Sequential(make(model))):
        found = traced(scripted, x())
        assert (found.macs, found.flops, found.total_params) == (LINEAR, 2 * LINEAR + 16, 64)
        assert "scripted module" in found.notes[0]


def test_parametrised_weights_are_computed_and_counted() -> None:
    class Doubled(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight * 2

    layer = linear()
    nn.utils.parametrize.register_parametrization(layer, "weight", Doubled())
    found = traced(layer, x())
    assert (found.total_params, found.flops) == (64, 2 * LINEAR + 64)


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization", "ignore:.*torch.jit", "ignore:torch.quantize_per_tensor")
def test_weights_that_quantisation_packs_away_are_parameters_still() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    found = traced(quantised, x())
    assert (found.total_params, found.trainable_params) == (8 * 4 + 4, 0)
    assert found.size_bytes == 8 * 4 * 1 + 4 * 4  # a byte for each weight, a float for each bias
    assert found.macs == 2 * 8 * 4


# Memory ------------------------------------------------------------------------------------------------------------

ACTIVATION = 2 * 8 * 4  # bytes of two samples of eight floats


def peaks(function: Callable[..., Any], *inputs: torch.Tensor, **modules: nn.Module) -> tuple[int, int]:
    memory = traced(Call(function, **modules), *inputs).memory
    return memory.peak_bytes(include_weights=False), memory.peak_bytes()


def test_two_activations_and_the_input_are_alive_in_a_chain() -> None:
    """The profiler keeps the input; an activation lives until the next is there: x, relu's input, relu's output."""
    model = nn.Sequential(linear(), nn.ReLU(), linear())
    found = traced(model, x())
    assert found.memory.live_bytes == (2 * ACTIVATION, 3 * ACTIVATION, 3 * ACTIVATION)
    assert found.memory.peak_bytes(include_weights=False) == 3 * ACTIVATION
    assert found.memory.peak_bytes() == 3 * ACTIVATION + 2 * 64 * 4
    assert found.peak_operator is not None
    assert (found.peak_operator.operator, found.peak_operator.layer) == ("aten.relu.default", "1")


def test_an_in_place_activation_takes_nothing() -> None:
    found = traced(nn.Sequential(linear(), nn.ReLU(inplace=True)), x())
    assert found.memory.live_bytes == (2 * ACTIVATION, 2 * ACTIVATION)


def test_a_residual_keeps_its_branch_alive() -> None:
    """Input, the first activation which the sum still needs, the second, and the sum."""

    def run(self: Any, x: torch.Tensor) -> Any:
        kept = x + 1
        return kept + (kept * 2)

    assert peaks(run, x())[0] == 4 * ACTIVATION


def test_views_share_their_storage() -> None:
    assert peaks(lambda self, x: x.view(16)[:4].reshape(2, 2).t(), x())[0] == ACTIVATION


def test_a_copy_that_a_reshape_needs_is_seen() -> None:
    assert peaks(lambda self, x: x.t().reshape(16), x())[0] == 2 * ACTIVATION


def test_what_is_dropped_is_free_again() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        for _ in range(10):
            x = self.layer(x)
        return x

    assert peaks(run, x(), layer=linear()) == (3 * ACTIVATION, 3 * ACTIVATION + 256)


def test_a_slice_of_a_big_tensor_counts_as_what_it_holds() -> None:
    whole = torch.zeros(1000, 8, dtype=torch.int64)
    memory = traced(nn.Embedding(10, 4), whole[:2]).memory
    assert memory.input_bytes == 2 * 8 * 8
    assert memory.peak_bytes(include_weights=False) == 2 * 8 * 8 + 2 * 8 * 4 * 4


def test_shared_weights_take_memory_once() -> None:
    shared = linear()
    assert traced(nn.Sequential(shared, shared), x()).memory.weight_bytes == 256


def test_operators_know_what_they_read_and_write() -> None:
    op = traced(linear(), x()).operators[0]
    assert (op.bytes_read, op.bytes_written) == (ACTIVATION + 256, ACTIVATION)
    assert [(info.shape, info.dtype) for info in op.outputs] == [((2, 8), "float32")]


def test_in_place_views_change_the_shape_each_time() -> None:
    def run(self: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
        return (a * 1).t_(), (b * 1).t_()

    assert traced(Call(run), x(), x()).table[""]["output_shapes"] == ((8, 2), (8, 2))


def test_hooks_of_the_user_run_and_their_work_is_counted() -> None:
    layer = linear()
    handle = layer.register_forward_hook(lambda module, args, output: output * 2)
    assert traced(layer, x()).flops == 2 * LINEAR + 16
    handle.remove()


def test_named_inputs_are_called_by_name() -> None:
    found = BACKEND.trace(Call(lambda self, *, x: self.layer(x), layer=linear()), ModelInputs.of({"x": x()}))
    assert found.macs == LINEAR
