"""One side of a fork in a function: what a branch runs, or a loop that may not run at all."""

from __future__ import annotations

from dataclasses import dataclass

from profilerkit.backend_kit.branch_memory import Fork, Side

from .values import Executed, PendingChoice, Value

__all__ = ["Tried"]


@dataclass(frozen=True)
class Tried:
    """What a branch runs, whose first equation has the index ``start``, and the values that it returns."""

    start: int
    executed: list[Executed]
    spans: list[tuple[int, int]]
    choices: list[PendingChoice]
    forks: list[Fork]
    returned: list[Value]

    def side(self, *handing_on: Executed) -> Side:
        """Return it as one side of a fork."""
        spans = [(start - self.start, end - self.start) for start, end in self.spans]
        return Side([*self.executed, *handing_on], spans, [fork.shift(-self.start) for fork in self.forks])

    def make_side(self, counted: Tried) -> Side | None:
        """Return it as the side that hands its values on as those of another; None where that one makes none of them.

        A branch may return what it is given, which is alive besides, so that nothing is known of the peak behind it.
        """
        made = {value.number for op in counted.executed for value in op.outputs}
        handing_on = []
        for value, result in zip(self.returned, counted.returned, strict=True):
            if result.number in made:
                made.discard(result.number)
                sources = {result.number: value.number}
                chain = counted.executed[0].chain
                handing_on.append(Executed("cond", chain, (value,), (result,), sources=sources))
            elif result.number != value.number:
                return None
        return self.side(*handing_on)
