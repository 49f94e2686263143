"""The calls of layers: what goes into each of them and comes out, from the nodes that run in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from profilerkit.backend_kit import scoped_calls
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.trace.records import LayerCall

from ..model.scopes import Scopes
from .values import Executed, Value

__all__ = ["layer_calls"]


class _Placed(NamedTuple):
    """An operator that runs, with the calls of layers that its node is in."""

    inputs: Sequence[Value]
    outputs: Sequence[Value]
    chain: Sequence[Scope]


def layer_calls(
    scopes: Scopes, executed: Sequence[Executed], inputs: Iterable[Value], outputs: Sequence[Value]
) -> dict[str, list[LayerCall]]:
    """Return the calls of each layer, in order, also those whose nodes are all constants."""
    operators = [_Placed(op.inputs, op.outputs, scopes.chains[op.node]) for op in executed]
    return scoped_calls.layer_calls(operators, inputs, outputs, scopes.chains)
