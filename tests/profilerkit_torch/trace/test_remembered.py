"""What a trace on shapes alone does not run again, does not run at all, and must run all the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import Call, ones, trace, trace_complete
from torch import nn

from profilerkit_torch.model.inventory import Inventory, is_lazy
from profilerkit_torch.trace.meta_outputs import without_running

META = torch.device("meta")


@pytest.fixture
def runs() -> Iterator[list[int]]:
    """Make an operator of a library that counts how often torch asks for the shape of its output."""
    seen: list[int] = []
    library = torch.library.Library("profilerkit_remembered", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor", tags=torch.Tag.pointwise)

    def shape(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return torch.empty_like(x)

    library.impl("twice", shape, "Meta")
    yield seen
    library._destroy()


def test_an_operator_is_run_once_for_each_shape(runs: list[int]) -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        for _ in range(5):
            x = torch.ops.profilerkit_remembered.twice(x)
        return torch.ops.profilerkit_remembered.twice(x[:1])

    assert trace_complete(Call(run), ones(2, 3)).flops == 5 * 6 + 3
    assert len(runs) == 2


def test_an_operator_is_run_again_for_another_default_dtype() -> None:
    """A quotient of integers has the default dtype: of 15 numbers 60 bytes, then 120 beside these."""

    def run(self: Any, x: torch.Tensor) -> Any:
        single = x / 2
        torch.set_default_dtype(torch.float64)
        try:
            return single, x / 2
        finally:
            torch.set_default_dtype(torch.float32)

    found = trace_complete(Call(run), torch.ones(3, 5, dtype=torch.int64))
    assert found.method == "meta tensors"
    assert [op.outputs[0].dtype for op in found.operators] == ["float32", "float64"]
    assert [op.bytes_written for op in found.operators] == [60, 120]
    assert found.memory.live_bytes == (120 + 60, 120 + 60 + 120), "the input is 15 integers of 8 bytes"


def test_numbers_keep_their_values_while_they_are_counted_up() -> None:
    """Three additions in place of one signature, to numbers that tell how long the output is."""

    def run(self: Any, x: torch.Tensor) -> Any:
        length = torch.zeros(1, dtype=torch.long)
        for _ in range(3):
            length.add_(1)
        return x[:, : int(length)] * 2

    found = trace_complete(Call(run), ones(2, 5))
    assert (found.method, found.flops) == ("meta tensors", 2 * 3)


def test_what_is_written_beside_the_weights_comes_back() -> None:
    """A tensor in an object of the model keeps its values on the meta device, and what is written to it is real."""

    class Counter:
        def __init__(self) -> None:
            self.calls = torch.zeros(1, dtype=torch.long)

    model: Any = Call(lambda self, x: x * int(self.counter.calls.add_(1)))
    model.counter = Counter()
    for _ in range(2):
        assert trace_complete(model, ones(2, 3)).method == "meta tensors"
    assert int(model.counter.calls) == 0


#: Operator, which is the default overload unless it names one, arguments by shape, the rest, and the size of the output
#: worked out by hand.
SIZED: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("linear", ((2, 5, 3), (4, 3), (4,)), {}, (2, 5, 4)),
    ("linear", ((7, 3), (4, 3)), {}, (7, 4)),
    ("addmm", ((4,), (7, 3), (3, 4)), {}, (7, 4)),
    ("conv1d", ((2, 4, 10), (6, 2, 3), None, [2], [1], [1], 2), {}, (2, 6, 5)),
    ("conv2d", ((2, 3, 9, 8), (5, 3, 3, 2), (5,), [2, 1], [1, 0], [1, 2], 1), {}, (2, 5, 5, 6)),
    ("conv3d", ((1, 2, 4, 4, 4), (3, 2, 3, 3, 3), (3,), [1], [1], [1], 1), {}, (1, 3, 4, 4, 4)),
    ("mean.dim", ((2, 3, 5, 7), [-1, 2]), {}, (2, 3)),
    ("mean.dim", ((2, 3, 5, 7), [-1, -2], True), {}, (2, 3, 1, 1)),
    ("adaptive_avg_pool2d", ((2, 3, 9, 8), [1, 1]), {}, (2, 3, 1, 1)),
    ("adaptive_avg_pool2d", ((3, 9, 8), [4, 2]), {}, (3, 4, 2)),
    ("scaled_dot_product_attention", ((2, 4, 6, 8), (2, 4, 7, 8), (2, 4, 7, 8)), {}, (2, 4, 6, 8)),
    (
        "scaled_dot_product_attention",
        ((2, 4, 6, 8), (2, 2, 7, 8), (2, 2, 7, 8), (6, 7)),
        {"enable_gqa": True, "scale": 0.5},
        (2, 4, 6, 8),
    ),
]


def _on_meta(value: Any) -> Any:
    return torch.empty(value, device=META) if isinstance(value, tuple) else value


def _find_overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


@pytest.mark.parametrize(("name", "given", "named", "size"), SIZED)
def test_the_size_of_what_is_not_run(
    name: str, given: tuple[Any, ...], named: dict[str, Any], size: tuple[int, ...]
) -> None:
    """It is what torch's own kernel makes, strides and all."""
    args = tuple(map(_on_meta, given))
    operator = _find_overload(name)
    for output in (without_running(operator, args, named), operator(*args, **named)):
        assert output is not None
        assert (tuple(output.shape), output.is_contiguous()) == (size, True)


