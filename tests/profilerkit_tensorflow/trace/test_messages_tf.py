"""What is said of inputs that no Keras model takes, of models that raise, and of weights that are not made yet."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from profilerkit import (
    BackendNotFoundError,
    Completeness,
    CostFormulaError,
    InputError,
    ModelFailedError,
    ModelInputs,
    WithoutValuesError,
    profile,
)
from profilerkit.backend import RunOptions
from profilerkit.costs import Cost
from profilerkit.error_text import error_line
from profilerkit.models.loaders import find_loader, load_model
from profilerkit_tensorflow import EvalLossFunction, TFBackend, get_accuracy, get_topk, register_layer_cost
from profilerkit_tensorflow.costs.registry import scoped_costs
from profilerkit_tensorflow.trace.eager_run import run_eagerly
from profilerkit_tensorflow.trace.traced_calls import quietly

BACKEND = TFBackend()


@pytest.fixture(name="images")
def _images() -> Any:
    return keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3)], name="images")


class Broken(keras.Model):  # type: ignore[misc]
    """Has a layer of 3 outputs, and multiplies them by a matrix of 5 rows."""

    def __init__(self) -> None:
        super().__init__(name="broken")
        self.dense = keras.layers.Dense(3, name="narrow")

    def call(self, x: Any) -> Any:
        """Raise."""
        return self.dense(x) @ tf.ones((5, 5))


class Rememberer(keras.Model):  # type: ignore[misc]
    """Keeps its last input."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(2)
        self.last: Any = None

    def call(self, x: Any) -> Any:
        """Keep the input."""
        self.last = x
        return self.dense(x)


def _require_refused(model: Any, example: Any) -> str:
    status = profile(model, example, metrics=["macs"]).status("macs")
    assert (status.completeness, status.value) == (Completeness.FAILED, None)
    for way in ("inputs=", "input_shape=", "data_splits="):
        assert way in status.missing[0]
    return status.missing[0]


@pytest.mark.parametrize("example", [lambda: keras.Input((8, 8, 3)), lambda: tf.TensorSpec((1, 8, 8, 3))])
def test_a_tensor_without_values_is_refused_with_the_shape_to_give(images: Any, example: Any) -> None:
    assert "give input_shape=(8, 8, 3)" in _require_refused(images, (example(),))


def test_a_symbolic_tensor_of_legacy_keras_is_refused(images: Any) -> None:
    legacy = pytest.importorskip("tf_keras")
    assert "give input_shape=(8, 8, 3)" in _require_refused(images, (legacy.Input((8, 8, 3)),))


def test_a_data_set_and_an_iterator_are_referred_to_data_splits(images: Any) -> None:
    dataset = tf.data.Dataset.from_tensor_slices(np.zeros((4, 8, 8, 3), "float32")).batch(2)
    assert "is a data set, not one batch; give it as data_splits={'train': dataset}" in _require_refused(
        images, dataset
    )
    assert "is an iterator, not one batch; give data_splits=" in _require_refused(images, iter([1]))


def test_a_shape_given_as_inputs_is_referred_to_input_shape(images: Any) -> None:
    assert "if this is a shape, give it as input_shape=" in _require_refused(images, (1, 8, 8, 3))
    status = profile(images, (1, 8, 8, 3), batch_size=2, metrics=["macs"]).status("macs")
    assert "if this is a shape, give it as input_shape=" in status.missing[0]


def test_nested_lists_of_numbers_are_referred_to_numpy(images: Any) -> None:
    assert "inputs of 192 Python numbers are no tensors; give a numpy array" in _require_refused(
        images, np.zeros((1, 8, 8, 3)).tolist()
    )


def test_a_number_beside_a_tensor_is_left_to_the_model(images: Any) -> None:
    given = ModelInputs(tf.ones((1, 8, 8, 3)), 3)
    assert BACKEND.fit_inputs(images, given) is given


def test_an_eager_run_without_operators_is_a_failure_not_zeros(images: Any) -> None:
    assert run_eagerly(images, ModelInputs(keras.Input((8, 8, 3)))).did_nothing
    assert not run_eagerly(images, ModelInputs(tf.ones((1, 8, 8, 3)))).did_nothing
    found = BACKEND.trace(images, ModelInputs(keras.Input((8, 8, 3))))
    assert isinstance(found.failure, ModelFailedError)
    assert found.operators == ()


def test_weights_that_the_first_call_makes_are_not_counted_as_none() -> None:
    model = keras.Sequential([keras.layers.Dense(3, name="first"), keras.layers.ReLU()])
    found = profile(model, metrics=["total_params", "trainable_params", "model_size"])
    for name in ("total_params", "trainable_params", "model_size"):
        outcome = found.status(name)
        assert (outcome.completeness, outcome.value) == (Completeness.FAILED, None)
        assert "the weights of first, which the first call makes: give inputs or input_shape" in outcome.missing[0]
    with pytest.raises(WithoutValuesError, match="the first call makes"):
        profile(model, metrics=["total_params"], strict=True)
    counted = profile(model, input_shape=(2,), metrics=["total_params"])
    assert counted["total_params"] == 2 * 3 + 3


