"""What a trace on shapes alone does not run again, does not run at all, and must run all the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import BACKEND, Call, ones, trace, trace_complete
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from profilerkit import ModelInputs
from profilerkit_torch.costs import Cost, override
from profilerkit_torch.model.inventory import Inventory, is_lazy
from profilerkit_torch.trace import plans, recorder
from profilerkit_torch.trace.meta_outputs import is_element_wise, without_running
from profilerkit_torch.trace.plans import make_plan

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


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Begin with nothing that is kept of earlier traces; collect the operators that are planned from now on."""
    names: list[str] = []

    def plan(call: Any, *rest: Any) -> Any:
        names.append(str(call.func))
        return make_plan(call, *rest)

    monkeypatch.setattr(plans, "_shared", {})
    monkeypatch.setattr(recorder, "make_plan", plan)
    return names


def test_another_trace_plans_no_operator_of_torchs_again(planned: list[str]) -> None:
    """The same sizes cost the same: 3 x 2 products for each of 4 samples, then for each of 5."""
    first = trace_complete(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), ones(4, 3))
    assert planned == ["aten.linear.default", "aten.relu.default"]
    again = trace_complete(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), ones(4, 3))
    assert len(planned) == 2
    assert (again.operators, again.memory, again.layers) == (first.operators, first.memory, first.layers)
    assert trace_complete(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), ones(5, 3)).macs == 5 * 6
    assert len(planned) == 4


def test_an_operator_of_another_library_is_run_in_each_trace(runs: list[int]) -> None:
    """Its kernels may be others by then."""
    model = Call(lambda self, x: torch.ops.profilerkit_remembered.twice(x))
    assert [trace_complete(model, ones(2, 3)).flops for _ in range(2)] == [6, 6]
    assert len(runs) == 2


def test_formulas_of_the_users_are_asked_in_each_trace(planned: list[str]) -> None:
    """One may look at anything: nothing is kept while there is one. Later what was known before counts again."""
    factor = 1

    def multiply(a: Any, b: Any, *, out: Any) -> Cost:
        return Cost.of_macs(factor * out.numel)

    model = Call(lambda self, x: torch.mm(x, x))
    assert trace_complete(model, ones(2, 2)).macs == 8
    with override({"aten::mm": multiply}):
        assert trace_complete(model, ones(2, 2)).macs == 4
        factor = 3
        assert trace_complete(model, ones(2, 2)).macs == 12
    assert trace_complete(model, ones(2, 2)).macs == 8
    assert planned == ["aten.mm.default"] * 3


class Biased(nn.Module):
    """Attention with a bias for each pair of positions, which is learned or not."""

    def __init__(self, *, is_learned: bool) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(64, 64), requires_grad=is_learned)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=self.bias)


@pytest.mark.parametrize("order", [(False, True), (True, False)])
def test_attention_with_a_learned_bias_has_a_plan_of_its_own(planned: list[str], order: tuple[bool, bool]) -> None:
    """The CPU's kernel takes no mask that requires a gradient: torch makes all scores then, and the shapes are equal.

    By hand, as its allocator has it: the input and the scaled queries, 1024 floats each; the scores and their softmax,
    2 x 64 x 64 floats each; whether each score is minus infinity, whether all of a row are, and minus infinity.
    """
    x = ones(1, 2, 64, 8)
    expected = {False: 2 * 4096, True: 2 * 4096 + 2 * 32768 + 8192 + 128 + 4}
    for is_learned in order:
        memory = trace_complete(Biased(is_learned=is_learned), x).memory
        assert memory.peak_bytes(include_weights=False) == expected[is_learned]
    assert BACKEND.measure_memory(Biased(is_learned=True), ModelInputs(x)) == expected[True]


def test_attention_is_planned_anew_for_another_order_of_kernels(planned: list[str]) -> None:
    """A CUDA device takes the first kernel of the order: none at all, if spelled out comes first."""

    def run(self: Any, x: torch.Tensor) -> Any:
        x = F.scaled_dot_product_attention(x, x, x)
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            x = F.scaled_dot_product_attention(x, x, x)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
            return F.scaled_dot_product_attention(x, x, x)

    trace_complete(Call(run), ones(1, 2, 64, 8))
    assert planned == ["aten.scaled_dot_product_attention.default"] * 3


