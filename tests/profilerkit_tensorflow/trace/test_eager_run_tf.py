"""Models that cannot be traced: counted in one eager run, and said to be."""

from __future__ import annotations

import weakref
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from profilerkit import Completeness, ModelInputs, ModelTrace, profile
from profilerkit_tensorflow import TFBackend


class DataDependent(keras.Model):  # type: ignore[misc]
    """Runs its second layer as often as the sum of its input says, which no graph can."""

    def __init__(self) -> None:
        super().__init__()
        self.first = keras.layers.Dense(4)
        self.norm = keras.layers.LayerNormalization()
        self.second = keras.layers.Dense(4, use_bias=False)

    def call(self, x: Any) -> Any:
        times = int(tf.reduce_sum(x).numpy())
        x = self.norm(self.first(x))
        for _ in range(times):
            x = self.second(x)
        return x


def trace_model(model: Any, x: Any) -> ModelTrace:
    return TFBackend().trace(model, ModelInputs(x))


def test_the_numbers_are_those_of_these_inputs() -> None:
    model = DataDependent()
    model(tf.ones((1, 3)))
    for rows in (1, 2):
        found = trace_model(model, tf.ones((rows, 3)))
        assert found.failure is None
        assert found.missing == ()
        assert found.macs == rows * 3 * 4 + 3 * rows * (rows * 4 * 4)
        norm = found.table["norm"]
        assert (norm["flops"], norm["macs"]) == (7 * rows * 4, 0)
        assert found.table["second"]["calls"] == 3 * rows


def is_positive(x: Any) -> bool:
    return bool(np.asarray(x).sum() > 0)


def functions() -> dict[str, Any]:
    """Return functions that ask numpy for values, with a weight of 4 x 4 that each finds in another way."""
    weight = tf.Variable(tf.ones((4, 4)))
    dense = keras.layers.Dense(4, use_bias=False)
    dense.build((None, 4))
    inner = tf.function(lambda x: x @ weight)
    module = tf.Module()
    module.weight = weight

    found: dict[str, Any] = {
        "closure": lambda x: x @ weight if is_positive(x) else x,
        "function": lambda x: inner(x) if is_positive(x) else x,
        "layer": lambda x: dense(x) if is_positive(x) else x,
        "module": lambda x: x @ module.weight if is_positive(x) else x,
    }
    return {**found, "tf.function": tf.function(found["closure"])}


@pytest.mark.parametrize("name", functions())
def test_a_function_has_the_variables_that_it_read(name: str) -> None:
    """Two rows: 2 x 4 x 4 products; the weight, the input and the result have 4 bytes an element."""
    found = trace_model(functions()[name], tf.ones((2, 4)))
    assert (found.method, found.macs) == ("an eager run", 2 * 4 * 4)
    assert (found.total_params, found.trainable_params) == (16, 16)
    assert (found.memory.weight_bytes, found.unmade_weights) == (4 * 16, "")


def test_a_variable_to_which_no_code_leads_is_said() -> None:
    weight = tf.Variable(tf.ones((4, 4)))
    hidden = weakref.ref(weight)
    model = lambda x: x @ hidden() if is_positive(x) else x  # noqa: E731
    report = profile(model, tf.ones((2, 4)), backend="tensorflow", metrics=["total_params", "memory_footprint"])
    total, memory = report.statuses["total_params"], report.statuses["memory_footprint"]
    assert total.value is None
    assert "1 variable to which the function's code does not lead" in total.missing[0]
    assert (memory.completeness, memory.missing) == (Completeness.PARTIAL, ("ReadVariableOp of unknown size (1 call)",))


def test_it_is_said_how_it_was_counted() -> None:
    model = DataDependent()
    model(tf.ones((1, 3)))
    found = trace_model(model, tf.ones((1, 3)))
    assert found.method == "an eager run"
    assert "one eager run" in found.notes[0]
    assert "cannot be traced as a graph (AttributeError: 'SymbolicTensor' object has no attribute" in found.notes[0]


def test_an_unbuilt_one_is_unbuilt_again_afterwards() -> None:
    model = DataDependent()
    found = trace_model(model, tf.ones((1, 3)))
    assert found.total_params == (3 * 4 + 4) + 2 * 4 + 4 * 4
    assert not model.built
    assert model.weights == []


