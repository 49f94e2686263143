"""The evaluation functions of each backend on models whose answers are known."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from frameworks import Framework

from profilerkit import ArgumentError, Comparative, Device, InputError, ProfilerKitWarning, compare
from profilerkit.render import render
from profilerkit_metrics import ComputeEvalMetric

Batches = list[tuple[Any, Any]]

#: The model gives its input as scores, so the inputs are the answers. Three batches, the last one short.
SCORES = np.array([[9, 1, 0], [0, 9, 1], [1, 0, 9], [9, 1, 0], [0, 9, 1]], np.float32)
TARGETS = np.array([0, 1, 2, 1, 0])  # right, right, right; second guess; third guess
BATCHES: Batches = [(SCORES[rows], TARGETS[rows]) for rows in (slice(2), slice(2, 4), slice(4, 5))]
LOSSES: Batches = [
    (np.array([[1.0], [3.0]], np.float32), np.zeros((2, 1), np.float32)),
    (np.array([[2.0]], np.float32), np.zeros((1, 1), np.float32)),
]


def identity(framework: Framework) -> Any:
    return framework.function(lambda x: x)


def test_accuracy_is_weighted_by_samples(framework: Framework) -> None:
    """Three of five are right; a mean over batches would say (1 + 0.5 + 0) / 3."""
    for kind, make in framework.identities().items():
        assert framework.get_accuracy(make(), BATCHES) == pytest.approx(60), kind
        assert framework.get_missclass(make(), BATCHES) == pytest.approx(40), kind
        guesses = framework.get_topk(make(), BATCHES, topk=(1, 2, 3))
        assert guesses == pytest.approx({"top-1": 60, "top-2": 80, "top-3": 100}), kind


def test_batches_of_tensors(framework: Framework) -> None:
    batches = [(framework.tensor(scores), framework.tensor(targets)) for scores, targets in BATCHES]
    assert framework.get_accuracy(identity(framework), batches) == pytest.approx(60)


def test_loaders_of_torch(framework: Framework) -> None:
    torch = pytest.importorskip("torch")
    native = torch.utils.data.TensorDataset(torch.from_numpy(SCORES), torch.from_numpy(TARGETS))
    loader = torch.utils.data.DataLoader(native, batch_size=2)
    assert framework.get_accuracy(framework.identity(), loader) == pytest.approx(60)


def evaluation_functions(backend: str) -> dict[str, Any]:
    """Return every evaluation function that a backend exports, ready to be called with a model and a loader."""
    pytest.importorskip(backend)
    package = importlib.import_module(f"profilerkit_{backend}")
    exported = importlib.import_module(f"profilerkit_{backend}.evaluation").__all__
    assert set(exported) <= set(package.__all__)
    functions = {name: getattr(package, name) for name in exported}
    functions["EvalLossFunction"] = functions["EvalLossFunction"](lambda output, target: output * 0)
    return functions


#: Which way is better, by what each name says: no list of our own.
BETTER = {"get_accuracy": "higher", "get_missclass": "lower", "get_topk": "higher", "EvalLossFunction": "lower"}


@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax", "onnx"])
def test_every_evaluation_function_says_which_values_are_better(backend: str) -> None:
    functions = evaluation_functions(backend)
    assert functions.keys() == BETTER.keys()
    for name, function in functions.items():
        for called in (function, partial(function, device=None)):
            metric = ComputeEvalMetric(called, "top-1" if name == "get_topk" else None, unit_name="%").metric
            worse, better = (0.0, 50.0) if BETTER[name] == "higher" else (50.0, 0.0)
            comparative = metric.get_comparative()
            assert isinstance(comparative, Comparative)
            assert comparative.verdict(comparative.enhancement(worse, better)) == "better", name
            assert comparative.verdict(comparative.enhancement(better, worse)) == "worse", name
    assert functions["get_topk"](topk=3).better == "higher"


def test_a_comparison_says_better_where_all_become_right(framework: Framework) -> None:
    """The identity is right on its own scores; the same scores turned around are wrong, all of them."""
    wrong = framework.function(lambda x: -x)
    batches = [(scores, scores.argmax(1)) for scores, _ in BATCHES]
    values = {"get_missclass": (100, 0, "-100 pp, better"), "get_accuracy": (0, 100, "+100 pp, better")}
    for name, (before, after, words) in values.items():
        function = ComputeEvalMetric(getattr(framework, name), unit_name="%")
        result = compare(
            wrong,
            identity(framework),
            data_splits={"test": batches},
            functions=[function],
            metrics=["eval_metric"],
            backend=framework.name,
        )
        assert [report["eval_metric"] for report in result.reports] == [before, after]
        assert words in result.to_text()
        assert result.enhancement("eval_metric") == 100
        assert colors(result) == {"better"}


def colors(result: Any) -> set[str]:
    """Return the verdicts by which a page colors the enhancements."""
    return set(re.findall(r'class="better better-is-(\w+)', render(result, "html")))


def test_other_functions_have_a_difference_and_no_verdict(framework: Framework) -> None:
    """Their values are 3 and 1.5: told nothing, the table has the difference alone."""
    models = framework.function(lambda x: -x), identity(framework)
    values = {id(models[0]): 3.0, id(models[1]): 1.5}

    def score(model: Any, loader: Any) -> float:
        return values[id(model)]

    def result(**arguments: Any) -> Any:
        functions = [ComputeEvalMetric(score, **arguments)]
        splits = {"test": BATCHES}
        return compare(
            *models, data_splits=splits, functions=functions, metrics=["eval_metric"], backend=framework.name
        )

    told_nothing = result()
    assert "-1.5" in told_nothing.to_text()
    assert not re.search("better|worse", told_nothing.to_text())
    assert colors(told_nothing) == set()
    assert told_nothing.enhancement("eval_metric") is None
    assert told_nothing.difference("eval_metric") == -1.5
    assert "-1.5, better" in result(better="lower").to_text()
    assert "-1.5, worse" in result(better="higher").to_text()
    score.better = "lower"  # type: ignore[attr-defined]
    assert "-1.5, better" in result().to_text()
    assert "-1.5, worse" in result(better="higher").to_text(), "what the caller says counts"
    assert "0.5x" not in result(comparative="none").to_text()
    with pytest.raises(ArgumentError, match="better='lower', comparative='div': give one of them"):
        result(better="lower", comparative="div")
    with pytest.raises(ArgumentError, match="better='up': give 'lower', 'higher', or None"):
        result(better="up")


def test_topk_configured_beforehand(framework: Framework) -> None:
    configured = framework.get_topk(topk=(2,))
    assert configured(identity(framework), BATCHES) == pytest.approx({"top-2": 80})
    assert configured(identity(framework), BATCHES, topk=[1]) == pytest.approx({"top-1": 60})
    assert framework.get_topk.topk == (1, 5)


def test_topk_as_a_metric_with_a_secondary_one(framework: Framework) -> None:
    profiler = framework.profiler(framework.identity(), {"test": BATCHES})
    function = framework.get_topk(topk=(1, 2))
    profiler.register_profiler_function(framework.ComputeEvalMetric(function, "top-1", unit_name="%"))
    profiler.add_secondary_eval_metric("top-2")
    assert profiler.compute_status("eval_metric") == pytest.approx(60)
    assert profiler.compute_status("top-2") == pytest.approx(80)
    assert profiler.compute_status("inference_time") > 0


@pytest.mark.parametrize("topk", [(), (0,), (1, -1)])
def test_topk_needs_numbers_of_guesses(framework: Framework, topk: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"give a number of guesses from 1, or several such as \(1, 5\)"):
        framework.get_topk(topk=topk)


def test_topk_needs_as_many_classes(framework: Framework) -> None:
    with pytest.raises(ValueError, match="top-5 needs as many classes, but the model gives 3"):
        framework.get_topk(identity(framework), BATCHES)
    with pytest.raises(ValueError, match=r"needs scores of shape \(batch, classes\), but the model gives \(2,\)"):
        framework.get_topk(framework.function(lambda x: x[:, 0]), BATCHES)


ONE_HOT = [(scores, np.eye(3, dtype=np.float32)[targets]) for scores, targets in BATCHES]


@pytest.mark.parametrize("batches", [[(scores, targets[:, None]) for scores, targets in BATCHES], ONE_HOT])
def test_targets_may_be_of_one_column_or_one_hot(framework: Framework, batches: Batches) -> None:
    assert framework.get_accuracy(identity(framework), batches) == pytest.approx(60)
    assert framework.get_topk(identity(framework), batches, topk=(2,)) == pytest.approx({"top-2": 80})


def test_targets_that_do_not_fit(framework: Framework) -> None:
    message = r"targets of shape \(2, 4\) do not fit scores of shape \(2, 3\); give class in"
    with pytest.raises(InputError, match=message):
        framework.get_accuracy(identity(framework), [(SCORES[:2], np.zeros((2, 4)))])


def test_every_pixel_of_a_segmentation_counts(framework: Framework) -> None:
    """Class 1 in the first row, class 0 in the second; the classes are where the framework has an image's channels."""
    classes = framework.image(-3, -2, -1).index(-1) + 1
    scores = np.zeros((1, 2, 2, 2), np.float32)
    scores[0, 0, :, 1] = 1
    targets = np.array([[[1, 1], [0, 1]]])
    moved = np.moveaxis(scores, -1, classes)
    for given in (targets, np.expand_dims(targets, classes), np.moveaxis(np.eye(2)[targets], -1, classes)):
        assert framework.get_accuracy(identity(framework), [(moved, given)]) == pytest.approx(75)


