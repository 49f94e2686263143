"""Tensors whose size is not known before the model runs are said; sparse and ragged inputs have the sizes given."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from small import ones, trace_complete

from profilerkit import Completeness, profile
from profilerkit.trace.records import MemoryTimeline
from profilerkit_tensorflow.trace.memory import find_unsized_tensors
from profilerkit_tensorflow.trace.ownership import Owner
from profilerkit_tensorflow.trace.tensor_facts import Tensor
from profilerkit_tensorflow.trace.values import Executed


def masked(x: Any) -> Any:
    """Repeat five times what is positive: how many that are, only the values say."""
    return tf.tile(tf.boolean_mask(x, x > 0), [5])


@pytest.mark.parametrize("metric", ["memory_footprint", "training_memory"])
def test_memory_is_a_lower_bound_where_a_size_is_not_known(metric: str) -> None:
    status = profile(masked, ones(10), metrics=[metric], backend="tensorflow").status(metric)
    assert status.completeness is Completeness.PARTIAL
    assert status.missing == tuple(f"{name} of unknown size (1 call)" for name in ("GatherV2", "Tile", "Where"))
    assert "run as a graph" in status.note
    assert status.value >= 40


@pytest.mark.parametrize("metric", ["memory_footprint", "training_memory"])
def test_memory_is_complete_where_all_sizes_are_known(metric: str) -> None:
    status = profile(lambda x: tf.tile(x, [5]), ones(10), metrics=[metric], backend="tensorflow").status(metric)
    assert (status.completeness, status.missing) == (Completeness.COMPLETE, ())


def test_several_calls_are_counted() -> None:
    assert trace_complete(lambda x: (tf.where(x > 0), tf.where(x > 1)), ones(3)).memory.unsized == {"Where": 2}
    assert MemoryTimeline(unsized={"Where": 2, "Unique": 1}).missing == (
        "Unique of unknown size (1 call)",
        "Where of unknown size (2 calls)",
    )


def run(kind: str, inputs: tuple[int, ...], *outputs: tuple[int, Any, str], times: int = 1) -> Executed:
    """Return an operator that ran."""
    read = [Tensor(number, None, "float32") for number in inputs]
    return Executed(kind, read, [Tensor(*output) for output in outputs], times, Owner("", 0))


def test_what_makes_a_tensor_of_unknown_size() -> None:
    ran = [
        run("Where", (0,), (1, (None, 1), "int64"), times=4),
        run("Squeeze", (1,), (2, (None,), "int64")),  # another name for the same bytes
        run("TensorListReserve", (2,), (3, None, "variant")),
        run("AsString", (2,), (4, (None,), "string")),
        run("Add", (0, 0), (5, (3,), "float32")),
        run("Unique", (0,), (6, (None,), "float32"), (7, (3,), "int32")),
        run("Tile", (2, 0), (8, (None,), "int64")),  # as many dimensions do not make it the same size
        run("BroadcastGradientArgs", (7, 7), (9, (None,), "int32")),  # a few axes
        run("Mul", (9, 2), (10, (0, None), "float32")),  # empty, whatever the other dimension is
    ]
    assert find_unsized_tensors(ran, [Tensor(0, (3,), "float32")]) == {"Where": 4, "Unique": 1, "Tile": 1}


def test_an_input_of_unknown_size_is_said() -> None:
    tensors = [Tensor(0, (), "resource"), Tensor(1, None, "float32"), Tensor(2, (None, 3), "int32")]
    assert find_unsized_tensors([], tensors) == {"input": 2}


def sparse() -> Any:
    """Return a 4 x 5 matrix with 3 values."""
    return tf.sparse.SparseTensor([[0, 0], [1, 2], [3, 1]], [1.0, 2.0, 3.0], (4, 5))


def test_a_sparse_input_has_the_values_it_was_given() -> None:
    dense = ones(5, 8)
    found = trace_complete(lambda matrix: tf.sparse.sparse_dense_matmul(matrix, dense), sparse())
    assert found.macs == 3 * 8  # each value meets a row of 8
    assert found.memory.unsized == {}
    assert found.memory.input_bytes == 3 * 2 * 8 + 3 * 4 + 2 * 8  # indices (int64), values, the shape
    assert found.memory.live_bytes[-1] == found.memory.input_bytes + 4 * 8 * 4


def test_a_sparse_inputs_own_shape_is_known() -> None:
    found = trace_complete(lambda matrix: tf.sparse.to_dense(matrix) @ ones(5, 8), sparse())
    assert found.macs == 4 * 5 * 8


def test_a_ragged_input_has_the_values_it_was_given() -> None:
    rows = tf.ragged.constant([[1.0, 2.0], [3.0]])
    found = trace_complete(lambda ragged: tf.ragged.map_flat_values(lambda v: v[:, None] @ ones(1, 7), ragged), rows)
    assert found.macs == 3 * 7
    assert found.memory.unsized == {}
    assert found.memory.input_bytes == 3 * 4 + 3 * 8  # the values, and where the rows begin and end (int64)


def test_a_sparse_input_beside_a_dense_one() -> None:
    found = trace_complete(lambda dense, matrix: tf.sparse.sparse_dense_matmul(matrix, dense), ones(5, 2), sparse())
    assert found.macs == 3 * 2
