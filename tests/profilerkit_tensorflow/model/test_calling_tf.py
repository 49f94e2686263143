"""Calling a TensorFlow model of any kind in inference mode, with nothing of it changed."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from slow_ones import slow_ones

from profilerkit import InputError, ModelFailedError, ModelInputs, WithoutValuesError, profile
from profilerkit_tensorflow.evaluation import EvalLossFunction, get_accuracy, get_topk
from profilerkit_tensorflow.model.calls import call_model
from profilerkit_tensorflow.running.repeated_calls import RepeatedCall
from profilerkit_tensorflow.untouched.preservation import preserve

SCORES = np.array([[9, 1, 0], [0, 9, 1], [1, 0, 9], [9, 1, 0], [0, 9, 1]], dtype=np.float32)
TARGETS = np.array([0, 1, 2, 1, 0])  # the first three are the highest scores
BATCHES = [(SCORES[:2], TARGETS[:2]), (SCORES[2:4], TARGETS[2:4]), (SCORES[4:], TARGETS[4:])]


def identity(library: Any) -> Any:
    return library.Sequential([library.Input((3,)), library.layers.Activation("linear")])


def save_and_load(model: Any, folder: Path) -> Any:
    tf.saved_model.save(model, str(folder))
    return tf.saved_model.load(str(folder))


@pytest.mark.parametrize("are_named", [False, True], ids=["a list", "a dict"])
def test_several_inputs_of_an_export_of_keras_are_one_structure(are_named: bool, tmp_path: Path) -> None:
    """It is declared in the file, so that nothing needs to be given; given inputs are joined."""
    left, right = keras.Input((8,), name="left"), keras.Input((4,), name="right")
    joined = keras.layers.Concatenate()([left, right])
    inputs: Any = {"left": left, "right": right} if are_named else [left, right]
    keras.Model(inputs, keras.layers.Dense(3)(joined)).export(str(tmp_path / "exported"), verbose=False)
    model = tf.saved_model.load(str(tmp_path / "exported"))
    shapes: Any = {"left": (8,), "right": (4,)} if are_named else [(8,), (4,)]
    for given, batch in ({}, 1), ({"input_shape": shapes}, 1), ({"input_shape": shapes, "batch_size": 5}, 5):
        report = profile(model, metrics=["macs"], **given)
        assert (report["macs"], report.batch_size) == (batch * (8 + 4) * 3, batch)
    tensors = [tf.ones((2, 8)), tf.ones((2, 4))]
    one = dict(zip(("left", "right"), tensors, strict=True)) if are_named else tensors
    for call in ModelInputs(one), (one if are_named else tuple(tensors)):
        assert profile(model, call, metrics=["macs"])["macs"] == 2 * (8 + 4) * 3


class Doubling(keras.layers.Layer):  # type: ignore[misc]
    """Doubles in training, and adds a loss of its own."""

    def call(self, x: Any, training: bool | None = None) -> Any:
        self.add_loss(tf.reduce_sum(x))
        return x * 2 if training else x


def test_every_kind_is_called_in_inference_mode(tmp_path: Path) -> None:
    tf_keras = pytest.importorskip("tf_keras")

    class Flagged(tf.Module):  # type: ignore[misc]
        @tf.function  # type: ignore[untyped-decorator]
        def __call__(self, x: Any, training: bool = True) -> Any:
            return x * 2 if training else x

    class Training(keras.Model):  # type: ignore[misc]
        """Its call takes no ``training``, which reaches the layers all the same."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = Doubling()

        def call(self, x: Any) -> Any:
            return self.layer(x)

    x = tf.ones((2, 3))
    flagged, subclass = Flagged(), Training()
    subclass(x)
    flagged(x, training=True), flagged(x, training=False)
    dropout = tf_keras.Sequential([tf_keras.Input((3,)), tf_keras.layers.Dropout(0.9)])
    layered = keras.Sequential([keras.Input((3,)), Doubling()])
    models = [flagged, save_and_load(flagged, tmp_path / "flagged"), subclass, layered, dropout]
    for model in [*models, lambda x, *, training: flagged(x, training), tf.function(flagged)]:
        assert call_model(model, (x,), {}).numpy().tolist() == x.numpy().tolist()
        assert RepeatedCall(model).run_on(ModelInputs(x)).numpy().tolist() == x.numpy().tolist()
    for model in (flagged, layered):
        assert call_model(model, (x,), {"training": True}).numpy().tolist() == (2 * x).numpy().tolist()


