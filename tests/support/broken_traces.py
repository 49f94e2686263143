"""Backends whose traces are wrong in one way each: counts, layers, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from replacing import replace

from profilerkit import ModelInputs, ModelTrace
from profilerkit.testing import FakeBackend, FakeModel
from profilerkit.trace.records import MemoryTimeline

#: What each wrong backend overrides, by what is wrong with it.
BROKEN: dict[str, type[FakeBackend]] = {}


def wrong(what: str) -> Callable[[type[FakeBackend]], type[FakeBackend]]:
    """Keep a backend as the one that is wrong in this way."""

    def keep(cls: type[FakeBackend]) -> type[FakeBackend]:
        BROKEN[what] = cls
        return cls

    return keep


def wrong_trace(what: str) -> Callable[[Callable[[ModelTrace], ModelTrace]], Callable[[ModelTrace], ModelTrace]]:
    """Keep a backend whose traces of models that run are changed by a function."""

    def keep(change: Callable[[ModelTrace], ModelTrace]) -> Callable[[ModelTrace], ModelTrace]:
        class Changed(FakeBackend):
            def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
                found = super().trace(model, inputs)
                return change(found) if found.operators else found

        BROKEN[what] = Changed
        return change

    return keep


def busiest(found: ModelTrace) -> int:
    return max(range(len(found.operators)), key=lambda index: found.operators[index].macs)


def with_operator(found: ModelTrace, index: int, **facts: Any) -> ModelTrace:
    operators = list(found.operators)
    operators[index] = replace(operators[index], **facts)
    return replace(found, operators=tuple(operators))


# Counts -------------------------------------------------------------------------------------------------------------


@wrong_trace("macs too high")
def _(found: ModelTrace) -> ModelTrace:
    op = found.operators[busiest(found)]
    return with_operator(found, busiest(found), macs=op.macs + 1, flops=op.flops + 2)


@wrong_trace("a silent zero")
def _(found: ModelTrace) -> ModelTrace:
    return with_operator(found, busiest(found), macs=0, flops=0)


@wrong_trace("bias forgotten")
def _(found: ModelTrace) -> ModelTrace:
    op = found.operators[busiest(found)]
    return with_operator(found, busiest(found), flops=2 * op.macs)


@wrong_trace("flops are macs")
def _(found: ModelTrace) -> ModelTrace:
    return replace(found, operators=tuple(replace(op, flops=op.macs) for op in found.operators))


@wrong_trace("an operator counted as uncounted")
def _(found: ModelTrace) -> ModelTrace:
    return replace(found, uncounted={**found.uncounted, "fake::op": 1})


@wrong_trace("work in the wrong layer")
def _(found: ModelTrace) -> ModelTrace:
    return with_operator(found, busiest(found), layer="")


@wrong_trace("work in a layer that is not there")
def _(found: ModelTrace) -> ModelTrace:
    return with_operator(found, busiest(found), layer="nowhere")


@wrong_trace("a lost layer")
def _(found: ModelTrace) -> ModelTrace:
    last = found.layers[-1].path
    return replace(
        found,
        layers=found.layers[:-1],
        operators=tuple(replace(op, layer="") if op.layer == last else op for op in found.operators),
    )


@wrong_trace("numpy's numbers")
def _(found: ModelTrace) -> ModelTrace:
    return with_operator(found, 0, macs=np.int64(found.operators[0].macs))


@wrong_trace("a layer called once where it is called twice")
def _(found: ModelTrace) -> ModelTrace:
    return replace(found, layers=tuple(replace(layer, calls=layer.calls[:1]) for layer in found.layers))


@wrong_trace("outputs without the batch")
def _(found: ModelTrace) -> ModelTrace:
    root, *rest = found.layers
    calls = tuple(
        replace(call, outputs=tuple(replace(info, shape=(1, *info.shape[1:])) for info in call.outputs))
        for call in root.calls
    )
    return replace(found, layers=(replace(root, calls=calls), *rest))


@wrong_trace("frozen parameters")
def _(found: ModelTrace) -> ModelTrace:
    def frozen(layer: Any) -> Any:
        return replace(layer, parameters=tuple(replace(weight, trainable=False) for weight in layer.parameters))

    return replace(found, layers=tuple(map(frozen, found.layers)))


@wrong_trace("a shared weight counted again")
def _(found: ModelTrace) -> ModelTrace:
    first = next(layer for layer in found.layers if layer.parameters)
    twice = (*first.parameters, replace(first.parameters[0], identity=-1))
    layers = tuple(replace(layer, parameters=twice) if layer is first else layer for layer in found.layers)
    return replace(found, layers=layers)


@wrong_trace("weights of two bytes")
def _(found: ModelTrace) -> ModelTrace:
    def halve(layer: Any) -> Any:
        return replace(layer, parameters=tuple(replace(w, bytes=w.bytes // 2) for w in layer.parameters))

    return replace(found, layers=tuple(map(halve, found.layers)))


# Memory -------------------------------------------------------------------------------------------------------------


@wrong_trace("a peak without activations")
def _(found: ModelTrace) -> ModelTrace:
    memory = replace(found.memory, live_bytes=(found.memory.input_bytes,) * len(found.operators))
    return replace(found, memory=memory)


@wrong_trace("a peak of everything twice")
def _(found: ModelTrace) -> ModelTrace:
    live = found.memory.live_bytes
    return replace(found, memory=replace(found.memory, live_bytes=(10 * max(live), *live[1:])))


@wrong_trace("no memory timeline")
def _(found: ModelTrace) -> ModelTrace:
    return replace(found, memory=MemoryTimeline())


@wrong_trace("weights of wrong shapes")
def _(found: ModelTrace) -> ModelTrace:
    def misshapen(layer: Any) -> Any:
        return replace(layer, parameters=tuple(replace(w, shape=(w.count, 2)) for w in layer.parameters))

    return replace(found, layers=tuple(map(misshapen, found.layers)))


@wrong_trace("calls without outputs")
def _(found: ModelTrace) -> ModelTrace:
    def empty(layer: Any) -> Any:
        return replace(layer, calls=tuple(replace(call, outputs=()) for call in layer.calls)) if layer.path else layer

    return replace(found, layers=tuple(map(empty, found.layers)))


@wrong_trace("a model without outputs")
def _(found: ModelTrace) -> ModelTrace:
    return with_root(found, calls=tuple(replace(call, outputs=()) for call in found.layers[0].calls))


@wrong_trace("outputs that are freed too early")
def _(found: ModelTrace) -> ModelTrace:
    return replace(found, memory=replace(found.memory, live_bytes=(*found.memory.live_bytes[:-1], 0)))


@wrong_trace("bfloat16 weights of four bytes")
def _(found: ModelTrace) -> ModelTrace:
    def widen(layer: Any) -> Any:
        return replace(layer, parameters=tuple(replace(w, bytes=4 * w.count) for w in layer.parameters))

    return replace(found, layers=tuple(map(widen, found.layers)))


@wrong_trace("int8 weights as floats")
def _(found: ModelTrace) -> ModelTrace:
    def make_floating(layer: Any) -> Any:
        weights = layer.parameters
        return replace(layer, parameters=tuple(replace(w, dtype=w.dtype.replace("int8", "float32")) for w in weights))

    return replace(found, layers=tuple(map(make_floating, found.layers)))


@wrong_trace("one name for all operators")
def _(found: ModelTrace) -> ModelTrace:
    return replace(found, operators=tuple(replace(op, operator="fake::op") for op in found.operators))


def with_root(found: ModelTrace, **facts: Any) -> ModelTrace:
    return replace(found, layers=(replace(found.layers[0], **facts), *found.layers[1:]))


@wrong_trace("inputs without bytes")
def _(found: ModelTrace) -> ModelTrace:
    return replace(found, memory=replace(found.memory, input_bytes=0))


@wrong_trace("weights without bytes")
def _(found: ModelTrace) -> ModelTrace:
    return replace(found, memory=replace(found.memory, weight_bytes=0))


@wrong_trace("two layers of one path")
def _(found: ModelTrace) -> ModelTrace:
    return replace(found, layers=(*found.layers[:-1], replace(found.layers[-1], path=found.layers[-2].path)))


@wrong_trace("a model with a path")
def _(found: ModelTrace) -> ModelTrace:
    return with_root(found, path="model")


@wrong_trace("a model that was not called")
def _(found: ModelTrace) -> ModelTrace:
    return with_root(found, calls=())
