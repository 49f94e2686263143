"""The evaluation functions on TensorFlow models whose answers are known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras  # noqa: E402 - TensorFlow comes first, or the tests are skipped

from profilerkit import Device, InputError, ProfilerKitWarning  # noqa: E402
from profilerkit_tensorflow.data import TFDataLoader, TFForwardPass  # noqa: E402
from profilerkit_tensorflow.evaluation import EvalLossFunction, get_accuracy, get_missclass, get_topk  # noqa: E402

#: The model gives its input as scores, so the inputs are the answers. Three batches, the last one short.
SCORES = np.array([[9, 1, 0], [0, 9, 1], [1, 0, 9], [9, 1, 0], [0, 9, 1]], dtype=np.float32)
TARGETS = np.array([0, 1, 2, 1, 0])  # right, right, right; second guess; third guess
BATCHES = [(SCORES[:2], TARGETS[:2]), (SCORES[2:4], TARGETS[2:4]), (SCORES[4:], TARGETS[4:])]


def keras_identity() -> Any:
    return keras.Sequential([keras.Input((3,)), keras.layers.Activation("linear")])


def keras_layer() -> Any:
    return keras.layers.Activation("linear")


def subclassed() -> Any:
    class Identity(keras.Model):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x * 1.0

    model = Identity()
    model(SCORES)
    return model


def legacy_identity() -> Any:
    tf_keras = pytest.importorskip("tf_keras")
    return tf_keras.Sequential([tf_keras.Input((3,)), tf_keras.layers.Activation("linear")])


def module() -> Any:
    class Identity(tf.Module):  # type: ignore[misc, name-defined]
        def __call__(self, x: Any) -> Any:
            return x

    return Identity()


def plain() -> Any:
    return lambda x: x


def function() -> Any:
    return tf.function(lambda x: x)


KINDS = [keras_identity, keras_layer, subclassed, legacy_identity, module, plain, function]


@pytest.mark.parametrize("kind", KINDS)
def test_accuracy_is_weighted_by_samples(kind: Callable[[], Any]) -> None:
    """Three of five are right; a mean over batches would say (1 + 0.5 + 0) / 3."""
    assert get_accuracy(kind(), BATCHES) == pytest.approx(60)
    assert get_missclass(kind(), BATCHES) == pytest.approx(40)
    assert get_topk(kind(), BATCHES, topk=(1, 2, 3)) == pytest.approx({"top-1": 60, "top-2": 80, "top-3": 100})


def datasets() -> list[Any]:
    whole = tf.data.Dataset.from_tensor_slices((SCORES, TARGETS))
    weighted = tf.data.Dataset.from_tensor_slices((SCORES, TARGETS, np.zeros(5)))
    return [whole.batch(2), whole.batch(2).prefetch(1), whole.filter(lambda x, y: True).batch(2), weighted.batch(2)]


@pytest.mark.parametrize("place", range(4))
def test_datasets(place: int) -> None:
    assert get_accuracy(keras_identity(), datasets()[place]) == pytest.approx(60)


def test_torch_loaders() -> None:
    torch = pytest.importorskip("torch")
    native = torch.utils.data.TensorDataset(torch.from_numpy(SCORES), torch.from_numpy(TARGETS))
    assert get_accuracy(keras_identity(), torch.utils.data.DataLoader(native, batch_size=2)) == pytest.approx(60)


def test_topk_configured_beforehand() -> None:
    configured = get_topk(topk=(2,))
    assert configured(plain(), BATCHES) == pytest.approx({"top-2": 80})
    assert configured(plain(), BATCHES, topk=[1]) == pytest.approx({"top-1": 60})
    assert get_topk.topk == (1, 5)


@pytest.mark.parametrize("topk", [(), (0,), (1, -1)])
def test_topk_needs_numbers_of_guesses(topk: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"give a number of guesses from 1, or several such as \(1, 5\)"):
        get_topk(topk=topk)


def test_topk_needs_as_many_classes() -> None:
    with pytest.raises(ValueError, match="top-5 needs as many classes, but the model gives 3"):
        get_topk(plain(), BATCHES)
    with pytest.raises(ValueError, match=r"needs scores of shape \(batch, classes\), but the model gives \(2,\)"):
        get_topk(lambda x: x[:, 0], BATCHES)


ONE_HOT = [(scores, np.eye(3, dtype=np.float32)[targets]) for scores, targets in BATCHES]


@pytest.mark.parametrize("batches", [[(scores, targets[:, None]) for scores, targets in BATCHES], ONE_HOT])
def test_targets_may_be_of_one_column_or_one_hot(batches: Any) -> None:
    assert get_accuracy(plain(), batches) == pytest.approx(60)
    assert get_topk(plain(), batches, topk=(2,)) == pytest.approx({"top-2": 80})


def test_targets_that_do_not_fit() -> None:
    with pytest.raises(
        InputError, match=r"targets of shape \(2, 4\) do not fit scores of shape \(2, 3\); give class in"
    ):
        get_accuracy(plain(), [(SCORES[:2], np.zeros((2, 4)))])


def test_every_pixel_of_a_segmentation_counts() -> None:
    """Class 1 in the first row, class 0 in the second; the classes are the last dimension, as Keras has them."""
    scores = np.zeros((1, 2, 2, 2), np.float32)
    scores[0, 0, :, 1] = 1
    targets = np.array([[[1, 1], [0, 1]]])
    for given in (targets, targets[..., None], np.eye(2)[targets]):
        assert get_accuracy(plain(), [(scores, given)]) == pytest.approx(75)


LOGITS = np.array([[2.0], [-1.0], [0.5]], np.float32)


@pytest.mark.parametrize("logits", [LOGITS, LOGITS[:, 0]])
@pytest.mark.parametrize(
    "targets", [np.array([1, 0, 0]), np.array([[1.0], [0.0], [0.0]]), np.array([True, False, False])]
)
def test_one_score_is_a_binary_logit(logits: Any, targets: Any) -> None:
    """Above zero are the first and the third; of the targets only the first is one."""
    assert get_accuracy(plain(), [(logits, targets)]) == pytest.approx(200 / 3)
    assert get_missclass(plain(), [(logits, targets)]) == pytest.approx(100 / 3)


def sigmoids() -> list[Any]:
    tf_keras = pytest.importorskip("tf_keras")

    class ByHand(keras.Model):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return tf.reshape(tf.nn.sigmoid(x), [-1])

    by_hand = ByHand()
    by_hand(LOGITS)
    layered = keras.Sequential([keras.Input((1,)), keras.layers.Activation("sigmoid")])
    legacy = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Activation("sigmoid")])
    return [
        layered,
        keras.Sequential([keras.Input((1,)), layered]),
        by_hand,
        legacy,
        functools.partial(lambda model, x: model(x), layered),
    ]


@pytest.mark.parametrize("place", range(5))
def test_a_sigmoid_is_compared_with_a_half(place: int) -> None:
    """Of sigmoid(2), sigmoid(-1) and sigmoid(0.5), which all are above zero, the second is below a half."""
    assert get_accuracy(sigmoids()[place], [(LOGITS, np.array([1, 0, 0]))]) == pytest.approx(200 / 3)


def test_small_logits_of_a_keras_model_are_logits() -> None:
    """All lie from 0 to 1 and are above 0; with a half the second would be class 0. No warning: they are known."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Activation("linear")])
    assert get_accuracy(model, [(np.array([[0.9], [0.1]]), np.array([1, 1]))]) == 100


