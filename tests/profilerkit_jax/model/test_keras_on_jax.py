"""Keras 3 on JAX is JAX's to profile, and one Keras model has equal rows on JAX, PyTorch and TensorFlow.

Keras' framework is fixed when it is imported, so all of this runs in processes of its own.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
from source_tree import SUPPORT
from time_limits import run_program

pytestmark = pytest.mark.slow

NETWORKS = (
    *("LeNet-5", "ResNeXt", "depthwise and separable", "squeeze and excite", "ConvNeXt", "U-Net", "feature pyramid"),
    *("SimpleRNN", "LSTM", "GRU", "GRU, reset before", "GRU, both ways", "ConvLSTM"),
    *("TextCNN", "encoder and decoder", "grouped queries", "wide and deep"),
    *("masked", "normalizations", "activations", "frozen", "nested"),
)
FRAMEWORKS = ("jax", "torch", "tensorflow")


def environment(framework: str) -> dict[str, str]:
    return {**os.environ, "KERAS_BACKEND": framework, "TF_CPP_MIN_LOG_LEVEL": "3"}


def test_keras_on_jax() -> None:
    pytest.importorskip("keras")
    pytest.importorskip("jax")
    done = run_program(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *map(str, (SUPPORT / "keras_elsewhere.py", SUPPORT / "keras_on_jax.py")),
        ],
        env=environment("jax"),
    )
    assert " passed" in done.stdout


@pytest.fixture(scope="module")
def tables() -> dict[str, dict[str, Any]]:
    """The layer tables of every network on every framework."""
    for needed in ("keras", *FRAMEWORKS):
        pytest.importorskip(needed)
    results = {}
    for framework in FRAMEWORKS:
        command = [sys.executable, str(SUPPORT / "keras_rows.py")]
        done = run_program(command, env=environment(framework))
        results[framework] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("network", NETWORKS)
def test_one_keras_model_has_equal_rows_on_all_frameworks(tables: dict[str, dict[str, Any]], network: str) -> None:
    """Path, type, parameters, MACs and FLOPs of every layer, and the totals of the model."""
    found = {framework: tables[framework][network] for framework in FRAMEWORKS}
    assert {framework: value.pop("backend") for framework, value in found.items()} == {
        name: name for name in FRAMEWORKS
    }
    assert all(difference.pop("complete") for difference in found.values())
    assert len(found["jax"]["rows"]) > 1
    assert found["jax"] == found["tensorflow"]
    assert found["jax"] == found["torch"]


def test_every_network_is_compared(tables: dict[str, dict[str, Any]]) -> None:
    assert set(NETWORKS) == set(tables["jax"])


def test_rows_by_hand(tables: dict[str, dict[str, Any]]) -> None:
    """A batch of two, of 10 steps of 16 numbers: an LSTM of 12 units, a GRU of 6 both ways.

    Attention of 4 heads of 4 among 7 words; a depthwise 3 x 3 that makes two channels of each of three of 16 x 16.
    """
    macs = {
        (network, kind): row
        for network, value in tables["jax"].items()
        for _, kind, *_, row, _ in reversed(value["rows"])  # the first of each kind stays
    }
    assert macs["LSTM", "LSTM"] == 2 * 10 * 4 * 12 * (16 + 12)
    assert macs["GRU, both ways", "Bidirectional"] == 2 * 2 * 10 * 3 * 6 * (16 + 6)
    assert macs["depthwise and separable", "DepthwiseConv2D"] == 2 * 16 * 16 * 6 * 9
    assert macs["encoder and decoder", "MultiHeadAttention"] == 2 * (4 * 7 * 16 * 16 + 2 * 4 * 7 * 7 * 4)
    assert macs["TextCNN", "Embedding"] == 0
