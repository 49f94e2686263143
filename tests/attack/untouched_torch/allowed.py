"""The one table of differences that are expected, each with its reason and a case that still shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .harness import Case, Difference, differences_of

__all__ = ["ALLOWED", "Allowed", "is_allowed", "surprises"]

ANY = ("*",)


@dataclass(frozen=True)
class Allowed:
    """Differences that are expected in some cases; every field but the reason is a list of patterns.

    ``example`` is a case that shows such a difference: a test holds that it still does.
    """

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


def is_allowed(case: Case, difference: Difference) -> bool:
    """Say whether some entry of the table expects a difference."""
    return any(each.covers(case, difference) for each in ALLOWED)


def surprises(case: Case) -> list[str]:
    """Run a case and return in words what differs and is not expected."""
    return [str(each) for each in differences_of(case) if not is_allowed(case, each)]


def _case(text: str) -> Case:
    model, call, *rest = text.split("-")
    return Case(model, call, *rest)


_OUTPUT = "output afterwards"
ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "an evaluation runs the model as often as its data ask for, without keeping copies of the parameters: what "
        "forward writes to them stays, with a ModelChangedWarning",
        _case("moving_average-evaluation"),
        ("model*_parameters* values", "model*_parameters* version", _OUTPUT),
        models=("moving_average", "swaps_data"),
        calls=("evaluation*", "get_*", "eval_loss"),
    ),
    Allowed(
        "the guard against writes is there for the first timed pass; a fault that changes parameters later is warned "
        "of, with a ModelChangedWarning",
        _case("plain-default_profile-changes_parameters@3"),
        ("model*_parameters* values", "model*_parameters* version", _OUTPUT),
        faults=("changes_parameters@*",),
    ),
    Allowed(
        "torch.compile writes TORCHINDUCTOR_CACHE_DIR into the environment where it is not set, in a plain call too",
        _case("plain-profile_compiled"),
        ("process environment",),
        calls=("profile_compiled",),
    ),
    Allowed(
        "the same, by the caller's own torch.compile around the call",
        _case("slots-base_profiler-none-compiled"),
        ("process environment",),
        contexts=("compiled", "inside_compiled"),
    ),
    Allowed(
        "the batches of an evaluation are the caller's, and what his model writes to them is his own doing",
        _case("changes_its_input-evaluation"),
        ("inputs*", "gradients of a pass from before"),
        models=("changes_its_input",),
        calls=("evaluation*", "get_*", "eval_loss"),
    ),
)
