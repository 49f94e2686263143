"""Reductions that take more than one operation for each input element, or that torch does not tag as such."""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost

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
    "col2im": 1,  # overlapping patches are added up
    "mse_loss": 3,  # subtract, square, add
}


def _register(name: str, operations: int) -> None:
    @register_op_cost(f"aten::{name}")
    def reduction(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
        """Return the operations for each input element."""
        return Cost(0, operations * x.numel)


for _name, _operations in _PER_INPUT.items():
    _register(_name, _operations)


def _register_accumulation(name: str) -> None:
    for variant in (name, f"{name}_"):

        @register_op_cost(f"aten::{variant}")
        def accumulation(x: Shape, dim: int, index: Any, source: Shape, *_: Any, out: Any, **__: Any) -> Cost:
            """One addition (or comparison) for each element that is brought in."""
            return Cost(0, source.numel)


for _name in ("scatter_add", "scatter_reduce", "index_add", "index_reduce"):
    _register_accumulation(_name)


@register_op_cost("aten::index_put")
@register_op_cost("aten::index_put_")
def index_put(x: Shape, indices: Any, values: Shape, accumulate: bool = False, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each value where they accumulate, else nothing."""
    return Cost(0, values.numel if accumulate else 0)


@register_op_cost("aten::nll_loss_forward")
@register_op_cost("aten::nll_loss2d_forward")
def nll_loss(x: Shape, target: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each target."""
    return Cost(0, target.numel)
