"""Operators that run bodies of operators (calls, loops and branches), and what walks over each."""

from __future__ import annotations

from collections.abc import Mapping

from .branches import walk_branches
from .called_functions import CALLS, walk_call
from .loops import walk_loop
from .walk import Handler

__all__ = ["HANDLERS"]

#: What walks over each of these operators.
HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(CALLS, walk_call),
    **dict.fromkeys(("While", "StatelessWhile"), walk_loop),
    **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), walk_branches),
}
