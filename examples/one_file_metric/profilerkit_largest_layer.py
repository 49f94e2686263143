"""A metric in one file: the largest layer's share of the parameters, over any backend of profilerkit."""

from __future__ import annotations

from profilerkit import ModelTrace, ProfilerFunction, Unavailable, hookimpl, metric


@metric(
    "largest_layer",
    unit="%",
    description="Per cent of the parameters that the layer with most of them has.",
    derived_from="weights",  # so it is known for a model that cannot run
)
def largest_layer(trace: ModelTrace, total_params: int) -> float | Unavailable:
    """Return the share, in per cent of all parameters."""
    if not total_params:
        return Unavailable("the model has no parameters")
    sizes = [sum(weight.count for weight in layer.parameters) for layer in trace.layers]
    return 100 * max(sizes) / total_params


@hookimpl
def profilerkit_profiler_functions() -> list[ProfilerFunction]:
    """Offer the metric to the profilers of every backend."""
    return [largest_layer]
