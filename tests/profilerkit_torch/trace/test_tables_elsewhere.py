"""Tables outside of a model, in a global variable or a closure: they take nothing in a pass, whole or by a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import Call, ones, step, trace_complete
from torch import nn

TABLE = torch.ones(1000, 16)
WRITTEN = torch.zeros(4, 16)
BATCH = 4 * 16 * 4


def whole(x: torch.Tensor) -> torch.Tensor:
    return x + TABLE.sum()


def sliced(x: torch.Tensor) -> torch.Tensor:
    return x + TABLE[:4]


def viewed(x: torch.Tensor) -> torch.Tensor:
    return x * TABLE[4:8].view(2, 2, 16).reshape(4, 16)


def cast_to_itself(x: torch.Tensor) -> torch.Tensor:
    return x + TABLE.to(x.dtype).contiguous()[:4]


def written(x: torch.Tensor) -> torch.Tensor:
    WRITTEN[:2] = x.detach()[:2]
    return x + WRITTEN


def by_meta(layer: Any, function: Callable[..., Any], x: torch.Tensor) -> Any:
    return function(layer(x))


def by_fake(layer: Any, function: Callable[..., Any], x: torch.Tensor) -> Any:
    with torch.autocast("cpu"):  # layers under it are no work for meta tensors
        return function(layer(x))


def by_values(layer: Any, function: Callable[..., Any], x: torch.Tensor) -> Any:
    return function(layer(x)) if float(x.sum()) else x


@pytest.mark.parametrize("function", [sliced, viewed, cast_to_itself, written, whole])
@pytest.mark.parametrize(
    ("way", "method"), [(by_meta, "meta tensors"), (by_fake, "fake tensors"), (by_values, "a real run")]
)
def test_a_view_of_a_table_takes_nothing(way: Callable[..., Any], method: str, function: Callable[..., Any]) -> None:
    """The input and the output; the sum of the whole table is one number more."""
    model = Call(lambda self, x: way(self.layer, function, x), layer=nn.Identity())
    found = trace_complete(model, ones(4, 16))
    assert found.method == method
    assert found.memory.peak_bytes() == 2 * BATCH + (4 if function is whole else 0)


def test_a_step_has_no_table_either() -> None:
    """The input, the output, its gradient, and that of the weights."""
    layer = nn.Linear(16, 16, bias=False)
    found = step(Call(lambda self, x: self.layer(x) + TABLE[:4], layer=layer), ones(4, 16))
    assert found.memory.peak_bytes(include_weights=False) == 3 * BATCH + 16 * 16 * 4