def test_saved_models(tmp_path: Path) -> None:
    tf_keras = pytest.importorskip("tf_keras")
    identity(keras).export(str(tmp_path / "keras"), verbose=False)
    identity(tf_keras).save(str(tmp_path / "legacy"), save_format="tf")
    holder = tf.Module()
    served = tf.function(lambda scores: {"out": scores}, input_signature=[tf.TensorSpec((None, 3), name="scores")])
    tf.saved_model.save(holder, str(tmp_path / "signature"), signatures=served)
    both = tf.function(lambda a, b: {"out": a + b}, input_signature=[tf.TensorSpec((None, 3), name=n) for n in "ab"])
    tf.saved_model.save(holder, str(tmp_path / "two"), signatures=both)
    for name in ("keras", "legacy", "signature"):
        assert get_accuracy(tf.saved_model.load(str(tmp_path / name)), BATCHES) == pytest.approx(60), name
    two = tf.saved_model.load(str(tmp_path / "two"))
    x = tf.ones((1, 3))
    assert call_model(two, (), {"a": x, "b": x})["out"].numpy().tolist() == [[2, 2, 2]]
    with pytest.raises(
        InputError, match="the signature 'serving_default' of the saved model takes its inputs by name: a"
    ):
        call_model(two, (x, x), {})


def test_what_cannot_be_called() -> None:
    with pytest.raises(InputError, match="a Module as the model cannot be called: it has neither"):
        call_model(tf.Module(), (SCORES,), {})


def test_a_model_that_is_not_built_stays_so() -> None:
    model = keras.Sequential([keras.layers.Dense(2)])
    with pytest.raises(WithoutValuesError, match="is not built: its weights have no values yet"):
        get_accuracy(model, BATCHES)
    assert not model.built


def test_float64_inputs_are_cast_as_a_keras_layer_casts_them() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    assert RepeatedCall(model).run_on(ModelInputs(tf.ones((2, 3), tf.float64))).dtype == tf.float32
    assert RepeatedCall(lambda x: x).run_on(ModelInputs(tf.ones((2, 3), tf.float64))).dtype == tf.float64


