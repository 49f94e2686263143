"""What layers of Equinox and Flax take as one sample: one dimension fewer than their weights have."""

from __future__ import annotations

from collections.abc import Callable

from profilerkit import ModelInputs
from profilerkit.backend_kit import samples
from profilerkit.backend_kit.samples import InputLayout
from profilerkit.trace.records import LayerRecord, ModelTrace

from .subject import Subject

__all__ = ["count_samples"]

_CONVOLUTIONS = tuple(f"Conv{kind}{rank}" for kind in ("", "Transpose") for rank in ("", "1d", "2d", "3d"))
_PRODUCTS = ("Dense", "GRUCell", "LSTMCell", "Linear")


def count_samples(subject: Subject, inputs: ModelInputs, traced: Callable[[], ModelTrace]) -> int | None:
    """Return the number of samples in the inputs, None if no layer says it.

    ``traced`` is called only if a weight has one dimension more than an input: else all inputs are batches.
    """
    shapes = [tuple(leaf.shape) for leaf in inputs.leaves() if hasattr(leaf, "shape")]
    if not {len(shape) + 1 for shape in shapes if shape} & {len(leaf.value.shape) for leaf in subject.leaves}:
        return None
    try:
        trace = traced()
    except MemoryError:
        raise
    except Exception:  # the trace of the profile says why
        return None
    layouts = {layer.path: layout for layer in trace.layers if (layout := _layout(layer)) is not None}
    return samples.count_samples(trace, layouts, shapes)


def _layout(layer: LayerRecord) -> InputLayout | None:
    rank = max((len(weight.shape) for weight in layer.parameters), default=0) - 1
    if layer.type in _CONVOLUTIONS and rank > 1:
        return InputLayout(rank)
    return InputLayout(1, only_single=True) if layer.type in _PRODUCTS and rank == 1 else None
