"""The cost of Keras' layers that are computed by other operators than the convention counts.

With these formulas a layer costs the same whether Keras has one operator for it or ten, on any framework. Each formula
takes the layer, the shapes of its input tensors, the shapes of its outputs, and whether it is trained; it returns a
`Cost` for everything inside, or None if the layer's operators are counted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from . import activation, normalization, pooling
from .cost import Cost, Shape

__all__ = ["KERAS_LAYER_COSTS"]

Shapes: TypeAlias = Sequence[Shape]


def _normalize(inputs: Shapes, layer: Any) -> Cost:
    return normalization.normalize(inputs[0].numel, bool(layer.scale), bool(layer.center))


def batch_normalization(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost | None:
    """Return a scale and a shift with known statistics; the whole normalization in training.

    A frozen layer runs with the statistics that it knows. Batch renormalization and virtual batches count as the
    operators that they are made of.
    """
    if not (training and layer.trainable):
        return normalization.normalize_with_known_statistics(inputs[0].numel)
    if getattr(layer, "renorm", False) or getattr(layer, "virtual_batch_size", None) is not None:
        return None
    return _normalize(inputs, layer)


def layer_normalization(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Return the whole normalization; with ``rms_scaling`` the mean is not taken off, and there always is a scale."""
    if getattr(layer, "rms_scaling", False):
        return normalization.scale_by_deviation(inputs[0].numel)
    return _normalize(inputs, layer)


def group_normalization(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Return the whole normalization."""
    return _normalize(inputs, layer)


def rms_normalization(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Return the normalization by the mean square, with the scale that the layer always has; its means are left out."""
    return normalization.rms_norm(inputs[0].numel, means=0)


def _adaptive_pooling(average: bool) -> Callable[[Any, Shapes, Shapes, bool], Cost]:
    def adaptive_pooling(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
        """Return one operation for each element of each window; a dimension that is not pooled has windows of one."""
        return pooling.pool(pooling.adaptive_windows(zip(inputs[0], outputs[0], strict=True)), 1, average)

    return adaptive_pooling


def dropout(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Return the cost of mask and scale if the layer is on, no cost if it is off."""
    return activation.dropout(inputs[0].numel if training and layer.rate else 0)


def prelu(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Return a comparison and a product for each element."""
    return activation.leaky_relu(inputs[0].numel)


#: The formula of each class that Keras ships, by its name.
KERAS_LAYER_COSTS: Mapping[str, Callable[[Any, Shapes, Shapes, bool], Cost | None]] = {
    "BatchNormalization": batch_normalization,
    "SyncBatchNormalization": batch_normalization,
    "LayerNormalization": layer_normalization,
    "GroupNormalization": group_normalization,
    "RMSNormalization": rms_normalization,
    "Dropout": dropout,
    "PReLU": prelu,
    **{
        f"Adaptive{kind}Pooling{number}D": _adaptive_pooling(kind == "Average")
        for kind in ("Average", "Max")
        for number in (1, 2, 3)
    },
}
