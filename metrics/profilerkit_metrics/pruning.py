"""What zeros among the weights spare: how many there are, and the multiply-accumulates without them."""

from __future__ import annotations

from typing import Any

from profilerkit import (
    Comparative,
    Failure,
    Metric,
    Noted,
    NotOfferedError,
    Partial,
    ProfilerFunction,
    Scale,
    Unavailable,
    WithoutValuesError,
)
from profilerkit.backend import Backend
from profilerkit.inputs import ModelInputs
from profilerkit.trace.ignoring import Ignored, without_layers

__all__ = ["ComputeEffectiveMacs", "ComputeSparsity", "EffectiveMacs", "Sparsity"]


class EffectiveMacs(Metric):
    """Multiply-accumulates of one forward pass without those whose weight is zero."""

    NAME = "effective_macs"
    FRIENDLY_NAME = "Effective MACs"
    UNIT = "MACs"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL


class Sparsity(Metric):
    """Share of the parameters' elements that are zero."""

    NAME = "sparsity"
    COMPARATIVE = Comparative.DIFF


class ComputeEffectiveMacs(ProfilerFunction):
    """Counts the work on nonzero weights, in a run of the model. Computed where it is asked for by name.

    An operator's multiply-accumulates count in the proportion of the nonzero elements among those of its weights.
    Whether a device is any faster for the zeros is another question: most run the dense product.
    """

    KEYS = (EffectiveMacs,)
    ON_DEMAND = True
    ONLY_THROUGH_BACKEND = True

    def __call__(self, model: Any, backend: Backend, inputs: Any, ignore: Ignored = ()) -> Any:
        """Return the count, a lower bound where the trace misses something; unavailable where there are no values.

        ``ignore`` leaves layers out, as it does out of ``macs``.
        """
        try:
            trace = without_layers(backend.trace_nonzero(model, ModelInputs.of(inputs)), ignore)
        except (NotOfferedError, WithoutValuesError) as error:
            return Unavailable(str(error))
        if trace.failure is not None:
            return Failure(trace.failure)
        return Partial(trace.macs, trace.missing) if trace.uncounted else trace.macs


class ComputeSparsity(ProfilerFunction):
    """Counts the zeros among the weights; the model is not run. Computed where it is asked for by name."""

    KEYS = (Sparsity,)
    ON_DEMAND = True
    ONLY_THROUGH_BACKEND = True

    def __call__(self, model: Any, backend: Backend, total_params: int) -> Any:
        """Return the share, of the floating-point weights where there are others; unavailable without values."""
        try:
            zeros, elements = backend.zero_weights(model)
        except (NotOfferedError, WithoutValuesError) as error:
            return Unavailable(str(error))
        if not elements:
            return Unavailable("the model has no floating-point parameters")
        share = zeros / elements
        if elements == total_params:
            return share
        return Noted(share, f"of the {elements:,} floating-point parameters among the model's {total_params:,}")
