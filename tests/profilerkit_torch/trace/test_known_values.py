"""Values that are kept beside stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call
from torch import nn

from profilerkit import ModelInputs
from profilerkit_torch.trace.known_values import FakeValues, KnownValues
from profilerkit_torch.trace.live_bytes import LiveBytes

#: Ways in which a model brings a mask to the device of its input.
MOVES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "to a device": lambda mask, x: mask.to(x.device),
    "to a device by name": lambda mask, x: mask.to(str(x.device)),
    "to a device and type": lambda mask, x: mask.to(x.device, torch.bool),
    "to a device by keyword": lambda mask, x: mask.to(device=x.device, dtype=torch.int64),
    "to a device, not waiting": lambda mask, x: mask.to(x.device, non_blocking=True),
    "like another tensor": lambda mask, x: mask.to(x),
    "to the type of another": lambda mask, x: mask.type_as(x),
    "to the CPU": lambda mask, x: mask.cpu(),
    "anew with its type": lambda mask, x: torch.ones_like(mask, device=x.device),
    "anew by a method": lambda mask, x: mask.new_ones(mask.shape, device=x.device),
}


def run_masked(self: Any, x: torch.Tensor) -> Any:
    """Three products of a layer where its mask leaves nothing out, one otherwise."""
    mask = self.move(torch.ones(4, 5, device=x.device), x).flatten(1)
    x = self.layer(x)
    return self.layer(self.layer(x)) if mask.all() else x


def test_zeros_without_memory_get_some() -> None:
    """Gradients that are undefined are such zeros; torch's primitives, given these, end the process."""
    zeros = torch._efficientzerotensor((1, 2))
    assert zeros.data_ptr() == 0
    product = KnownValues(LiveBytes()).run_on_values(torch.ops.prims.mul.default, (zeros, torch.ones(1, 2)), {})
    assert product.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("move", MOVES)
def test_a_mask_that_is_moved_keeps_its_values(move: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the pass on the meta device is enough, and none on fake tensors follows."""
    monkeypatch.setattr(FakeValues, "__init__", _refuse)
    model = Call(run_masked, move=MOVES[move], layer=nn.Linear(8, 8)).to(device)
    trace = BACKEND.trace(model, ModelInputs(torch.zeros(2, 8, device=device)))
    assert trace.macs == 3 * 2 * 8 * 8
    assert trace.notes == ()


def _refuse(self: Any, live: LiveBytes) -> None:
    raise AssertionError("a second pass, on fake tensors")


@pytest.mark.parametrize("written", ["whole", "part"])
@pytest.mark.parametrize(("is_view", "runs"), [(True, 3), (False, 2)])
def test_a_write_changes_the_buffers_that_share_memory(written: str, is_view: bool, runs: int) -> None:
    """Of two integer buffers of zeros one is written to; the layer runs once more for each that is not zero then.

    A run of the layer on 2 samples of 8 features is 2 x 8 x 8 MACs.
    """

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.get_buffer(written).data.add_(1)
        x = self.layer(x)
        for buffer in (self.whole, self.part):
            if buffer.sum() > 0:
                x = self.layer(x)
        return x

    whole = torch.zeros(4, dtype=torch.long)
    model = Call(run, layer=nn.Linear(8, 8))
    model.register_buffer("whole", whole)
    model.register_buffer("part", whole[:2] if is_view else whole[:2].clone())
    trace = BACKEND.trace(model, ModelInputs(torch.zeros(2, 8)))
    assert trace.macs == runs * 2 * 8 * 8


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_rows_that_are_repeated_by_a_tensor_need_no_run(device: str) -> None:
    """Three rows, not at all, once and twice: the positions of three rows, these rows, and what they are doubled to."""

    def repeat(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x.repeat_interleave(torch.arange(len(x), device=x.device), 0) * 2

    trace = BACKEND.trace(Call(repeat), ModelInputs(torch.ones(3, 10, device=device)))
    assert trace.method == "meta tensors"
    assert trace.memory.live_bytes[1:] == (120 + 24 + 24, 120 + 24 + 24 + 120, 120 + 2 * 120)
    assert [operator.outputs[0].shape for operator in trace.operators[1:]] == [(3,), (3, 10), (3, 10)]


def test_integers_whose_memory_is_freed_are_not_read() -> None:
    """Reading them would end the process. A run of the layer on 2 samples of 8 features is 2 x 8 x 8 MACs."""
    model = Call(lambda self, x: self.layer(x), layer=nn.Linear(8, 8))
    model.register_buffer("freed", torch.zeros(100_000, dtype=torch.long))
    model.get_buffer("freed").untyped_storage().resize_(0)
    assert BACKEND.trace(model, ModelInputs(torch.zeros(2, 8))).macs == 2 * 8 * 8


def test_integers_that_torch_cannot_copy_need_no_run() -> None:
    """Torch has no kernel that copies integers of 4 bits."""
    model = Call(lambda self, x: self.layer(x), layer=nn.Linear(8, 8))
    model.register_buffer("narrow", torch.zeros(8, dtype=torch.uint8).view(vars(torch)["uint4"]))
    trace = BACKEND.trace(model, ModelInputs(torch.zeros(2, 8)))
    assert (trace.macs, trace.method, trace.notes) == (2 * 8 * 8, "meta tensors", ())


def test_a_remembered_operator_that_writes_statistics_leaves_them_unknown() -> None:
    """Two norms of equal shapes: the mean is none of zeros after either, and the layer runs twice.

    A run of the layer on 2 samples of 8 features is 2 x 8 x 8 MACs.
    """

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            mean, variance = torch.zeros(8, device=x.device), torch.ones(8, device=x.device)
            torch.nn.functional.batch_norm(x, mean, variance, training=True)
            if mean.any():
                x = self.layer(x)
        return x

    assert BACKEND.trace(Call(run, layer=nn.Linear(8, 8)), ModelInputs(torch.randn(2, 8))).macs == 2 * 2 * 8 * 8


def test_all_views_of_a_stand_in_have_its_values() -> None:
    """A step writes to a part, another view reads the whole: positions 0 to 3 and 2 more make 8."""

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(4, device=x.device)
        for part in positions.view(2, 2).t().unbind():
            part[1:].add_(1)
        return x.expand(int(positions.unsqueeze(0).sum()), 8) + 1

    trace = BACKEND.trace(Call(run), ModelInputs(torch.ones(1, 8)))
    assert (trace.method, trace.operators[-1].outputs[0].shape) == ("meta tensors", (8, 8))
