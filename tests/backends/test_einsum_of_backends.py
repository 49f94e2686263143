"""An einsum costs the same in every backend: multiply-accumulates where it sums, products where it does not."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from frameworks import Framework

from profilerkit import ModelInputs

#: (equation, shapes, MACs, FLOPs beyond two for each MAC).
EINSUMS = {
    "outer product": ("i,j->ij", ((2,), (3,)), 0, 6),
    "rotary angles": ("bi,j->bij", ((5, 2), (3,)), 0, 30),
    "products of elements": ("ij,ij->ij", ((2, 3), (2, 3)), 0, 6),
    "matrix product": ("ij,jk->ik", ((2, 3), (3, 4)), 24, 0),
    "inner product": ("i,i->", ((7,), (7,)), 7, 0),
    "sum over one element": ("ij,jk->ik", ((2, 1), (1, 4)), 0, 8),
    "sum of one factor": ("ij,k->ik", ((2, 3), (4,)), 0, 6 + 8),
    "sum of one factor in a product": ("aij,jk->ik", ((5, 2, 3), (3, 4)), 24, 30),
}


@pytest.mark.parametrize("case", EINSUMS)
def test_an_einsum_costs_what_it_sums(framework: Framework, case: str) -> None:
    equation, shapes, macs, further = EINSUMS[case]
    einsum = import_module(framework.name).einsum
    tensors = [framework.tensor(np.ones(shape, np.float32)) for shape in shapes]
    trace = framework.backend.trace(framework.function(lambda *a: einsum(equation, *a)), ModelInputs(*tensors))
    assert (trace.macs, trace.flops) == (macs, 2 * macs + further)
    assert not trace.uncounted
