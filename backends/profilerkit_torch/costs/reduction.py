"""Reductions that take more than one operation for each input element, or that torch does not tag as such."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from .registry import Cost, Shape, register_op_cost, register_op_costs

_PER_INPUT = {
    "var": 4,  # mean, subtract, square, add
    "std": 4,
    "var_mean": 4,
    "std_mean": 4,
    "linalg_vector_norm": 2,  # power, add
    "norm": 2,
    "logsumexp": 4,  # maximum, subtract, exp, add
    "cumsum": 1,
    "cumprod": 1,
    "cummax": 1,
    "cummin": 1,
    "logcumsumexp": 4,
    "dist": 3,  # subtract, power, add
    "allclose": 3,  # subtract, abs, compare
    "segment_reduce": 1,
    "col2im": 1,  # overlapping patches are added up
}
#: Other names that torch has for such operators, in its kernels.
_KERNELS = {"_logcumsumexp": 4, "_cummax_helper": 1, "_cummin_helper": 1, "_aminmax": 2, "native_norm": 2}


def _register(name: str, operations: int) -> None:
    for variant in filter(partial(hasattr, torch.ops.aten), (name, f"{name}_")):

        @register_op_cost(f"aten::{variant}")
        def reduction(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
            """Return the operations for each input element."""
            return Cost(0, operations * x.numel)


for _name, _operations in {**_PER_INPUT, **_KERNELS}.items():
    _register(_name, _operations)


@register_op_cost("aten::trace")
def trace(x: Shape, *, out: Shape) -> Cost:
    """One addition for each element of the diagonal."""
    return Cost(0, min(x))


def _register_scattering(name: str) -> None:
    for variant in (name.replace("scatter", "scatter_", 1) if "." in name else f"{name}_", name):

        @register_op_cost(f"aten::{variant}")
        def scattering(x: Shape, dim: int, index: Shape, *_: Any, out: Any, **__: Any) -> Cost:
            """One addition, product or comparison for each index: a source may be larger, what is beyond is left."""
            return Cost(0, index.numel)


for _name in ("scatter_add", "scatter_reduce", "scatter.reduce", "scatter.value_reduce"):
    _register_scattering(_name)


def _register_accumulation(name: str) -> None:
    for variant in (name, f"{name}_"):

        @register_op_cost(f"aten::{variant}")
        def accumulation(x: Shape, dim: int, index: Any, source: Shape, *_: Any, out: Any, **__: Any) -> Cost:
            """One addition (or comparison) for each element that is brought in."""
            return Cost(0, source.numel)


for _name in ("index_add", "index_reduce"):
    _register_accumulation(_name)


@register_op_costs("aten::index_put", "aten::put", "aten::_unsafe_index_put", "aten::_index_put_impl")
def index_put(x: Shape, indices: Any, values: Shape, accumulate: bool = False, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each value where they accumulate, else nothing."""
    return Cost(0, values.numel if accumulate else 0)


@register_op_cost("aten::bincount")
def bincount(x: Shape, weights: Shape | None = None, *_: Any, out: Any) -> Cost:
    """One addition for each weight; without them it counts in integers."""
    return Cost(0, 0 if weights is None else weights.numel)