#: What torch refuses, or makes otherwise than from contiguous tensors of one kind.
LEFT_TO_TORCH: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("linear", ((2, 3), (4, 5)), {}),
    ("linear", ((2, 3), (4, 3), (5,)), {}),
    ("linear", (torch.empty(3, 2, device=META).t(), (4, 3)), {}),
    ("linear", (torch.empty(2, 3, device=META, dtype=torch.float16), (4, 3)), {}),
    ("addmm", ((4,), (7, 3), (5, 4)), {}),
    ("addmm", ((4,), (7, 3), (3, 4)), {"beta": 2}),
    ("conv2d", ((1, 3, 8, 8), (4, 2, 3, 3)), {}),
    ("conv2d", ((1, 3, 2, 2), (4, 3, 3, 3)), {}),
    ("conv2d", ((1, 3, 8, 8), (4, 3, 3, 3), (5,)), {}),
    ("conv2d", ((1, 3, 8, 8), (4, 3, 3, 3), None, [1, 1, 1]), {}),
    ("conv2d", ((3, 8, 8), (4, 3, 3, 3)), {}),
    ("mean.dim", ((2, 3, 5), [0, -3]), {}),
    ("mean.dim", ((2, 3, 5), [3]), {}),
    ("mean.dim", ((2, 3, 5), []), {}),
    ("mean.dim", ((2, 3, 5), [1]), {"dtype": torch.float64}),
    ("adaptive_avg_pool2d", ((2, 3, 9, 8), [0, 1]), {}),
    ("adaptive_avg_pool2d", ((3, 0, 9, 8), [1, 1]), {}),
    ("adaptive_avg_pool2d", ((9, 8), [1, 1]), {}),
    ("scaled_dot_product_attention", ((2, 4, 6, 8), (2, 4, 7, 9), (2, 4, 7, 3)), {}),
    ("scaled_dot_product_attention", ((2, 4, 6, 8), (2, 2, 7, 8), (2, 2, 7, 8)), {}),
    ("scaled_dot_product_attention", ((2, 4, 6, 8), (2, 4, 7, 8), (2, 4, 7, 8), (5, 7)), {}),
    ("scaled_dot_product_attention", ((4, 6, 8), (4, 7, 8), (4, 7, 3)), {}),
]


@pytest.mark.parametrize(("name", "given", "named"), LEFT_TO_TORCH)
def test_what_is_left_to_torch(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert without_running(_find_overload(name), tuple(map(_on_meta, given)), named) is None


def test_a_model_that_torch_refuses_is_refused() -> None:
    found = trace(Call(lambda self, x, w: F.linear(x, w)), ones(2, 3), ones(4, 5))
    assert "shapes cannot be multiplied" in str(found.failure)


def nest(levels: int) -> nn.Module:
    inner: nn.Module = nn.Linear(4, 4)
    for _ in range(levels):
        inner = nn.Sequential(inner, nn.ReLU())
    return inner


@pytest.fixture
def recursion_limit() -> Iterator[Callable[[int], None]]:
    before = sys.getrecursionlimit()
    yield sys.setrecursionlimit
    sys.setrecursionlimit(before)


def test_layers_nested_as_deep_as_they_can_run() -> None:
    """What follows the layers takes a frame more of each call, of which Python allows a thousand."""
    limit = sys.getrecursionlimit()
    model = nest(200)
    model(ones(2, 4))
    found = trace_complete(model, ones(2, 4))
    assert len(found.operators) == 1 + 200
    assert len(found.layers) == 1 + 2 * 200
    assert max(layer.depth for layer in found.layers) == 200
    assert sys.getrecursionlimit() == limit


def test_layers_nested_as_deep_as_somebody_wants(recursion_limit: Callable[[int], None]) -> None:
    recursion_limit(10_000)
    found = trace_complete(nest(600), ones(2, 4))
    assert found.macs == 2 * 4 * 4
    assert found.table[0]["macs"] == found.macs
    assert sys.getrecursionlimit() == 10_000


def test_an_inventory_of_a_model_with_shared_parts() -> None:
    layer = nn.Linear(2, 2)
    model: Any = nn.Sequential(layer, nn.Sequential(layer, nn.BatchNorm1d(2)))
    model.register_parameter("tied", layer.weight)
    model.cache = {"table": [torch.zeros(3)]}
    model.pair, model.kernel_size = (1, torch.zeros(5)), (3, 3)
    held = Inventory(model)
    assert [path for path, _ in held.layers] == ["", "0", "1", "1.0", "1.1"]
    assert [type(module).__name__ for module in held.modules] == ["Sequential", "Linear", "Sequential", "BatchNorm1d"]
    assert list(map(id, held.parameters)) == list(map(id, model.parameters()))
    assert list(map(id, held.buffers)) == list(map(id, model.buffers()))
    assert list(held.find_further_attributes(model)) == ["cache", "pair"], "no number leads anywhere"
    assert [tuple(tensor.shape) for tensor in held.attributes] == [(3,), (5,)]
    assert len(held.tensors) == len(held.parameters) + len(held.buffers) + 2
    assert not is_lazy(held)
    assert is_lazy(nn.Sequential(nn.LazyLinear(3)))
