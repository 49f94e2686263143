"""Bytes alive at once, by hand for small models."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tiny import BACKEND, Call, ones, trace_complete
from torch import nn

from profilerkit import ModelInputs
from profilerkit_torch.model.weights import list_viewed_bytes
from profilerkit_torch.trace.live_bytes import LiveBytes

LINEAR = 2 * 8 * 8  # MACs of an 8 x 8 linear layer for two samples


def linear() -> nn.Linear:
    return nn.Linear(8, 8, bias=False)


def x() -> torch.Tensor:
    return ones(2, 8)


ACTIVATION = 2 * 8 * 4  # bytes of two samples of eight floats


def peaks(function: Callable[..., Any], *inputs: torch.Tensor, **modules: nn.Module) -> tuple[int, int]:
    memory = trace_complete(Call(function, **modules), *inputs).memory
    return memory.peak_bytes(include_weights=False), memory.peak_bytes()


def test_two_activations_and_the_input_are_alive_in_a_chain() -> None:
    """The profiler keeps the input; an activation lives until the next is there: x, relu's input, relu's output."""
    model = nn.Sequential(linear(), nn.ReLU(), linear())
    found = trace_complete(model, x())
    assert found.memory.live_bytes == (2 * ACTIVATION, 3 * ACTIVATION, 3 * ACTIVATION)
    assert found.memory.peak_bytes(include_weights=False) == 3 * ACTIVATION
    assert found.memory.peak_bytes() == 3 * ACTIVATION + 2 * 64 * 4
    assert found.peak_operator is not None
    assert (found.peak_operator.operator, found.peak_operator.layer) == ("aten.relu.default", "1")


def test_an_in_place_activation_takes_nothing() -> None:
    found = trace_complete(nn.Sequential(linear(), nn.ReLU(inplace=True)), x())
    assert found.memory.live_bytes == (2 * ACTIVATION, 2 * ACTIVATION)


def test_a_residual_keeps_its_branch_alive() -> None:
    """Input, the first activation which the sum still needs, the second, and the sum."""

    def run(self: Any, x: torch.Tensor) -> Any:
        kept = x + 1
        return kept + (kept * 2)

    assert peaks(run, x())[0] == 4 * ACTIVATION


def test_views_share_their_storage() -> None:
    assert peaks(lambda self, x: x.view(16)[:4].reshape(2, 2).t(), x())[0] == ACTIVATION


@pytest.mark.parametrize(
    ("views", "count", "alive"),
    [  # of 24 numbers in four rows of six: how many their views have, and how many of them are alive
        ([lambda whole: whole, lambda whole: whole.T, lambda whole: whole.view(2, 12)], 24, 24),
        ([lambda whole: whole[0], lambda whole: whole[2]], 12, 12),
        ([lambda whole: whole[0, :1].expand(8)], 1, 1),
        ([lambda whole: whole[:2], lambda whole: whole[1:3]], 24, 24),  # the second row twice: no more than there are
        ([lambda whole: whole[:3], lambda whole: whole[1:]], 36, 24),
        ([lambda whole: whole, lambda whole: whole[:, 0]], 28, 24),
    ],
)
def test_views_that_overlap_in_part_count_in_full_up_to_their_storage(
    views: list[Callable[[torch.Tensor], torch.Tensor]], count: int, alive: int
) -> None:
    whole = torch.ones(4, 6)
    live = LiveBytes()
    ((part, nbytes),) = list_viewed_bytes([view(whole) for view in views])
    live.add(part, nbytes)
    assert (nbytes, live.total) == (count * 4, alive * 4)


def test_a_copy_that_a_reshape_needs_is_seen() -> None:
    assert peaks(lambda self, x: x.t().reshape(16), x())[0] == 2 * ACTIVATION


@pytest.mark.parametrize("move", ["to", "type_as", "as_tensor", "asarray"])
def test_what_is_moved_to_where_it_is_already_is_no_copy(move: str) -> None:
    """The input, what the model makes of eight by eight floats, and their product."""

    def run(self: Any, x: torch.Tensor) -> Any:
        made = torch.triu(torch.ones(8, 8))
        there = getattr(made, move)(x) if hasattr(made, move) else getattr(torch, move)(made, device=x.device)
        return x * there

    assert peaks(run, ones(8, 8))[0] == 3 * 8 * 8 * 4


@pytest.mark.parametrize("index", [list(range(8)), range(8), np.arange(8)], ids=["list", "range", "numpy"])
def test_the_positions_of_an_index_are_a_tensor_of_their_own(index: Any) -> None:
    """The input, eight positions in int64, and what is at them."""
    assert peaks(lambda self, x: x[:, index], ones(2, 8))[0] == 2 * ACTIVATION + 8 * 8


def test_what_is_dropped_is_free_again() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        for _ in range(10):
            x = self.layer(x)
        return x

    assert peaks(run, x(), layer=linear()) == (3 * ACTIVATION, 3 * ACTIVATION + 256)


def test_a_slice_of_a_big_tensor_counts_as_what_it_holds() -> None:
    whole = torch.zeros(1000, 8, dtype=torch.int64)
    memory = trace_complete(nn.Embedding(10, 4), whole[:2]).memory
    assert memory.input_bytes == 2 * 8 * 8
    assert memory.peak_bytes(include_weights=False) == 2 * 8 * 8 + 2 * 8 * 4 * 4


def test_shared_weights_take_memory_once() -> None:
    shared = linear()
    assert trace_complete(nn.Sequential(shared, shared), x()).memory.weight_bytes == 256


def test_operators_know_what_they_read_and_write() -> None:
    op = trace_complete(linear(), x()).operators[0]
    assert (op.bytes_read, op.bytes_written) == (ACTIVATION + 256, ACTIVATION)
    assert [(info.shape, info.dtype) for info in op.outputs] == [((2, 8), "float32")]


def test_dropout_that_drops_nothing_is_no_copy() -> None:
    found = trace_complete(nn.Sequential(nn.Dropout(), linear(), nn.Dropout(0.9)), x())
    assert [op.operator for op in found.operators] == ["aten.linear.default"]
    assert found.memory.live_bytes == (2 * ACTIVATION,)


def test_in_place_views_change_the_shape_each_time() -> None:
    def run(self: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
        return (a * 1).t_(), (b * 1).t_()

    assert trace_complete(Call(run), x(), x()).table[""]["output_shapes"] == ((8, 2), (8, 2))


def test_hooks_of_the_user_run_and_their_work_is_counted() -> None:
    layer = linear()
    handle = layer.register_forward_hook(lambda module, args, output: output * 2)
    assert trace_complete(layer, x()).flops == 2 * LINEAR + 16
    handle.remove()


def test_named_inputs_are_called_by_name() -> None:
    found = BACKEND.trace(Call(lambda self, *, x: self.layer(x), layer=linear()), ModelInputs.of({"x": x()}))
    assert found.macs == LINEAR


@pytest.mark.parametrize("masked", [False, True])
def test_attention_returns_what_is_laid_out_as_its_queries(masked: bool) -> None:
    """So the heads, which lie after the tokens in memory, are joined without a copy, as on a real device."""

    def run(self: Any, x: torch.Tensor, mask: torch.Tensor | None = None) -> Any:
        heads = x.view(2, 5, 4, 8).transpose(1, 2)
        attended = nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)
        return attended.transpose(1, 2).reshape(2, 5, 32)

    given = (ones(2, 5, 32), *([ones(5, 5)] if masked else []))
    found = trace_complete(Call(run), *given)
    expected = (2 * 2 * 5 * 32 + masked * 25) * 4
    assert found.memory.peak_bytes(include_weights=False) == expected
    assert expected <= BACKEND.measure_memory(Call(run), ModelInputs(*given))


def test_attention_that_cannot_be_is_refused_as_ever() -> None:
    run = Call(lambda self, q, k: nn.functional.scaled_dot_product_attention(q, k, k))
    for key in (ones(2, 4, 5, 7), ones(2, 3, 5, 8), ones(3, 4, 5, 8)):
        assert BACKEND.trace(run, ModelInputs(ones(2, 4, 5, 8), key)).failure is not None


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_autocast_is_seen_and_keeps_the_weights_it_casts(device: str) -> None:
    """The input, its cast, the cast weight (kept to the end), the product, and relu's output, all of two bytes."""

    def cast(self: Any, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return self.layer(x)

    found = trace_complete(Call(cast, layer=nn.Sequential(linear(), nn.ReLU())).to(device), x())
    assert found.macs == LINEAR
    assert found.table["layer.1"]["output_shapes"] == ((2, 8),)
    assert {info.dtype for op in found.operators for info in op.outputs} == {"bfloat16"}
    assert found.memory.peak_bytes(include_weights=False) == ACTIVATION + 64 * 2 + 2 * ACTIVATION // 2


def test_autocast_is_seen_where_no_layer_runs_inside() -> None:
    """The input, its cast and the cast weight, and the product of two bytes."""

    def cast(self: Any, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return nn.functional.linear(x, self.weight)

    found = trace_complete(Call(cast, weight=nn.Parameter(ones(8, 8))), x())
    assert found.operators[-1].outputs[0].dtype == "bfloat16"
    assert found.memory.peak_bytes(include_weights=False) == ACTIVATION + 64 * 2 + 2 * ACTIVATION // 2


@pytest.mark.parametrize(("freed", "activations"), [(True, 3), (False, 4)])
def test_memory_that_the_model_frees_itself_is_alive_no_more(freed: bool, activations: int) -> None:
    """At the end there are the input, a sum and its copy, and the product, unless its storage is empty by then."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        product = x * 2
        total = product + 1
        storage = product.untyped_storage()
        if freed:
            storage.resize_(0)
        return total.repeat(1)

    inputs = ModelInputs(ones(1000))
    assert BACKEND.trace(Call(run), inputs).memory.peak_bytes() == activations * 4000
    assert BACKEND.measure_memory(Call(run), inputs) == pytest.approx(activations * 4000, abs=64)


def test_no_weak_dictionary_runs_code_where_tensors_of_a_pass_die() -> None:
    """Python drops an interrupt that is raised in the callback of a weak reference."""
    called = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and "weakref" in frame.f_code.co_filename:
            called.append(frame.f_code.co_name)

    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), torch.randn(3, 4)
    sys.setprofile(note)
    try:
        BACKEND.trace(model, ModelInputs(x))
    finally:
        sys.setprofile(None)
    assert {"remove", "_remove"}.isdisjoint(called)
