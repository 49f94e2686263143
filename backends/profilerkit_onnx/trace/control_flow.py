"""Operators with graphs inside: what goes over each, and whether a model has conditions at all."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto

from ..model.graphs import list_nodes
from .branches import walk_if
from .loops import walk_loop
from .scans import walk_scan
from .walk import Handler

__all__ = ["HANDLERS", "holds_conditions"]

#: What goes over each operator with graphs inside.
HANDLERS: Mapping[str, Handler] = {"If": walk_if, "Loop": walk_loop, "Scan": walk_scan}


def holds_conditions(model: ModelProto) -> bool:
    """Return whether a model has an ``If`` or ``Loop``, in its own graph or in one of its functions."""
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return any(node.op_type in ("If", "Loop") for node in list_nodes(nodes))