def test_plans_are_dropped_where_there_are_many(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_MOST", 2)
    for length in range(1, 6):
        assert trace_complete(nn.ReLU(), ones(length)).flops == length
    (kept,) = plans._shared.values()
    assert len(kept) <= 2


def test_a_view_that_its_schema_hides_takes_no_memory_again() -> None:
    """A product of 4 x 8 rows is one of matrices, and what it returns is in the memory of that: 128 numbers each.

    Beside the 128 of the input, the first product has 128; the second has its own and the one that it reads.
    """
    model = Call(lambda self, x, w: (x @ w) @ w)
    found = trace_complete(model, ones(4, 4, 8), ones(8, 8))
    assert [op.operator for op in found.operators] == ["aten.mm.default", "aten.mm.default"]
    assert found.memory.live_bytes[-1] <= 4 * (128 + 64 + 2 * 128)
    assert max(found.memory.live_bytes) == 4 * (128 + 64 + 2 * 128)


def test_a_real_tensor_among_others_is_remembered_too(planned: list[str]) -> None:
    """As caches of transformers do it: each block puts an empty tensor of its own before its keys."""

    def run(self: Any, x: torch.Tensor) -> Any:
        for _ in range(3):
            x = torch.cat([torch.tensor([]), x])
        return x

    for _ in range(2):
        found = trace_complete(Call(run), ones(4))
        assert [op.bytes_written for op in found.operators if op.operator == "aten.cat.default"] == [16] * 3
    assert planned.count("aten.cat.default") == 1


def test_values_beside_a_real_tensor_stay_known(planned: list[str]) -> None:
    """The lengths 2 and 3 are joined with those of the input, which are known: the second time the output is longer."""

    def run(self: Any, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        first = torch.cat([torch.tensor([2]), lengths])
        second = torch.cat([torch.tensor([3]), lengths])
        return x[:, : int(first.sum())] * 2, x[:, : int(second.sum())] * 2

    found = trace_complete(Call(run), ones(1, 9), torch.tensor([4]))
    assert [op.outputs[0].shape for op in found.operators if op.operator.startswith("aten.mul")] == [(1, 6), (1, 7)]
    assert found.method == "meta tensors"


def test_an_operator_is_run_again_for_another_default_dtype() -> None:
    """A quotient of integers has the default dtype: of 15 numbers 60 bytes, then 120 beside these.

    The input is 15 integers of 8 bytes, which are copied in the dtype of the quotient first.
    """

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
    assert found.memory.live_bytes == (120 + 60 + 60, 120 + 60 + 120 + 120)


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
    ("linear", (torch.empty(5, 2, 3, device=META).transpose(0, 1), (4, 3), (4,)), {}, (2, 5, 4)),
    ("linear", (torch.empty(3, 5, 2, device=META).permute(2, 1, 0), torch.empty(3, 4, device=META).t()), {}, (2, 5, 4)),
    ("addmm", ((4,), (7, 3), (3, 4)), {}, (7, 4)),
    ("group_norm", ((2, 6, 4), 3, (6,), (6,)), {}, (2, 6, 4)),
    ("conv1d", ((2, 4, 10), (6, 2, 3), None, [2], [1], [1], 2), {}, (2, 6, 5)),
    ("conv2d", ((2, 3, 9, 8), (5, 3, 3, 2), (5,), [2, 1], [1, 0], [1, 2], 1), {}, (2, 5, 5, 6)),
    ("conv3d", ((1, 2, 4, 4, 4), (3, 2, 3, 3, 3), (3,), [1], [1], [1], 1), {}, (1, 3, 4, 4, 4)),
    ("conv_transpose1d", ((2, 4, 10), (4, 3, 5)), {}, (2, 3, 14)),
    (
        "conv_transpose2d.input",
        ((2, 4, 5, 6), (4, 3, 2, 3), (6,), [2, 3], [0, 1], [1, 0], 2, [1, 2]),
        {},
        (2, 6, 11, 18),
    ),
    ("conv_transpose3d.input", ((1, 2, 3, 3, 3), (2, 4, 2, 2, 2), None, [2]), {}, (1, 4, 6, 6, 6)),
    ("mm", ((7, 3), (3, 4)), {}, (7, 4)),
    ("mm", (torch.empty(3, 7, device=META).t(), (3, 4)), {}, (7, 4)),
    ("bmm", ((2, 7, 3), torch.empty(2, 4, 3, device=META).mT), {}, (2, 7, 4)),
    ("cat", ([(2, 3), (2, 4)], -1), {}, (2, 7)),
    ("cat", ([(2, 1, 5), torch.empty(2, 5, 3, device=META).mT], 1), {}, (2, 4, 5)),
    ("cat", ([(2, 3, 4, 5), (1, 3, 4, 5)],), {}, (3, 3, 4, 5)),
    ("embedding", ((9, 4), torch.empty(2, 3, dtype=torch.int64, device=META)), {}, (2, 3, 4)),
    ("embedding", ((9, 4), torch.empty(5, dtype=torch.int32, device=META), 0), {}, (5, 4)),
    ("max_pool2d", ((2, 3, 9, 8), [3, 2]), {}, (2, 3, 3, 4)),
    ("max_pool2d", ((2, 3, 9, 8), [3], [2], [1]), {}, (2, 3, 5, 4)),
    ("max_pool2d", ((2, 3, 9, 8), [3, 3], [1, 2], [0, 1], [2, 1]), {}, (2, 3, 5, 4)),
    ("avg_pool2d", ((2, 3, 9, 8), [3], [2], [1]), {}, (2, 3, 5, 4)),
    ("avg_pool2d", ((2, 3, 9, 8), [3, 2]), {}, (2, 3, 3, 4)),
    ("mean", ((2, 3),), {}, ()),
    ("sum", ((2, 3),), {}, ()),
    ("rms_norm", ((2, 3, 5), [3, 5], (3, 5)), {}, (2, 3, 5)),
    ("rms_norm", ((2, 3), [3]), {}, (2, 3)),
    ("softmax.int", ((2, 3, 5), -2), {}, (2, 3, 5)),
    ("log_softmax.int", ((2, 3), 1), {}, (2, 3)),
    ("add.Tensor", ((2, 3, 5), (3, 1)), {}, (2, 3, 5)),
    ("add.Tensor", ((2, 3, 5), torch.empty(5, 3, 2, device=META).permute(2, 1, 0)), {}, (2, 3, 5)),
    ("add.Tensor", ((2, 3), torch.empty((), device=META)), {"alpha": 2}, (2, 3)),
    ("masked_fill.Scalar", ((2, 3), torch.empty(3, device=META, dtype=torch.bool), 0.5), {}, (2, 3)),
    ("clamp", ((2, 3), None, 1), {}, (2, 3)),
    ("gelu", ((2, 3),), {"approximate": "tanh"}, (2, 3)),
    ("div.Tensor", ((2, 3), 2.5), {}, (2, 3)),
    ("pow.Tensor_Scalar", ((2, 3), 2), {}, (2, 3)),
    ("rsqrt", ((2, 3),), {}, (2, 3)),
    ("sum.dim_IntList", ((2, 3, 5, 7), [-1, 2]), {}, (2, 3)),
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
    if isinstance(value, list) and not all(isinstance(item, int) for item in value):
        return list(map(_on_meta, value))
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
    ("linear", (torch.empty(2, 3, device=META, dtype=torch.float16), (4, 3)), {}),
    ("addmm", ((4,), (7, 3), (5, 4)), {}),
    ("group_norm", ((2, 6, 4), 4), {}),
    ("group_norm", ((2, 6, 4), 3, (4,)), {}),
    ("addmm", ((4,), (7, 3), (3, 4)), {"beta": 2}),
    ("conv2d", ((1, 3, 8, 8), (4, 2, 3, 3)), {}),
    ("conv2d", ((1, 3, 2, 2), (4, 3, 3, 3)), {}),
    ("conv2d", ((1, 3, 8, 8), (4, 3, 3, 3), (5,)), {}),
    ("conv2d", ((1, 3, 8, 8), (4, 3, 3, 3), None, [1, 1, 1]), {}),
    ("conv2d", ((3, 8, 8), (4, 3, 3, 3)), {}),
    ("conv_transpose2d.input", ((2, 4, 5, 6), (3, 4, 2, 2)), {}),
    ("conv_transpose2d.input", ((2, 4, 5, 6), (4, 3, 2, 2), None, [1], [0], [1]), {}),
    ("conv_transpose2d.input", ((2, 4, 5, 6), (4, 3, 2, 2), (4,)), {}),
    ("mm", ((7, 3), (4, 3)), {}),
    ("bmm", ((2, 7, 3), (3, 3, 4)), {}),
    ("cat", ([(2, 3), (3, 4)], 1), {}),
    ("cat", ([(2, 3), (0,)],), {}),
    ("cat", ([(2, 3)], 2), {}),
    ("cat", ([(2, 3), torch.empty(2, 3, device=META, dtype=torch.float16)],), {}),
    ("cat", ([torch.empty(1, 4, 5, 3, device=META).permute(0, 3, 1, 2)] * 2,), {}),
    ("embedding", ((9, 4, 2), torch.empty(2, dtype=torch.int64, device=META)), {}),
    ("embedding", ((9, 4), torch.zeros(2, dtype=torch.int64)), {}),
    ("max_pool2d", ((2, 3, 9, 8), [3, 2], [2, 2], [2, 1]), {}),
    ("max_pool2d", ((2, 3, 2, 2), [3, 3]), {}),
    ("max_pool2d", ((2, 3, 9, 8), [2], [2], [0], [1], True), {}),
    ("avg_pool2d", ((2, 3, 9, 8), [2], [2], [0], True), {}),
    ("mean", ((2, 3),), {"dtype": torch.float64}),
    ("rms_norm", ((2, 3), [3], torch.empty(3, device=META, dtype=torch.float64)), {}),
    ("softmax.int", ((2, 3), 2), {}),
    ("softmax.int", ((2, 3), 1, torch.float64), {}),
    ("add.Tensor", ((3, 1), (2, 3, 5)), {}),
    ("add.Tensor", ((2, 3), 1j), {}),
    ("add.out", ((2, 3), (2, 3)), {"out": torch.empty(1, device=META)}),
    ("mul.Tensor", ((2, 3), torch.empty(3, device=META, dtype=torch.float64)), {}),
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
    ("scaled_dot_product_attention", ((2, 4, 6, 8), (2, 0, 7, 8), (2, 0, 7, 8)), {"enable_gqa": True}),
    ("scaled_dot_product_attention", ((4, 6, 8), (4, 7, 8), (4, 7, 3)), {}),
]


@pytest.mark.parametrize(("name", "given", "named"), LEFT_TO_TORCH)
def test_what_is_left_to_torch(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert without_running(_find_overload(name), tuple(map(_on_meta, given)), named) is None


def list_element_wise() -> Iterator[Any]:
    """Yield the element-wise operators of torch, but those that write into a tensor that is given by name."""
    for name in torch._C._dispatch_get_all_op_names():
        operator, _, overload = name.removeprefix("aten::").partition(".")
        found = _find_overload(f"{operator}.{overload}") if name.startswith("aten::") else None
        if found is not None and is_element_wise(found) and not any(map(is_needed_by_name, found._schema.arguments)):
            yield found


def is_needed_by_name(argument: Any) -> bool:
    return bool(argument.kwarg_only and not argument.has_default_value())


def make_operand(argument: Any) -> Any:
    """Return what an argument of an operator may be: a tensor, its default, or a number."""
    kind = str(argument.type)
    if "Tensor" in kind:
        return torch.empty(2, 3, device=META, dtype=torch.bool if argument.name == "mask" else torch.float32)
    default = argument.default_value if argument.has_default_value() else None
    return NUMBERS.get(kind) if default is None else default


#: By the kind of an argument: a number that it may be.
NUMBERS = {"number": 1, "Optional[number]": 1, "int": 1, "float": 1.0}


def test_every_element_wise_operator_keeps_shape_and_dtype() -> None:
    others, seen = {}, 0
    for operator in list_element_wise():
        args = [make_operand(argument) for argument in operator._schema.arguments if not argument.kwarg_only]
        known = without_running(operator, args, {})
        if known is not None:
            made, seen = operator(*args), seen + 1
            if (known.shape, known.dtype) != (made.shape, made.dtype):
                others[str(operator)] = made.dtype
    assert (others, seen > 100) == ({}, True)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(None, None, 2)])
def test_the_layout_of_what_is_not_run(order: tuple[int, ...], part: slice) -> None:
    """A tensor, or a part of it, in any order: as torch's own kernels for it, strides and all."""
    x = torch.empty(2, 3, 4, 6, device=META).permute(order)[..., part, :]
    for name, args in (("exp", (x,)), ("silu", (x,)), ("add.Tensor", (x, x))):
        output = without_running(_find_overload(name), args, {})
        assert output.stride() == torch.empty_like(x).stride() == _find_overload(name)(*args).stride()


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


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="Python 3.12 has a limit of calls that no setting lifts")
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


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="Python 3.12 has a limit of calls that no setting lifts")
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
    further = [(module, list(attributes)) for module, attributes in held.further_attributes]
    assert further == [(model, ["cache", "pair"])], "no number leads anywhere"
    assert [tuple(tensor.shape) for tensor in held.attributes] == [(3,), (5,)]
    assert len(held.tensors) == len(held.parameters) + len(held.buffers) + 2
    assert not is_lazy(held)
    assert is_lazy(nn.Sequential(nn.LazyLinear(3)))