LOGITS = np.array([[2.0], [-1.0], [0.5]], np.float32)
BINARY_TARGETS = [np.array([1, 0, 0]), np.array([[1.0], [0.0], [0.0]]), np.array([True, False, False])]


@pytest.mark.parametrize(("logits", "targets"), list(product([LOGITS, LOGITS[:, 0]], BINARY_TARGETS)))
def test_one_score_is_a_binary_logit(framework: Framework, logits: Any, targets: Any) -> None:
    """Above zero are the first and the third; of the targets only the first is one."""
    assert framework.get_accuracy(identity(framework), [(logits, targets)]) == pytest.approx(200 / 3)
    assert framework.get_missclass(identity(framework), [(logits, targets)]) == pytest.approx(100 / 3)


def test_a_sigmoid_is_compared_with_a_half(framework: Framework) -> None:
    """Of sigmoid(2), sigmoid(-1) and sigmoid(0.5), which all are above zero, the second is below a half."""
    for model in framework.sigmoids():
        assert framework.get_accuracy(model, [(LOGITS, np.array([1, 0, 0]))]) == pytest.approx(200 / 3)


def test_probabilities_that_nobody_knows_to_be_such(framework: Framework) -> None:
    model = identity(framework)
    batches = [(np.array([[0.9], [0.1]]), np.array([1, 0]))]
    with pytest.warns(ProfilerKitWarning, match=r"all of them lie from 0 to 1, so a score above 0\.5"):
        assert framework.get_accuracy(model, batches) == 100
    far = [*batches, (np.array([[1.1]]), np.array([1]))]
    assert framework.get_accuracy(model, far) == pytest.approx(200 / 3), "above 1: logits, so the second is wrong"
    assert framework.get_accuracy(model, batches, threshold=0.5) == 100
    assert framework.get_accuracy(model, batches, threshold=0) == 50


