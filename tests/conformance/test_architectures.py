"""The description of a network, its rows, and what is read of a trace to compare with them."""

from __future__ import annotations

import pytest

from profilerkit.costs import Cost
from profilerkit.input_shapes import TensorSpec
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.testing.architectures import ARCHITECTURES, Architecture, ExpectedLayer, InputSpec, layer_numbers

LEAF = ExpectedLayer("linear", "leaf", params=6, cost=Cost(6, 14))


def architecture(*layers: ExpectedLayer, **inputs: InputSpec) -> Architecture:
    given: dict[int | str, InputSpec] = dict(inputs.items()) or {0: InputSpec.of(3)}
    return Architecture("tiny", "", given, {0: (2,)}, ExpectedLayer("model", "", 1, Cost(0, 5), layers))


def test_rows_include_what_is_inside_for_each_call_and_sample() -> None:
    """A block with 3 FLOPs of its own around a layer of 6 MACs and 14 FLOPs, called twice, for four samples."""
    block = ExpectedLayer("block", "block", 2, Cost(0, 3), (LEAF,), statistics=4).share(2)
    tiny = architecture(LEAF, block)
    assert [tuple(row) for row in tiny.layer_numbers(4)] == [
        (0, "model", 1, 1 + 6 + 8, 4 * 18, 4 * (5 + 14 + 34), 0, 4 * 5),
        (1, "linear", 1, 6, 4 * 6, 4 * 14, 4 * 6, 4 * 14),
        (1, "block", 2, 8, 4 * 12, 4 * 2 * 17, 0, 4 * 2 * 3),
        (2, "linear", 2, 6, 4 * 12, 4 * 28, 4 * 12, 4 * 28),
    ]
    assert tiny.layers == ((0, "model"), (1, "linear"), (1, "block"), (2, "linear"))
    assert (tiny.params, tiny.statistics, tiny.macs(4), tiny.flops(4)) == (15, 4, 72, 212)
    assert [row.params for row in tiny.layer_numbers(with_statistics=True)] == [15 + 4, 6, 8 + 4, 6]


def test_a_backend_is_found_right_or_wrong_by_its_table() -> None:
    """The fake backend finds what the closed form says of its layer; a type without a kind stands out by its name."""
    tiny = architecture(LEAF)
    backend = FakeBackend()
    model = FakeModel([FakeLayer("dense", params=6, macs=6, flops=14)])
    table = backend.trace(model, tiny.model_inputs(backend, "channels_last", 3)).table
    assert layer_numbers(table, {"FakeLayer": "linear"})[1:] == tiny.layer_numbers(3)[1:]
    assert [row.kind for row in layer_numbers(table, {})] == ["model", "FakeLayer"]
    wrong = FakeModel([FakeLayer("dense", params=6, macs=6, flops=13)])
    table = backend.trace(wrong, tiny.model_inputs(backend, "channels_last", 3)).table
    assert layer_numbers(table, {"FakeLayer": "linear"})[1:] != tiny.layer_numbers(3)[1:]


def test_inputs_come_in_both_layouts_by_place_and_by_name() -> None:
    image, meta = InputSpec.image(8, 6, 3), InputSpec.of(5, dtype="int64")
    backend = FakeBackend()
    named = architecture(image=image, meta=meta)
    assert named.input_shape("channels_first") == {"image": TensorSpec((3, 8, 6)), "meta": TensorSpec((5,), "int64")}
    inputs = named.model_inputs(backend, "channels_last", 2)
    assert (inputs.args, inputs.kwargs) == (
        (),
        {"image": FakeTensor((2, 8, 6, 3)), "meta": FakeTensor((2, 5), "int64")},
    )
    placed = Architecture("two", "", {0: image, 1: meta}, {}, LEAF)
    assert placed.input_shape("channels_last") == [TensorSpec((8, 6, 3)), TensorSpec((5,), "int64")]
    assert placed.model_inputs(backend, "channels_first").args == (
        FakeTensor((1, 3, 8, 6)),
        FakeTensor((1, 5), "int64"),
    )


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_says_what_it_is(name: str) -> None:
    described = ARCHITECTURES[name]
    assert described.name == name
    assert described.description
    assert described.params > 0
    assert described.macs() > 0
