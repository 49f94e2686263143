"""What is remembered of an operator with certain shapes: its cost, and on meta tensors how to make its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

from profilerkit.backend_kit.product_dtypes import product_dtype
from profilerkit.trace.records import TensorInfo

from ..compat import FAKE_MODULE, FakeTensor, HigherOrderOperator, operator, schema_of, storage_address, tag
from ..costs import Cost, Kind, op_cost
from ..model.weights import size_of
from .attention_masks import count_attended_macs, is_masked
from .bytes_inside import bytes_inside, find_unknown_inside
from .layers import tensor_info

__all__ = [
    "FROM_SHAPES",
    "LIFT",
    "Plan",
    "depends_on_values",
    "is_of_stand_ins",
    "make_plan",
    "signature",
    "tensors_among",
    "tensors_in",
]

_META = torch.device("meta")
#: Of a tensor of another type nobody knows what its shape leaves out.
_DENSE_TYPES = (torch.Tensor, nn.Parameter, FakeTensor)
_INPLACE_VIEW, _MAYBE_ALIASING = tag("inplace_view"), tag("maybe_aliasing_or_mutating")
#: Tags of operators whose results have a shape, or are numbers, that depend on values.
_BY_VALUES = frozenset((tag("dynamic_output_shape"), tag("data_dependent_output")))
#: What `torch.tensor` makes of values; its schema declares a view.
LIFT = operator("aten.lift_fresh.default")
#: They read values, though their tags do not say so.
_READERS = (operator("aten.is_nonzero.default"), operator("aten.repeat_interleave.self_Tensor"))
#: Operators whose results depend on the shape of their tensor alone, not on its values.
FROM_SHAPES = frozenset(
    f"aten::{name}" for name in ("ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full")
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Name, cost and outputs of an operator that was run once; ``counted`` says whether the cost is known.

    ``rebuild`` has shape, strides and dtype of each output; None where the operator must run again. ``fresh`` says
    whether these are new tensors, none of its arguments.
    """

    name: str
    schema: str
    cost: Cost
    counted: bool
    bytes_read: int
    bytes_written: int
    outputs: tuple[TensorInfo, ...]
    rebuild: tuple[tuple[torch.Size, tuple[int, ...], torch.dtype] | None, ...] | None
    single: bool
    in_place: bool
    fresh: bool
    #: Whether the values of the outputs may be known although the first argument is no meta tensor that has any.
    has_values: bool
    #: Bytes that are alive only while it runs.
    bytes_inside: int
    #: What it takes for itself where nobody tells how much.
    unknown_inside: str
    #: Of attention: what a causal mask leaves of the multiply-accumulates, and whether a tensor masks them.
    attended_macs: int | None = None
    is_masked: bool = False
    #: Of a product: the dtype of what it multiplies, where that is narrower than what it writes.
    product_dtype: str | None = None

    def replay(self, args: Any) -> Any:
        """Return the outputs on the meta device without running the operator."""
        if self.in_place:
            return args[0]
        if self.single and self.rebuild:
            return _make(self.rebuild[0])
        return tuple(map(_make, self.rebuild or ()))


def _make(facts: tuple[torch.Size, tuple[int, ...], torch.dtype] | None) -> torch.Tensor | None:
    return None if facts is None else torch.empty_strided(facts[0], facts[1], dtype=facts[2], device=_META)


def make_plan(func: Any, kind: Kind, args: Any, kwargs: Any, result: Any, device: torch.device | None) -> Plan:
    """Return what there is to remember of an operator, from its first run; the device is that of the model."""
    cost = op_cost(func, kind, args, kwargs, result)
    outputs = list(tensors_in(result))
    single = isinstance(result, torch.Tensor)
    in_place = single and bool(args) and result is args[0]
    return Plan(
        name=str(func),
        schema=str(schema_of(func).name),
        cost=cost or Cost(0, 0),
        counted=cost is not None,
        bytes_read=sum(map(size_of, tensors_among(args, kwargs))),
        bytes_written=sum(map(size_of, outputs)),
        outputs=tuple(map(tensor_info, outputs)),
        rebuild=_rebuild(func, result, outputs, in_place),
        single=single,
        in_place=in_place,
        fresh=not _aliases(func) or func is LIFT,
        has_values=_may_have_values(func, args, in_place),
        bytes_inside=bytes_inside(func, args, kwargs, device),
        unknown_inside=find_unknown_inside(func, device),
        attended_macs=count_attended_macs(func, args, kwargs, cost.macs if cost else 0),
        is_masked=is_masked(func, args, kwargs),
        product_dtype=_find_product_dtype(func, args, outputs) if cost and cost.macs else None,
    )


