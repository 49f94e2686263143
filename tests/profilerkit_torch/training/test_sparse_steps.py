"""Steps with sparse tensors: what they store is counted, and gradients that are sparse are taken as they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import Call, step, trace
from torch import nn

from profilerkit import profile
from profilerkit.piping.outcome import Completeness

ROWS, WIDTH, INDICES = 100, 16, 20


def test_a_sparse_gradient_is_counted_once() -> None:
    """Alive at the end are the inputs, the output, and the gradient of each row, whose places are the input's."""
    bag = nn.EmbeddingBag(ROWS, WIDTH, sparse=True, mode="sum")
    rows, starts = torch.arange(INDICES), torch.arange(INDICES)
    found = step(Call(lambda self, rows, starts: self.bag(rows, starts), bag=bag), rows, starts).memory
    assert found.left_bytes == rows.nbytes + starts.nbytes + 2 * INDICES * WIDTH * 4


def test_a_sparse_matrix_takes_what_it_stores() -> None:
    """Of 20 numbers each has two indices of 8 bytes. The product is added to zeros of its size."""

    def multiply(self: Any, x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.sparse.mm(x.to_sparse(), self.weight)
        return product

    model = Call(multiply)
    model.weight = nn.Parameter(torch.rand(20, 20))
    memory = trace(model, torch.eye(20)).memory
    assert memory.peak_bytes(include_weights=False) == 20 * 20 * 4 + 20 * (2 * 8 + 4) + 2 * 20 * 20 * 4


def test_what_nobody_knows_to_be_stored_is_named() -> None:
    model = Call(lambda self, x: x.to_sparse())
    status = profile(model, torch.eye(20), metrics=["memory_footprint"]).status("memory_footprint")
    assert status.completeness is Completeness.PARTIAL
    assert status.missing == ("what aten::_to_sparse stores of unknown size (1 call)",)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_an_output_may_be_sparse(layout: torch.layout) -> None:
    """Its gradient is dense: torch has no ones in such a layout."""
    model = Call(lambda self: (self.weight * 2).to_sparse(layout=layout))
    model.weight = nn.Parameter(torch.rand(20, 20))
    assert trace(model).failure is None
    assert step(model).failure is None
