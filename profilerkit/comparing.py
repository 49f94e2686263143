"""Several profilers side by side: times are measured in turn, all else one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .arguments.checking import checked, status_names
from .piping.interleaving import measure_jointly
from .piping.registry import reaching_arguments, read_arguments
from .plugging import offers
from .process.restoring import whole_call
from .protocols import kept_apart
from .results.comparison import Comparison, distinct_names

if TYPE_CHECKING:
    from .profiler import Profiler

__all__ = ["compare_profilers"]


def compare_profilers(
    reference: Profiler,
    others: Iterable[Profiler],
    names: Iterable[str] | None = None,
    *,
    called: Iterable[str] | None = None,
    recompute: bool = False,
    strict: bool = False,
    static: bool = False,
    **kwargs: Any,
) -> Comparison:
    """Compute all profilers, measuring in turn what can be, and return their comparison.

    ``names`` are the status keys to compute; all that each profiler has where it is None. ``called`` is what the
    comparison calls the models, the reference first; by their profilers' names where it is None. ``static`` leaves out
    what runs the models.
    """
    everyone = [reference, *others]
    kwargs = read_arguments(kwargs, [profiler._registry for profiler in everyone], strict=strict)
    requested = status_names("names", names)
    if checked("recompute", recompute):
        for profiler in everyone:
            profiler.reset_status()
    requested_of_each = [
        profiler._registry.requested(
            profiler._registry.static_names(requested) if static else requested, {} if static else kwargs
        )
        for profiler in everyone
    ]
    registries = [profiler._registry for profiler in everyone]
    if not static:  # which says that arguments of what runs are left out
        kwargs = reaching_arguments(kwargs, zip(registries, requested_of_each, strict=True), strict=strict)
    with whole_call(), ExitStack() as stack:
        for profiler in everyone:
            stack.enter_context(kept_apart(profiler.backend))
        computations = [profiler._computation(kwargs) for profiler in everyone]
        measure_jointly(computations, {name for keys in requested_of_each for name in keys})
    for profiler, keys, computation in zip(everyone, requested_of_each, computations, strict=True):
        profiler._compute_all(keys, kwargs, strict=strict, begun=computation)
    names_shown = distinct_names([profiler.name for profiler in everyone] if called is None else called)
    reports = [
        profiler._report(None if requested is None and not static else keys)
        for profiler, keys in zip(everyone, requested_of_each, strict=True)
    ]
    first, *rest = (replace(report, name=name) for report, name in zip(reports, names_shown, strict=True))
    comparison = Comparison(first, tuple(rest))
    offers.announce(comparison)
    return comparison
