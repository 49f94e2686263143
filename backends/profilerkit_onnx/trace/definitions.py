"""The standard's definitions of operators, in the versions that a model uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from onnx import AttributeProto, NodeProto, defs

from ..model.nodes import read_attributes
from ..model.types import STANDARD

__all__ = ["Definition", "find_definition"]


class Definition(NamedTuple):
    """The standard's definition of an operator in one version.

    Attributes:
        schema: The whole definition in onnx's form; onnx's stubs lack its methods for functions.
        defaults: The attributes that a node may lack, with their default values.
        default_values: These values by name, in the form that formulas read.
    """

    schema: Any
    defaults: Sequence[AttributeProto]
    default_values: Mapping[str, Any]


def find_definition(node: NodeProto, opsets: Mapping[str, int]) -> Definition | None:
    """Return the definition of a node's operator in the version that the model uses; None if there is none.

    Without operator sets it is the newest definition.
    """
    domain = "" if node.domain in STANDARD else node.domain
    version = opsets.get(domain, 1) if opsets or domain else None
    try:
        return _read_definition(node.op_type, domain, version)
    except defs.SchemaError:
        return None


@cache
def _read_definition(op: str, domain: str, version: int | None) -> Definition:
    schema: Any = defs.get_schema(op, domain) if version is None else defs.get_schema(op, version, domain)
    defaults = [entry.default_value for entry in schema.attributes.values() if entry.default_value.name]
    return Definition(schema, defaults, read_attributes(defaults))
