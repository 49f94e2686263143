"""What following a pass leaves behind, what it remembers, and which formulas it cannot use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones, trace, trace_complete
from torch import nn
from torch.nn.modules import module as torch_module

from profilerkit import CostFormulaError, ModelInputs, profile
from profilerkit_torch import Cost, register_module_cost, register_op_cost
from profilerkit_torch.costs import scoped_costs
from profilerkit_torch.model.inventory import Inventory
from profilerkit_torch.trace.records import layer_records

X = torch.randn(1, 4)


def global_hooks() -> dict[str, dict[int, Any]]:
    found = {name: value for name, value in vars(torch_module).items() if name.startswith("_global_")}
    return {name: dict(hooks) for name, hooks in found.items() if isinstance(hooks, Mapping) and hooks}


def test_no_trace_of_a_global_hook_is_left() -> None:
    before = global_hooks()
    trace_complete(nn.Linear(4, 2), X)
    trace(nn.Linear(5, 2), X)  # it fails
    assert global_hooks() == before


def test_tensors_that_the_model_makes_are_freed_with_it() -> None:
    """Alive at once: the input, the last sum, the ones and the next sum."""

    def run(self: Any, x: torch.Tensor) -> Any:
        for _ in range(10):
            x = x + torch.ones(100, 100)
        return x

    found = trace_complete(Call(run), ones(100, 100))
    assert found.method == "meta tensors"
    assert found.memory.peak_bytes() == 4 * (100 * 100 * 4)


def test_a_tensor_of_the_model_has_one_twin() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        total = torch.zeros(2, 3)
        for _ in range(3):
            total += x
        return total

    assert trace_complete(Call(run), ones(2, 3)).flops == 3 * 6


def test_how_many_are_found_is_not_remembered() -> None:
    """Three of six are above zero, then one: twice as many additions."""

    def run(self: Any, x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> Any:
        return x[first.nonzero().flatten()] + 1, x[second.nonzero().flatten()] + 1

    found = trace_complete(Call(run), ones(6), torch.tensor([1, 1, 1, 0, 0, 0]), torch.tensor([1, 0, 0, 0, 0, 0]))
    assert found.flops == 3 + 1
    assert [op.outputs[0].shape for op in found.operators if "nonzero" in op.operator] == [(3, 1), (1, 1)]


@pytest.fixture
def made() -> Iterator[Any]:
    """An operator of somebody else's that takes no tensors, and works."""
    with torch.library._scoped_library("profilerkit_tests", "FRAGMENT") as library:
        library.define("made(int n) -> Tensor")
        library.impl("made", lambda n: torch.arange(n) * 0.5, "CompositeExplicitAutograd")
        yield torch.ops.profilerkit_tests.made


def test_what_another_library_makes_is_not_known_to_be_free(made: Any) -> None:
    found = trace(Call(lambda self, x: x + made(4)), X)
    assert found.missing == ("profilerkit_tests::made (1 call)",)


def test_adding_up_what_a_sparse_tensor_has_twice_is_work_and_returning_it_is_none() -> None:
    twice = torch.tensor([[0, 0, 1, 3]])

    def run(self: Any, x: torch.Tensor) -> Any:
        return torch.sparse_coo_tensor(twice, x[0], (4,), check_invariants=True).coalesce().coalesce()

    found = trace(Call(run), X)
    assert (found.macs, found.flops, found.missing) == (0, 4, ())  # of four elements, once


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_sparse_buffer_has_the_bytes_it_stores() -> None:
    """Ten numbers of four bytes, at two indices of eight each; a row pointer for each of 8 rows and the end."""
    layer = nn.Module()
    layer.register_buffer("coo", torch.sparse_coo_tensor(torch.arange(20).view(2, 10), torch.ones(10), (10**5, 10**5)))
    layer.register_buffer("csr", torch.eye(8).to_sparse_csr())
    coo, csr = layer_records(Inventory(layer), {})[0].buffers
    assert (coo.bytes, coo.count) == (10 * 4 + 20 * 8, 10**10)
    assert (csr.bytes, csr.count) == (8 * 4 + 8 * 8 + (8 + 1) * 8, 64)


