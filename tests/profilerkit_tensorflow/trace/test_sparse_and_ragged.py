"""Operators over sparse and ragged tensors: what they multiply and add is counted, or it is named as not counted.

A sparse matrix of ``n`` values times a dense one of ``c`` columns takes ``n * c`` multiply-accumulates, however it is
spelt; all numbers by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from small import ones, trace

from profilerkit_tensorflow.costs import OpCall, Shapes, op_cost

#: Four values in a (4, 6) matrix, and dense ones of five columns and rows.
SPARSE = tf.sparse.from_dense(tf.eye(4, 6))
RIGHT, LEFT = ones(6, 5), ones(5, 4)
#: Two rows that look up two and one of six rows, each with a weight.
IDS = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 2, 3], tf.int64), [2, 2])
WEIGHTS = tf.SparseTensor(IDS.indices, tf.constant([1.0, 2.0, 3.0]), IDS.dense_shape)
#: One and two rows of three numbers.
RAGGED = tf.ragged.constant([[[1.0, 2, 3]], [[1.0, 2, 3], [4, 5, 6]]], ragged_rank=1)


def dense_layer() -> Any:
    layer = keras.layers.Dense(5)
    layer.build((None, 6))
    return layer


def make_lookup(combiner: str, weights: Any = WEIGHTS) -> Callable[[Any], Any]:
    return lambda ids: tf.nn.embedding_lookup_sparse(RIGHT, ids, weights, combiner=combiner)


#: The function, its argument, MACs and FLOPs.
COUNTED: dict[str, tuple[Any, Any, int, int]] = {
    "sparse @ dense": (lambda x: tf.sparse.sparse_dense_matmul(x, RIGHT), SPARSE, 4 * 5, 2 * 4 * 5),
    "dense @ sparse": (lambda x: tf.sparse.sparse_dense_matmul(LEFT, x), SPARSE, 4 * 5, 2 * 4 * 5),
    "Keras, sparse @ dense": (lambda x: keras.ops.matmul(x, RIGHT), SPARSE, 4 * 5, 2 * 4 * 5),
    "Keras, dense @ sparse": (lambda x: keras.ops.matmul(LEFT, x), SPARSE, 4 * 5, 2 * 4 * 5),
    "Dense": (dense_layer(), SPARSE, 4 * 5, 2 * 4 * 5 + 4 * 5),  # and the bias of four rows
    "a lookup with weights": (make_lookup("sum"), IDS, 3 * 5, 2 * 3 * 5),
    # the three weights are added up for two rows of five, which they divide
    "a mean with weights": (make_lookup("mean"), IDS, 3 * 5, 2 * 3 * 5 + 3 + 2 * 5),
    "a lookup without weights": (make_lookup("sum", None), IDS, 0, 3 * 5),
    "rows of a ragged one": (lambda x: tf.ragged.map_flat_values(tf.matmul, x, ones(3, 5)), RAGGED, 45, 90),
    "ragged, scaled": (lambda x: x.with_values(x.values * 2.0), RAGGED, 0, 9),
    "sparse, scaled": (lambda x: x * ones(4, 6), SPARSE, 0, 4),
}


@pytest.mark.parametrize("case", COUNTED)
def test_products_of_sparse_and_ragged_tensors_count_however_they_are_spelt(case: str) -> None:
    function, argument, macs, flops = COUNTED[case]
    found = trace(function, argument)
    assert found.failure is None
    assert (found.macs, found.flops, found.missing) == (macs, flops, ())


def test_rows_that_are_weighted_in_a_graph_count_as_in_an_eager_run() -> None:
    """Messages of a graph network: of four edges the rows of eight, weighted, and summed up for each target."""
    rows, sources, targets = ones(3, 8), tf.constant([0, 1, 2, 2]), tf.constant([0, 0, 1, 2])

    def messages(weights: Any) -> Any:
        gathered = tf.gather(rows, sources) * weights[:, None]
        return tf.math.segment_sum(gathered, targets)

    graph = trace(messages, ones(4))
    assert (graph.method, graph.macs, graph.flops) == ("a traced graph", 4 * 8, 2 * 4 * 8)

    def eagerly(weights: Any) -> Any:
        weights.numpy()
        return messages(weights)

    eager = trace(eagerly, ones(4))
    assert (eager.method, eager.macs, eager.flops) == ("an eager run", 4 * 8, 2 * 4 * 8)


def test_a_sum_of_products_that_no_rows_were_gathered_for_is_no_matrix_product() -> None:
    found = trace(lambda x: tf.math.segment_sum(x * 2.0, tf.constant([0, 0, 1, 2])), ones(4, 8))
    assert (found.macs, found.flops) == (0, 2 * 4 * 8)


def test_what_has_no_formula_is_named() -> None:
    product = lambda x: keras.ops.matmul(x, tf.sparse.transpose(x))  # noqa: E731
    assert trace(product, SPARSE).missing == ("SparseMatrixSparseMatMul (1 call)",)
    assert trace(lambda x: tf.sparse.add(x, x), SPARSE).missing == ("SparseAdd (1 call)",)


def is_free(name: str) -> bool:
    """Return whether an operator costs nothing whatever its shapes are."""
    call = OpCall(name, Shapes([None] * 9), Shapes([None] * 9), ("float32",) * 9, ("float32",) * 9)
    try:
        cost = op_cost(call)
    except Exception:  # a formula that reads a shape or a value
        return False
    return cost is not None and cost.macs == cost.flops == 0


def test_no_operator_over_sparse_matrices_that_computes_is_known_to_be_free() -> None:
    """Of all raw operators whose names have these words, those that are free only move, make or choose data."""
    words = ("MatMul", "Matmul", "Add", "Mul", "Softmax", "Cwise", "Reduce", "Segment", "Cholesky", "imum")
    names = [name for name in dir(tf.raw_ops) if any(kind in name for kind in ("Sparse", "Ragged", "CSR"))]
    computing = {name for name in names if any(word in name for word in words)}
    assert {"SparseTensorDenseMatMul", "SparseSegmentSum", "SparseMatrixMatMul"} <= computing
    assert set(filter(is_free, computing)) <= {"AddManySparseToTensorsMap", "AddSparseToTensorsMap"}
    assert is_free("SparseReshape")
