"""What runs in a graph: its operators in their order, and what is known of them only while they run."""

from __future__ import annotations

from dataclasses import dataclass

from profilerkit.backend_kit.graph_work import RunningOrder
from profilerkit.trace.bounds import Branch, Choice

from .values import Executed

__all__ = ["Work"]


@dataclass
class Work(RunningOrder[Executed, Choice]):
    """The operators that run (``executed``), and the loops (``spans``) and branches (``choices``) among them."""

    def as_branch(self) -> Branch:
        """Return it as one side of a choice: the MACs and FLOPs by layer, each operator's in its own."""
        return Branch.of(((op.owner.path, op.macs, op.flops) for op in self.operators), self.choices)
