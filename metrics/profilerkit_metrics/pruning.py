"""Zeros among the weights: their share, and the multiply-accumulates without them."""

from __future__ import annotations

from typing import Any, ClassVar

from profilerkit import Comparative, Metric, ProfilerFunction, Scale, Unavailable, metric
from profilerkit.backend import Backend
from profilerkit.errors import BackendFailedError
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import qualify
from profilerkit.protocols import ReadsWeights, require_capability
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

__all__ = ["ComputeSparsity", "Sparsity", "effective_macs"]


@metric(
    "effective_macs",
    friendly_name="Effective MACs",
    unit="MACs",
    scale=Scale.SI,
    better="lower",
    derived_from=TracePart.OPERATORS,
    grows=True,
    on_demand=True,
    formula="sum over operators of macs * nonzero weights / weights",
    omissions="zeros among activations; without a run, zeros of weights that values choose",
    source="profilerkit's own definition",
)
def effective_macs(nonzero_trace: ModelTrace) -> int:
    """Multiply-accumulates of one forward pass whose weight is not zero.

    A model of PyTorch is run for it; for models of ONNX and JAX the weights are read. The multiply-accumulates of an
    operator count in proportion to the nonzero elements of its weights. Most devices compute the dense product and are
    not faster for the zeros.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["effective_macs"])["effective_macs"]
    16
    """
    return nonzero_trace.macs


class Sparsity(Metric):
    """Share of the parameters' elements that are zero.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["sparsity"])["sparsity"]
    0.0
    """

    NAME: str = "sparsity"
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    COMPARATIVE: Comparative = Comparative.DIFF
    FORMULA: str = "elements that are zero / elements, of the floating-point parameters"
    OMISSIONS: str = "buffers, integer parameters"
    SOURCE: str = "profilerkit's own definition"


class ComputeSparsity(ProfilerFunction):
    """Counts the zeros among the weights; the model is not run. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (Sparsity,)
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(self, model: Any, backend: Backend, trace: ModelTrace) -> Any:
        """Return the share, of the floating-point weights if there are others; unavailable without values.

        The values are read from the model itself, so layers that ``ignore=`` leaves out are part of the share.
        """
        zeros, elements = require_capability(backend, ReadsWeights).zero_weights(model)
        if not 0 <= zeros <= elements:
            source = f"zero_weights() of the {backend.name} backend, or of a plugin for it,"
            raise BackendFailedError(f"{source} returned {zeros} zeros among {elements} elements")
        if not elements:
            return Unavailable("the model has no floating-point parameters")
        share = zeros / elements
        total = sum(weight.count for weight in trace.parameters_in_memory)
        notes = (
            [f"of the {elements:,} floating-point parameters among the model's {total:,}"] if elements != total else []
        )
        if trace.left_out:
            notes.append("with the layers that ignore= leaves out")
        return qualify(share, notes=notes)
