"""The names that formulas use for the arguments of operators, which torch does not name alike."""

from __future__ import annotations

from typing import Any, TypeAlias

from profilerkit.costs import Formula

from ..compat.operators import read_schema

__all__ = ["name_arguments", "name_by_schema", "take_by_name"]

#: The arguments of a call by position and by name, with shapes in place of tensors.
ShapedArguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

#: The ``id`` of each formula that takes arguments by name; formulas of users need not have a hash.
_by_name: set[int] = set()
#: The names that formulas use for arguments, and the other names that torch has for the same arguments.
_SYNONYMS = {
    "x": "self input data X qx",
    "weight": "W qw w",
    "bias": "B",
    "dy": "grad grad_output grad_out grad_out_",
    "attn_mask": "attn_bias",
    "query": "q",
    "key": "k",
    "value": "v",
    "cum_seq_q": "cu_seqlens_q cu_seq_q",
    "max_q": "max_seqlen_q",
    "max_k": "max_seqlen_k",
}
_NAMES = {name: ours for ours, names in _SYNONYMS.items() for name in names.split()}


def take_by_name(formula: Formula) -> None:
    """Have a formula get its arguments by name."""
    _by_name.add(id(formula))


def name_arguments(formula: Formula, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ShapedArguments:
    """Return the arguments of an operator's call in the form that its formula takes."""
    if id(formula) not in _by_name:
        return args, kwargs
    named = name_by_schema(func, args, kwargs)
    named.pop("out", None)  # an output of the forward pass, in gradients: formulas get their own output by this name
    return (), named


def name_by_schema(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator's call by the names that formulas have for them."""
    names = [_NAMES.get(argument.name, argument.name) for argument in read_schema(func).arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}
