"""The Keras examples: published counts, the same functions and data as in the PyTorch examples, real training."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from time_limits import run_python

pytest.importorskip("torch")
import torch

import compare_digits
import digits
import keras_digits
import keras_models
import models
from profilerkit import profile

LENET_LAYERS = {
    "features/conv1": "features.0",
    "features/conv2": "features.3",
    "features/conv3": "features.6",
    "classifier/fc1": "classifier.0",
    "classifier/fc2": "classifier.2",
}


def trainable(model: Any) -> int:
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def resnet_params(width: int, blocks: Sequence[int], in_channels: int, classes: int, kernel: int) -> int:
    """A batch normalisation of n channels has 2n parameters; convolutions have no bias.

    A block from m to n channels: 9mn + 9n² and two normalisations; mn and one more for the shortcut where m is not n.
    """
    params = kernel**2 * in_channels * width + 2 * width
    m = width
    for index, depth in enumerate(blocks):
        for _ in range(depth):
            n = width << index
            params += 9 * m * n + 9 * n * n + 4 * n + (m * n + 2 * n if m != n else 0)
            m = n
    return params + m * classes + classes


def resnet_macs(width: int, blocks: Sequence[int], in_channels: int, classes: int, side: int) -> int:
    """Pixels of the output times the elements of the kernel, for the stem "imagenet" and square images."""
    macs = (side // 2) ** 2 * 49 * in_channels * width
    m = width
    for index, depth in enumerate(blocks):
        pixels = (side // 4 >> index) ** 2
        for _ in range(depth):
            n = width << index
            macs += pixels * (9 * m * n + 9 * n * n + (m * n if m != n else 0))
            m = n
    return macs + m * classes


def test_lenet_has_the_published_parameters_and_macs() -> None:
    """Convolutions: a 5x5 kernel and a bias for each output channel; linear layers: inputs * outputs and biases."""
    params = 6 * (25 + 1) + 16 * (6 * 25 + 1) + 120 * (16 * 25 + 1) + 84 * (120 + 1) + 10 * (84 + 1)
    macs = 28 * 28 * 6 * 25 + 10 * 10 * 16 * 6 * 25 + 120 * 16 * 25 + 120 * 84 + 84 * 10
    assert (params, macs) == (61_706, 416_520)
    model = keras_models.lenet5()
    assert trainable(model) == params
    report = profile(model, tf.zeros((1, 32, 32, 1)), metrics=["total_params", "macs"])
    assert (report["total_params"], report["macs"]) == (params, macs)


def test_flops_of_lenet_by_hand() -> None:
    """Two for each MAC; one for each bias; one for each tanh; four for each output of a 2x2 mean."""
    biases = 6 * 28 * 28 + 16 * 10 * 10 + 120 + 84 + 10
    tanhs = 6 * 28 * 28 + 16 * 10 * 10 + 120 + 84
    means = 4 * (6 * 14 * 14 + 16 * 5 * 5)
    report = profile(keras_models.lenet5(), tf.zeros((1, 32, 32, 1)), metrics=["flops"])
    assert report["flops"] == 2 * 416_520 + biases + tanhs + means


def test_resnet18_has_the_published_parameters_and_macs() -> None:
    params = resnet_params(width=64, blocks=(2, 2, 2, 2), in_channels=3, classes=1000, kernel=7)
    macs = resnet_macs(width=64, blocks=(2, 2, 2, 2), in_channels=3, classes=1000, side=224)
    assert (params, macs) == (11_689_512, 1_814_073_344)
    model = keras_models.resnet18()
    assert trainable(model) == params
    report = profile(model, tf.zeros((1, 224, 224, 3)), metrics=["trainable_params", "macs"])
    assert (report["trainable_params"], report["macs"]) == (params, macs)


@pytest.mark.parametrize(
    ("options", "kernel"),
    [({"width": 32, "blocks": (1, 1, 1)}, 7), ({"width": 8, "blocks": (1, 2), "stem": "small"}, 3)],
)
def test_a_narrow_resnet_has_the_parameters_of_the_formula_and_of_its_twin(
    options: dict[str, Any], kernel: int
) -> None:
    params = resnet_params(options["width"], options["blocks"], in_channels=1, classes=10, kernel=kernel)
    assert trainable(keras_models.resnet18(10, 1, **options)) == params
    assert sum(parameter.numel() for parameter in models.resnet18(10, 1, **options).parameters()) == params


@pytest.mark.parametrize("role", ["digits_teacher", "digits_student"])
def test_both_frameworks_count_the_same(role: str) -> None:
    names = ["trainable_params", "model_size", "macs", "flops"]
    in_torch = profile(getattr(digits, role)(), torch.zeros(1, 1, 32, 32), metrics=names)
    in_keras = profile(getattr(keras_digits, role)(), tf.zeros((1, 32, 32, 1)), metrics=names)
    for name in set(names) - {"model_size"}:
        assert in_keras[name] == in_torch[name], name
    # Each batch normalisation of PyTorch counts its batches besides, in one int64.
    counters = sum(8 for name, _ in getattr(digits, role)().named_buffers() if name.endswith("num_batches_tracked"))
    assert in_keras["model_size"] == in_torch["model_size"] - counters


def test_keras_counts_running_statistics_as_parameters_that_are_not_trained() -> None:
    """PyTorch calls them buffers; what is trained is the same. Each has two values for each channel of a batch norm."""
    params = resnet_params(width=32, blocks=(1, 1, 1), in_channels=1, classes=10, kernel=7)
    wanted = ["total_params", "trainable_params"]
    in_torch = profile(digits.digits_teacher(), torch.zeros(1, 1, 32, 32), metrics=wanted)
    in_keras = profile(keras_digits.digits_teacher(), tf.zeros((1, 32, 32, 1)), metrics=wanted)
    assert [in_torch[key] for key in wanted] == [params, params]
    channels = 32 + 2 * 32 + (2 + 1) * 64 + (2 + 1) * 128  # the stem, then two in each block and one in its shortcut
    assert [in_keras[key] for key in wanted] == [params + 2 * channels, params]


def layer_at(model: Any, path: str) -> Any:
    return reduce(lambda parent, name: parent.get_layer(name), path.split("/"), model)


def copy_weights(module: Any, layer: Any) -> None:
    """Set the weights of a Keras layer to those of its twin; PyTorch has the output channels first."""
    state = {name: value.numpy() for name, value in module.state_dict().items() if value.dim()}
    if isinstance(module, torch.nn.Conv2d):
        state["weight"] = state["weight"].transpose(2, 3, 1, 0)
    if isinstance(module, torch.nn.Linear):
        state["weight"] = state["weight"].T
    layer.set_weights(list(state.values()))


def test_lenet_is_the_function_that_its_twin_is() -> None:
    with digits.use_seed(0):
        twin = models.lenet5(image_size=28)
    model = keras_models.lenet5(image_size=28)
    for path, name in LENET_LAYERS.items():
        copy_weights(twin.get_submodule(name), layer_at(model, path))
    assert_same_function(twin, model, side=28)


@pytest.mark.parametrize("options", [{"blocks": (1, 2, 1)}, {"blocks": (1, 1), "stem": "small"}])
def test_resnet_is_the_function_that_its_twin_is(options: dict[str, Any]) -> None:
    with digits.use_seed(0), torch.no_grad():
        twin = models.resnet18(10, 1, width=8, **options).train()
        twin(torch.randn(4, 1, 32, 32))  # running statistics that are not all alike
    model = keras_models.resnet18(10, 1, width=8, **options)
    copied = 0
    for name, module in twin.named_modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.Linear)):
            copy_weights(module, layer_at(model, name.replace(".", "/")))
            copied += 1
    assert copied == sum(bool(layer.weights) for layer in model._flatten_layers() if not hasattr(layer, "layers"))
    assert_same_function(twin.eval(), model, side=32)


def assert_same_function(twin: Any, model: Any, side: int) -> None:
    images = np.random.default_rng(0).random((3, side, side, 1), dtype="float32")
    with torch.no_grad():
        expected = twin(torch.from_numpy(images.transpose(0, 3, 1, 2))).numpy()
    assert expected.std() > 0.01
    np.testing.assert_allclose(model(images, training=False).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_wrong_arguments_are_said() -> None:
    with pytest.raises(ValueError, match="lenet5: image_size must be an even number from 2 to 32, got 33"):
        keras_models.lenet5(image_size=33)
    with pytest.raises(ValueError, match="resnet18: stem must be 'imagenet' or 'small', got 'large'"):
        keras_models.resnet18(stem="large")  # type: ignore[arg-type]


@pytest.mark.parametrize("split", ["train", "test"])
def test_both_frameworks_have_the_same_images_in_a_split(split: str) -> None:
    def sorted_rows(batches: Any) -> list[tuple[bytes, int]]:
        """To sort by bytes is fair: enlarged by four, sixteenths are whole multiples of 1/1024, without rounding."""
        pairs = (pair for images, labels in batches for pair in zip(images, labels, strict=True))
        return sorted((image.tobytes(), int(label)) for image, label in pairs)

    in_keras = keras_digits.load_digits_splits()[split]
    images, labels = next(iter(in_keras))
    assert (images.shape, images.dtype, labels.dtype) == ((64, 32, 32, 1), tf.float32, tf.int64)
    in_torch = digits.load_digits_splits()[split]
    found = sorted_rows(in_keras.as_numpy_iterator())
    assert found == sorted_rows((images.numpy(), labels.numpy()) for images, labels in in_torch)
    assert len(found) == {"train": 1437, "test": 360}[split]


def test_the_order_of_training_follows_from_the_seed_and_changes_with_the_epoch() -> None:
    def two_epochs(seed: int) -> np.ndarray[Any, Any]:
        split = keras_digits.load_digits_splits(seed=seed)["train"].repeat(2)
        return np.concatenate([labels for _, labels in split.as_numpy_iterator()]).reshape(2, -1)

    first, second = two_epochs(seed=0)
    assert (first != second).any()
    assert sorted(first) == sorted(second)
    np.testing.assert_array_equal(two_epochs(seed=0), [first, second])


@pytest.mark.slow
def test_seed_decides_the_weights_and_the_training() -> None:
    def trained(seed: int) -> list[np.ndarray[Any, Any]]:
        model = keras_digits.digits_student(seed)
        keras_digits.train(model, keras_digits.load_digits_splits()["train"].take(3), epochs=1, lr=1e-3)
        weights: list[np.ndarray[Any, Any]] = model.get_weights()
        return weights

    once, again, otherwise = trained(seed=0), trained(seed=0), trained(seed=1)
    for first, second in zip(once, again, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)
    assert any((first != second).any() for first, second in zip(once, otherwise, strict=True))


def test_first_weights_are_drawn_as_in_torch() -> None:
    kernel = keras_digits.digits_student().get_layer("features").get_layer("conv3").kernel.numpy()
    bound = (5 * 5 * 16) ** -0.5
    assert 0.99 * bound < np.abs(kernel).max() <= bound
    assert kernel.std() == pytest.approx(bound / 3**0.5, rel=0.02)


@pytest.mark.slow
def test_training_works() -> None:
    splits = keras_digits.load_digits_splits()
    teacher, student = keras_digits.digits_teacher(), keras_digits.digits_student()
    keras_digits.train(teacher, splits["train"], epochs=8, lr=1e-3)
    before = [weight.copy() for weight in teacher.get_weights()]
    keras_digits.distil(student, teacher, splits["train"], epochs=8, lr=3e-3)
    assert keras_digits.accuracy(teacher, splits["test"]) > 0.95
    assert keras_digits.accuracy(student, splits["test"]) > 0.90
    for kept, weight in zip(before, teacher.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, kept)


def remove_training(monkeypatch: pytest.MonkeyPatch, *examples: ModuleType) -> None:
    for example in examples:
        monkeypatch.setattr(example, "train", lambda *args, **kwargs: None)
        monkeypatch.setattr(example, "distil", lambda *args, **kwargs: None)


@pytest.mark.slow
def test_the_demo_compares_each_pair_and_both_students(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_training(monkeypatch, digits, keras_digits)
    compare_digits.main()
    first, second, third = capsys.readouterr().out.split("Comparison\n")[1:]
    for printed, frameworks in (first, ["(torch)"] * 2), (second, ["(tensorflow)"] * 2):
        assert [word for word in printed.split() if word in ("(torch)", "(tensorflow)")] == frameworks
        assert "The student takes" in printed
    rows = {line.split("  ")[0].strip(): line.split() for line in third.splitlines() if line}
    assert rows["Metric"][1:3] == ["(torch)", "(tensorflow)"]
    assert rows["MACs"][1:5] == ["416.5", "kMACs", "416.5", "kMACs"]
    assert "failed" not in first + second + third


def test_the_demo_without_tensorflow_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare_digits, "compare_pair", lambda *_: None)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    compare_digits.main()
    said = capsys.readouterr().out
    assert said == f"\nFor the same in Keras, install TensorFlow: {sys.executable} -m pip install '.[tensorflow]'\n"


@pytest.mark.slow
def test_the_demo_does_not_load_tensorflow_to_ask_for_it() -> None:
    code = "import compare_digits, sys; compare_digits.find_spec('tensorflow'); print('tensorflow' in sys.modules)"
    folder = Path(compare_digits.__file__).parent
    done = run_python(code, cwd=folder)
    assert done.stdout.strip() == "False"
