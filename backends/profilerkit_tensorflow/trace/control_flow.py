"""Operators that run bodies of operators, each with the function that walks over them: calls, conditions and loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .branches import walk_branches
from .graph_access import body_named, read_attribute
from .loops import walk_loop
from .ownership import CALLS
from .values import Scope
from .walk import Handler, Walk

__all__ = ["HANDLERS"]


def _walk_call(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the body of a function that an operator calls."""
    if read_attribute(operator, "_XlaMustCompile"):
        walk.notes.add("what functions compiled by XLA allocate inside is not in the memory footprint")
    graph = body_named(scope.graph, operator.get_attr("f").name)
    inside = walk.enter(graph, walk.read_inputs(operator, scope), operator, scope)
    inside.needed_outputs = scope.find_used_outputs(operator)
    walk.bind(operator, walk.walk_body(inside), scope)


#: The function that walks over each of these operators.
HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(CALLS, _walk_call),
    **dict.fromkeys(("While", "StatelessWhile"), walk_loop),
    **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), walk_branches),
}
