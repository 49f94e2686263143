"""Evaluation on onnxruntime: the scores that every framework has, through the same functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx_architectures import BUILDERS, build_mlp
from onnx_graphs import F, make_model

from profilerkit import ArgumentError, InputError, ModelFailedError, ProfilerKitWarning
from profilerkit_metrics import ComputeEvalMetric
from profilerkit_onnx import EvalLossFunction, OnnxProfiler, get_accuracy, get_missclass, get_topk

SCORES = np.asarray([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], F)
#: The predictions are 1, 0, 1, 0: three of four are right.
LOADER = [(SCORES[:3], np.asarray([1, 0, 0])), (SCORES[3:], np.asarray([0]))]


def identity(dims: Any = ("n", 2), last: str = "Identity") -> Any:
    return make_model([helper.make_node(last, ["x"], ["y"])], {"x": (F, list(dims))}, opset=20)


def test_scores_of_a_classifier() -> None:
    """Weighted by samples: the last batch has one."""
    assert get_accuracy(identity(), LOADER) == 75
    assert get_missclass(identity(), LOADER) == 25
    assert get_topk(identity(), LOADER, topk=(1, 2)) == {"top-1": 75, "top-2": 100}


def test_a_loss_is_the_mean_over_samples() -> None:
    loss = EvalLossFunction(lambda output, target: np.mean(output[:, 0] - target))
    assert loss.__name__ == "EvalLossFunction(<lambda>)"
    expected = (float(SCORES[:, 0].sum()) - 1) / 4
    assert loss(identity(), LOADER) == pytest.approx(expected)


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_the_parts_of_a_target_are_no_samples(parts: int) -> None:
    """A loss of 8 for three samples, and of 4 for one: (3 * 8 + 4) / 4."""
    loss = EvalLossFunction(lambda output, target: 8.0 if len(output) == 3 else 4.0)
    batches = [(scores, [np.zeros(5)[0]] * parts) for scores, _ in LOADER]
    assert loss(identity(), batches) == pytest.approx(7)


def test_a_profiler_evaluates(tmp_path: Path) -> None:
    path = tmp_path / "classifier.onnx"
    onnx.save(identity(), path)
    profiler = OnnxProfiler(path, OnnxProfiler.enable_forward_pass_data_splits({"test": LOADER}))
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy, "accuracy", unit_name="%"))
    assert profiler.compute_status("eval_metric") == 75
    assert get_accuracy(path, LOADER) == 75


@pytest.mark.parametrize(("last", "right"), [("Sigmoid", 100.0), ("Identity", 0.0)])
def test_what_ends_in_a_sigmoid_gives_probabilities(last: str, right: float) -> None:
    """0.55 and 0.45 are above and below a half; as logits, 0.2 and -0.2, they would be above and below nought."""
    logits = np.log(np.asarray([[0.55], [0.45]], F) / np.asarray([[0.45], [0.55]], F))
    model = identity(("n", 1), last)
    targets = np.asarray([1, 0]) if last == "Sigmoid" else np.asarray([0, 1])
    assert get_accuracy(model, [(logits, targets)]) == right


@pytest.mark.parametrize(
    ("operator", "inverse"),
    [("Softmax", np.log), ("Sigmoid", lambda p: np.log(p / (1 - p)))],
    ids=["softmax", "sigmoid"],
)
def test_a_product_with_probabilities_need_not_give_logits(operator: str, inverse: Callable[[Any], Any]) -> None:
    """Of the classes 0.9, 0.1 and 0.2, 0.8 the second has 0.1 and 0.8, as the targets say; as logits both are one."""
    choose = numpy_helper.from_array(np.asarray([[0], [1]], F), "choose")
    nodes = [helper.make_node(operator, ["x"], ["p"]), helper.make_node("MatMul", ["p", "choose"], ["y"])]
    model = make_model(nodes, {"x": (F, ["n", 2])}, opset=20)
    model.graph.initializer.append(choose)
    with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
        assert get_accuracy(model, [(inverse(np.asarray([[0.9, 0.1], [0.2, 0.8]], F)), np.asarray([0, 1]))]) == 100


@pytest.mark.parametrize(
    "between",
    [
        [helper.make_node("Cast", ["p"], ["q"], to=onnx.TensorProto.FLOAT)],
        [helper.make_node("Identity", ["p"], ["i"]), helper.make_node("Dropout", ["i"], ["q"])],
        [helper.make_node("Concat", ["p"], ["q"], axis=1)],
        [helper.make_node("Mul", ["p", "ones"], ["q"])],
        [helper.make_node("Add", ["p", "p"], ["s"]), helper.make_node("Sub", ["s", "p"], ["q"])],
    ],
    ids=["converted", "handed on twice", "joined", "weighed", "summed"],
)
def test_probabilities_stay_probabilities_on_the_way_to_a_product(between: list[Any]) -> None:
    """The second class has 0.1 and 0.8, as the targets say; as logits both would be one."""
    choose = numpy_helper.from_array(np.asarray([[0], [1]], F), "choose")
    nodes = [helper.make_node("Softmax", ["x"], ["p"]), *between, helper.make_node("MatMul", ["q", "choose"], ["y"])]
    model = make_model(nodes, {"x": (F, ["n", 2])}, opset=20)
    model.graph.initializer.extend([choose, numpy_helper.from_array(np.ones(2, F), "ones")])
    shares = np.asarray([[0.9, 0.1], [0.2, 0.8]], F)
    with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
        assert get_accuracy(model, [(np.log(shares), np.asarray([0, 1]))]) == 100


#: Operators that hand on a column of scores, from a to y.
HANDING_ON = {
    "Cast": [helper.make_node("Cast", ["a"], ["y"], to=onnx.TensorProto.DOUBLE)],
    "Concat": [
        helper.make_node("Concat", ["a", "a"], ["c"], axis=1),
        helper.make_node("Gather", ["c", "one"], ["y"], axis=1),
    ],
    "Dropout": [helper.make_node("Identity", ["a"], ["i"]), helper.make_node("Dropout", ["i"], ["y"])],
    "Flatten": [helper.make_node("Unsqueeze", ["a", "one"], ["u"]), helper.make_node("Flatten", ["u"], ["y"])],
    "Mean": [helper.make_node("Mean", ["a", "a"], ["y"])],
    "ReduceMean": [helper.make_node("ReduceMean", ["a", "one"], ["y"])],
    "Reshape": [helper.make_node("Shape", ["a"], ["sizes"]), helper.make_node("Reshape", ["a", "sizes"], ["y"])],
    "Squeeze": [helper.make_node("Squeeze", ["a", "one"], ["y"])],
    "Transpose": [helper.make_node("Transpose", ["a"], ["y"], perm=[0, 1])],
}


@pytest.mark.parametrize("name", HANDING_ON)
@pytest.mark.parametrize(
    ("end", "scores", "right"),
    [
        ([helper.make_node("MatMul", ["x", "weight"], ["a"])], [0.9, 0.2], [1, 1]),
        (
            [helper.make_node("MatMul", ["x", "weight"], ["m"]), helper.make_node("Add", ["m", "weight"], ["a"])],
            [0.4, -0.3],  # 0.7 and 0.35
            [1, 1],
        ),
        ([helper.make_node("Sigmoid", ["x"], ["a"])], [0.2, -0.2], [1, 0]),
    ],
    ids=["product", "product and bias", "sigmoid"],
)
def test_scores_that_are_handed_on_stay_what_they_are(
    name: str, end: list[Any], scores: list[float], right: list[int]
) -> None:
    """All scores lie from 0 to 1. Logits above 0 are class 1, and nothing is guessed, which would be a warning."""
    weights = {"weight": np.full((1, 1), 0.5, F), "one": np.asarray([1])}
    model = make_model([*end, *HANDING_ON[name]], {"x": (F, ["n", 1])}, weights, opset=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert get_accuracy(model, [(np.asarray(scores, F)[:, None], np.asarray(right))]) == 100


def test_a_gate_gives_no_probabilities() -> None:
    """Of y = 2 x sigmoid(x) both scores are above nought, and one is above a half: 0.2 and 2 times 0.2."""
    gate = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Sigmoid", ["n"], ["s"])]
    nodes = [*gate, helper.make_node("Mul", ["n", "s"], ["g"]), helper.make_node("MatMul", ["g", "two"], ["y"])]
    model = make_model(nodes, {"x": (F, ["n", 1])}, {"two": np.full((1, 1), 2, F)}, opset=20)
    assert get_accuracy(model, [(np.asarray([[-0.2], [-0.6]], F), np.asarray([1, 1]))]) == 100


def test_a_graph_without_outputs_has_no_scores() -> None:
    model = identity()
    del model.graph.output[:]
    with pytest.raises(ModelFailedError):
        get_accuracy(model, LOADER)


def test_a_sum_is_of_logits_only_behind_a_linear_operator() -> None:
    """Twice 0.45 is above a half, and twice 0.1 below it, as the targets say; above nought, as logits, are both."""

    def add_twice(nodes: list[Any]) -> Any:
        return make_model([*nodes, helper.make_node("Add", ["a", "a"], ["y"])], {"x": (F, ["n", 1])}, opset=20)

    parts, targets = np.asarray([[0.45], [0.1]], F), np.asarray([1, 0])
    with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
        sigmoids = add_twice([helper.make_node("Sigmoid", ["x"], ["a"])])
        assert get_accuracy(sigmoids, [(np.log(parts / (1 - parts)), targets)]) == 100
    one = numpy_helper.from_array(np.ones((1, 1), F))
    product = [helper.make_node("Constant", [], ["one"], value=one), helper.make_node("MatMul", ["x", "one"], ["a"])]
    assert get_accuracy(add_twice(product), [(parts, targets)]) == 50


def test_classes_of_images_are_the_second_dimension_unless_the_targets_say_otherwise() -> None:
    images = np.zeros((2, 3, 4, 5), F)
    images[:, 1] = 1
    model = identity(("n", 3, 4, 5))
    assert get_accuracy(model, [(images, np.ones((2, 4, 5), int))]) == 100
    last = np.moveaxis(images, 1, -1).copy()
    assert get_accuracy(identity(("n", 4, 5, 3)), [(last, np.ones((2, 4, 5), int))]) == 100


@pytest.mark.slow
def test_a_model_of_torch_and_its_export_score_the_same(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    import profilerkit_torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()
    x, y = torch.randn(50, 4), torch.randint(0, 3, (50,))
    loader = [(x[:32], y[:32]), (x[32:], y[32:])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path, batch = tmp_path / "model.onnx", torch.export.Dim("batch")
        torch.onnx.export(model, (x[:2],), path, dynamo=True, dynamic_shapes=({0: batch},), verbose=False)
    expected = profilerkit_torch.get_accuracy(model, loader)
    assert 0 < expected < 100
    assert get_accuracy(path, loader) == expected


def test_several_outputs_are_refused() -> None:
    model = BUILDERS["dict_in_and_out"]()
    inputs = {"image": np.ones((2, 3, 8, 6), F), "meta": np.ones((2, 5), F)}
    with pytest.raises(InputError, match=r"not one array with a score .* evaluate a model with one output"):
        get_accuracy(model, [(inputs, np.asarray([0, 1]))])


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ArgumentError, match="give an onnx.ModelProto, or the path of a .onnx file"):
        get_accuracy(3, LOADER)


def test_a_batch_that_does_not_fit_is_said() -> None:
    with pytest.raises(InputError, match=r"has the shape \(4, 2\), and the model declares"):
        get_accuracy(build_mlp(), [(SCORES, np.asarray([0, 1, 0, 1]))])
