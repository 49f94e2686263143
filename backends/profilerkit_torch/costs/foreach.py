"""Element-wise operators over lists of tensors: as the operator they are called after, for each tensor."""

from __future__ import annotations

from typing import Any

import torch

from .registry import Cost, Shape, register_op_cost

_PER_ELEMENT = {
    **dict.fromkeys(("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"), 1),
    **dict.fromkeys(("abs", "neg", "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"), 1),
    **dict.fromkeys(("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "sigmoid"), 1),
    **dict.fromkeys(("erf", "erfc", "lgamma", "ceil", "floor", "round", "trunc", "frac", "sign"), 1),
    **dict.fromkeys(("addcmul", "addcdiv", "lerp"), 3),
    "norm": 2,  # power, add
    "powsum": 2,
    "max": 1,
}


def _register(name: str, operations: int) -> None:
    @register_op_cost(f"aten::{name}")
    def foreach(tensors: tuple[Shape, ...], *_: Any, out: Any, **__: Any) -> Cost:
        """Return the operations for each element of each tensor."""
        return Cost(0, operations * sum(shape.numel for shape in tensors))


for _name, _operations in _PER_ELEMENT.items():
    for _variant in (f"_foreach_{_name}", f"_foreach_{_name}_"):
        if hasattr(torch.ops.aten, _variant):
            _register(_variant, _operations)