def test_probabilities_that_nobody_knows_to_be_such() -> None:
    batches = [(np.array([[0.9], [0.1]]), np.array([1, 0]))]
    with pytest.warns(ProfilerKitWarning, match=r"all of them lie from 0 to 1, so a score above 0\.5"):
        assert get_accuracy(plain(), batches) == 100
    far = [*batches, (np.array([[1.1]]), np.array([1]))]
    assert get_accuracy(plain(), far) == pytest.approx(200 / 3), "above 1: logits, compared with 0; the second is wrong"
    assert get_accuracy(plain(), batches, threshold=0.5) == 100
    assert get_accuracy(plain(), batches, threshold=0) == 50
    assert get_accuracy(keras_layer(), batches, threshold=0.5) == 100


def test_outputs_of_one_entry_are_read_and_others_said() -> None:
    assert get_accuracy(lambda x: {"scores": [x]}, BATCHES) == pytest.approx(60)
    with pytest.raises(InputError, match="the model gives a dict of 'a', 'b', not one tensor of scores"):
        get_accuracy(lambda x: {"a": x, "b": x}, BATCHES)
    with pytest.raises(InputError, match="the model gives a tuple of 2 entries, not one tensor of scores"):
        get_accuracy(lambda x: (x, x), BATCHES)


def squared(output: Any, target: Any) -> Any:
    return tf.reduce_mean((output - target) ** 2)


LOSSES = [
    (np.array([[1.0], [3.0]], np.float32), np.zeros((2, 1), np.float32)),
    (np.array([[2.0]], np.float32), np.zeros((1, 1), np.float32)),
]


