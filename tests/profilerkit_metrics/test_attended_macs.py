"""Causal attention by hand, masks that are tensors as an upper bound, and what is said of each."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from profilerkit import Completeness, profile
from profilerkit.hooks.backends import backend_named
from profilerkit.inputs import ModelInputs


class Attention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(query, key, key, **self.options)


WINDOW_NOTE = "causal or windowed attention of 1 operator: what it attends to"


def make_report(model: nn.Module, length: int = 5, keys: int = 5) -> Any:
    inputs = torch.randn(2, 3, length, 8), torch.randn(2, 3, keys, 8)
    return profile(model, inputs, metrics=["macs", "attended_macs"])


@pytest.mark.parametrize(("length", "keys", "attended"), [(5, 5, 15), (3, 7, 6), (7, 3, 6 + 4 * 3), (1, 9, 1)])
def test_causal_attention_up_to_the_diagonal(length: int, keys: int, attended: int) -> None:
    """Of L x S scores those of row i up to place i: 1 + 2 + ... + S, and all of the rows below. 16 MACs for each."""
    report = make_report(Attention(is_causal=True), length, keys)
    assert report["macs"] == 2 * 3 * length * keys * 16
    assert report["attended_macs"] == 2 * 3 * attended * 16
    assert report.status("attended_macs").completeness is Completeness.COMPLETE
    assert report.status("attended_macs").note == WINDOW_NOTE


def count_by_hand(length: int, keys: int, left: int, right: int) -> int:
    """Return how many of L x S scores lie in the window, the last query beside the last key; -1 for no limit."""
    places = [(key - (keys - length), query) for query in range(length) for key in range(keys)]
    return sum((left < 0 or at >= query - left) and (right < 0 or at <= query + right) for at, query in places)


class Kernel(nn.Module):
    """A kernel whose heads come after the length: two samples, three heads of eight."""

    def __init__(self, arguments: Any, **options: Any) -> None:
        super().__init__()
        self.arguments, self.options = arguments, options

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        function, arguments = self.arguments
        return function(query, key, key, *arguments, **self.options)[0]  # type: ignore[no-any-return]


LENGTHS = [(5, 5), (4, 7), (7, 4), (1, 6)]
WINDOWS = [(-1, 0), (1, 0), (2, 1), (0, -1), (9, 9), (-1, -1)]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("length", "keys"), LENGTHS)
@pytest.mark.parametrize("form", ["dense", "samples one after the other"])
def test_kernels_with_the_heads_last(form: str, length: int, keys: int, window: tuple[int, int]) -> None:
    """Heads are no length; 16 MACs for each score in the window, in two samples of three heads."""
    is_dense = form == "dense"
    ends = (None, None) if is_dense else tuple(torch.tensor([0, n, 2 * n], dtype=torch.int32) for n in (length, keys))
    shapes = ((2, length), (2, keys)) if is_dense else ((2 * length,), (2 * keys,))
    arguments = (*ends, length, keys, 0.0, False, False)
    model = Kernel(
        (torch.ops.aten._flash_attention_forward, arguments), window_size_left=window[0], window_size_right=window[1]
    )
    inputs = tuple(torch.randn(*shape, 3, 8) for shape in shapes)
    report = profile(model, inputs, metrics=["macs", "attended_macs"])
    assert report["macs"] == 2 * 3 * length * keys * 16
    assert report["attended_macs"] == 2 * 3 * count_by_hand(length, keys, *window) * 16
    whole, part = "attention of 1 operator without a mask: in full", WINDOW_NOTE
    assert report.status("attended_macs").note == (whole if window == (-1, -1) else part)


@pytest.mark.parametrize("length", [5, 2])
def test_causal_kernels_with_the_heads_last(length: int) -> None:
    """The flag of flash attention ends at the last key; the first type of efficient attention begins at the first."""
    flash = (torch.ops.aten._flash_attention_forward, (None, None, length, 5, 0.0, True, False))
    first, last = ((torch.ops.aten._efficient_attention_forward, (*(None,) * 5, 0.0, kind)) for kind in (1, 2))
    triangle = length * (length + 1) // 2
    before = length * (5 - length)  # keys that every query attends to
    for kernel, attended in ((flash, triangle + before), (first, triangle), (last, triangle + before)):
        inputs = torch.randn(2, length, 3, 8), torch.randn(2, 5, 3, 8)
        report = profile(Kernel(kernel), inputs, metrics=["attended_macs"])
        assert report["attended_macs"] == 2 * 3 * attended * 16


@pytest.mark.parametrize("size", [None, 0, 1, 3, 9])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_efficient_attention_in_a_window(kind: int, size: int | None) -> None:
    """The window has so many keys up to the query's own, which is the same place, or in type 2 two places later."""
    shift = 2 if kind == 2 else 0
    scores = [(query + shift, key) for query in range(3) for key in range(5)]
    attended = sum((key <= at or kind == 0) and (not size or key > at - size) for at, key in scores)
    kernel = torch.ops.aten._efficient_attention_forward, (*(None,) * 5, 0.0, kind)
    inputs = torch.randn(2, 3, 3, 8), torch.randn(2, 5, 3, 8)
    report = profile(Kernel(kernel, window_size=size), inputs, metrics=["attended_macs"])
    assert report["attended_macs"] == 2 * 3 * attended * 16


