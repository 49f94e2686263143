"""Several profilers side by side: their models take turns while they are timed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .hooks.manager import announce
from .piping.computation import Computation
from .piping.joint_measuring import measure_jointly
from .piping.requests import KeyRequest, read_request
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
    computations = _begin_jointly(profilers, {name for keys in keys_of_models for name in keys}, arguments)
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
def _begin_jointly(
    profilers: Sequence[Profiler], names: Collection[str], arguments: dict[str, Any]
) -> list[Computation]:
    """Measure together the metrics that support it; return the computation of each profiler, which then continues."""
    with ExitStack() as stack:
        for profiler in profilers:
            stack.enter_context(suspend_modes(profiler.backend))
        computations = [profiler._computation(arguments) for profiler in profilers]
        measure_jointly(computations, names)
    return computations