def _find_product_dtype(func: Any, args: Any, outputs: Sequence[torch.Tensor]) -> str | None:
    """Return the dtype of what a product multiplies if that is narrower than what it writes; otherwise None."""
    operands = args[1:] if schema_of(func).name.partition("::")[2].startswith(("add", "_add", "badd")) else args
    tensors = [tensor_info(operand) for operand in operands if isinstance(operand, torch.Tensor) and operand.dim() > 1]
    return product_dtype([tensor.dtype for tensor in tensors], tensor_info(outputs[0]).dtype) if outputs else None


def _may_have_values(func: Any, args: Any, in_place: bool) -> bool:
    if not (args and isinstance(args[0], torch.Tensor)):
        return True
    return schema_of(func).name in FROM_SHAPES or (in_place and not args[0].is_floating_point())


def _rebuild(func: Any, result: Any, outputs: list[torch.Tensor], in_place: bool) -> Any:
    changes_shape = _INPLACE_VIEW in func.tags or not all(tensor.is_meta for tensor in outputs)
    fresh = not _aliases(func)
    flat = (result,) if isinstance(result, torch.Tensor) else result
    if changes_shape or not (in_place or fresh) or not isinstance(flat, tuple):
        return None
    if any(item is not None and not isinstance(item, torch.Tensor) for item in flat):
        return None
    return tuple(None if item is None else (item.shape, item.stride(), item.dtype) for item in flat)


@cache
def _aliases(func: Any) -> bool:
    if any(argument.alias_info is not None for argument in (*schema_of(func).arguments, *schema_of(func).returns)):
        return True
    return _MAYBE_ALIASING in func.tags and schema_of(func).name != "aten::batch_norm"


def signature(func: Any, args: Any, kwargs: Any, storages: Mapping[int, Any]) -> tuple[Any, bool]:
    """Return what an operator's cost and output shapes depend on, and whether all its tensors are known.

    That is None where it is more than can be told. A formula gets shapes, and of tensors nothing else. Those of sparse
    and nested tensors have what they store, which is for their values to say: an operator on such a tensor is never
    remembered. ``storages`` are those of known origin, see `LiveBytes.by_storage`.
    """
    facets: list[Any] = [id(func)]  # operators stay where they are, and their own hash is slow
    try:
        are_known = _add_facets(args, facets, storages)
        if kwargs:
            facets.append(tuple(kwargs))
            are_known &= _add_facets(kwargs.values(), facets, storages)
    except (RuntimeError, NotImplementedError):  # of tensors that are not dense
        return None, False
    return tuple(facets), are_known


def _add_facets(values: Iterable[Any], facets: list[Any], storages: Mapping[int, Any]) -> bool:
    """Add each value: its type and itself, of a tensor its shape, which is no type, and more."""
    are_known = True
    for value in values:
        kind = type(value)
        if kind in _DENSE_TYPES:
            # Sparse and nested tensors have no storage, or no shape.
            entry = storages.get(storage_address(value.untyped_storage()))
            if entry is None or entry.suspicion is not None:
                are_known = False
            facets += (value.shape, value.stride(), value.dtype, value.is_meta)
        elif isinstance(value, (list, tuple)):
            facets += (kind, len(value))
            are_known &= _add_facets(value, facets, storages)
        elif isinstance(value, torch.Tensor):
            raise NotImplementedError
        else:
            facets += (kind, value)
    return are_known


@cache
def depends_on_values(func: Any) -> bool:
    """Return whether the shapes of an operator's outputs depend on the values of its arguments."""
    return func in _READERS or not _BY_VALUES.isdisjoint(func.tags)


def is_of_stand_ins(func: Any, error: Exception) -> bool:
    """Return whether a stand-in is what made an operator fail, and not the model."""
    of_fake_tensors = type(error).__module__ == FAKE_MODULE
    if of_fake_tensors or isinstance(error, NotImplementedError) or " meta " in str(error):
        return True
    return not isinstance(func, HigherOrderOperator) and depends_on_values(func)


def tensors_in(value: Any) -> Iterable[torch.Tensor]:
    """Yield the tensors among arguments or results: those in lists and tuples too."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def tensors_among(args: Any, kwargs: Any) -> Iterable[torch.Tensor]:
    """Yield the tensors among the arguments of an operator."""
    return tensors_in((args, tuple(kwargs.values())) if kwargs else args)