@pytest.mark.parametrize(
    "loss",
    [
        squared,
        keras.losses.MeanSquaredError(),
        keras.losses.MeanSquaredError(reduction="none"),
        keras.losses.mean_squared_error,
    ],
)
def test_loss_is_the_mean_over_samples(loss: Any) -> None:
    """(1 + 9 + 4) / 3; a mean over batches would say (5 + 4) / 2."""
    assert EvalLossFunction(loss)(plain(), LOSSES) == pytest.approx(14 / 3)


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


def test_loss_of_parts_is_their_sum() -> None:
    parts = EvalLossFunction(lambda output, target: {"a": squared(output, target), "b": 1.0})
    assert parts(plain(), LOSSES) == pytest.approx(14 / 3 + 1)


@pytest.mark.parametrize("target", [{"boxes": np.zeros(7)}, [None], tf.constant(0.0)])
def test_loss_of_targets_without_samples_is_weighted_by_the_inputs(target: Any) -> None:
    """Losses of 5 for two samples and of 2 for one; each batch alike would be (5 + 2) / 2."""
    means = EvalLossFunction(lambda output, target: np.mean(output**2) if len(output) == 2 else np.mean(output))
    assert means(plain(), [(scores, target) for scores, _ in LOSSES]) == pytest.approx((5 * 2 + 2 * 1) / 3)


def test_loss_takes_its_name_from_the_function() -> None:
    assert EvalLossFunction(squared).__name__ == "EvalLossFunction(squared)"
    assert EvalLossFunction(keras.losses.MeanSquaredError()).__name__ == "EvalLossFunction(MeanSquaredError)"


def test_transform_sees_each_batch_first() -> None:
    """Guesses and targets shifted alike agree as before; guesses that are shifted alone do not."""

    def both(inputs: Any, targets: Any) -> Any:
        return tf.roll(inputs, 1, axis=1), (targets + 1) % 3

    def guesses(inputs: Any, targets: Any) -> Any:
        return tf.roll(inputs, 1, axis=1), targets

    assert get_accuracy(keras_identity(), BATCHES, transform=both) == pytest.approx(60)
    # The guesses 0 1 2 0 1 become 1 2 0 1 2, for the targets 0 1 2 1 0: the fourth alone is right.
    assert get_accuracy(keras_identity(), BATCHES, transform=guesses) == pytest.approx(20)


@pytest.mark.parametrize("key", ["label", "labels", "target", "targets", "y"])
def test_mapping_batches(key: str) -> None:
    batches = [{"scores": scores, key: targets} for scores, targets in BATCHES]
    assert get_accuracy(lambda *, scores: scores, batches) == pytest.approx(60)


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


@pytest.mark.parametrize("device", [None, "cpu", Device.CPU])
@pytest.mark.parametrize("kind", [keras_identity, plain])
def test_devices(kind: Callable[[], Any], device: Any) -> None:
    seen: list[str] = []

    def note(x: Any, y: Any) -> Any:
        seen.append(tf.identity(x).device)
        return x, y

    assert get_accuracy(kind(), BATCHES, device=device, transform=note) == pytest.approx(60)
    assert {place.rpartition("/")[2] for place in seen} == {"device:CPU:0"}


@pytest.mark.parametrize("evaluate", [get_accuracy, get_missclass, get_topk(topk=(1,)), EvalLossFunction(squared)])
def test_no_samples_are_an_error(evaluate: Any) -> None:
    target = np.zeros((0, 3), np.float32) if isinstance(evaluate, EvalLossFunction) else np.zeros(0, np.int64)
    for batches in ([], [(np.zeros((0, 3), np.float32), target)]):
        with pytest.raises(InputError, match="the data split has no samples to evaluate on"):
            evaluate(plain(), batches)


def test_an_endless_dataset_is_an_error() -> None:
    with pytest.raises(InputError, match=r"has no end, so there is nothing to evaluate to; give dataset\.take\(n\)"):
        get_accuracy(plain(), datasets()[0].repeat())


def test_a_batch_without_targets_is_an_error() -> None:
    with pytest.raises(InputError, match="no targets in a batch of type ndarray"):
        get_accuracy(plain(), [SCORES])


def test_results_are_plain_numbers() -> None:
    assert type(get_accuracy(plain(), BATCHES)) is float
    assert type(EvalLossFunction(squared)(plain(), LOSSES)) is float
    assert {type(value) for value in get_topk(plain(), BATCHES, topk=(1, 2)).values()} == {float}
