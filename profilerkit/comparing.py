"""Several profilers side by side: their models take turns while they are timed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .hooks.manager import announce
from .piping.computation import Computation
from .piping.function import JointFunction, describe
from .piping.requests import KeyRequest, read_request
from .process.containment import contained
from .process.contents import list_contents
from .process.restoring import whole_call
from .protocols import suspend_modes

if TYPE_CHECKING:
    from .profiler import Profiler
    from .results.comparison import Comparison

__all__ = ["compare_profilers"]


def compare_profilers(
    profilers: Sequence[Profiler], request: KeyRequest, *, names: Iterable[str] | None = None, recompute: bool = False
) -> Comparison:
    """Compute the metrics of all profilers, measuring times in turn, and return their comparison.

    Args:
        profilers: The profilers, the reference first.
        request: The status keys to compute, and the arguments of their functions.
        names: The names of the models in the comparison, the reference first; None for the names of their profilers.
        recompute: Forget earlier values.
    """
    from .results.comparison import Comparison, distinct_names

    keys_of_models, arguments = read_request(request, [profiler._registry for profiler in profilers])
    if recompute:
        for profiler in profilers:
            profiler.reset_status()
    computations = _measure_jointly(profilers, {name for keys in keys_of_models for name in keys}, arguments)
    for profiler, keys, computation in zip(profilers, keys_of_models, computations, strict=True):
        profiler._compute_all(keys, arguments, strict=request.strict, begun=computation)
    shown = distinct_names([profiler.name for profiler in profilers] if names is None else names)
    reports = [
        replace(profiler._report(keys if request.is_selective else None), name=name)
        for profiler, keys, name in zip(profilers, keys_of_models, shown, strict=True)
    ]
    comparison = Comparison(reports[0], tuple(reports[1:]))
    announce(comparison)
    return comparison


@whole_call
def _measure_jointly(
    profilers: Sequence[Profiler], names: Collection[str], arguments: dict[str, Any]
) -> list[Computation]:
    """Measure together what of ``names`` all profilers have a `JointFunction` of the same class for.

    The functions must have equal attributes too, because that of the first profiler measures all models. Remembered
    values of an earlier measurement of the same models with the same arguments are kept. If a model fails, nothing is
    measured here: each computation then measures its own model, and keeps the failure.

    The computation of each profiler is returned, which then continues.
    """
    with ExitStack() as stack:
        for profiler in profilers:
            stack.enter_context(suspend_modes(profiler.backend))
        computations = [profiler._computation(arguments) for profiler in profilers]
        done: set[str] = set()
        for binding in computations[0].registry:
            function, name = binding.function, binding.key.NAME
            if not isinstance(function, JointFunction) or name in done or name not in names:
                continue
            if all(_has_same(computation, name, function) for computation in computations):
                _measure(computations, name, function)
                done |= {key.NAME for key in binding.contract.keys}
    return computations


def _has_same(computation: Computation, name: str, function: JointFunction) -> bool:
    if name not in computation.registry:
        return False
    binding = computation.registry[name]
    other = binding.function
    is_same = type(other) is type(function) and list_contents(vars(other)) == list_contents(vars(function))
    return is_same and computation.applies(binding)


def _measure(computations: Sequence[Computation], name: str, function: JointFunction) -> None:
    returned = None
    # An error is said again, and kept, when the failing model is measured alone; here it would hold that model's memory
    # while the others are measured.
    with suppress(Exception):
        calls = [computation.resolve(computation.registry[name]) for computation in computations]
        remembered = [computation.cache.find(call) for computation, call in zip(computations, calls, strict=True)]
        groups = [None if value is None else value.group for value in remembered]
        if groups[0] is not None and all(group is groups[0] for group in groups):
            return  # they were measured together before
        with ExitStack() as stack:
            for computation, call in zip(computations, calls, strict=True):
                stack.enter_context(computation.calls.inside(call))
            stack.enter_context(contained(calls[0].binding.plugin, describe(function)))
            returned = function.measure_together([call.arguments for call in calls])
    if returned is None:
        _measure_without_failing(computations, name, function)
        return
    group = object()
    for computation, call, value in zip(computations, calls, returned, strict=True):
        computation.store(call, value, group)


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
