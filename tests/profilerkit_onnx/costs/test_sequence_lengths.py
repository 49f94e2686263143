"""Recurrent layers over sequences of several lengths: of each, the steps up to its length count. All by hand."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import helper, numpy_helper
from onnx_graphs import BACKEND, F, make_model, make_unknown

from profilerkit import ModelInputs, ModelTrace, profile
from profilerkit.trace.bounds import Bounds

STEPS, BATCH, FEATURES, UNITS = 5, 4, 8, 4
LENGTHS = np.asarray([5, 4, 3, 2], np.int32)  # 14 of 20 steps
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INTEGERS = "DynamicQuantizeLSTM"
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def layer(kind: str, direction: str, lengths: Any, is_input: bool, **attributes: Any) -> tuple[Any, dict[str, Any]]:
    directions, gates = DIRECTIONS[direction], GATES.get(kind, 4)
    activations: dict[str, Any] = {"activations": ["Tanh"] * directions} if kind == "RNN" else {}
    has_integers = kind == INTEGERS
    names = ["x", "w", "r", "", "lengths", *(["", "", "", "s", "z", "s", "z"] if has_integers else [])]
    node = helper.make_node(
        kind,
        names,
        ["y"],
        hidden_size=UNITS,
        direction=direction,
        domain="com.microsoft" if has_integers else "",
        **{**activations, **attributes},
    )
    w, r = np.ones((directions, gates * UNITS, FEATURES), F), np.ones((directions, gates * UNITS, UNITS), F)
    weights: dict[str, Any] = {"w": w, "r": r}
    if has_integers:  # these are transposed
        weights = {"w": w.astype(np.int8).swapaxes(1, 2), "r": r.astype(np.int8).swapaxes(1, 2)}
        weights |= {"s": np.ones(directions, F), "z": np.zeros(directions, np.int8)}
    shape = (BATCH, STEPS, FEATURES) if attributes.get("layout") else (STEPS, BATCH, FEATURES)
    inputs = {"x": np.ones(shape, F), **({"lengths": lengths} if is_input else {})}
    return make_model([node], inputs, {**weights, **({} if is_input else {"lengths": lengths})}), inputs


def products(kind: str, direction: str, steps: int) -> int:
    """Each step of a sequence multiplies the input and the state with the matrices of all gates and directions."""
    return steps * DIRECTIONS[direction] * GATES.get(kind, 4) * UNITS * (FEATURES + UNITS)


@pytest.mark.parametrize("is_input", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", [*GATES, INTEGERS])
def test_each_sequence_counts_up_to_its_length(kind: str, direction: str, is_input: bool) -> None:
    model, inputs = layer(kind, direction, LENGTHS, is_input)
    trace: ModelTrace = BACKEND.trace(model, ModelInputs(**inputs))
    assert (trace.macs, trace.choices, trace.missing) == (products(kind, direction, 14), (), ())


def test_the_batch_may_come_first_and_a_length_may_be_too_long() -> None:
    model, inputs = layer("LSTM", "forward", LENGTHS + 3, True, layout=1)  # 8, 7, 6 and 5 of 5 steps
    assert BACKEND.trace(model, ModelInputs(**inputs)).macs == products("LSTM", "forward", 20)


@pytest.mark.parametrize("kind", [*GATES, INTEGERS])
def test_lengths_that_are_not_known_leave_an_upper_bound(kind: str) -> None:
    model, inputs = layer(kind, "forward", LENGTHS, True)
    trace = BACKEND.trace(model, make_unknown(**inputs))
    assert trace.macs == products(kind, "forward", 20)
    assert trace.bounds("macs") == Bounds(0, trace.macs)
    status = profile(model, make_unknown(**inputs), metrics="macs").status("macs")
    assert (status.completeness.value, status.sign) == ("partial", "≤ ")
    assert "the lengths of the sequences of 'y' depend on values" in status.missing[0]


@pytest.mark.parametrize("kind", ["LSTM", INTEGERS])
def test_peepholes_count_for_the_steps_up_to_each_length(kind: str) -> None:
    """Three gates of 4 units, each with a product and an addition, in 14 steps."""
    model, inputs = layer(kind, "forward", LENGTHS, False)
    without = BACKEND.trace(model, ModelInputs(**inputs)).flops
    node = model.graph.node[0]
    node.input.extend([""] * (8 - len(node.input)))
    node.input[7] = "peepholes"
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 3 * UNITS), F), "peepholes"))
    trace = BACKEND.trace(model, ModelInputs(**inputs))
    assert trace.flops - without == 14 * 3 * UNITS * 2


@pytest.mark.parametrize("kind", ["LSTM", INTEGERS])
def test_other_activations_are_not_counted(kind: str) -> None:
    model, inputs = layer(kind, "forward", LENGTHS, False, activations=["HardSigmoid", "Relu", "Relu"])
    assert [kind in name for name in BACKEND.trace(model, ModelInputs(**inputs)).uncounted] == [True]


@pytest.mark.parametrize(
    ("kind", "activations"),
    [("LSTM", ["sigmoid", "TANH", "tanh"]), ("GRU", ["SIGMOID", "tanh"]), ("RNN", ["tanh"]), ("RNN", ["RELU"])],
)
def test_the_case_of_an_activation_does_not_matter(kind: str, activations: list[str]) -> None:
    model, inputs = layer(kind, "forward", LENGTHS, False, activations=activations)
    trace = BACKEND.trace(model, ModelInputs(**inputs))
    assert (trace.macs, trace.missing) == (products(kind, "forward", 14), ())


@pytest.mark.parametrize(("kind", "activations"), [("LSTM", ["Sigmoid", "Tanh"]), ("RNN", ["Tanh", "Elu"])])
def test_a_direction_without_known_activations_is_not_counted(kind: str, activations: list[str]) -> None:
    model, inputs = layer(kind, "bidirectional", LENGTHS, False, activations=activations)
    assert BACKEND.trace(model, ModelInputs(**inputs)).missing != ()


def test_each_direction_may_have_an_activation_of_its_own() -> None:
    """Beside the products (two operations each) an addition and an activation for each of 4 units, 14 steps, twice."""
    model, inputs = layer("RNN", "bidirectional", LENGTHS, False, activations=["Tanh", "Relu"])
    trace = BACKEND.trace(model, ModelInputs(**inputs))
    assert (trace.macs, trace.missing) == (products("RNN", "bidirectional", 14), ())
    assert trace.flops == 2 * trace.macs + 2 * 14 * UNITS * 2


def test_a_packed_layer_of_torch_counts_as_much() -> None:
    """The issue's example: torch counts 3,584 for lengths of 14 steps in all, not 5,120."""
    torch = pytest.importorskip("torch")
    from torch import nn

    class Packed(nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(FEATURES, UNITS, bias=False)

        def forward(self, x: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(LENGTHS.astype(np.int64)))
            return self.lstm(packed)[0].data

    packed = profile(Packed(), torch.ones(STEPS, BATCH, FEATURES), metrics="macs")["macs"]
    model, inputs = layer("LSTM", "forward", LENGTHS, False)
    assert profile(model, ModelInputs(**inputs), metrics="macs")["macs"] == packed == products("LSTM", "forward", 14)
