"""A training step costs the same MACs in both frameworks, layer by layer, and those of the closed form."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from profilerkit.hooks.backends import backend_named
from profilerkit.protocols import Trains, require_capability
from profilerkit.testing.architectures import ARCHITECTURES

BATCH = 2
FRAMEWORKS = {
    "torch": ("torch_architectures", "channels_first"),
    "tensorflow": ("keras_architectures", "channels_last"),
}
#: Of a recurrent layer torch leaves out the gradient of the first state, which nobody needs; TensorFlow's loop has it.
RECURRENT = ("lstm", "gru")


def rows(name: str, framework: str) -> list[tuple[int, str, int]]:
    """Return depth, kind and own MACs of each layer in a training step."""
    module, layout = FRAMEWORKS[framework]
    built, backend = import_module(module), backend_named(framework)
    inputs: Any = ARCHITECTURES[name].model_inputs(backend, layout, BATCH)  # type: ignore[arg-type]
    found = require_capability(backend, Trains).trace_training(built.build(name), inputs)
    assert found.failure is None, found.failure
    assert sum(row["own_macs"] for row in found.table) == found.macs
    return [
        (row["depth"], built.KINDS.get(row["type"], row["type"]) if row["depth"] else "model", row["own_macs"])
        for row in found.table
    ]


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in RECURRENT])
def test_each_layer_costs_the_same_in_both(name: str) -> None:
    for needed in ("torch", "tensorflow", "keras"):
        pytest.importorskip(needed)
    assert rows(name, "torch") == rows(name, "tensorflow")


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", ["mlp", "lenet5", "depthwise_cnn", "residual_cnn"])
def test_each_layer_costs_its_product_and_those_of_its_gradients(name: str, framework: str) -> None:
    """Three times the forward pass, and for the first layer, whose input needs no gradient, twice."""
    pytest.importorskip(framework)
    forward = [numbers.own_macs for numbers in ARCHITECTURES[name].layer_numbers(BATCH)]
    first = next(place for place, macs in enumerate(forward) if macs)
    expected = [macs * (2 if place == first else 3) for place, macs in enumerate(forward)]
    assert [macs for _, _, macs in rows(name, framework)] == expected


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_differ_by_the_gradient_of_their_first_state(name: str) -> None:
    for needed in ("torch", "tensorflow", "keras"):
        pytest.importorskip(needed)
    ours, theirs = rows(name, "torch"), rows(name, "tensorflow")
    differing = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if mine != other]
    ((mine, other),) = differing
    hidden, gates = 12, {"lstm": 4, "gru": 3}[name]
    assert (mine[1], other[2] - mine[2]) == (name, BATCH * gates * hidden * hidden)
