"""Every backend finds the same numbers in the shared architectures: those of their closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from profilerkit import ModelTrace, profile
from profilerkit.architectures import ARCHITECTURES, Architecture, layer_numbers

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


@cache
def traced(framework: Any, name: str, batch_size: int) -> ModelTrace:
    """Trace an architecture, which must neither fail nor leave anything uncounted."""
    backend = framework.backend()
    inputs = ARCHITECTURES[name].model_inputs(backend, framework.DATA_FORMAT, batch_size)
    found: ModelTrace = backend.trace(framework.build(name), inputs)
    assert found.failure is None, found.failure
    assert found.missing == ()
    return found


def total_params(framework: Any, architecture: Architecture) -> int:
    """Return all parameters as the framework has them: in Keras, a batch norm's statistics are some of them."""
    return architecture.params + (architecture.statistics if framework.STATISTICS_ARE_PARAMETERS else 0)


def shapes_of(outputs: Any) -> dict[int | str, tuple[int, ...]]:
    named = outputs if isinstance(outputs, Mapping) else {0: outputs}
    return {key: tuple(output.shape) for key, output in named.items()}


def test_the_closed_forms_are_what_is_worked_out_by_hand(architecture: Architecture) -> None:
    params, macs, further = BY_HAND[architecture.name]
    assert (architecture.params, architecture.macs(), architecture.flops()) == (params, macs, 2 * macs + further)


def test_the_frameworks_build_what_is_described(framework: Any, architecture: Architecture) -> None:
    """No backend is asked: the model runs, returns what it should, and has the weights it should."""
    import numpy as np

    from profilerkit import ModelInputs

    model = framework.build(architecture.name)
    specs = ModelInputs.of(architecture.input_shape(framework.DATA_FORMAT))
    inputs = specs.map(lambda spec: framework.tensor(np.zeros((3, *spec.shape), spec.dtype)))
    assert shapes_of(framework.run(model, inputs)) == {key: (3, *shape) for key, shape in architecture.outputs.items()}
    assert framework.weights_of(model) == (architecture.params, architecture.statistics)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_numbers_are_the_closed_forms(framework: Any, architecture: Architecture, batch_size: int) -> None:
    found = traced(framework, architecture.name, batch_size)
    assert (found.total_params, found.trainable_params) == (total_params(framework, architecture), architecture.params)
    assert (found.macs, found.flops) == (batch_size * architecture.macs(), batch_size * architecture.flops())
    assert (sum(row["own_macs"] for row in found.table), sum(row["own_flops"] for row in found.table)) == (
        found.macs,
        found.flops,
    )


@pytest.mark.parametrize("batch_size", [1, 3])
def test_every_row_of_the_layer_table_is_the_closed_form(
    framework: Any, architecture: Architecture, batch_size: int
) -> None:
    found = layer_numbers(traced(framework, architecture.name, batch_size).table, framework.KINDS)
    assert [row[:2] for row in found] == list(architecture.layers)
    expected = architecture.layer_numbers(batch_size, with_statistics=framework.STATISTICS_ARE_PARAMETERS)
    for row, closed_form in zip(found, expected, strict=True):
        assert row == closed_form


def test_a_profile_of_shapes_alone_is_complete(framework: Any, architecture: Architecture) -> None:
    report = profile(
        framework.build(architecture.name),
        input_shape=architecture.input_shape(framework.DATA_FORMAT),
        batch_size=3,
        metrics=["total_params", "macs", "flops", "memory_footprint"],
        strict=True,
        backend=framework.backend(),
    )
    found = [report[key] for key in ("total_params", "macs", "flops")]
    assert found == [total_params(framework, architecture), architecture.macs(3), architecture.flops(3)]
    assert report["memory_footprint"] >= 4 * architecture.params
    assert report.batch_size == 3


def test_outputs_have_their_shapes_in_the_trace(framework: Any, architecture: Architecture) -> None:
    root = traced(framework, architecture.name, 3).layers[0]
    expected = sorted((3, *shape) for shape in architecture.outputs.values())
    assert sorted(info.shape for info in root.calls[0].outputs) == expected


def test_all_frameworks_have_the_same_table_row_by_row(architecture: Architecture) -> None:
    """Equal in all columns; of the parameters, the ones of the layer itself that training changes."""
    tables = []
    for name, module in BUILT_BY.items():
        pytest.importorskip(name)
        framework = import_module(module)
        trace = traced(framework, architecture.name, 3)
        trained = [sum(weight.count for weight in layer.parameters if weight.trainable) for layer in trace.layers]
        rows = zip(layer_numbers(trace.table, framework.KINDS), trained, strict=True)
        tables.append([row._replace(params=params) for row, params in rows])
    assert len(tables) == len(BUILT_BY)
    for one, *others in zip(*tables, strict=True):
        assert [one] * len(others) == others
