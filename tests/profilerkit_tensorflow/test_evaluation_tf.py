"""The evaluation functions on TensorFlow models whose answers are known."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from profilerkit import InputError, ProfilerKitWarning
from profilerkit_tensorflow.data import TFDataLoader, TFForwardPass
from profilerkit_tensorflow.evaluation import EvalLossFunction, get_accuracy

#: The model gives its input as scores, so the inputs are the answers. Three batches, the last one short.
SCORES = np.array([[9, 1, 0], [0, 9, 1], [1, 0, 9], [9, 1, 0], [0, 9, 1]], dtype=np.float32)
TARGETS = np.array([0, 1, 2, 1, 0])  # right, right, right; second guess; third guess
BATCHES = [(SCORES[:2], TARGETS[:2]), (SCORES[2:4], TARGETS[2:4]), (SCORES[4:], TARGETS[4:])]


def keras_identity() -> Any:
    return keras.Sequential([keras.Input((3,)), keras.layers.Activation("linear")])


def plain() -> Any:
    return lambda x: x


def datasets() -> list[Any]:
    whole = tf.data.Dataset.from_tensor_slices((SCORES, TARGETS))
    weighted = tf.data.Dataset.from_tensor_slices((SCORES, TARGETS, np.zeros(5)))
    return [whole.batch(2), whole.batch(2).prefetch(1), whole.filter(lambda x, y: True).batch(2), weighted.batch(2)]


@pytest.mark.parametrize("place", range(4))
def test_datasets(place: int) -> None:
    assert get_accuracy(keras_identity(), datasets()[place]) == pytest.approx(60)


def test_small_logits_of_a_keras_model_are_logits() -> None:
    """All lie from 0 to 1 and are above 0; with a half the second would be class 0. No warning: they are known."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Activation("linear")])
    assert get_accuracy(model, [(np.array([[0.9], [0.1]]), np.array([1, 1]))]) == 100


def test_a_threshold_for_a_layer() -> None:
    batches = [(np.array([[0.9], [0.1]]), np.array([1, 0]))]
    assert get_accuracy(keras.layers.Activation("linear"), batches, threshold=0.5) == 100


def test_outputs_of_one_entry_are_read_and_others_said() -> None:
    assert get_accuracy(lambda x: {"scores": [x]}, BATCHES) == pytest.approx(60)
    with pytest.raises(InputError, match="the model gives a dict of 'a', 'b', not one tensor of scores"):
        get_accuracy(lambda x: {"a": x, "b": x}, BATCHES)
    with pytest.raises(InputError, match="the model gives a tuple of 2 entries, not one tensor of scores"):
        get_accuracy(lambda x: (x, x), BATCHES)


def test_a_keras_loss_is_called_in_its_own_order() -> None:
    """Scores of 0 give a cross-entropy of log 3 for every target; the other way round they would be class 0."""
    batches = [(np.zeros((2, 3), np.float32), np.array([1, 2]))]
    losses: list[Any] = [
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        pytest.importorskip("tf_keras").losses.SparseCategoricalCrossentropy(from_logits=True),
    ]
    for loss in losses:
        assert EvalLossFunction(loss)(plain(), batches) == pytest.approx(np.log(3))
    percentage = EvalLossFunction(keras.losses.mean_absolute_percentage_error)
    assert percentage(plain(), [(np.array([[1.0]]), np.array([[2.0]]))]) == pytest.approx(50)  # |2 - 1| of 2


@pytest.mark.filterwarnings("ignore:(?s).*structure of `inputs` doesn't match")  # Keras 3.6, of a tuple for a list
def test_several_inputs_of_a_functional_model() -> None:
    """Given as a list, by a pattern, and by name, they reach the model as its one structure."""
    first, second = keras.Input((3,), name="first"), keras.Input((3,), name="second")
    model = keras.Model([first, second], keras.layers.Subtract()([first, second]))
    named = keras.Model({"first": first, "second": second}, keras.layers.Subtract()([first, second]))
    zeros = [np.zeros_like(scores) for scores, _ in BATCHES]
    pairs = [((scores, zero), targets) for (scores, targets), zero in zip(BATCHES, zeros, strict=True)]
    assert get_accuracy(model, pairs) == pytest.approx(60)
    triples = TFDataLoader([(y, zero, x) for (x, zero), y in pairs], TFForwardPass(("_", 1, 0)))
    assert get_accuracy(model, triples) == pytest.approx(60)
    mappings = [{"second": zero, "first": x, "label": y} for (x, zero), y in pairs]
    assert get_accuracy(named, mappings) == pytest.approx(60)


def test_an_endless_dataset_is_an_error() -> None:
    with pytest.raises(InputError, match=r"has no end, so there is nothing to evaluate to; give dataset\.take\(n\)"):
        get_accuracy(plain(), datasets()[0].repeat())


@pytest.mark.parametrize("kind", ["hard_sigmoid", "a mean of sigmoids"])
def test_what_may_give_probabilities_is_no_logit_for_sure(kind: str) -> None:
    """Scores of about 0.3 and 0.7, below and above one half."""
    given = keras.Input((1,))
    if kind == "hard_sigmoid":
        output = keras.layers.Dense(1, activation="hard_sigmoid", kernel_initializer="ones")(given)
    else:
        heads = [keras.layers.Dense(1, activation="sigmoid", kernel_initializer="ones")(given) for _ in range(2)]
        output = keras.layers.Average()(heads)
    scores = np.array([[-1.0], [1.0]], "float32")
    with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
        assert get_accuracy(keras.Model(given, output), [(scores, np.array([0, 1]))]) == 100


@pytest.mark.parametrize("shape", [(1,), (2, 1)])
def test_a_linear_layer_gives_logits(shape: tuple[int, ...]) -> None:
    """0.2 and 0.4 are above nought, and below one half; of logits both are class 1."""
    model = keras.Sequential([keras.Input(shape), keras.layers.Dense(1, kernel_initializer="ones")])
    scores = np.full((2, *shape), 0.2, "float32")
    scores[1] = 0.4
    assert get_accuracy(model, [(scores, np.ones((2, *shape[:-1]), int))]) == 100
