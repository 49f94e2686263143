"""What is remembered of an operator with certain shapes: its cost, and on meta tensors how to make its outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from profilerkit.trace import TensorInfo

from .costs import Cost, Kind, op_cost
from .layers import tensor_info

__all__ = ["Plan", "plan_of", "signature", "tensors_in", "without_running"]

#: Element-wise operators of one tensor whose output has its shape and dtype, if that is a float's. Torch's meta kernels
#: for them are written in Python and slow, and there is nothing about them that could fail.
_SHAPE_KEEPING = frozenset(
    f"aten::{name}{suffix}"
    for name in (
        *("relu", "relu6", "hardtanh", "leaky_relu", "elu"),
        *("sigmoid", "tanh", "exp", "silu", "gelu", "mish", "softplus", "hardsigmoid", "hardswish"),
    )
    for suffix in ("", "_")
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Name, cost and outputs of an operator that was run once; ``counted`` says whether the cost is known.

    ``rebuild`` has shape, strides and dtype of each output; None where the operator must run again.
    """

    name: str
    cost: Cost
    counted: bool
    bytes_read: int
    bytes_written: int
    outputs: tuple[TensorInfo, ...]
    rebuild: tuple[tuple[torch.Size, tuple[int, ...], torch.dtype] | None, ...] | None
    single: bool
    in_place: bool

    def replayed(self, args: Any) -> Any:
        """Return the outputs on the meta device without running the operator."""
        if self.in_place:
            return args[0]
        made = tuple(
            None if facts is None else torch.empty_strided(facts[0], facts[1], dtype=facts[2], device="meta")
            for facts in self.rebuild or ()
        )
        return made[0] if self.single else made


def plan_of(func: Any, kind: Kind, args: Any, kwargs: Any, result: Any) -> Plan:
    """Return what there is to remember of an operator, from its first run."""
    cost = op_cost(func, kind, args, kwargs, result)
    outputs = list(tensors_in(result))
    single = isinstance(result, torch.Tensor)
    in_place = single and bool(args) and result is args[0]
    return Plan(
        name=str(func),
        cost=cost or Cost(0, 0),
        counted=cost is not None,
        bytes_read=sum(map(size_of, tensors_in((args, tuple(kwargs.values()))))),
        bytes_written=sum(map(size_of, outputs)),
        outputs=tuple(map(tensor_info, outputs)),
        rebuild=_rebuild(func, result, outputs, in_place),
        single=single,
        in_place=in_place,
    )


def _rebuild(func: Any, result: Any, outputs: list[torch.Tensor], in_place: bool) -> Any:
    changes_shape = torch.Tag.inplace_view in func.tags
    fresh = not _aliases(func) and all(tensor.is_meta for tensor in outputs)
    flat = (result,) if isinstance(result, torch.Tensor) else result
    if changes_shape or not (in_place or fresh) or not isinstance(flat, tuple):
        return None
    if any(item is not None and not isinstance(item, torch.Tensor) for item in flat):
        return None
    return tuple(None if item is None else (item.shape, item.stride(), item.dtype) for item in flat)


def _aliases(func: Any) -> bool:
    if any(argument.alias_info is not None for argument in (*func._schema.arguments, *func._schema.returns)):
        return True
    return torch.Tag.maybe_aliasing_or_mutating in func.tags and func._schema.name != "aten::batch_norm"


def without_running(func: Any, args: Any) -> torch.Tensor | None:
    """Return the output of a shape-keeping operator on a meta tensor; None for any other, which must run."""
    tensor = args[0] if args else None
    if not isinstance(tensor, torch.Tensor) or not tensor.is_meta or not tensor.is_floating_point():
        return None
    if func._schema.name not in _SHAPE_KEEPING or func._schema.overload_name:
        return None
    return tensor if func._schema.is_mutable else torch.empty_like(tensor)


def signature(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator's cost and output shapes depend on, or None where that cannot be told."""
    try:
        key = (func, _facet(args), tuple((name, _facet(value)) for name, value in kwargs.items()))
        hash(key)
    except (TypeError, RuntimeError, NotImplementedError):
        return None
    return key


def _facet(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride(), value.dtype, value.is_meta
    if isinstance(value, (list, tuple)):
        return tuple(map(_facet, value))
    return type(value), value


def tensors_in(value: Any) -> Iterable[torch.Tensor]:
    """Yield the tensors among arguments or results: lists and tuples are gone into."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def size_of(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()