def test_weights_of_layers_that_are_built_are_a_lower_bound_beside_those_that_are_not() -> None:
    model = keras.Sequential([keras.layers.Dense(3, name="made"), keras.layers.Dense(4, name="unmade")])
    model.layers[0].build((None, 2))
    outcome = profile(model, metrics=["total_params"]).status("total_params")
    assert (outcome.completeness, outcome.value) == (Completeness.PARTIAL, 2 * 3 + 3)
    assert outcome.missing == ("the weights of unmade, which the first call makes: give inputs or input_shape",)


def test_built_and_weightless_models_count_no_missing_weights(images: Any) -> None:
    assert profile(images, metrics=["total_params"])["total_params"] == 3 * 3 * 3 * 4 + 4
    weightless = keras.Sequential([keras.layers.Flatten(), keras.layers.ReLU()])
    assert profile(weightless, metrics=["total_params"], strict=True)["total_params"] == 0


def test_an_unbuilt_model_whose_call_raises_is_a_failure_in_every_metric() -> None:
    found = profile(Broken(), np.ones((2, 4), "float32"), metrics=["total_params", "execution_time"], max_seconds=0.1)
    for name in ("total_params", "execution_time"):
        assert found.status(name).completeness is Completeness.FAILED, name
        assert "Dimensions must be equal, but are 3 and 5" in found.status(name).missing[0]


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_a_failure_is_one_readable_line_with_the_cause_chained(mode: str) -> None:
    model = Broken()
    model.dense.build((None, 4))
    model.built = True
    with (
        pytest.raises(ModelFailedError) as raised,
        BACKEND.run(model, ModelInputs(tf.ones((2, 4))), RunOptions(mode=mode)),
    ):
        pass
    said = str(raised.value)
    assert said.startswith("the model raised ")
    assert "Matrix size-incompatible" in said or "Dimensions must be equal, but are 3 and 5" in said
    assert not any(
        noise in said for noise in ("\n", "\x1b", "Arguments received", "in user code", "{{", "Exception enc")
    )
    assert raised.value.__cause__ is not None


def test_layer_times_of_a_model_that_raises_say_so_in_a_line() -> None:
    with pytest.raises(ModelFailedError, match="Dimensions must be equal, but are 3 and 5") as raised:
        BACKEND.layer_times(Broken(), ModelInputs(tf.ones((2, 4))))
    assert "\n" not in str(raised.value)


def test_what_wraps_a_message_is_left_out() -> None:
    keras_3 = (
        "Exception encountered when calling A.call().\n\n\x1b[1m{{function_node __wrapped__MatMul}} Matrix sizes: "
        "[2,3], [5,5] [Op:MatMul] name: \x1b[0m\n\nArguments received by A.call():\n  • x=tf.Tensor([[1. 2.]])"
    )
    assert error_line(ValueError(keras_3)) == "Matrix sizes: [2,3], [5,5]"
    converted = (
        'in user code:\n\n    File "a.py", line 17, in g  *\n        return b(x)\n'
        '    File "t.py", line 70, in handler  **\n'
        "        raise e\n\n    ValueError: Exception encountered when calling layer 'b' (type B).\n    \n"
        '    in user code:\n    \n        File "a.py", line 11, in call  *\n            return x\n    \n'
        "        ValueError: two\n        lines\n    \n    Call arguments received by layer 'b' (type B):\n"
        "      • x=3\n"
    )
    assert error_line(ValueError(converted)) == "two lines"
    assert error_line(ValueError("input [[1. 1.]\n [2. 2.]] with rank 2")) == "input [...] with rank 2"
    in_a_graph = (
        'Graph execution error:\n\nDetected at node a/Assert defined at (most recent call last):\n  File "p.py", line 6'
        '\n\n  File "p.py", line 3, in f\n\nassertion failed: [too much]\n\t [[{{node a/Assert}}]] [Op:__f_41]'
    )
    assert error_line(ValueError(in_a_graph)) == "assertion failed: [too much]"
    compiling = (
        "Detected unsupported operations: X (node {{node X}}){{node X}}\nThe op is created at: \nFile p.py, line 1"
    )
    assert error_line(ValueError(compiling)) == "Detected unsupported operations: X (node X)"
    assert error_line(ValueError("in user code:")) == "in user code:"
    assert error_line(ValueError()) == ""
    assert len(error_line(ValueError("x" * 1000))) == 400


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((8, 8, 3), "it takes (None, 8, 8, 3), and got (8, 8, 3): the batch dimension is missing"),
        ((1, 1, 8, 8, 3), "it takes (None, 8, 8, 3), and got (1, 1, 8, 8, 3): there is one dimension too many"),
    ],
)
def test_a_missing_batch_dimension_is_named(images: Any, shape: tuple[int, ...], said: str) -> None:
    assert said in str(BACKEND.trace(images, ModelInputs(tf.ones(shape))).failure)


