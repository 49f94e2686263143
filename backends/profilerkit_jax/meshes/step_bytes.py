"""The bytes that XLA reserves on a device for a training step, by purpose and layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from profilerkit import ModelTrace
from profilerkit.trace.records import LayerRecord, MemoryTimeline
from profilerkit_predict.meshes.records import Purpose, sum_parts

from ..model.arrays import count_bytes
from ..model.calls import is_trained
from ..model.subject import Leaf
from .device_program import Memory

__all__ = ["StepBytes"]

_SOURCE = (
    "what XLA reserves for the step, by its own sizes for a CPU; for a GPU it fuses and orders otherwise, and a CPU "
    "computes in float32 what is narrower"
)


class StepBytes(NamedTuple):
    """The bytes that XLA reserves for a step, by purpose, with the names of reports.

    Attributes:
        weights: Bytes of the weights.
        inputs: Bytes of the inputs.
        gradients: Bytes of the gradients, which the step returns.
        outputs: Bytes of everything else that it returns.
        temporaries: Bytes of the arrays that are created and freed within the step.
    """

    weights: int
    inputs: int
    gradients: int
    outputs: int
    temporaries: int

    @classmethod
    def read(cls, leaves: Sequence[Leaf], inputs: Iterable[Any], memory: Memory) -> StepBytes:
        """Return the bytes of a step with these weights and inputs, for which XLA reserves this memory."""
        gradients = _count_bytes(leaf.value for leaf in leaves if is_trained(leaf))
        return cls(
            weights=_count_bytes(leaf.value for leaf in leaves),
            inputs=_count_bytes(inputs),
            gradients=gradients,
            outputs=max(0, memory.outputs - gradients),
            temporaries=memory.temporaries,
        )

    def divide_by_layer(self, trace: ModelTrace) -> Counter[Purpose]:
        """Return the bytes by layer, as far as that is known: of weights and their gradients.

        All other bytes count for the model itself: XLA does not tell for which layers it reserves them.
        """
        sizes = _sum_layer_weights(trace.layers)
        in_layers = sum_parts(sizes)
        for part, size in self._asdict().items():
            sizes[Purpose(part, "")] += size - in_layers.get(part, 0)
        return Counter({purpose: size for purpose, size in sizes.items() if size})

    def make_timeline(self, operators: int) -> MemoryTimeline:
        """Return the bytes alive in a step of so many operators: XLA reserves all of them when it starts."""
        left_bytes = self.inputs + self.gradients + self.outputs
        purposes = {"inputs": self.inputs, "activations": self.temporaries, "gradients": self.gradients}
        return MemoryTimeline(
            self.weights,
            self.inputs,
            (left_bytes + self.temporaries,) * operators,
            _SOURCE,
            parts={**purposes, "other": self.outputs},
            left_bytes=left_bytes,
        )


def _sum_layer_weights(layers: Iterable[LayerRecord]) -> Counter[Purpose]:
    """Return the bytes of the weights and gradients of each layer; a tied weight counts in the first layer with it."""
    sizes: Counter[Purpose] = Counter()
    listed: set[int] = set()
    for layer in layers:
        for weight in (*layer.parameters, *layer.buffers):
            if weight.identity in listed:
                continue
            listed.add(weight.identity)
            sizes[Purpose("weights", layer.path)] += weight.bytes
            if weight.trainable and weight in layer.parameters:
                sizes[Purpose("gradients", layer.path)] += weight.bytes
    return sizes


def _count_bytes(arrays: Iterable[Any]) -> int:
    return sum(count_bytes(array.shape, array.dtype) for array in arrays)
