"""The cost of Keras' layers that are spelt out with other operators than the convention counts.

With these a layer costs the same whether Keras has one operator for it or ten, and on whichever framework it runs.
Each formula takes the layer, the shapes of its input tensors, those of its outputs, and whether it is trained; it
returns a `Cost` for everything inside, or None where the layer's operators are to be counted after all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from .cost import Cost, Shape

__all__ = ["KERAS_LAYER_COSTS"]

Shapes: TypeAlias = Sequence[Shape]


def _normalised(inputs: Shapes, operations: int, layer: Any) -> Cost:
    """Return the operations for each element, and one each for a scale and an offset where the layer has them."""
    return Cost(0, inputs[0].numel * (operations + bool(layer.scale) + bool(layer.center)))


def batch_normalization(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost | None:
    """Two operations for each element with known statistics; five, and one each for scale and offset, in training.

    A frozen layer runs with the statistics that it knows. Batch renormalisation and virtual batches count as the
    operators that they are made of.
    """
    if not (training and layer.trainable):
        return Cost(0, 2 * inputs[0].numel)
    if getattr(layer, "renorm", False) or getattr(layer, "virtual_batch_size", None) is not None:
        return None
    return _normalised(inputs, 5, layer)


def layer_normalization(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Five operations for each element, and one each for scale and offset.

    With ``rms_scaling`` it divides by the deviation without taking the mean off, and always scales: five and one.
    """
    if getattr(layer, "rms_scaling", False):
        return Cost(0, 6 * inputs[0].numel)
    return _normalised(inputs, 5, layer)


def group_normalization(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Five operations for each element, and one each for scale and offset."""
    return _normalised(inputs, 5, layer)


def rms_normalization(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Square, mean, product with the inverse root: three for each element, and one for the scale that it always has."""
    return Cost(0, 4 * inputs[0].numel)


def adaptive_pooling(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """One comparison or addition for each element of each window.

    Window i of n over a length covers ``floor(i * length / n)`` to ``ceil((i + 1) * length / n)``; a dimension that is
    not pooled has windows of one.
    """
    covered = (
        sum(-(-(i + 1) * length // n) - i * length // n for i in range(n))
        for length, n in zip(inputs[0], outputs[0], strict=True)
    )
    return Cost(0, math.prod(covered))


def dropout(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Mask and scale: two operations for each element where it is on, none where it is off."""
    return Cost(0, 2 * inputs[0].numel if training and layer.rate else 0)


def prelu(layer: Any, inputs: Shapes, outputs: Shapes, training: bool) -> Cost:
    """Compare and multiply: two operations for each element."""
    return Cost(0, 2 * inputs[0].numel)


#: The formula of each class that Keras ships, by its name.
KERAS_LAYER_COSTS: Mapping[str, Callable[[Any, Shapes, Shapes, bool], Cost | None]] = {
    "BatchNormalization": batch_normalization,
    "SyncBatchNormalization": batch_normalization,
    "LayerNormalization": layer_normalization,
    "GroupNormalization": group_normalization,
    "RMSNormalization": rms_normalization,
    "Dropout": dropout,
    "PReLU": prelu,
    **{f"Adaptive{kind}Pooling{number}D": adaptive_pooling for kind in ("Average", "Max") for number in (1, 2, 3)},
}
