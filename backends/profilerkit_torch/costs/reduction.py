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
}


def _register(name: str, operations: int) -> None:
    @register_op_cost(f"aten::{name}")
    def reduction(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
        """Return the operations for each input element."""
        return Cost(0, operations * x.numel)


for _name, _operations in _PER_INPUT.items():
    _register(_name, _operations)
