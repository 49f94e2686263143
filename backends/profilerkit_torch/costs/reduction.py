"""Reductions that take more than one operation for each input element, or that torch does not tag as such."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from profilerkit.costs import reduction

from .registry import Cost, Shape, register_op_cost, register_op_costs

#: The formula for each element of the input, by operator.
_BY_INPUT: dict[str, Callable[[int], Cost]] = {
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), reduction.variance),
    **dict.fromkeys(("linalg_vector_norm", "norm", "native_norm"), reduction.norm),
    **dict.fromkeys(("logsumexp", "logcumsumexp", "_logcumsumexp"), reduction.log_sum_exp),
    **dict.fromkeys(("cumsum", "segment_reduce", "col2im"), reduction.total),  # overlapping patches are added up
    **dict.fromkeys(("cummax", "cummin", "_cummax_helper", "_cummin_helper"), reduction.extreme),
    "_aminmax": partial(reduction.extreme, ends=2),
    "cumprod": reduction.multiply,
    "dist": reduction.distance,
    "allclose": reduction.all_close,
}


def _register(name: str, formula: Callable[[int], Cost]) -> None:
    for variant in filter(partial(hasattr, torch.ops.aten), (name, f"{name}_")):

        @register_op_cost(f"aten::{variant}")
        def cost(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
            """Return the cost for each input element."""
            return formula(x.numel)


for _name, _formula in _BY_INPUT.items():
    _register(_name, _formula)


@register_op_cost("aten::trace")
def trace(x: Shape, *, out: Shape) -> Cost:
    """One addition for each element of the diagonal."""
    return reduction.total(min(x))


def _register_scattering(name: str) -> None:
    for variant in (name.replace("scatter", "scatter_", 1) if "." in name else f"{name}_", name):

        @register_op_cost(f"aten::{variant}")
        def count(x: Shape, dim: int, index: Shape, *_: Any, out: Any, **__: Any) -> Cost:
            """One addition, product or comparison for each index: a source may be larger, what is beyond is left."""
            return reduction.scatter(index.numel)


for _name in ("scatter_add", "scatter_reduce", "scatter.reduce", "scatter.value_reduce"):
    _register_scattering(_name)


def _register_accumulation(name: str) -> None:
    for variant in (name, f"{name}_"):

        @register_op_cost(f"aten::{variant}")
        def accumulation(x: Shape, dim: int, index: Any, source: Shape, *_: Any, out: Any, **__: Any) -> Cost:
            """One addition (or comparison) for each element that is brought in."""
            return reduction.scatter(source.numel)


for _name in ("index_add", "index_reduce"):
    _register_accumulation(_name)


@register_op_costs("aten::index_put", "aten::put", "aten::_unsafe_index_put", "aten::_index_put_impl")
def index_put(x: Shape, indices: Any, values: Shape, accumulate: bool = False, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each value where they accumulate, else nothing."""
    return reduction.scatter(values.numel, bool(accumulate))


@register_op_cost("aten::bincount")
def bincount(x: Shape, weights: Shape | None = None, *_: Any, out: Any) -> Cost:
    """One addition for each weight; without them it counts in integers."""
    return reduction.scatter(0 if weights is None else weights.numel)
