"""Recurrent operators: each number from the shapes of the matrices, the biases and the gates."""

from __future__ import annotations

from typing import Any

import pytest
from calls import raw_cost, spec

STEPS, BATCH, FEATURES, UNITS = 7, 2, 3, 5
POSITIONS = STEPS * BATCH
X = spec(STEPS, BATCH, FEATURES)


def cudnn(mode: str, cells: int = 1, kind: str = "CudnnRNN", **options: Any) -> Any:
    state = spec(cells, BATCH, UNITS)
    return raw_cost(kind, input=X, input_h=state, input_c=state, params=spec(None), rnn_mode=mode, **options)


# Gates and operations of the gates for each unit, as in the recurrent operators of PyTorch.
MODES = {"lstm": (4, 13), "gru": (3, 11), "rnn_tanh": (1, 2), "rnn_relu": (1, 2)}


@pytest.mark.parametrize("mode", MODES)
def test_one_layer(mode: str) -> None:
    gates, per_unit = MODES[mode]
    macs = POSITIONS * gates * (UNITS * FEATURES + UNITS * UNITS)
    biases = POSITIONS * 2 * gates * UNITS
    assert cudnn(mode) == (macs, 2 * macs + biases + POSITIONS * UNITS * per_unit)


def test_two_layers() -> None:
    macs = POSITIONS * 4 * (UNITS * FEATURES + UNITS * UNITS + 2 * UNITS * UNITS)
    assert cudnn("lstm", cells=2) == (macs, 2 * macs + 2 * POSITIONS * UNITS * (2 * 4 + 13))


def test_two_layers_in_both_directions() -> None:
    first = 2 * 4 * (UNITS * FEATURES + UNITS * UNITS)
    second = 2 * 4 * (UNITS * (2 * UNITS) + UNITS * UNITS)
    macs = POSITIONS * (first + second)
    found = cudnn("lstm", cells=4, direction="bidirectional")
    assert found == (macs, 2 * macs + 4 * POSITIONS * UNITS * (2 * 4 + 13))


@pytest.mark.parametrize("mode", ["skip_input", "auto_select"])
def test_input_that_is_taken_as_it_is(mode: str) -> None:
    """By itself, cuDNN takes it so if it has as many features as there are units."""
    macs = POSITIONS * 3 * UNITS * UNITS
    tensors = {"input": spec(STEPS, BATCH, UNITS), "params": spec(None)}
    states = dict.fromkeys(("input_h", "input_c"), spec(1, BATCH, UNITS))
    found = raw_cost("CudnnRNN", **tensors, **states, rnn_mode="gru", input_mode=mode)
    assert found == (macs, 2 * macs + POSITIONS * UNITS * (2 * 3 + 11))
    assert cudnn("gru", input_mode="auto_select") == cudnn("gru")


def test_state_that_is_projected() -> None:
    projected = 2
    found = raw_cost(
        "CudnnRNNV3",
        input=X,
        input_h=spec(1, BATCH, projected),
        input_c=spec(1, BATCH, UNITS),
        params=spec(None),
        sequence_lengths=spec(BATCH, dtype="int32"),
        rnn_mode="lstm",
        num_proj=projected,
    )
    macs = POSITIONS * (4 * UNITS * (FEATURES + projected) + UNITS * projected)
    assert found == (macs, 2 * macs + POSITIONS * UNITS * (2 * 4 + 13))


def test_gradient_is_twice_the_forward_pass() -> None:
    state, out = spec(1, BATCH, UNITS), spec(STEPS, BATCH, UNITS)
    found = raw_cost(
        "CudnnRNNBackprop",
        input=X,
        input_h=state,
        input_c=state,
        params=spec(9),
        output=out,
        output_h=state,
        output_c=state,
        output_backprop=out,
        output_h_backprop=state,
        output_c_backprop=state,
        reserve_space=spec(1),
    )
    macs = POSITIONS * 4 * (UNITS * FEATURES + UNITS * UNITS)
    assert found == (2 * macs, 2 * (2 * macs + POSITIONS * UNITS * (2 * 4 + 13)))


@pytest.mark.parametrize("kind", ["CudnnRNNV3", "CudnnRNNBackpropV3"])
@pytest.mark.parametrize("time_major", [True, False])
def test_the_batch_is_the_first_dimension_of_states_too(kind: str, time_major: bool) -> None:
    """As Keras calls it on a GPU: one layer, whose states are ``(batch, 1, units)``; seven steps for each sample."""
    first, second = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    state = spec(1, BATCH, UNITS) if time_major else spec(BATCH, 1, UNITS)
    out = spec(first, second, UNITS)
    tensors: dict[str, Any] = {
        "input": spec(first, second, FEATURES),
        "input_h": state,
        "input_c": state,
        "params": spec(None),
        "sequence_lengths": spec(BATCH, dtype="int32"),
    }
    if kind == "CudnnRNNBackpropV3":
        tensors |= {"output": out, "output_h": state, "output_c": state, "output_backprop": out}
        tensors |= {"output_h_backprop": state, "output_c_backprop": state}
        tensors |= {"reserve_space": spec(None), "host_reserved": spec(None, dtype="int8")}
    times = 1 if kind == "CudnnRNNV3" else 2
    macs = POSITIONS * 4 * UNITS * (FEATURES + UNITS)
    found = raw_cost(kind, **tensors, rnn_mode="lstm", time_major=time_major)
    assert found == (times * macs, times * (2 * macs + POSITIONS * UNITS * (2 * 4 + 13)))