def test_the_bytes_alive_are_those_of_the_same_graph() -> None:
    """The input, the first result, which is returned, and one in whose place each of the others is: 4 kB each."""

    def chain(x: Any) -> Any:
        first = x = tf.exp(x)
        for _ in range(3):
            x = tf.exp(tf.reshape(x, (512, 2)))
        return first, x

    def eager_chain(x: Any) -> Any:
        assert tf.executing_eagerly()  # which keeps it from being traced
        return chain(x)

    found, graph = trace_model(eager_chain, tf.zeros((1024,))), trace_model(chain, tf.zeros((1024,)))
    assert [op.operator for op in found.operators] == ["Exp"] * 4
    assert (found.method, graph.method) == ("an eager run", "a traced graph")
    assert found.memory.input_bytes == graph.memory.input_bytes == 4096
    assert list(found.memory.live_bytes) == list(graph.memory.live_bytes) == [8192, 12288, 12288, 12288]


def test_functions_inside_run_operator_by_operator() -> None:
    inner = tf.function(lambda x: x @ x)

    def outer(x: Any) -> Any:
        assert tf.executing_eagerly()
        return inner(x)

    found = trace_model(outer, tf.ones((5, 5)))
    assert found.macs == 5 * 5 * 5
    assert not tf.config.functions_run_eagerly()


def test_an_operator_without_a_formula_is_named() -> None:
    def strange(x: Any) -> Any:
        assert tf.executing_eagerly()
        return tf.image.rgb_to_hsv(x)

    found = trace_model(strange, tf.ones((2, 3)))
    assert found.missing == ("RGBToHSV (1 call)",)


def test_a_model_that_raises_both_ways_has_failed() -> None:
    def broken(x: Any) -> Any:
        raise ValueError("never works")

    found = trace_model(broken, tf.ones((1,)))
    assert "never works" in str(found.failure)


def test_the_padding_of_a_dilated_convolution_does_not_count() -> None:
    """5 x 5 outputs of 3 channels, 3 x 3 each: TensorFlow makes 6 x 6 of them and crops."""
    layer = keras.layers.DepthwiseConv2D(3, dilation_rate=2, use_bias=False)
    layer.build((None, 9, 9, 3))

    def model(x: Any) -> Any:
        assert tf.executing_eagerly()
        return layer(x)

    assert trace_model(model, tf.ones((1, 9, 9, 3))).macs == 5 * 5 * 3 * 9


@pytest.mark.parametrize(
    ("read", "images"),
    [
        (tf.exp, 36),
        (lambda convolved: convolved, 36),
        (lambda convolved: tf.exp(tf.reshape(convolved, (-1,))), 36),
        (tf.shape, 25),
    ],
    ids=["itself", "returned", "a view", "its shape"],
)
def test_padding_that_something_else_reads_counts(read: Any, images: int) -> None:
    """Of 6 x 6 outputs of 2 channels, 3 x 3 products each, 5 x 5 are left; all are needed if their numbers are read."""
    blocks, paddings, kernel = tf.constant([2, 2]), tf.constant([[0, 1], [0, 1]]), tf.ones((3, 3, 1, 2))

    def model(x: Any) -> Any:
        assert tf.executing_eagerly()
        convolved = tf.nn.conv2d(tf.space_to_batch(x, blocks, paddings), kernel, 1, "VALID")
        return tf.batch_to_space(convolved, blocks, paddings), read(convolved)

    found = trace_model(model, tf.ones((1, 9, 9, 1)))
    assert (found.method, found.macs) == ("an eager run", images * 2 * 9)


def test_a_dilated_convolution_of_no_images_does_no_work() -> None:
    blocks, nothing, kernel = tf.constant([2, 2]), tf.zeros((2, 2), tf.int32), tf.ones((3, 3, 1, 2))

    def model(x: Any) -> Any:
        assert tf.executing_eagerly()
        convolved = tf.nn.conv2d(tf.space_to_batch(x, blocks, nothing), kernel, 1, "SAME")
        return tf.batch_to_space(convolved, blocks, nothing)

    found = trace_model(model, tf.ones((0, 8, 8, 1)))
    assert (found.failure, found.macs, found.missing) == (None, 0, ())


