"""The one table of differences that are expected, each with its reason and a case that still shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from keras_harness import Case, Difference, differences_of

__all__ = ["ALLOWED", "Allowed", "surprises"]

ANY = ("*",)


@dataclass(frozen=True)
class Allowed:
    """Differences that are expected in some cases; every field but the reason is a list of patterns."""

    reason: str
    example: Case
    facts: tuple[str, ...]
    models: tuple[str, ...] = ANY
    calls: tuple[str, ...] = ANY
    faults: tuple[str, ...] = ANY
    contexts: tuple[str, ...] = ANY

    def covers(self, case: Case, difference: Difference) -> bool:
        """Say whether this is one of them."""
        return (
            _any(difference.fact, self.facts)
            and _any(case.model, self.models)
            and _any(case.call, self.calls)
            and _any(case.fault, self.faults)
            and _any(case.context, self.contexts)
        )


def _any(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def surprises(case: Case) -> list[str]:
    """Run a case and return in words what differs and is not expected."""
    found = differences_of(case)
    return [str(each) for each in found if not any(entry.covers(case, each) for entry in ALLOWED)]


ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        reason="TensorFlow keeps what it works out of a function's signature, which says the same as before",
        example=Case("concrete_function", "static_profile"),
        facts=("model._function_type._cached_*",),
        models=("concrete_function",),
    ),
)