@pytest.mark.parametrize(
    "evaluated", [get_accuracy, get_topk(topk=[1]), EvalLossFunction(lambda output, target: tf.reduce_mean(output))]
)
def test_an_evaluation_called_directly_leaves_nothing_on_the_model(evaluated: Any) -> None:
    model, batch = Rememberer(), np.ones((4, 8), "float32")
    model(batch)
    before = model.last
    evaluated(model, [(batch, np.zeros(4, int))])
    assert model.last is before


def test_a_path_without_a_backend_says_to_name_one() -> None:
    for path in ("m.keras", Path("m.keras")):
        with pytest.raises(
            BackendNotFoundError, match=r"'m\.keras'.* or give backend=\.\.\., such as backend='tensorflow'"
        ):
            profile(path, np.ones((1, 2)))


def test_the_command_line_loads_keras_files_and_saved_models(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.save(tmp_path / "model.keras")
    tf.saved_model.save(tf.Module(), str(tmp_path / "saved"))
    assert load_model(str(tmp_path / "model.keras")).count_params() == 4 * 3 + 3
    assert find_loader(str(tmp_path / "saved")).item.name == "tensorflow"
    assert type(load_model(str(tmp_path / "saved"))).__module__ == "tensorflow.python.saved_model.load"
    with pytest.raises(InputError, match="does not exist"):
        load_model(str(tmp_path / "nowhere.keras"))
    with pytest.raises(InputError, match="the folder .* holds no model that can be loaded"):
        find_loader(str(tmp_path))


def test_profiling_by_predict_again_and_again_does_not_warn(images: Any, caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("tensorflow")
    before, log.propagate = log.propagate, True
    try:
        for _ in range(7):
            with BACKEND.run(images, ModelInputs(tf.ones((1, 8, 8, 3))), RunOptions(mode="predict")) as run:
                run()
    finally:
        log.propagate = before
    assert not [record for record in caplog.records if "retracing" in record.getMessage()]


class Scaled(keras.layers.Layer):  # type: ignore[misc]
    """Multiplies its input by 3."""

    def call(self, x: Any) -> Any:
        """Multiply."""
        return x * 3.0


def test_a_formula_of_a_layer_that_raises_is_blamed_itself() -> None:
    def fail(layer: Any, inputs: Any, outputs: Any, training: bool) -> Cost:
        return Cost(0, inputs[1].numel)

    with scoped_costs():
        register_layer_cost(Scaled, fail)
        trace = BACKEND.trace(keras.Sequential([keras.Input((3,)), Scaled()]), ModelInputs(tf.ones((2, 3))))
    assert isinstance(trace.failure, CostFormulaError)
    assert str(trace.failure).startswith("the cost formula of layer Scaled raised IndexError")


@pytest.mark.parametrize(("cost", "flops"), [(Cost(0, 5), 5), (None, 2 * 3)], ids=["its own", "of its operators"])
def test_a_formula_of_a_layer_is_called_once_for_each_call(cost: Cost | None, flops: int) -> None:
    calls = []

    def note(layer: Any, inputs: Any, outputs: Any, training: bool) -> Cost | None:
        calls.append(inputs)
        return cost

    with scoped_costs():
        register_layer_cost(Scaled, note)
        trace = BACKEND.trace(keras.Sequential([keras.Input((3,)), Scaled()]), ModelInputs(tf.ones((2, 3))))
    assert (trace.flops, calls) == (flops, [((2, 3),)])


@pytest.mark.parametrize(("level", "inside"), [(logging.INFO, logging.ERROR), (logging.CRITICAL, logging.CRITICAL)])
def test_a_trace_logs_nothing_that_the_user_has_switched_off(level: int, inside: int) -> None:
    log = logging.getLogger("tensorflow")
    before = log.level
    log.setLevel(level)
    try:
        with quietly():
            assert log.level == inside
        assert log.level == level
    finally:
        log.setLevel(before)


class Narrow(keras.layers.Layer):  # type: ignore[misc]
    """Multiplies four features by a square matrix for five."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(4)
        self.matrix = self.add_weight(shape=(5, 5))

    def call(self, x: Any) -> Any:
        """Return the product."""
        return tf.matmul(self.dense(x), self.matrix)


class NarrowModule(tf.Module):  # type: ignore[misc]
    """The same as a module, which TensorFlow rewrites: the error that it raises is another then."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = tf.Variable(tf.ones((5, 5)))

    def __call__(self, x: Any) -> Any:
        """Return the product."""
        return tf.matmul(x, self.matrix)


class AroundModule(tf.Module):  # type: ignore[misc]
    """Has a module inside."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = NarrowModule()

    def __call__(self, x: Any) -> Any:
        """Return what the module inside returns."""
        return self.inside(x)


class AroundLayer(keras.Model):  # type: ignore[misc]
    """Has a layer inside that is not built."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = Narrow()

    def call(self, x: Any) -> Any:
        """Return what the layer inside returns."""
        return self.inside(x)


@pytest.mark.parametrize("make", [AroundLayer, AroundModule], ids=["unbuilt", "module"])
def test_the_layer_that_does_not_fit_is_named(make: Any) -> None:
    (missing,) = profile(make(), tf.ones((2, 4)), metrics=["macs"]).status("macs").missing
    assert "in layer inside; it was called with" in missing
