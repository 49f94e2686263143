"""What is right and what is wrong, over arrays, by hand; and the same model on the same data in two frameworks."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from time_limits import run_python

from profilerkit import ArgumentError, InputError, ProfilerKitWarning
from profilerkit.backend_kit.batch_reader import BatchReader, read_length
from profilerkit_metrics.evaluation_functions import LossEvaluation
from profilerkit_metrics.scoring import ScoredBatch, accuracy, mean_loss, missclass, topk_hits
from profilerkit_metrics.scoring_notes import notes_of_scoring


def batch(scores: Any, targets: Any, probabilities: bool | None = None) -> ScoredBatch:
    values, expected = np.asarray(scores), np.asarray(targets)
    return ScoredBatch(values, expected, len(values), lambda: values, lambda: expected, probabilities)


def test_batches_of_unequal_size_count_by_their_samples() -> None:
    batches = [batch([[0, 1], [1, 0], [0, 1]], [1, 0, 0]), batch([[1, 0]], [1])]
    assert accuracy(batches) == 50  # 2 of 4; a mean over batches would say a third
    assert missclass(batches) == 50


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize(
    ("probabilities", "threshold", "expected"),
    [(True, None, 2 / 3), (False, None, 1 / 3), (None, None, 2 / 3), (None, 0.0, 1 / 3), (True, 0.95, 1.0)],
)
def test_a_single_score_is_compared_with_what_suits_it(
    shape: tuple[int, ...], probabilities: bool | None, threshold: float | None, expected: float
) -> None:
    """Of 0.9, 0.2 and 0.97 the first and the third are above a half, all above zero; the third alone is class 1."""
    found = batch(np.reshape([0.9, 0.2, 0.97], shape), [0, 0, 1], probabilities)
    with notes_of_scoring() as notes:
        assert accuracy([found], threshold) == pytest.approx(100 * expected)
    assert bool(notes) == (probabilities is None and threshold is None)


def test_a_single_score_for_each_pixel() -> None:
    """Of two samples with 2 x 3 pixels, one score is no number, one of 0.9 is wrong, and ten of 0.1 are right."""
    scores = np.full((2, 2, 3, 1), 0.1)
    scores[0, 0, 0] = np.nan
    scores[1, 1, 2] = 0.9
    with notes_of_scoring() as notes:
        assert accuracy([batch(scores, np.zeros((2, 2, 3), int), True)]) == pytest.approx(100 * 10 / 12)
    assert [text.partition(" have")[0] for text in notes] == ["1 of 12 samples"]


@pytest.mark.parametrize(("dtype", "low", "high"), [("uint8", 0, 255), ("int8", -128, 127), ("float16", -1.5, 2)])
def test_quantized_scores_are_ranked_by_their_values(dtype: str, low: float, high: float) -> None:
    """The negative of an unsigned number is another one, and -128 has none in a byte."""
    scores = np.array([[low, 1, high], [high, low, 1]], dtype)
    assert topk_hits([batch(scores, [2, 2])], (1, 2)) == {"top-1": 50, "top-2": 100}
    assert accuracy([batch(scores, [2, 2])]) == 50


@pytest.mark.parametrize("probabilities", [True, False, None])
def test_a_single_quantized_score_needs_a_threshold(probabilities: bool | None) -> None:
    """Of 0 to 255 a half is most often 128: above 0.5 all of them would be class 1. Classes 0 and 1 are no scores."""
    found = batch(np.array([100, 200], "uint8"), [0, 1], probabilities)
    with pytest.raises(InputError, match="one score of uint8 for a sample.*give it: threshold=128"):
        accuracy([found])
    assert accuracy([found], 128) == 100
    with notes_of_scoring():
        assert accuracy([batch(np.array([0, 1]), [0, 1], probabilities)]) == 100


NAN = float("nan")


def test_scores_that_are_no_numbers_predict_nothing() -> None:
    """An overflow leaves nan, which ``argmax`` takes for the highest and a threshold for class 0: both may be right."""
    lost = batch([[NAN, NAN], [NAN, 1.0], [0.0, 1.0]], [0, 0, 1])
    with notes_of_scoring() as notes:
        assert accuracy([lost]) == pytest.approx(100 / 3)
        assert topk_hits([lost], (1, 2)) == {"top-1": pytest.approx(100 / 3), "top-2": pytest.approx(100 / 3)}
        assert notes == ["2 of 3 samples have scores that are no numbers (nan); they count as wrong"]
        assert accuracy([batch([NAN, 0.2], [0, 0], True)]) == 50
        assert accuracy([batch([NAN, 0.2], [0, 0])]) == 50, "0.2 is still taken for a probability"
    assert accuracy([batch([[1, 2], [3, 0]], [1, 0])]) == 100, "integers have no nan"


@pytest.mark.parametrize(
    ("scores", "targets", "unmet", "expected"),
    [
        (np.eye(3), [0, -100, 2], 1, 200 / 3),
        (np.eye(3), [0, 1, 3], 1, 200 / 3),
        (np.eye(3), [0.0, 1.0, 2.0], 0, 100),
        ([-1.0, 2.0, 2.0], [-1, 1, 1], 1, 200 / 3),
        ([-1.0, 2.0, 2.0], [0.1, 0.9, 0.9], 3, 0),
        ([-1.0, 2.0, 2.0], [False, True, True], 0, 100),
    ],
)
def test_targets_that_are_no_class_count_as_wrong_and_a_note_says_so(
    scores: Any, targets: Any, unmet: int, expected: float
) -> None:
    """Three samples: the index that a loss leaves out, one class too many, hinge targets, smooth ones."""
    found = batch(scores, targets, probabilities=False)
    told = [f"{unmet} of 3 targets"] if unmet else []
    with notes_of_scoring() as notes:
        assert accuracy([found]) == pytest.approx(expected)
    assert [text.partition(" are")[0] for text in notes] == told
    if np.ndim(scores) > 1:
        with notes_of_scoring() as notes:
            assert topk_hits([found], (1,)) == {"top-1": pytest.approx(expected)}
        assert [text.partition(" are")[0] for text in notes] == told


@pytest.mark.parametrize("kind", [list, tuple])
def test_targets_by_sample_are_counted_one_by_one(kind: type) -> None:
    """A batch of two images of three channels is two samples, as the boxes and labels of each image say."""

    def is_array(value: Any) -> bool:
        return isinstance(value, np.ndarray)

    reader = BatchReader([], None, as_tensor=lambda value: value, is_tensor=is_array)
    images = [np.zeros((3, 4, 4))] * 2
    targets = [{"boxes": np.zeros((5, 4)), "labels": np.zeros(5)}] * 2
    assert reader.read((kind(images), kind(targets))).number == 2
    assert reader.read((np.zeros((2, 3, 4, 4)), kind(targets))).number == 2
    assert reader.read(((*images, np.zeros(7)), kind(targets))).number == 2
    tasks = kind([{"age": np.zeros(8)}, {"name": np.zeros(8)}])
    assert reader.read((np.zeros((8, 3, 4, 4)), tasks)).number == 8  # targets of the whole batch for each of two tasks


def test_scores_that_are_not_known_are_logits_if_one_is_outside_of_the_unit_range() -> None:
    """Whichever batch it is in: 0.2 of the first batch is class 1 then."""
    first, second = batch([0.2], [1]), batch([-3.0], [0])
    with notes_of_scoring() as notes:
        assert accuracy([first, second]) == 100
        assert accuracy([second, first]) == 100
    assert notes == []
    with pytest.warns(ProfilerKitWarning, match=r"so a score above 0\.5 counts as class 1; pass threshold=0") as caught:
        assert accuracy([first]) == 0
    assert caught[0].filename == __file__, "the line that called it, however deep in profilerkit it was found"


def test_targets_may_be_one_hot() -> None:
    """Of two samples, each with two pixels of three classes."""
    scores = np.eye(3)[[[0, 1], [2, 0]]]
    assert accuracy([batch(scores, np.eye(3)[[[0, 1], [2, 2]]])]) == 75
    assert accuracy([batch(scores, [[0, 1], [2, 2]])]) == 75
    assert topk_hits([batch(np.eye(3), np.eye(3)[[0, 2, 2]])], (1,)) == pytest.approx({"top-1": 200 / 3})
    with pytest.raises(InputError, match=r"targets of shape \(3,\) do not fit scores of shape \(2, 2, 3\); give"):
        accuracy([batch(scores, [0, 1, 2])])


def test_the_highest_scores() -> None:
    scores = [[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]
    assert topk_hits([batch(scores, [2, 2])], (1, 2, 3)) == {"top-1": 0, "top-2": 50, "top-3": 100}
    with pytest.raises(ValueError, match=r"top-4 needs as many classes, but the model gives 3"):
        topk_hits([batch(scores, [2, 2])], (4,))
    with pytest.raises(ValueError, match=r"top-k needs scores of shape \(batch, classes\), but the model gives \(2,\)"):
        topk_hits([batch([0.1, 0.2], [0, 1])], (1,))
    with pytest.raises(ValueError, match=r"top-k needs the scores of several classes, but the model gives one score"):
        topk_hits([batch([[0.1], [0.9]], [0, 1])], (1,))


def test_a_loss_is_weighted_by_samples() -> None:
    """Losses of 5 for two samples and of 2 for one."""
    batches = [batch([1, 3], [0, 0]), batch([2], [0])]

    def loss(output: Any, target: Any) -> Any:
        return {"a": 5.0 if len(output) == 2 else 2.0, "b": 1.0}

    assert mean_loss(batches, loss, float) == pytest.approx((5 * 2 + 2) / 3 + 1)
    with pytest.raises(InputError, match="the loss is a dict without parts"):
        mean_loss(batches, lambda output, target: {}, float)


def test_samples_are_those_of_the_first_tensor_with_dimensions() -> None:
    def is_array(value: Any) -> bool:
        return isinstance(value, np.ndarray)

    assert read_length([[np.zeros(9)], np.float32(3), np.array(4), np.zeros((2, 5)), np.zeros(7)], is_array) == 2
    assert read_length([None, np.array(4)], is_array) == 1


def test_a_loss_runs_the_model_over_the_loader() -> None:
    class Halved(LossEvaluation):
        """Takes the batches as they are, and half of what a loss returns."""

        @staticmethod
        def batches(*arguments: Any) -> Any:
            seen.append(arguments)
            return nullcontext([batch([1, 3], [0, 0]), batch([2], [0])])

        @staticmethod
        def mean(value: Any) -> float:
            return float(value) / 2

    def length(output: Any, target: Any) -> int:
        return len(output)

    def transform(inputs: Any, targets: Any) -> tuple[Any, Any]:
        return inputs, targets

    seen: list[Any] = []
    evaluate = Halved(length)
    assert evaluate("model", "loader", "cpu", transform) == pytest.approx((2 * 2 + 1 * 1) / 3 / 2)
    assert seen == [("model", "loader", "cpu", transform)]
    assert evaluate.__name__ == "EvalLossFunction(length)"
    with pytest.raises(ArgumentError, match="loss_fn=3"):
        Halved(cast(Any, 3))


@pytest.mark.parametrize("score", [accuracy, missclass, lambda batches: topk_hits(batches, (1,))])
def test_no_samples_are_an_error(score: Any) -> None:
    with pytest.raises(InputError, match="the data split has no samples to evaluate on"):
        score([])


ON_KERAS = """
import json, sys
import numpy as np
import keras
from importlib import import_module
from profilerkit import Profiler
package = import_module(sys.argv[1])
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
model.set_weights([np.array([[1.0], [-1.0], [0.5], [0.0]]), np.array([0.1])])
x = np.random.default_rng(0).normal(size=(200, 4)).astype("float32")
y = (x @ [1.0, -1.0, 0.5, 0.0] + 0.1 > 0).astype("int64")
batches = [(x[:150], y[:150]), (x[150:], y[150:])]
print(json.dumps([keras.backend.backend(), package.get_accuracy(model, batches)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "package"), [("torch", "profilerkit_torch"), ("tensorflow", "profilerkit_tensorflow")]
)
def test_a_keras_classifier_scores_the_same_on_every_engine(engine: str, package: str) -> None:
    """The targets are the model's own rule: 100 per cent. Its sigmoid is always above zero: with 0 it would be 46."""
    pytest.importorskip("keras")
    pytest.importorskip(engine)
    environment = {**os.environ, "KERAS_BACKEND": engine, "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = run_python(ON_KERAS, f"profilerkit_{engine}", env=environment)
    assert json.loads(run.stdout.splitlines()[-1]) == [engine, 100.0]


def test_a_one_hot_row_of_several_classes_or_of_none_is_no_class() -> None:
    """Several labels of a sample are not read as the first of them; of a soft target the largest share counts."""
    found = batch([[3, 1, 0], [0, 2, 1], [0, 0, 4], [0, 5, 0]], [[1, 1, 0], [0, 1, 0], [0, 0, 0], [0.1, 0.8, 0.1]])
    with notes_of_scoring() as notes:
        assert accuracy([found]) == 50
        assert topk_hits([found], [1, 3]) == {"top-1": 50, "top-3": 50}
    assert [text.partition(" are")[0] for text in notes] == ["2 of 4 targets"]


def test_a_loss_that_adds_the_samples_up_is_refused() -> None:
    """Weighted by the samples, as means are, a sum over each batch would be no loss of anything."""

    def compute(output: Any, target: Any, reduction: str = "mean") -> float:
        return 0.0

    class Loss:
        reduction = "sum"
        __call__ = staticmethod(compute)

    class Worded:
        keywords = ("a", "word")
        __call__ = staticmethod(compute)

    for averaging in (partial(compute, reduction="mean"), Worded()):
        assert LossEvaluation(averaging).loss(1, 1) == 0
    for adding in (Loss(), partial(compute, reduction="sum"), partial(Loss())):
        with pytest.raises(ArgumentError, match="adds the samples up; give one that returns their mean"):
            LossEvaluation(adding)