def test_loss_is_the_mean_over_samples(framework: Framework) -> None:
    """(1 + 9 + 4) / 3; a mean over batches would say (5 + 4) / 2."""
    for name, loss in framework.losses():
        evaluate = framework.EvalLossFunction(loss)
        assert evaluate(identity(framework), LOSSES) == pytest.approx(14 / 3), name
        assert evaluate.__name__ == f"EvalLossFunction({name})"


def test_loss_of_parts_is_their_sum(framework: Framework) -> None:
    parts = framework.EvalLossFunction(lambda output, target: {"a": framework.squared(output, target), "b": 1.0})
    assert parts(identity(framework), LOSSES) == pytest.approx(14 / 3 + 1)


def test_loss_of_targets_without_samples_is_weighted_by_the_inputs(framework: Framework) -> None:
    """Losses of 5 for two samples and of 2 for one; each batch alike would be (5 + 2) / 2."""
    means = framework.EvalLossFunction(
        lambda output, target: framework.mean(output**2) if len(output) == 2 else framework.mean(output)
    )
    for target in ({"boxes": np.zeros(7)}, [None], framework.tensor(np.float32(0))):
        batches = [(scores, target) for scores, _ in LOSSES]
        assert means(identity(framework), batches) == pytest.approx((5 * 2 + 2 * 1) / 3)


def test_the_parts_of_a_target_are_tensors(framework: Framework) -> None:
    """Losses of (1 + 9) / 2 - 1 for two samples, and of 4 - 1 for one."""
    batches = [(scores, {"a": zeros, "b": [np.ones_like(zeros)]}) for scores, zeros in LOSSES]

    def loss(output: Any, target: Any) -> Any:
        assert type(target["a"]) is type(target["b"][0]) is type(framework.tensor(SCORES))
        return framework.squared(output, target["a"]) - framework.mean(target["b"][0])

    assert framework.EvalLossFunction(loss)(identity(framework), batches) == pytest.approx(11 / 3)