@pytest.mark.parametrize("window", WINDOWS)
def test_attention_of_varying_lengths(window: tuple[int, int]) -> None:
    varlen = pytest.importorskip("torch.nn.attention.varlen").varlen_attn
    if "window_size" not in inspect.signature(varlen).parameters:
        pytest.skip("this torch knows no windows")

    def attend(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        starts = torch.tensor([0, 5, 10], dtype=torch.int32)
        return varlen(x, x, x, starts, starts, 5, 5, window_size=window)  # type: ignore[no-any-return]

    report = profile(Call(attend), torch.randn(10, 3, 8), metrics=["macs", "attended_macs"])
    assert report["macs"] == 2 * 3 * 25 * 16
    assert report["attended_macs"] == 2 * 3 * count_by_hand(5, 5, *window) * 16


def test_without_a_mask_it_is_all() -> None:
    report = make_report(Attention())
    assert report["attended_macs"] == report["macs"]
    assert report.status("attended_macs").note == "attention of 1 operator without a mask: in full"


class Windowed(nn.Module):
    """Attention of each query to itself and the key before it: 1 + 2 + 2 + 2 + 2 = 9 of 25 scores."""

    window: torch.Tensor

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.register_buffer("window", torch.ones(5, 5).tril().triu(-1).bool())

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        mask = self.window
        if self.form == "computed":
            at = torch.arange(5)
            mask = (at[:, None] >= at) & (at[:, None] - at < 2)
        elif self.form != "booleans":
            least = float("-inf") if self.form == "minus infinity" else torch.finfo(query.dtype).min
            mask = torch.zeros(5, 5, dtype=query.dtype).masked_fill(~mask, least)
        return nn.functional.scaled_dot_product_attention(query, key, key, attn_mask=mask)


@pytest.mark.parametrize("form", ["booleans", "computed", "minus infinity", "least number"])
def test_a_window_of_known_values_leaves_its_scores(form: str) -> None:
    """16 MACs for each of the 9 scores, in two sequences of three heads."""
    report = make_report(Windowed(form))
    assert report["macs"] == 2 * 3 * 25 * 16
    assert report["attended_macs"] == 2 * 3 * 9 * 16
    status = report.status("attended_macs")
    assert status.completeness is Completeness.COMPLETE
    assert status.note == "attention of 1 operator under masks of known values, such as windows: what they leave"


def test_numbers_that_take_nothing_away_leave_everything() -> None:
    """A bias by distance, as ALiBi has: 20 scores are lower, and none is left out."""

    class Biased(nn.Module):
        def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            at = torch.arange(5)
            bias = -1e4 * (at[:, None] - at).abs().to(query.dtype)
            return nn.functional.scaled_dot_product_attention(query, key, key, attn_mask=bias)

    report = make_report(Biased())
    assert report["attended_macs"] == report["macs"]
    assert report.status("attended_macs").completeness is Completeness.COMPLETE


def test_a_mask_of_unknown_values_is_an_upper_bound() -> None:
    class FromScores(nn.Module):
        def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            mask = query[..., :1] > key[..., 0].unsqueeze(-2)
            return nn.functional.scaled_dot_product_attention(query, key, key, attn_mask=mask)

    report = make_report(FromScores())
    assert report["attended_macs"] == report["macs"]
    status = report.status("attended_macs")
    assert status.sign == "\u2264 "
    assert "attention of 1 operator under a mask of unknown values: in full" in status.note


@pytest.mark.parametrize(("is_masked", "sign"), [(True, "\u2264 "), (False, "")])
def test_flex_attention_under_a_mask_is_an_upper_bound(is_masked: bool, sign: str) -> None:
    """What its blocks leave is not looked at: 16 MACs for each of 25 scores, in two sequences of three heads."""
    mask = create_block_mask(lambda batch, head, query, key: query >= key, None, None, 5, 5, device="cpu")
    model = Call(lambda self, x: flex_attention(x, x, x, block_mask=mask if is_masked else None))
    status = profile(model, torch.randn(2, 3, 5, 8), metrics=["attended_macs"]).status("attended_macs")
    assert (status.value, status.sign) == (2 * 3 * 25 * 16, sign)
    assert ("under a mask of unknown values: in full" in status.note) is is_masked


def test_attention_as_products_is_not_seen() -> None:
    report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["attended_macs"])
    assert report["attended_macs"] == 16
    assert "where it is written as products, it counts in full" in report.status("attended_macs").note


def test_gradients_of_causal_attention_too() -> None:
    """Twice the forward products, in training by torch's kernel for the CPU."""
    query = torch.randn(2, 3, 5, 8, requires_grad=True)
    backend: Any = backend_named("torch")
    trace = backend.trace_training(Attention(is_causal=True), ModelInputs(query, torch.randn(2, 3, 5, 8)))
    by_phase = {op.phase: (op.macs, op.attended_macs) for op in trace.operators if op.macs}
    forward, full = 2 * 3 * 15 * 16, 2 * 3 * 25 * 16
    assert by_phase == {"forward": (full, forward), "backward": (2 * full, 2 * forward)}