def test_an_error_of_ours_is_not_said_to_be_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Any) -> ModelTrace:
        raise AttributeError("a mistake in the walk")

    monkeypatch.setattr("profilerkit_tensorflow.trace.tracing.trace_of_program", broken)
    with pytest.raises(AttributeError, match="a mistake in the walk"):
        trace_model(lambda x: x, tf.ones((1,)))


def run_eagerly(function: Any, *inputs: Any) -> ModelTrace:
    """The trace of a function that cannot be traced."""

    def reading(*given: Any) -> Any:
        assert tf.executing_eagerly()
        return function(*given)

    found = TFBackend().trace(reading, ModelInputs(*inputs))
    assert found.method == "an eager run"
    assert found.missing == ()
    return found


@pytest.mark.parametrize(
    "function",
    [lambda x, w: x * w, lambda x, w: tf.add_n([x, w]), lambda x, w: tf.tanh(w), lambda x, w: x + w.read_value()],
)
def test_a_variable_that_the_operator_itself_reads_is_a_weight(function: Any) -> None:
    """The code in C of an operator that is given a variable reads it, and shows no operator for that."""
    weight = tf.Variable(tf.ones((4, 4)))

    def model(x: Any) -> Any:
        assert tf.executing_eagerly()
        return function(x, weight)

    found = TFBackend().trace(model, ModelInputs(tf.ones((4, 4))))
    assert (found.method, found.missing) == ("an eager run", ())
    assert [parameter.count for parameter in found.layers[0].parameters] == [16]
    assert found.memory.weight_bytes == 64
    assert (found.macs, found.flops) == (0, 16)


@pytest.mark.parametrize(
    ("factor", "flops"), [(lambda given, held: given, 6), (lambda given, held: held, 6), (lambda given, held: 1.0, 0)]
)
@pytest.mark.parametrize("run", [run_eagerly, lambda *call: TFBackend().trace(call[0], ModelInputs(*call[1:]))])
def test_only_a_constant_of_the_code_makes_a_product_free(run: Any, factor: Any, flops: int) -> None:
    """A factor of 1 that is an input, or a weight, may be another number in the next run."""
    held = tf.Variable(1.0)
    assert run(lambda x, given: x * factor(given, held), tf.ones((2, 3)), tf.ones(())).flops == flops


@pytest.mark.parametrize(
    ("lookup", "kind"),
    [
        (tf.nn.embedding_lookup, "ResourceGather"),
        (lambda table, words: tf.gather_nd(table, words[:, None]), "ResourceGatherNd"),
    ],
)
@pytest.mark.parametrize("is_eager", [True, False])
def test_what_looks_words_up_reads_the_table(lookup: Any, kind: str, is_eager: bool) -> None:
    """As in PyTorch, and where the table is read before: the bytes of what it is given, and of the whole table."""
    table, words = tf.Variable(tf.ones((100, 8))), tf.zeros((5,), tf.int64)

    def model(given: Any) -> Any:
        assert tf.executing_eagerly() or not is_eager
        return lookup(table, given)

    found = TFBackend().trace(model, ModelInputs(words))
    (read,) = [op.bytes_read for op in found.operators if op.operator == kind]
    assert (found.method == "an eager run", read) == (is_eager, 100 * 8 * 4 + 5 * 8)
    assert found.total_params == 100 * 8


def test_the_copy_in_which_an_einsum_transposes_takes_memory() -> None:
    """Two inputs of 24 and 40 floats; the product is made in the order b, i, k of 30 floats, and copied to b, k, i."""

    def model(x: Any, y: Any) -> Any:
        float(tf.reduce_sum(x).numpy())
        return tf.einsum("bij,bkj->bki", x, y)

    found = TFBackend().trace(model, ModelInputs(tf.ones((2, 3, 4)), tf.ones((2, 5, 4))))
    einsum = [op.operator for op in found.operators].index("Einsum")
    assert (found.method, found.memory.live_bytes[einsum]) == ("an eager run", 4 * (24 + 40 + 30 + 30))


def test_of_a_sparse_input_what_is_stored_takes_memory() -> None:
    matrix = tf.sparse.from_dense(tf.eye(100))

    found = run_eagerly(lambda x: tf.sparse.sparse_dense_matmul(x, tf.ones((100, 4))), matrix)
    assert found.macs == 100 * 4
    assert found.memory.input_bytes == 100 * 4 + 100 * 2 * 8 + 2 * 8  # values, indices, sizes