def test_a_wrapper_has_the_bytes_of_what_it_wraps() -> None:
    class Halved(torch.Tensor):
        @staticmethod
        def __new__(cls, inner: torch.Tensor) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=torch.float32)

        def __init__(self, inner: torch.Tensor) -> None:
            self.held = inner

        def __tensor_flatten__(self) -> Any:
            return ["held"], None

        @classmethod
        def __torch_dispatch__(cls, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    layer = nn.Module()
    layer._buffers["packed"] = Halved(ones(4, 4, dtype=torch.float16))
    (record,) = layer_records(Inventory(layer), {})[0].buffers
    assert (record.bytes, record.count) == (16 * 2, 16)


class Kernel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def said(model: nn.Module) -> str:
    report = profile(model, X, metrics=["macs"])
    assert report.status("macs").completeness.value == "failed"
    with pytest.raises(CostFormulaError):
        profile(model, X, metrics=["macs"], strict=True)
    return report.status("macs").missing[0]


def test_a_module_formula_that_raises_is_not_the_models_fault() -> None:
    def broken(module: nn.Module, inputs: Any, outputs: Any) -> Cost:
        raise ZeroDivisionError("no heads")

    with scoped_costs():
        register_module_cost(Kernel, broken)
        assert said(nn.Sequential(Kernel())) == (
            "the cost formula of module Kernel raised ZeroDivisionError: no heads; it was called with "
            "inputs=((1, 4),) and outputs=((1, 4),)"
        )


def test_what_is_no_cost_is_refused() -> None:
    def plain(*_: Any, **__: Any) -> Any:
        return 3, 6

    with scoped_costs():
        register_module_cost(Kernel, plain)
        assert said(Kernel()) == "the cost formula of module Kernel returned (3, 6), which is no Cost"
        register_op_cost("aten::relu", plain)
        assert said(nn.ReLU()) == "the cost formula of aten::relu returned (3, 6), which is no Cost"


def test_a_module_that_raises_has_no_outputs_for_its_formula() -> None:
    class Refusing(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            raise ValueError("not today")

    def run(self: Any, x: torch.Tensor) -> Any:
        try:
            return self.refusing(x)
        except ValueError:
            return x + 1

    with scoped_costs():
        register_module_cost(Refusing, lambda module, inputs, outputs: Cost(0, outputs[0].numel))
        found = trace(Call(run, refusing=Refusing()), X)
    assert (found.flops, found.missing) == (4, ("module::Refusing (1 call)",))


NOTHING_MOVES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "the dtype that it has": lambda x: x.to(torch.float32),
    "the dtype of itself": lambda x: x.type_as(x),
    "without gaps": lambda x: x.contiguous(),
    "another shape": lambda x: x.reshape(2, -1),
    "flat": lambda x: x.flatten(),
    "a product's own view": lambda x: torch.ops.aten._unsafe_view(x, [32]),
    "out of the graph": lambda x: x.detach(),
    "out of the graph, in place": lambda x: x.detach_(),
    "a dimension more, in place": lambda x: x.unsqueeze_(0),
    "turned in place": lambda x: x.t_(),
}


@pytest.mark.parametrize("name", NOTHING_MOVES)
@pytest.mark.parametrize("is_training", [False, True])
def test_an_operator_that_copies_nothing_moves_no_bytes(name: str, is_training: bool) -> None:
    view = NOTHING_MOVES[name]
    model = Call(lambda self, x: view(x * 2) + 1)
    trace = (BACKEND.trace_training if is_training else BACKEND.trace)(model, ModelInputs(torch.ones(4, 8)))
    assert [(op.operator, op.bytes_read, op.bytes_written) for op in trace.operators] == [
        ("aten.mul.Tensor", 128, 128),
        ("aten.add.Tensor", 128, 128),
    ]


@pytest.mark.parametrize(
    ("copy", "read", "written"),
    [
        (lambda x: x.half(), 128, 64),
        (lambda x: x.double(), 128, 256),
        (lambda x: x.to(torch.float32, copy=True), 128, 128),
        (lambda x: x.t().contiguous(), 128, 128),
        (lambda x: x.t().reshape(-1), 128, 128),
        (lambda x: x.t().flatten(), 128, 128),
    ],
)
@pytest.mark.parametrize("is_training", [False, True])
def test_a_copy_reads_its_source_and_writes_its_result(copy: Any, read: int, written: int, is_training: bool) -> None:
    model = Call(lambda self, x: copy(x))
    trace = (BACKEND.trace_training if is_training else BACKEND.trace)(model, ModelInputs(torch.ones(4, 8)))
    (operator,) = trace.operators
    assert (operator.bytes_read, operator.bytes_written) == (read, written)
