"""The closed forms are right, the frameworks build what they are of, and find the same table row by row.

That each backend finds the closed forms is in the files of the backends: they run `profilerkit.testing`'s suite.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from profilerkit.testing.architectures import ARCHITECTURES, Architecture, layer_numbers

#: The frameworks, and the module here that builds the architectures in each.
BUILT_BY = {"torch": "torch_architectures", "tensorflow": "keras_architectures"}

#: Parameters, MACs and FLOPs beside the multiply-accumulates' for one sample, worked out by hand from the descriptions.
BY_HAND = {
    "mlp": (
        (20 + 1) * 32 + (32 + 1) * 16 + (16 + 1) * 10,
        20 * 32 + 32 * 16 + 16 * 10,
        (32 + 32) + (16 + 16) + 10,
    ),
    "lenet5": (
        61_706,  # as published: 156 + 2,416 + 48,120 + 10,164 + 850
        28 * 28 * 6 * 25 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10,
        3 * 28 * 28 * 6 + 3 * 10 * 10 * 16 + 2 * 120 + 2 * 84 + 10,  # bias, tanh, pooling; then biases and tanh
    ),
    "depthwise_cnn": (
        8 * (27 + 1) + 8 * 9 + 2 * 8 + 24 * (8 + 1) + 10 * (24 + 1),
        192 * 8 * 27 + 48 * 8 * 9 + 48 * 24 * 8 + 24 * 10,
        192 * 8 * (1 + 2) + 48 * 8 * (2 + 2) + 48 * 24 * (1 + 2) + 48 * 24 + 10,
    ),
    "residual_cnn": (
        8 * 27 + 2 * 8 + (8 * 72 + 2 * 8) + 10 * (8 + 1),
        120 * 8 * 27 + 2 * 120 * 8 * 72 + 8 * 10,
        960 * 2 + 2 * 960 * (2 + 1 + 1) + 960 + 10,  # the block: norm, ReLU, sum
    ),
    "lstm": (4 * 12 * (5 + 12) + 10 * (12 + 1), 7 * 4 * 12 * 17 + 120, 7 * 12 * 13 + 10),
    "gru": (3 * 12 * (5 + 12 + 2) + 10 * (12 + 1), 7 * 3 * 12 * 17 + 120, 7 * (72 + 12 * 11) + 10),
    "transformer_encoder": (
        6 * 16 + 2 * (4 * 16 * 17 + 2 * 32 + 17 * 40 + 41 * 16) + 32 + 10 * (16 + 1),
        2 * 6 * (4 * 256 + 2 * 6 * 16 + 2 * 16 * 40) + 160,
        96 + 2 * (4 * 96 + 6 * 4 * 36 + 2 * 7 * 96 + 240 + 5 * 240 + 96 + 2 * 96) + 7 * 96 + 96 + 10,
    ),
    "embedding_classifier": (50 * 16 + 10 * (16 + 1), 16 * 10, 9 * 16 + 10),
    "dict_in_and_out": (
        4 * (27 + 1) + 14 * (192 + 1) + 14 * (5 + 1) + 10 * (14 + 1) + (14 + 1),
        48 * 4 * 27 + 192 * 14 + 5 * 14 + 14 * 10 + 14,
        2 * 192 + 14 + 14 + 14 + 10 + 1,  # bias and ReLU; features, meta, their sum; scores, value
    ),
}


@pytest.fixture(params=list(BUILT_BY))
def framework(request: pytest.FixtureRequest) -> Any:
    """The module that builds the architectures in a framework that is there."""
    pytest.importorskip(request.param)
    return import_module(BUILT_BY[request.param])


@pytest.fixture(params=list(ARCHITECTURES))
def architecture(request: pytest.FixtureRequest) -> Architecture:
    return ARCHITECTURES[request.param]


def test_the_closed_forms_are_what_is_worked_out_by_hand(architecture: Architecture) -> None:
    params, macs, further = BY_HAND[architecture.name]
    assert (architecture.params, architecture.macs(), architecture.flops()) == (params, macs, 2 * macs + further)


def test_the_largest_activations_are_what_is_worked_out_by_hand() -> None:
    """A hidden layer, a feature map, what the feed-forward layers hand on, the embedded words."""
    assert {name: architecture.largest_activation for name, architecture in ARCHITECTURES.items()} == {
        "mlp": 32,
        "lenet5": 28 * 28 * 6,
        "depthwise_cnn": 16 * 12 * 8,
        "residual_cnn": 12 * 10 * 8,
        "lstm": 12,
        "gru": 12,
        "transformer_encoder": 6 * 40,
        "embedding_classifier": 9 * 16,
        "dict_in_and_out": 8 * 6 * 4,
    }


def test_the_frameworks_build_what_is_described(framework: Any, architecture: Architecture) -> None:
    """No backend is asked: the framework itself counts the weights."""
    assert framework.count_weights(framework.build(architecture.name)) == (architecture.params, architecture.statistics)


def test_all_frameworks_have_the_same_table_row_by_row(architecture: Architecture) -> None:
    """Equal in all columns; of the parameters, the ones of the layer itself that training changes."""
    tables = []
    for name, module in BUILT_BY.items():
        pytest.importorskip(name)
        framework = import_module(module)
        backend = framework.backend()
        inputs = architecture.model_inputs(backend, framework.DATA_FORMAT, 3)
        trace = backend.trace(framework.build(architecture.name), inputs)
        trained = [sum(weight.count for weight in layer.parameters if weight.trainable) for layer in trace.layers]
        rows = zip(layer_numbers(trace.table, framework.KINDS), trained, strict=True)
        tables.append([row._replace(params=params) for row, params in rows])
    assert len(tables) == len(BUILT_BY)
    for one, *others in zip(*tables, strict=True):
        assert [one] * len(others) == others
