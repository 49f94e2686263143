"""Measurements of several models at once: the models take turns, under the same conditions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from ..process.containment import contained
from ..process.contents import list_contents
from .computation import Computation
from .function import JointFunction, describe, list_results
from .outcome import Failure, Outcome

__all__ = ["measure_jointly"]


def measure_jointly(computations: Sequence[Computation], names: Collection[str]) -> None:
    """Measure together what of ``names`` all computations have a `JointFunction` of the same class for.

    The functions must have equal attributes too, because that of the first computation measures all models. Remembered
    values of an earlier measurement of the same models with the same arguments are kept. If a model fails, nothing is
    measured here: each computation then measures its own model, and keeps the failure.
    """
    done: set[str] = set()
    for binding in computations[0].registry:
        function, name = binding.function, binding.key.NAME
        if not isinstance(function, JointFunction) or name in done or name not in names:
            continue
        if all(_has_same(computation, name, function) for computation in computations):
            _measure(computations, name, function)
            done |= binding.contract.keys.keys()


def _has_same(computation: Computation, name: str, function: JointFunction) -> bool:
    if name not in computation.registry:
        return False
    binding = computation.registry[name]
    other = binding.function
    is_same = type(other) is type(function) and list_contents(vars(other)) == list_contents(vars(function))
    return is_same and computation.applies(binding)


def _measure(computations: Sequence[Computation], name: str, function: JointFunction) -> None:
    results = None
    # An error is said again, and kept, when the failing model is measured alone; here it would hold that model's memory
    # while the others are measured.
    with suppress(Exception):
        calls = [computation.begin(computation.registry[name]) for computation in computations]
        remembered = [computation.cache.find(call) for computation, call in zip(computations, calls, strict=True)]
        groups = [None if value is None else value.group for value in remembered]
        if groups[0] is not None and all(group is groups[0] for group in groups):
            return  # they were measured together before
        with ExitStack() as stack:
            for computation, call in zip(computations, calls, strict=True):
                stack.enter_context(computation.calls.inside(call))
            stack.enter_context(contained(calls[0].binding.plugin, describe(function)))
            results = _list_results(function, function.measure_together([call.arguments for call in calls]), len(calls))
    if results is None:
        _measure_without_failing(computations, name, function)
        return
    group = object()
    for computation, call, value in zip(computations, calls, results, strict=True):
        with suppress(Exception):  # as above: a value that no function may return
            computation.store(call, value, group)


def _list_results(function: JointFunction, returned: Any, count: int) -> list[Any]:
    """Return the result for each model; for another number of results, the error is the result for each."""
    try:
        return list_results(function, returned, count)
    except TypeError as error:
        return [Outcome.of(Failure(error))] * count


def _measure_without_failing(computations: Sequence[Computation], name: str, function: JointFunction) -> None:
    """Measure the models together that do not fail: each is tried alone first."""
    if len(computations) < 3:
        return
    fine = [computation for computation in computations if _is_measurable(computation, name)]
    if 1 < len(fine) < len(computations):
        _measure(fine, name, function)


def _is_measurable(computation: Computation, name: str) -> bool:
    try:
        return computation.status(name).outcome.error is None
    except Exception as error:
        computation.fail(computation.registry[name], error)
        return False
