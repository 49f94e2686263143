"""Speculative decoding: tokens that a draft model or further heads propose, and how many of them a step accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from profilerkit.arguments.checks import at_least
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError

__all__ = ["Speculation", "read_speculation"]


@dataclass(frozen=True, slots=True)
class Speculation:
    """Tokens that are drafted for each step, which checks all of them and makes one more.

    Attributes:
        draft_tokens: How many are drafted for a step.
        acceptance: The share of drafted tokens that is accepted, where all before it were.
    """

    draft_tokens: int
    acceptance: float

    @property
    def tokens_per_step(self) -> float:
        """How many tokens a step makes on average: one, and each drafted one as long as all before it are accepted.

        >>> Speculation(3, 0.5).tokens_per_step
        1.875
        """
        return sum(self.acceptance**count for count in range(self.draft_tokens + 1))


def read_speculation(draft_tokens: Any, acceptance: Any) -> Speculation | None:
    """Return the speculation of both arguments; None for neither. Raises `ArgumentError` for one without the other."""
    if draft_tokens is None and acceptance is None:
        return None
    if draft_tokens is None or acceptance is None:
        lacking = "acceptance" if acceptance is None else "draft_tokens"
        raise ArgumentError(
            f"{lacking} is missing: speculation needs draft_tokens (--draft-tokens), the tokens that are drafted for a "
            "step, and acceptance (--acceptance), the share of them that is accepted"
        )
    is_number = isinstance(acceptance, (int, float)) and not isinstance(acceptance, bool)
    if not is_number or not 0 <= acceptance <= 1:
        raise ArgumentError(
            f"acceptance={shown(acceptance)}: give the share of drafted tokens that is accepted, from 0 to 1"
        )
    return Speculation(at_least(1)("draft_tokens", draft_tokens), float(acceptance))
