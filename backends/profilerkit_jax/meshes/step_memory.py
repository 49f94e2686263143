"""The bytes that XLA reserves for a training step of one rank: what they are for, and in which layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

from profilerkit import ModelTrace
from profilerkit.trace.records import MemoryTimeline
from profilerkit_predict.meshes.records import Purpose, sum_parts

from ..model.subject import Leaf
from ..training.steps import is_trained
from .device_program import Memory

__all__ = ["StepBytes", "divide_by_layer", "divide_memory", "reserve"]

_MEMORY = (
    "what XLA reserves for the step, by its own sizes for a CPU; for a GPU it fuses and orders otherwise, and a CPU "
    "computes in float32 what is narrower"
)


class StepBytes(NamedTuple):
    """What the bytes are for that XLA reserves, by the names that reports have for it."""

    weights: int
    inputs: int
    gradients: int
    outputs: int
    temporaries: int


def divide_memory(leaves: Sequence[Leaf], inputs: Iterable[Any], memory: Memory) -> StepBytes:
    """Return what the bytes are for that XLA reserves: what a step returns are its gradients and its outputs."""
    gradients = _count_bytes(leaf.value for leaf in leaves if is_trained(leaf))
    return StepBytes(
        weights=_count_bytes(leaf.value for leaf in leaves),
        inputs=_count_bytes(inputs),
        gradients=gradients,
        outputs=max(0, memory.outputs - gradients),
        temporaries=memory.temporaries,
    )


def divide_by_layer(parts: StepBytes, trace: ModelTrace) -> Counter[Purpose]:
    """Return the parts by layer, as far as that is known: of weights and their gradients.

    All else counts for the model itself: XLA does not tell for which layers it reserves it.
    """
    sizes: Counter[Purpose] = Counter()
    listed: set[int] = set()
    for layer in trace.layers:
        for weight in (*layer.parameters, *layer.buffers):
            if weight.identity in listed:
                continue
            listed.add(weight.identity)
            sizes[Purpose("weights", layer.path)] += weight.bytes
            if weight.trainable and weight in layer.parameters:
                sizes[Purpose("gradients", layer.path)] += weight.bytes
    in_layers = sum_parts(sizes)
    for part, size in parts._asdict().items():
        sizes[Purpose(part, "")] += size - in_layers.get(part, 0)
    return Counter({purpose: size for purpose, size in sizes.items() if size})


def reserve(parts: StepBytes, operators: int) -> MemoryTimeline:
    """Return the bytes alive in a step: XLA reserves all of them when it starts."""
    left_bytes = parts.inputs + parts.gradients + parts.outputs
    purposes = {"inputs": parts.inputs, "activations": parts.temporaries, "gradients": parts.gradients}
    return MemoryTimeline(
        parts.weights,
        parts.inputs,
        (left_bytes + parts.temporaries,) * operators,
        _MEMORY,
        parts={**purposes, "other": parts.outputs},
        left_bytes=left_bytes,
    )


def _count_bytes(arrays: Iterable[Any]) -> int:
    return sum(prod(array.shape) * int(array.dtype.itemsize) for array in arrays)
