"""What the definitions in docs/metrics.rst give operators that come whole, in floating-point operations.

Rules of one line, over the real arguments. An operator without a rule here is compared by its calls and sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

__all__ = ["count_flops"]

Rule = Callable[..., int]

#: For each output element: those that the tables name, and operators that do one thing to each element.
_EACH = {
    name: flops
    for flops, names in {
        1: """
            relu sigmoid tanh exp abs neg square sin erf mul add sub div pow remainder sqrt rsqrt log round sign
            maximum minimum atan2 hypot reciprocal floor_divide threshold""",
        2: "silu hardtanh relu6 leaky_relu _prelu_kernel glu",
        3: "softplus addcmul addcdiv lerp",
        4: "hardsigmoid elu celu polar",
        5: "mish hardswish softmax log_softmax _softmax _log_softmax",
    }.items()
    for name in names.split()
}
#: For each input element.
_OVER = {
    name: flops
    for flops, names in {
        1: "sum mean amax amin prod max min cumsum cumprod cummax cummin",
        2: "linalg_vector_norm norm",
        4: "var std var_mean logsumexp",
    }.items()
    for name in names.split()
}


def count_flops(name: str, macs: int, result: Any, args: Any, kwargs: Any) -> int | None:
    """Return the operations of one call; None where there is no rule."""
    short = name.removeprefix("aten::").removesuffix("_")
    made = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    if any(t.layout != torch.strided for t in tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor)):
        return None
    taken = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    if any(t.is_complex() for t in taken) or any(isinstance(value, complex) for value in tree_leaves((args, kwargs))):
        return _of_complex(short, macs, result)
    if macs and not any(map(_is_real, (*made, *taken))):
        return 2 * macs
    if not any(map(_is_real, made)):  # comparisons too: what they make is no floating-point number
        return 0 if short in _EACH or short in _OVER else None
    if short in _RULES:
        flops: int = _RULES[short](macs, result, *args, **kwargs)
        return flops
    if kwargs.get("alpha", 1) != 1:
        return None
    if short in _EACH and isinstance(result, torch.Tensor):
        return int(_EACH[short] * result.numel())
    if short in _OVER and not (len(args) > 1 and isinstance(args[1], torch.Tensor)):
        return int(_OVER[short] * args[0].numel())
    return None


#: For each complex output element.
_COMPLEX = {"add": 2, "sub": 2, "mul": 6, "div": 11, "neg": 2, "abs": 4, "angle": 1, "exp": 5, "log": 6}


def _of_complex(short: str, macs: int, result: Any) -> int | None:
    if short in _PRODUCTS.split():
        return 2 * macs
    number = _COMPLEX.get(short)
    return None if number is None or not isinstance(result, torch.Tensor) else number * result.numel()


def _is_real(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _with_bias(macs: int, out: torch.Tensor, x: Any, weight: Any, bias: Any = None, *_: Any, **__: Any) -> int:
    return 2 * macs + (out.numel() if bias is not None else 0)


def _add(macs: int, out: torch.Tensor, added: torch.Tensor, *_: Any, beta: float = 1, alpha: float = 1) -> int:
    factors = (alpha != 1) * out.numel() + (beta not in (0, 1)) * added.numel()
    return 2 * macs + factors + (beta != 0) * out.numel()


def _product(macs: int, out: Any, *_: Any, **__: Any) -> int:
    return 2 * macs


def _clamp(macs: int, out: torch.Tensor, x: Any, low: Any = None, high: Any = None) -> int:
    return out.numel() * sum(bound is not None for bound in (low, high))


def _gelu(macs: int, out: torch.Tensor, x: Any, *, approximate: str = "none") -> int:
    return out.numel() * (8 if approximate == "tanh" else 5)


def _layer_norm(
    macs: int, out: torch.Tensor, x: Any, shape: Any, weight: Any = None, bias: Any = None, *_: Any, **__: Any
) -> int:
    return out.numel() * (5 + (weight is not None) + (bias is not None))


def _attention(
    macs: int, out: Any, q: torch.Tensor, k: torch.Tensor, v: Any, mask: Any = None, *rest: Any, **named: Any
) -> int:
    """Six for each score; seven with a mask. That nobody looks ahead is no tensor, and costs no operation."""
    mask = named.get("attn_mask") if mask is None else mask
    masked = mask is not None and mask.dtype is not torch.bool  # booleans choose
    return 2 * macs + prod(q.shape[:-1]) * k.shape[-2] * (7 if masked else 6)


_PRODUCTS = "mm bmm mv dot vdot addr"
_FAMILIES: dict[Rule, str] = {
    _with_bias: "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    _add: "addmm baddbmm addbmm addmv",
    _product: _PRODUCTS,
    _clamp: "clamp",
    _gelu: "gelu",
    _layer_norm: "layer_norm",
    _attention: "scaled_dot_product_attention",
}
_RULES = {name: rule for rule, names in _FAMILIES.items() for name in names.split()}
