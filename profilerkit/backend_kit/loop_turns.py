"""How often the body of a loop runs, as far as that is known before the model does."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Turns"]


class Turns(NamedTuple):
    """How often the body of a loop runs.

    Attributes:
        least: How often at least.
        most: How often at most; None where no limit is known.
    """

    least: int
    most: int | None

    @property
    def exact(self) -> int | None:
        """How often the body runs, where that is known."""
        return self.most if self.least == self.most else None

    @property
    def number_to_count(self) -> int:
        """How many turns are counted: the most, or one where no limit is known."""
        return 1 if self.most is None else self.most
