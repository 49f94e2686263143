"""Plans: the cost of an operator, and how to make its outputs on the meta device without running it again.

Plans of torch's own operators are kept from one trace of a process to the next, because models share operators: a model
that is profiled again, the model that it is compared with, the next model of a family. A plan depends on its signature,
the device of the model, the formulas and the constants of the convention.

Other plans are used in one trace alone. A user's formula may read anything: if one is registered, no plan is kept.
Another library may give its operators other kernels: their plans are not kept either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import torch
from msgspec import Struct

from profilerkit.arguments.structures import tensors_in as values_in
from profilerkit.costs import convention
from profilerkit.trace.dtypes import product_dtype
from profilerkit.trace.records import OpRecord, TensorInfo

from ..compat.operators import find_tag, read_schema
from ..compat.tensors import stands_in
from ..costs import Cost, Kind, are_as_shipped, is_plain, op_cost
from ..model.packed_weights import is_package, unpack
from ..model.storages import count_stored_bytes, list_parts, storage_key
from .bytes_inside import count_bytes_inside, find_unknown_inside
from .masked_attention import count_attended_macs, is_masked
from .operator_facts import LIFT, OperatorCall, ValueNature, find_nature, may_return_arguments, tensors_in
from .records import tensor_info

__all__ = ["Plan", "PlanStore", "find_plans", "make_plan"]

_META = torch.device("meta")
_INPLACE_VIEW = find_tag("inplace_view")
#: The most plans of one device: they are some ten megabytes; the operators of a hundred models are fewer.
_MOST = 4096
#: The plans that traces share, by the device of the model and the constants of the convention.
_shared: dict[Any, dict[Any, Plan]] = {}
_read_constants = attrgetter(*(name for name in vars(convention) if name.isupper()))


class Plan(Struct, frozen=True):
    """The record of an operator that was run once, and its outputs.

    Attributes:
        operator: The record of each call, without its layer and without the operators whose results it reads.
        make: Returns for its arguments what it makes on the meta device; None if the operator must run again.
        is_fresh: Whether its outputs are new tensors, none of its arguments.
        nature: How it uses values.
        bytes_inside: Bytes that are alive only while it runs.
        unknown_inside: The memory that it needs of an unknown size, in words; empty if there is none.
    """

    operator: OpRecord
    make: Callable[[Any], Any] | None
    is_fresh: bool
    nature: ValueNature
    bytes_inside: int
    unknown_inside: str


class PlanStore(NamedTuple):
    """The plans of operators, by the keys of their signatures.

    Attributes:
        kept: Plans of torch's own operators, which later traces may share.
        others: All other plans, of this trace alone.
    """

    kept: dict[Any, Plan]
    others: dict[Any, Plan]

    def remember(self, func: Any, key: Any, plan: Plan) -> None:
        """Remember the plan of an operator; of one without a key nothing."""
        if key is None:
            return
        if len(self.kept) >= _MOST:
            self.kept.clear()
        (self.kept if func.namespace == "aten" else self.others)[key] = plan


def find_plans(device: torch.device | None) -> PlanStore:
    """Return the plans for a trace on the meta device of a model that would run on another one."""
    if not are_as_shipped():  # a formula of the user's
        return PlanStore({}, {})
    return PlanStore(_shared.setdefault((device, _read_constants(convention)), {}), {})


def make_plan(call: OperatorCall, kind: Kind, result: Any, device: torch.device | None) -> Plan:
    """Return the plan of an operator from its first run; ``device`` is the device whose kernels a run would use."""
    func, args, kwargs = call
    outputs = list(tensors_in(result))
    return Plan(
        operator=_make_record(call, op_cost(func, kind, args, kwargs, result), outputs),
        make=_find_maker(call, result),
        is_fresh=not may_return_arguments(func) or func is LIFT,
        nature=find_nature(func),
        bytes_inside=count_bytes_inside(call, result, device),
        unknown_inside=find_unknown_inside(func, args, device) or _name_unknown(func, outputs),
    )


def _make_record(call: OperatorCall, cost: Cost | None, outputs: Sequence[torch.Tensor]) -> OpRecord:
    """Return the record of an operator; its cost is None if nobody knows it."""
    macs, flops = cost or (0, 0)
    infos = tuple(map(tensor_info, outputs))
    return OpRecord(
        operator=str(call.func),
        layer="",
        call=0,
        macs=macs,
        flops=flops,
        bytes_read=sum(map(count_stored_bytes, call.tensors)),
        bytes_written=sum(map(count_stored_bytes, outputs)),
        outputs=infos,
        attended_macs=count_attended_macs(call, macs),
        is_masked=is_masked(call),
        product_dtype=_find_product_dtype(call, infos[0]) if macs and infos else None,
        missing="" if cost is not None else str(read_schema(call.func).name),
    )


def _name_unknown(func: Any, outputs: Sequence[torch.Tensor]) -> str:
    """Return the name of an operator that makes sparse tensors without values, whose stored elements are unknown."""
    for tensor in outputs:
        parts = list_parts(tensor) if stands_in(tensor) and not is_plain(tensor) else ()
        if parts and tensor.numel() and not parts[-1].numel():
            return f"what {read_schema(func).name} stores"
    return ""


def _find_maker(call: OperatorCall, result: Any) -> Callable[[Any], Any] | None:
    """Return a function that makes the outputs of an operator anew; None if the operator must run again.

    It must run again if an output is no tensor on the meta device, or not a new one with memory of its own.
    """
    outputs = result if isinstance(result, tuple) else (result,)
    is_made_on_meta = all(item is None or (isinstance(item, torch.Tensor) and item.is_meta) for item in outputs)
    if not is_made_on_meta or _INPLACE_VIEW in call.func.tags:
        return None
    if call.args and result is call.args[0]:
        return itemgetter(0)
    if not _are_new(call, list(tensors_in(outputs))):
        return None
    makers = [_make_like(item) for item in outputs]
    return makers[0] if result is outputs[0] else lambda args: tuple([make(args) for make in makers])


def _make_like(output: torch.Tensor | None) -> Callable[[Any], torch.Tensor | None]:
    """Return a function that makes an output like this one; None where there is none."""
    if output is None:
        return lambda args: None
    shape, strides, dtype = output.shape, output.stride(), output.dtype
    return lambda args: torch.empty_strided(shape, strides, dtype=dtype, device=_META)


def _are_new(call: OperatorCall, outputs: Sequence[torch.Tensor]) -> bool:
    """Return whether outputs have memory of their own (not so of ``_unsafe_view``), no larger than their elements."""
    if may_return_arguments(call.func):
        return False
    if any(count_stored_bytes(tensor) < tensor.untyped_storage().nbytes() for tensor in outputs):
        return False
    return set(map(storage_key, outputs)).isdisjoint(map(storage_key, call.tensors))


def _find_product_dtype(call: OperatorCall, output: TensorInfo) -> str | None:
    """Return the dtype of the factors of a product if it differs from the dtype of the result; otherwise None."""
    packed = [weight for package in values_in(call.args, is_package) for weight in unpack(package)]
    if packed:  # layers that torch quantizes multiply integers, unless they keep their weights as floats
        return "int8" if any(weight.is_quantized for weight in packed) else tensor_info(packed[0]).dtype
    has_addend = read_schema(call.func).name.partition("::")[2].startswith(("add", "_add", "badd"))
    factors = call.args[1:] if has_addend else call.args
    dtypes = [tensor_info(item).dtype for item in factors if isinstance(item, torch.Tensor) and item.dim() > 1]
    return None if set(dtypes) <= {output.dtype} else product_dtype(dtypes, output.dtype)
