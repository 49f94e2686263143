"""What layers of Equinox and Flax take as one sample: one dimension fewer than their weights have."""

from __future__ import annotations

from collections.abc import Callable, Collection

from profilerkit import ModelInputs
from profilerkit.backend_kit import samples
from profilerkit.backend_kit.samples import InputLayout
from profilerkit.trace.records import LayerRecord, ModelTrace

from .subject import Subject

__all__ = ["count_samples"]

_CONVOLUTIONS = tuple(f"Conv{kind}{rank}" for kind in ("", "Transpose") for rank in ("", "1d", "2d", "3d"))
_PRODUCTS = ("Dense", "GRUCell", "LSTMCell", "Linear")


def count_samples(subject: Subject, inputs: ModelInputs, trace_model: Callable[[], ModelTrace]) -> int | None:
    """Return the number of samples in the inputs, None if no layer says it.

    ``trace_model`` is called only if an input may be a single sample.
    """
    shapes = [tuple(leaf.shape) for leaf in inputs.leaves() if hasattr(leaf, "shape")]
    if not _may_have_one_sample(subject, shapes):
        return None
    try:
        trace = trace_model()
    except MemoryError:
        raise
    except Exception:  # the trace of the profile says why
        return None
    layouts = {layer.path: layout for layer in trace.layers if (layout := _find_layout(layer)) is not None}
    return samples.count_samples(trace, layouts, shapes)


def _may_have_one_sample(subject: Subject, shapes: Collection[tuple[int, ...]]) -> bool:
    """Return whether a weight has one dimension more than an input, as where a layer takes one sample alone."""
    ranks_of_samples = {len(leaf.value.shape) - 1 for leaf in subject.leaves}
    return any(shape and len(shape) in ranks_of_samples for shape in shapes)


def _find_layout(layer: LayerRecord) -> InputLayout | None:
    """Return what a layer takes; None for a layer that says nothing about samples.

    The weight of a convolution has two dimensions for channels where a sample has one; that of a product has two where
    a sample has only its features, and what goes into a product may have any number of dimensions in front of these.
    """
    sample_rank = max((len(weight.shape) for weight in layer.parameters), default=0) - 1
    if layer.type in _CONVOLUTIONS and sample_rank > 1:
        return InputLayout(sample_rank)
    if layer.type in _PRODUCTS and sample_rank == 1:
        return InputLayout(1, only_single=True)
    return None
