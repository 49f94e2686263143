"""One case of an attack on a model, what differs after it, and the differences that are expected; for every backend."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

__all__ = [
    "NOTHING",
    "NO_CONTEXT",
    "NO_FAULT",
    "Allowed",
    "Case",
    "Difference",
    "find_differences",
    "find_unexpected",
    "quiet",
]

NO_FAULT = "none"
NO_CONTEXT = "none"
#: Stands for a fact that is not there.
NOTHING = "nothing"


@dataclass(frozen=True)
class Case:
    """What one test runs; its text is the test's id."""

    model: str
    call: str
    fault: str = NO_FAULT
    context: str = NO_CONTEXT

    def __str__(self) -> str:
        return f"{self.model}-{self.call}-{self.fault}-{self.context}".replace(" ", "_")


@dataclass(frozen=True)
class Difference:
    """A fact that is another one after the call."""

    fact: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.fact}: {_brief(self.before)} became {_brief(self.after)}"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:157]}..."


def find_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the facts that are no longer what they were."""
    for name in {**before, **after}:
        if before.get(name, NOTHING) != after.get(name, NOTHING):
            yield Difference(name, before.get(name, NOTHING), after.get(name, NOTHING))


@contextmanager
def quiet() -> Iterator[None]:
    """Let nothing be printed or logged."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


_ANY = ("*",)


@dataclass(frozen=True)
class Allowed:
    """Differences that are expected in some cases; every field but the reason is a list of patterns."""

    reason: str
    facts: tuple[str, ...]
    models: tuple[str, ...] = _ANY
    calls: tuple[str, ...] = _ANY
    faults: tuple[str, ...] = _ANY
    contexts: tuple[str, ...] = _ANY

    def covers(self, case: Case, difference: Difference) -> bool:
        """Say whether this is one of them."""
        texts = (difference.fact, case.model, case.call, case.fault, case.context)
        patterns = (self.facts, self.models, self.calls, self.faults, self.contexts)
        return all(any(fnmatchcase(text, name) for name in of) for text, of in zip(texts, patterns, strict=True))


def find_unexpected(case: Case, differences: Iterable[Difference], table: Iterable[Allowed]) -> list[str]:
    """Return in words the differences that no entry of the table expects."""
    table = tuple(table)
    return [str(difference) for difference in differences if not any(entry.covers(case, difference) for entry in table)]
