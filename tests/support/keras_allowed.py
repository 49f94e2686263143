"""The one table of differences that are expected, each with its reason."""

from __future__ import annotations

from attack_cases import Allowed, Case, find_unexpected
from keras_harness import find_case_differences

__all__ = ["ALLOWED", "surprises"]


def surprises(case: Case) -> list[str]:
    """Run a case and return in words what differs and is not expected."""
    return find_unexpected(case, find_case_differences(case), ALLOWED)


ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        reason="TensorFlow keeps what it works out of a function's signature, which says the same as before",
        facts=("model._function_type._cached_*",),
        models=("concrete_function",),
    ),
)