def test_a_model_is_traced_once_and_sees_training_in_between() -> None:
    traces = itertools.count()  # not a list, which would come back as it was

    class Noted(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            next(traces)
            return x

    model = keras.Sequential([keras.Input((1,)), Noted(), keras.layers.Dense(1, use_bias=False)])
    before = next(traces)
    run, x = RepeatedCall(model), tf.ones((1, 1))
    for weight in (2.0, 3.0):
        model.layers[-1].kernel.assign([[weight]])
        assert float(run.run_on(ModelInputs(x))[0, 0]) == weight
    assert next(traces) - before - 1 == 1


def test_a_keras_model_that_cannot_be_traced_runs_eagerly() -> None:
    class Eager(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return tf.constant(x.numpy()) if hasattr(x, "numpy") else x

    class Model(keras.Model):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return tf.constant(x.numpy())  # a tensor of a graph has none

    model = Model()
    model(SCORES)
    assert get_accuracy(model, BATCHES) == pytest.approx(60)


def test_a_model_that_raises_has_failed_with_its_own_error() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    with pytest.raises(ModelFailedError, match="expected axis -1 of input shape to have value 4") as raised:
        get_accuracy(model, BATCHES)
    assert isinstance(raised.value.__cause__, ValueError)


def rich_model(library: Any) -> Any:
    """A compiled model with all that evaluation could change, trained for a step."""
    layers = library.layers
    model = library.Sequential(
        [
            library.Input((3,)),
            layers.Dense(4, activity_regularizer="l2"),
            layers.BatchNormalization(),
            layers.GaussianNoise(0.5),
            layers.Dropout(0.5),
            layers.Reshape((1, 4)),
            layers.LSTM(4),
            layers.Dense(3),
        ]
    )
    model.compile("adam", library.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(SCORES, TARGETS, batch_size=5, verbose=0)
    model.predict(SCORES, verbose=0)
    model(SCORES)
    return model


def state(model: Any) -> dict[str, Any]:
    variables = [*model.variables, *model.optimizer.variables]
    values = [variable if isinstance(variable, tf.Variable) else variable.value for variable in variables]
    attributes = {name: id(value) for name, value in vars(model).items()}
    layers = [{name: id(value) for name, value in vars(layer).items()} for layer in model.layers]
    return {
        "values": [value.numpy().tolist() for value in values],
        "objects": [id(variable) for variable in variables],
        "losses": [(id(loss), float(loss)) for loss in model.losses],
        "attributes": attributes,
        "layers": layers,
        "iterations": int(model.optimizer.iterations),
        "functions": [id(model.predict_function), id(model.train_function), id(model.test_function)],
        "metrics": [float(metric.result()) for metric in model.metrics if metric.name == "loss"],
        "global seed": float(tf.random.normal(())),
    }


@pytest.mark.parametrize("library", slow_ones(["keras", "tf_keras"], ["tf_keras"]))
def test_the_model_is_untouched(library: str) -> None:
    model = rich_model(pytest.importorskip(library))
    tf.random.set_seed(3)
    before = state(model)
    tf.random.set_seed(3)
    get_accuracy(model, BATCHES)
    get_topk(model, BATCHES, topk=(1,))
    EvalLossFunction(keras.losses.SparseCategoricalCrossentropy(from_logits=True))(model, BATCHES)
    assert state(model) == before


def test_a_stateful_or_random_keras_model_keeps_its_state() -> None:
    """Seeds and counters are written to at every call, in inference mode too; none of it reaches the model."""

    class Counting(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.calls = self.add_weight(name="calls", shape=(), initializer="zeros", trainable=False)
            self.seeds = keras.random.SeedGenerator(5)

        def call(self, x: Any) -> Any:
            self.calls.assign_add(1.0)
            self.add_loss(tf.reduce_sum(x))
            return x + keras.random.normal((3,), seed=self.seeds) * 0

    model = keras.Sequential([keras.Input((3,)), Counting()])
    before = [variable.numpy().tolist() for variable in model.variables]

    def call_once(model: Any, batches: Any) -> None:
        with preserve(model, variable_values=True):
            call_model(model, (batches[0][0],), {})

    for evaluate in (get_accuracy, call_once):
        evaluate(model, BATCHES)
        assert [variable.numpy().tolist() for variable in model.variables] == before
        assert model.losses == []
        assert not model._called


def test_a_callable_around_a_keras_model_leaves_no_graph_tensors() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, activity_regularizer="l2")])
    get_accuracy(functools.partial(lambda inner, x: inner(x), model), BATCHES)
    assert all(isinstance(loss.numpy(), np.floating) for loss in model.losses)


def test_evaluating_often_is_not_taken_for_endless_retracing(caplog: pytest.LogCaptureFixture) -> None:
    model = identity(keras)
    for _ in range(8):
        get_accuracy(model, BATCHES[:1])
    assert not [record for record in caplog.records if "retracing" in record.getMessage()]


def test_a_single_layer_of_mixed_precision_computes_as_it_does_for_its_user() -> None:
    """``stateless_call`` would leave out the cast to half precision, which the layer's own call makes."""
    layer = keras.layers.Dense(2, dtype="mixed_float16")
    layer.build((None, 3))
    x = tf.ones((1, 3))
    assert RepeatedCall(layer).run_on(ModelInputs(x)).dtype == call_model(layer, (x,), {}).dtype == tf.float16
