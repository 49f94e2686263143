"""What the numpy backend counts, by hand."""

from __future__ import annotations

import tracemalloc

import numpy as np
import numpy_networks
import pytest

from profilerkit import ModelFailedError, ModelInputs, ModelTrace
from profilerkit.testing import ARCHITECTURES
from profilerkit_numpy.backend import NumpyBackend
from profilerkit_numpy.layers import Array, Layer, Sequential, activation, conv2d, dense, dropout, flatten, pool2d

BACKEND = NumpyBackend()


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def trace(model: Sequential, x: Array) -> ModelTrace:
    result = BACKEND.trace(model, ModelInputs(x))
    assert result.failure is None, result.failure
    return result


def costs(model: Sequential, x: Array) -> list[tuple[int, int]]:
    result = trace(model, x)
    assert result.missing == ()
    return [(op.macs, op.flops) for op in result.operators]


def test_a_strided_convolution_by_hand() -> None:
    """9 x 11 through windows of 3, two apart, is 4 x 5; 8 filters of 9 x 3; ReLU; 2 x 2 pooling leaves 2 x 2."""
    model = Sequential(conv2d(3, 8, 3, stride=2), activation(), pool2d(2), flatten(), dense(32, 10))
    outputs = 2 * 4 * 5 * 8
    pooled = 2 * 2 * 2 * 8
    assert costs(model, zeros(2, 9, 11, 3)) == [
        (outputs * 27, 2 * outputs * 27 + outputs),
        (0, outputs),
        (0, 4 * pooled),
        (0, 0),
        (2 * 32 * 10, 2 * 2 * 32 * 10 + 2 * 10),
    ]


def test_dense_layers_work_at_each_position() -> None:
    assert costs(Sequential(dense(4, 8)), zeros(3, 5, 4)) == [(15 * 32, 2 * 15 * 32 + 15 * 8)]


@pytest.mark.parametrize(("name", "macs", "flops"), [("mlp", 1312, 2 * 1312 + 58 + 48), ("lenet5", 416_520, None)])
def test_the_shared_architectures_by_hand(name: str, macs: int, flops: int | None) -> None:
    """The mlp: 20 x 32 + 32 x 16 + 16 x 10 MACs, 58 biases, 48 activations; LeNet-5's are its published 416,520."""
    model = getattr(numpy_networks, name)()
    result = BACKEND.trace(model, ARCHITECTURES[name].model_inputs(BACKEND, "channels_last"))
    assert (result.macs, result.missing) == (macs, ())
    assert result.flops == (flops or ARCHITECTURES[name].flops())
    assert result.total_params == ARCHITECTURES[name].params


def test_a_layer_that_stands_twice_is_one_layer_called_twice() -> None:
    shared = dense(4, 4)
    result = trace(Sequential(shared, activation(), shared), zeros(1, 4))
    assert [(row["path"], row["type"], row["calls"], row["params"], row["macs"]) for row in result.table] == [
        ("", "Sequential", 1, 20, 32),
        ("0", "Dense", 2, 20, 32),
        ("1", "Activation", 1, 0, 0),
    ]
    assert [(op.layer, op.call) for op in result.operators] == [("0", 0), ("1", 0), ("0", 1)]


def test_tied_weights_count_once_and_frozen_ones_are_not_trainable() -> None:
    first, second, last = dense(4, 4), dense(4, 4), dense(4, 2)
    second.weights["weight"] = first.weights["weight"]
    last.trainable = False
    result = trace(Sequential(first, second, last), zeros(1, 4))
    assert (result.total_params, result.trainable_params) == (16 + 4 + 4 + 10, 16 + 4 + 4)
    assert result.size_bytes == result.memory.weight_bytes == 4 * 34


def test_a_layer_without_a_cost_is_named() -> None:
    strange = Layer("Fourier", lambda x: np.fft.rfft(x).real.astype(np.float32))
    result = trace(Sequential(dense(4, 4), strange, strange), zeros(1, 4))
    assert result.missing == ("Fourier (2 calls)",)
    assert (result.macs, result.flops) == (16, 36)


def test_memory_by_hand() -> None:
    """Input 48 B throughout; the hidden layer 96 B; its ReLU 96 B more; a view nothing; the output 24 B."""
    result = trace(Sequential(dense(4, 8), activation(), flatten(), dropout(), dense(8, 2)), zeros(3, 4))
    assert result.memory.weight_bytes == 4 * (4 * 8 + 8 + 8 * 2 + 2)
    assert result.memory.input_bytes == 48
    assert result.memory.live_bytes == (48 + 96, 48 + 96 + 96, 48 + 96, 48 + 96, 48 + 96 + 24)
    assert result.memory.peak_bytes(include_weights=False) == 240
    assert result.peak_operator is not None
    assert result.peak_operator.operator == "Activation"


def test_bytes_that_an_operator_reads_and_writes() -> None:
    (op,) = trace(Sequential(dense(4, 8)), zeros(3, 4)).operators
    assert (op.bytes_read, op.bytes_written) == (4 * (12 + 32 + 8), 4 * 24)


@pytest.mark.parametrize("name", ["mlp", "lenet5"])
def test_the_peak_is_what_numpy_allocates(name: str) -> None:
    """Python's own account of a forward pass, to one part in ten: small objects come on top, padded images too."""
    model = getattr(numpy_networks, name)()
    model.training = False
    inputs = ARCHITECTURES[name].model_inputs(BACKEND, "channels_last", 256)
    memory = BACKEND.trace(model, inputs).memory
    model(*inputs.args)
    tracemalloc.start()
    try:
        model(*inputs.args)
        allocated = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert memory.peak_bytes(include_weights=False) - memory.input_bytes == pytest.approx(allocated, rel=0.1)


def test_an_empty_network_returns_its_input() -> None:
    result = trace(Sequential(), zeros(2, 4))
    assert (result.macs, result.operators, result.memory.peak_bytes()) == (0, (), 32)


def test_a_failure_leaves_the_layers() -> None:
    model = Sequential(dense(4, 8), activation())
    result = BACKEND.trace(model, ModelInputs(zeros(1, 5)))
    assert isinstance(result.failure, ModelFailedError)
    assert "it was called with ModelInputs(ndarray(1, 5)), do these inputs fit it?" in str(result.failure)
    assert [layer.type for layer in result.layers] == ["Sequential", "Dense", "Activation"]
    assert (result.total_params, result.operators) == (40, ())
    assert result.layers == BACKEND.trace(model, None).layers
    missing = BACKEND.trace(model, ModelInputs())
    assert "missing 1 required positional argument: 'x'" in str(missing.failure)
    assert BACKEND.trace(model, ModelInputs(x=zeros(1, 4))).macs == 32
