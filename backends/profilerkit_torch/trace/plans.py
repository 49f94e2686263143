"""Plans: the cost of an operator, and how to make its outputs on the meta device without running it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from msgspec import Struct

from profilerkit.backend_kit.call_stack import tensors_in as values_in
from profilerkit.trace.dtypes import product_dtype
from profilerkit.trace.records import OpRecord

from ..compat.operators import find_tag, read_schema
from ..compat.tensors import stands_in
from ..costs import Kind, is_plain, op_cost
from ..model.packed_weights import is_package, unpack
from ..model.tensors import count_stored_bytes, list_parts, storage_key
from .bytes_inside import count_bytes_inside, find_unknown_inside
from .masked_attention import count_attended_macs, is_masked
from .operator_facts import FROM_SHAPES, LIFT, may_return_arguments, tensors_among, tensors_in
from .records import tensor_info

__all__ = ["Plan", "make_plan"]

_make = partial(torch.empty_strided, device=torch.device("meta"))
_INPLACE_VIEW = find_tag("inplace_view")


class Plan(Struct, frozen=True):
    """The record of an operator that was run once, and its outputs.

    Attributes:
        operator: The record of each call, without its layer and without the operators whose results it reads.
        rebuild: A function that makes each output, None for an output that is None; None if the operator must run
            again.
        single: Whether it returns one tensor.
        in_place: Whether this tensor is its first argument.
        fresh: Whether its outputs are new tensors, none of its arguments.
        has_values: Whether the values of its outputs may be known although those of its first argument are not.
        bytes_inside: Bytes that are alive only while it runs.
        unknown_inside: The memory that it needs of an unknown size, in words; empty if there is none.
    """

    operator: OpRecord
    rebuild: tuple[Callable[[], torch.Tensor] | None, ...] | None
    single: bool
    in_place: bool
    fresh: bool
    has_values: bool
    bytes_inside: int
    unknown_inside: str

    def replay(self, args: Any) -> Any:
        """Return the outputs on the meta device without running the operator."""
        if self.in_place:
            return args[0]
        outputs = [make and make() for make in self.rebuild or ()]
        return outputs[0] if self.single else tuple(outputs)


def make_plan(func: Any, kind: Kind, args: Any, kwargs: Any, result: Any, device: torch.device | None) -> Plan:
    """Return the plan of an operator from its first run; ``device`` is the device whose kernels a run would use."""
    cost = op_cost(func, kind, args, kwargs, result)
    outputs = list(tensors_in(result))
    is_single = isinstance(result, torch.Tensor)
    in_place = is_single and bool(args) and result is args[0]
    macs, flops = cost or (0, 0)
    operator = OpRecord(
        operator=str(func),
        layer="",
        call=0,
        macs=macs,
        flops=flops,
        bytes_read=sum(map(count_stored_bytes, tensors_among(args, kwargs))),
        bytes_written=sum(map(count_stored_bytes, outputs)),
        outputs=tuple(map(tensor_info, outputs)),
        attended_macs=count_attended_macs(func, args, kwargs, macs),
        is_masked=is_masked(func, args, kwargs),
        product_dtype=_find_product_dtype(func, args, outputs) if macs else None,
        missing="" if cost is not None else str(read_schema(func).name),
    )
    return Plan(
        operator=operator,
        rebuild=_describe_outputs(func, tensors_among(args, kwargs), result, in_place),
        single=is_single,
        in_place=in_place,
        fresh=not may_return_arguments(func) or func is LIFT,
        has_values=_may_have_values(func, args, in_place),
        bytes_inside=count_bytes_inside(func, args, kwargs, device),
        unknown_inside=find_unknown_inside(func, args, device) or _name_unknown(func, outputs),
    )


def _name_unknown(func: Any, outputs: Iterable[torch.Tensor]) -> str:
    """Return the name of an operator that makes sparse tensors without values, whose stored elements are unknown."""
    for tensor in outputs:
        parts = list_parts(tensor) if stands_in(tensor) and not is_plain(tensor) else ()
        if parts and tensor.numel() and not parts[-1].numel():
            return f"what {read_schema(func).name} stores"
    return ""


def _describe_outputs(
    func: Any, arguments: Iterable[torch.Tensor], result: Any, in_place: bool
) -> tuple[Callable[[], torch.Tensor] | None, ...] | None:
    """Return a function that makes each output; None if the operator must run again.

    It must run again if an output is in the memory of an argument (``_unsafe_view``, whose schema does not say it), or
    if an output has more memory than elements.
    """
    outputs = list(tensors_in(result))
    if _INPLACE_VIEW in func.tags or not all(tensor.is_meta for tensor in outputs):
        return None
    shares_memory = not set(map(storage_key, outputs)).isdisjoint(map(storage_key, arguments))
    is_shrunk = isinstance(result, torch.Tensor) and count_stored_bytes(result) < result.untyped_storage().nbytes()
    if not in_place and (may_return_arguments(func) or shares_memory or is_shrunk):
        return None
    results = (result,) if isinstance(result, torch.Tensor) else result
    if not isinstance(results, tuple) or not all(item is None or isinstance(item, torch.Tensor) for item in results):
        return None
    return tuple(
        None if item is None else partial(_make, item.shape, item.stride(), dtype=item.dtype) for item in results
    )


def _may_have_values(func: Any, args: Any, in_place: bool) -> bool:
    if not (args and isinstance(args[0], torch.Tensor)):
        return True
    return read_schema(func).name in FROM_SHAPES or (in_place and not args[0].is_floating_point())


def _find_product_dtype(func: Any, args: Any, outputs: Sequence[torch.Tensor]) -> str | None:
    """Return the dtype of the factors of a product if it differs from the dtype of the result; otherwise None."""
    if not outputs:
        return None
    output = tensor_info(outputs[0]).dtype
    packed = [weight for package in values_in(args, is_package) for weight in unpack(package)]
    if packed:  # layers that torch quantizes multiply integers, unless they keep their weights as floats
        return "int8" if any(weight.is_quantized for weight in packed) else tensor_info(packed[0]).dtype
    has_addend = read_schema(func).name.partition("::")[2].startswith(("add", "_add", "badd"))
    factors = args[1:] if has_addend else args
    operands = [item for item in factors if isinstance(item, torch.Tensor) and item.dim() > 1]
    if all(item.dtype is outputs[0].dtype for item in operands):  # as in nearly all
        return None
    return product_dtype([tensor_info(item).dtype for item in operands], output)
