"""Plans: the cost of an operator, and how to make its outputs on the meta device without running it again.

Plans of torch's own operators are kept from one trace of a process to the next, because models share operators: a model
that is profiled again, the model that it is compared with, the next model of a family. A plan depends on its signature,
the device of the model, the formulas and the constants of the convention.

Other plans are used in one trace alone. A user's formula may read anything: if one is registered, no plan is kept.
Another library may give its operators other kernels: their plans are not kept either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from msgspec import Struct
from torch import nn

from profilerkit.arguments.structures import tensors_in as values_in
from profilerkit.costs import convention
from profilerkit.trace.dtypes import product_dtype
from profilerkit.trace.records import OpRecord, TensorInfo

from ..compat.operators import find_operator, find_tag, read_schema
from ..compat.tensors import FakeTensor, stands_in, storage_address
from ..costs import Cost, Kind, are_as_shipped, is_plain, op_cost
from ..model.packed_weights import is_package, unpack
from ..model.storages import count_stored_bytes, list_parts, storage_key
from .attention_kernels import list_kernel_conditions
from .bytes_inside import count_bytes_inside, find_unknown_inside
from .masked_attention import count_attended_macs, is_masked
from .operator_facts import FROM_SHAPES, LIFT, OperatorCall, may_return_arguments, tensors_among, tensors_in
from .records import tensor_info

__all__ = ["Plan", "PlanStore", "Signature", "find_plans", "make_plan", "read_signature"]

_make = partial(torch.empty_strided, device=torch.device("meta"))
_INPLACE_VIEW = find_tag("inplace_view")
#: Types of the parts of a key that are no objects of the user.
_PLAIN = frozenset(
    (
        *(int, float, complex, bool, str, type, type(None), tuple),
        *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
    )
)
#: The most plans of one device: they are some ten megabytes; the operators of a hundred models are fewer.
_MOST = 4096
#: The plans that traces share, by the device of the model and the constants of the convention.
_shared: dict[Any, dict[Any, Plan]] = {}
_read_constants = attrgetter(*(name for name in vars(convention) if name.isupper()))


class Plan(Struct, frozen=True):
    """The record of an operator that was run once, and its outputs.

    Attributes:
        operator: The record of each call, without its layer and without the operators whose results it reads.
        rebuild: A function that makes each output, None for an output that is None; None if the operator must run
            again.
        is_single: Whether it returns one tensor.
        is_in_place: Whether this tensor is its first argument.
        is_fresh: Whether its outputs are new tensors, none of its arguments.
        has_values: Whether the values of its outputs may be known although those of its first argument are not.
        bytes_inside: Bytes that are alive only while it runs.
        unknown_inside: The memory that it needs of an unknown size, in words; empty if there is none.
    """

    operator: OpRecord
    rebuild: tuple[Callable[[], torch.Tensor] | None, ...] | None
    is_single: bool
    is_in_place: bool
    is_fresh: bool
    has_values: bool
    bytes_inside: int
    unknown_inside: str

    def replay(self, args: Any) -> Any:
        """Return the outputs on the meta device without running the operator."""
        if self.is_in_place:
            return args[0]
        makers = self.rebuild or ()
        if self.is_single:
            (make,) = makers
            return make and make()
        return tuple([make and make() for make in makers])


class PlanStore(NamedTuple):
    """The plans of operators, by their signatures.

    Attributes:
        kept: Plans of torch's own operators, which later traces may share.
        others: All other plans, of this trace alone.
    """

    kept: dict[Any, Plan]
    others: dict[Any, Plan]

    def find(self, key: Any) -> Plan | None:
        """Return the plan of a signature; None where there is none."""
        try:
            plan = self.kept.get(key)
            if plan is None and self.others:
                return self.others.get(key)
        except TypeError:  # something among the arguments has no hash
            return None
        return plan

    def remember(self, func: Any, key: Any, plan: Plan) -> None:
        """Remember the plan of an operator; of one without a signature nothing."""
        if key is None:
            return
        # An object of the user's in a key would be kept alive.
        may_be_kept = func.namespace == "aten" and _PLAIN.issuperset(map(type, key))
        try:
            (self.kept if may_be_kept else self.others)[key] = plan
        except TypeError:
            return
        if len(self.kept) > _MOST:
            self.kept.clear()


def find_plans(device: torch.device | None) -> PlanStore:
    """Return the plans for a trace on the meta device of a model that would run on another one."""
    if not are_as_shipped():  # a formula of the user's
        return PlanStore({}, {})
    return PlanStore(_shared.setdefault((device, _read_constants(convention)), {}), {})


def make_plan(call: OperatorCall, kind: Kind, result: Any, device: torch.device | None) -> Plan:
    """Return the plan of an operator from its first run; ``device`` is the device whose kernels a run would use."""
    func, args, kwargs = call
    outputs = list(tensors_in(result))
    is_single = isinstance(result, torch.Tensor)
    is_in_place = is_single and bool(args) and result is args[0]
    return Plan(
        operator=_make_record(call, op_cost(func, kind, args, kwargs, result), outputs),
        rebuild=_describe_outputs(call, result, is_in_place=is_in_place),
        is_single=is_single,
        is_in_place=is_in_place,
        is_fresh=not may_return_arguments(func) or func is LIFT,
        has_values=_may_have_values(call, is_in_place=is_in_place),
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


def _describe_outputs(
    call: OperatorCall, result: Any, *, is_in_place: bool
) -> tuple[Callable[[], torch.Tensor] | None, ...] | None:
    """Return a function that makes each output, None for an output that is None; None if the operator must run again.

    It must run again if an output is no tensor on the meta device, or not a new one with memory of its own.
    """
    outputs = result if isinstance(result, tuple) else (result,)
    if not all(item is None or (isinstance(item, torch.Tensor) and item.is_meta) for item in outputs):
        return None
    if _INPLACE_VIEW in call.func.tags or not (is_in_place or _are_new(call, list(tensors_in(outputs)))):
        return None
    return tuple(
        None if item is None else partial(_make, item.shape, item.stride(), dtype=item.dtype) for item in outputs
    )


def _are_new(call: OperatorCall, outputs: Sequence[torch.Tensor]) -> bool:
    """Return whether outputs have memory of their own (not so of ``_unsafe_view``), no larger than their elements."""
    if may_return_arguments(call.func):
        return False
    if any(count_stored_bytes(tensor) < tensor.untyped_storage().nbytes() for tensor in outputs):
        return False
    return set(map(storage_key, outputs)).isdisjoint(map(storage_key, call.tensors))


def _may_have_values(call: OperatorCall, *, is_in_place: bool) -> bool:
    """Return whether the values of the outputs may be known although those of the first argument are not."""
    if not (call.args and isinstance(call.args[0], torch.Tensor)):
        return True
    return read_schema(call.func).name in FROM_SHAPES or (is_in_place and not call.args[0].is_floating_point())


def _find_product_dtype(call: OperatorCall, output: TensorInfo) -> str | None:
    """Return the dtype of the factors of a product if it differs from the dtype of the result; otherwise None."""
    packed = [weight for package in values_in(call.args, is_package) for weight in unpack(package)]
    if packed:  # layers that torch quantizes multiply integers, unless they keep their weights as floats
        return "int8" if any(weight.is_quantized for weight in packed) else tensor_info(packed[0]).dtype
    has_addend = read_schema(call.func).name.partition("::")[2].startswith(("add", "_add", "badd"))
    factors = call.args[1:] if has_addend else call.args
    dtypes = [tensor_info(item).dtype for item in factors if isinstance(item, torch.Tensor) and item.dim() > 1]
    return None if set(dtypes) <= {output.dtype} else product_dtype(dtypes, output.dtype)


# Signatures -----------------------------------------------------------------------------------------------------------


_ATTENTION = find_operator("aten.scaled_dot_product_attention.default")
_LINEAR = find_operator("aten.linear.default")
#: Types of tensors whose shape, strides and dtype tell everything that a formula reads.
_DENSE_TYPES = (torch.Tensor, nn.Parameter, FakeTensor)


class Signature(Struct, frozen=True):
    """The facts of an operator's call before it runs.

    Attributes:
        key: Everything that its cost and output shapes depend on; None if they depend on more.
        are_known: Whether the origin of all its tensors is known.
        makers: The operators that wrote last to its tensors, by the numbers of `LiveBytes`, with `INPUT` and `NOBODY`.
    """

    key: Any
    are_known: bool
    makers: set[int]


def read_signature(func: Any, args: Any, kwargs: Any, storages: Mapping[int, Any]) -> Signature:
    """Return the signature of an operator's call.

    A formula gets the shapes of tensors and nothing else. The shapes of sparse and nested tensors depend on values: an
    operator on such a tensor is never remembered. A quotient of integers has torch's default dtype, which a model may
    change while it runs. The memory of attention depends on its kernel, and of a linear layer on whether it is trained.
    ``storages`` are the storages of known origin, see `LiveBytes.by_storage`.
    """
    # Operators stay where they are, and their own hash is slow.
    facets: list[Any] = [id(func), torch.get_default_dtype()]
    if func is _ATTENTION:
        facets.append(list_kernel_conditions(tensors_among(args, kwargs)))
    elif func is _LINEAR:
        facets.append(args[1].requires_grad)
    makers: set[int] = set()
    try:
        are_known = _add_facets(args, facets, makers, storages)
        if kwargs:
            facets.append(tuple(kwargs))
            are_known &= _add_facets(kwargs.values(), facets, makers, storages)
    except (RuntimeError, NotImplementedError):  # of tensors that are not dense
        return Signature(None, False, makers)
    return Signature(tuple(facets), are_known, makers)


def _add_facets(values: Iterable[Any], facets: list[Any], makers: set[int], storages: Mapping[int, Any]) -> bool:
    """Add the facets of each value to a key, and its last writer; return whether the origin of all tensors is known.

    The facets of a tensor are its shape, strides, dtype and device; those of any other value its type and the value.
    """
    are_known = True
    for value in values:
        kind = type(value)
        if kind in _DENSE_TYPES:
            # Sparse and nested tensors have no storage, or no shape.
            entry = storages.get(storage_address(value.untyped_storage()))
            if entry is None or entry.suspicion is not None:
                are_known = False
            if entry is not None:
                makers.add(entry.maker)
            facets += (value.shape, value.stride(), value.dtype, value.is_meta)
        elif isinstance(value, (list, tuple)):
            facets += (kind, len(value))
            are_known &= _add_facets(value, facets, makers, storages)
        elif isinstance(value, torch.Tensor):
            raise NotImplementedError
        else:
            facets += (kind, value)
    return are_known
