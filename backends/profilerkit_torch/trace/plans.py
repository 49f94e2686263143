"""Plans: the cost of an operator, and how to make its outputs on the meta device, remembered by the call's signature.

Plans of torch's own operators are kept from one trace of a process to the next, because models share operators: a model
that is profiled again, the model that it is compared with, the next model of a family. A plan depends on its signature,
the device of the model, the formulas and the constants of the convention.

Some plans are used in one trace alone. A user's formula may read anything: if one is registered, no plan is kept.
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

from profilerkit.backend_kit.call_stack import tensors_in as values_in
from profilerkit.costs import convention
from profilerkit.trace.dtypes import product_dtype
from profilerkit.trace.records import OpRecord

from ..compat.operators import find_operator, find_tag, read_schema
from ..compat.tensors import FakeTensor, stands_in, storage_address
from ..costs import Kind, are_as_shipped, is_plain, op_cost
from ..model.packed_weights import is_package, unpack
from ..model.tensors import count_stored_bytes, list_parts, storage_key
from .attention_kernels import list_enabled_kernels
from .bytes_inside import count_bytes_inside, find_unknown_inside
from .masked_attention import count_attended_macs, is_masked
from .operator_facts import FROM_SHAPES, LIFT, may_return_arguments, tensors_among, tensors_in
from .records import tensor_info

__all__ = ["Plan", "PlanStore", "Signature", "find_plans", "make_plan", "signature"]

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
        unknown_inside=find_unknown_inside(func, device) or _name_unknown(func, outputs),
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


# Signatures -----------------------------------------------------------------------------------------------------------


_ATTENTION = find_operator("aten.scaled_dot_product_attention.default")
#: Types of tensors whose shape, strides and dtype tell everything that a formula reads.
_DENSE_TYPES = (torch.Tensor, nn.Parameter, FakeTensor)
#: Types of the parts of a key that are no objects of the user.
_PLAIN = frozenset(
    (
        *(int, float, complex, bool, str, type, type(None), tuple),
        *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
    )
)


class Signature(NamedTuple):
    """The facts of an operator's call before it runs.

    Attributes:
        key: Everything that its cost and output shapes depend on; None if they depend on more.
        are_known: Whether the origin of all its tensors is known.
        makers: The operators that wrote last to its tensors, by the numbers of `LiveBytes`, with `INPUT` and `NOBODY`.
    """

    key: Any
    are_known: bool
    makers: set[int]


def signature(func: Any, args: Any, kwargs: Any, storages: Mapping[int, Any]) -> Signature:
    """Return the signature of an operator's call.

    A formula gets the shapes of tensors and nothing else. The shapes of sparse and nested tensors depend on values: an
    operator on such a tensor is never remembered. A quotient of integers has torch's default dtype, which a model may
    change while it runs, like the enabled kernels of attention. ``storages`` are the storages of known origin, see
    `LiveBytes.by_storage`.
    """
    # Operators stay where they are, and their own hash is slow.
    facets: list[Any] = [id(func), torch.get_default_dtype()]
    if func is _ATTENTION:
        facets.append(list_enabled_kernels())
    makers: set[int] = set()
    try:
        are_known = _add_facets(args, facets, makers, storages)
        if kwargs:
            facets.append(tuple(kwargs))
            are_known &= _add_facets(kwargs.values(), facets, makers, storages)
    except (RuntimeError, NotImplementedError):  # of tensors that are not dense
        return Signature(None, False, makers)
    return Signature(tuple(facets), are_known, makers)


def may_be_kept(func: Any, key: Any) -> bool:
    """Return whether a plan with this key may be kept for as long as the process lives.

    Another library may give its operators other kernels, and an object of the user's would be kept alive.
    """
    return key is not None and func.namespace == "aten" and _PLAIN.issuperset(map(type, key))


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


# From one trace to the next -------------------------------------------------------------------------------------------


#: The most plans of one device: they are some ten megabytes; the operators of a hundred models are fewer.
_MOST = 4096


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
        try:
            (self.kept if may_be_kept(func, key) else self.others)[key] = plan
        except TypeError:
            return
        if len(self.kept) > _MOST:
            self.kept.clear()


class _Shared(NamedTuple):
    """The conditions of plans that traces share, beside the signature: the model's device, and the convention."""

    device: torch.device | None
    numbers: tuple[Any, ...]


_plans: dict[_Shared, dict[Any, Plan]] = {}
_read_numbers = attrgetter(*(name for name in vars(convention) if name.isupper()))


def find_plans(device: torch.device | None) -> PlanStore:
    """Return the plans for a trace on the meta device of a model that would run on another one."""
    if not are_as_shipped():  # a formula of the user's
        return PlanStore({}, {})
    return PlanStore(_plans.setdefault(_Shared(device, _read_numbers(convention)), {}), {})
