"""What is remembered of an operator with certain shapes: its cost, and on meta tensors how to make its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from profilerkit.trace import TensorInfo

from .costs import Cost, Kind, op_cost
from .layers import tensor_info
from .weights import size_of

__all__ = ["Plan", "plan_of", "signature", "tensors_in", "without_running"]

#: Element-wise operators of one tensor.
_ELEMENT_WISE = (
    *("relu", "relu6", "hardtanh", "leaky_relu", "elu"),
    *("sigmoid", "tanh", "exp", "silu", "gelu", "mish", "softplus", "hardsigmoid", "hardswish"),
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


def without_running(func: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
    """Return the output of an operator on meta tensors that keeps its input's shape; None for any that must run."""
    tensor = args[0] if args else None
    if not isinstance(tensor, torch.Tensor) or not tensor.is_meta or not tensor.is_floating_point():
        return None
    schema = func._schema
    fits = _KEEPS_SHAPE.get(f"{schema.name}.{schema.overload_name}")
    if fits is None or kwargs or not fits(args):
        return None
    return tensor if schema.is_mutable else torch.empty_like(tensor)


def _same_as_first(args: Any) -> bool:
    """Two tensors of one shape, dtype and layout: nothing is broadcast and nothing promoted."""
    x, y = args[:2]
    return isinstance(y, torch.Tensor) and y.is_meta and _layout(x) == _layout(y)


def _layout(tensor: torch.Tensor) -> Any:
    return tensor.shape, tensor.stride(), tensor.dtype


def _normalises_channels(args: Any) -> bool:
    """A batch norm with known statistics, whose weights all have one element for each channel."""
    x, weights, training = args[0], args[1:5], args[5]
    whole = x.dim() > 1 and not training
    return whole and all(weight is None or weight.shape == x.shape[1:2] for weight in weights)


def _normalises_last(args: Any) -> bool:
    """A layer norm over the last dimensions of a contiguous tensor, whose weights have their shape."""
    x, shape = args[0], torch.Size(args[1])
    fits = x.shape[x.dim() - len(shape) :] == shape and x.is_contiguous()
    return fits and all(weight is None or weight.shape == shape for weight in args[2:4])


#: Operators that keep their input's shape and dtype where the arguments are as a function says: torch's meta kernels
#: for them are written in Python and slow, and nothing about such arguments could fail.
_KEEPS_SHAPE: dict[str, Callable[[Any], bool]] = {
    **{f"aten::{name}{suffix}.": lambda args: True for name in _ELEMENT_WISE for suffix in ("", "_")},
    **{f"aten::{name}{suffix}.Tensor": _same_as_first for name in ("add", "sub", "mul") for suffix in ("", "_")},
    "aten::batch_norm.": _normalises_channels,
    "aten::layer_norm.": _normalises_last,
}


def signature(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator's cost and output shapes depend on, or None where that cannot be told."""
    if _depends_on_values(func) and not all(tensor.is_meta for tensor in tensors_in((args, tuple(kwargs.values())))):
        return None
    try:
        key = (func, _facet(args), tuple((name, _facet(value)) for name, value in kwargs.items()))
        hash(key)
    except (TypeError, RuntimeError, NotImplementedError):
        return None
    return key


@cache
def _depends_on_values(func: Any) -> bool:
    return torch.Tag.dynamic_output_shape in func.tags or torch.Tag.data_dependent_output in func.tags


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