def test_loss_as_a_metric(framework: Framework) -> None:
    profiler = framework.profiler(framework.identity(1), {"test": LOSSES})
    profiler.register_profiler_function(framework.ComputeEvalMetric(framework.EvalLossFunction(framework.squared)))
    assert profiler.compute_status("eval_metric") == pytest.approx(14 / 3)


@pytest.mark.parametrize("answers", [True, False])
def test_transform_sees_each_batch_first(framework: Framework, answers: bool) -> None:
    """Guesses and targets shifted alike agree as before; guesses that are shifted alone do not."""

    def shift(inputs: Any, targets: Any) -> Any:
        return framework.roll(inputs), (targets + 1) % 3 if answers else targets

    # The guesses 0 1 2 0 1 become 1 2 0 1 2, for the targets 0 1 2 1 0: the fourth alone is right.
    expected = 60 if answers else 20
    model = framework.identity()
    assert framework.get_accuracy(model, BATCHES, transform=shift) == pytest.approx(expected)


@pytest.mark.parametrize("returned", [None, 1, (1, 2, 3), "ab"])
def test_a_transform_that_returns_anything_else(framework: Framework, returned: Any) -> None:
    with pytest.raises(InputError, match="transform returned .*; return the inputs and the targets"):
        framework.get_accuracy(framework.dense(3, 3), BATCHES, transform=lambda inputs, targets: returned)


@pytest.mark.parametrize("key", ["label", "labels", "target", "targets", "y"])
def test_mapping_batches(framework: Framework, key: str) -> None:
    model = framework.function(lambda *, scores: scores)
    for convert in (framework.tensor, np.asarray):
        batches = [{"scores": convert(scores), key: convert(targets)} for scores, targets in BATCHES]
        assert framework.get_accuracy(model, batches) == pytest.approx(60)


@pytest.mark.parametrize("device", [None, "cpu", Device.CPU])
def test_devices(framework: Framework, device: Any) -> None:
    seen: list[str] = []

    def note(x: Any, y: Any) -> Any:
        seen.append(framework.device(framework.backend.as_tensor(x)))
        return x, y

    for make in list(framework.identities().values())[:2]:
        assert framework.get_accuracy(make(), BATCHES, device=device, transform=note) == pytest.approx(60)
    assert set(seen) == {"cpu"}


def functions(framework: Framework) -> list[Callable[..., Any]]:
    own = [framework.get_accuracy, framework.get_missclass, framework.get_topk(topk=(1,))]
    return [*own, framework.EvalLossFunction(framework.squared)]


@pytest.mark.parametrize("place", range(4))
def test_no_samples_are_an_error(framework: Framework, place: int) -> None:
    target = np.zeros((0, 3), np.float32) if place == 3 else np.zeros(0, np.int64)
    for batches in ([], [(np.zeros((0, 3), np.float32), target)]):
        with pytest.raises(InputError, match="the data split has no samples to evaluate on"):
            functions(framework)[place](identity(framework), batches)


def test_a_batch_without_targets_is_an_error(framework: Framework) -> None:
    with pytest.raises(InputError, match="no targets in a batch of type dict"):
        framework.get_accuracy(framework.function(lambda *, scores: scores), [{"scores": SCORES}])
    with pytest.raises(InputError, match="no targets in a batch of type ndarray"):
        framework.get_accuracy(identity(framework), [SCORES])
    tensor = framework.tensor(SCORES)
    with pytest.raises(InputError, match=f"no targets in a batch of type {type(tensor).__name__}"):
        framework.get_accuracy(identity(framework), [tensor])


def test_an_iterator_can_be_read_only_once(framework: Framework) -> None:
    with pytest.raises(InputError, match="can be read only once"):
        framework.get_accuracy(identity(framework), iter(BATCHES))


def test_results_are_plain_numbers(framework: Framework) -> None:
    accuracy, missclass, _, loss = functions(framework)
    assert type(accuracy(identity(framework), BATCHES)) is float
    assert type(missclass(identity(framework), BATCHES)) is float
    assert type(loss(identity(framework), LOSSES)) is float
    guesses = framework.get_topk(identity(framework), BATCHES, topk=(1, 2))
    assert {type(value) for value in guesses.values()} == {float}
