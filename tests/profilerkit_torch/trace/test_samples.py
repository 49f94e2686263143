"""How many samples a model takes its inputs as: throughput, the line on the batch, sweeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from profilerkit import InputError, ModelInputs, profile
from profilerkit_torch import backend
from profilerkit_torch.backend import TorchBackend
from profilerkit_torch.trace import samples, tracing

BACKEND = TorchBackend()


class Calling(nn.Module):
    """A layer called on what a function makes of the inputs."""

    def __init__(self, layer: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.layer = layer
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.layer(*self.function(*inputs))


class Functional(nn.Module):
    """Calls a function of torch's with a weight of its own."""

    def __init__(self, function: Callable[..., Tensor], *shape: int) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight)


class StepFirst(nn.Module):
    """Puts a vector through a layer, as denoisers do with the time step, and then images through another."""

    def __init__(self, function: Callable[[Tensor], Tensor], features: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(features, 8)
        self.convolution = nn.Conv2d(3, 8, 3)
        self.function = function

    def forward(self, images: Tensor, step: Tensor) -> Any:
        embedded = self.embedding(self.function(step)).view(8, 1, 1)
        return self.convolution(images) + embedded


def ones(*shape: int) -> Tensor:
    return torch.ones(shape)


def encoder(batch_first: bool = False) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=batch_first)


def plain_transformer() -> nn.Transformer:
    inner = nn.TransformerEncoder(encoder(), 1, enable_nested_tensor=False)
    return nn.Transformer(16, 2, 1, 1, 32, custom_encoder=inner)


def tokens(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.long)


#: By a name: the model, its inputs, and the samples that torch's documentation of the layers says they are.
CASES: dict[str, tuple[nn.Module, Any, int | None]] = {
    "convolution, one sample": (nn.Conv2d(3, 8, 3), ones(3, 32, 32), 1),
    "convolution, a batch": (nn.Conv2d(3, 8, 3), ones(8, 3, 32, 32), 8),
    "convolution of one dimension": (nn.Conv1d(4, 8, 3), ones(4, 10), 1),
    "convolution of one dimension, a batch": (nn.Conv1d(4, 8, 3), ones(6, 4, 10), 6),
    "convolution of three dimensions": (nn.Conv3d(2, 4, 3), ones(2, 5, 6, 7), 1),
    "transposed convolution": (nn.ConvTranspose2d(3, 8, 3), ones(3, 8, 8), 1),
    "behind a normalization and pooling": (
        nn.Sequential(nn.InstanceNorm2d(3), nn.MaxPool2d(2), nn.Conv2d(3, 8, 3)), ones(3, 32, 32), 1
    ),
    "behind an embedding of channels": (nn.Sequential(nn.Linear(32, 16), nn.Conv2d(3, 8, 3)), ones(3, 32, 32), 1),
    "a normalization of one sample": (nn.InstanceNorm1d(3), ones(3, 32), 1),
    "a normalization of one sample with weights": (nn.InstanceNorm2d(3, affine=True), ones(3, 8, 8), 1),
    "a normalization of a batch": (nn.InstanceNorm1d(3), ones(4, 3, 32), 4),
    "padding": (nn.ReflectionPad2d(1), ones(3, 8, 8), 1),
    "padding of a batch": (nn.ReplicationPad3d(1), ones(4, 3, 8, 8, 8), 4),
    "a function": (Functional(functional.conv2d, 4, 3, 3, 3), ones(3, 8, 8), 1),
    "a function of a batch": (Functional(functional.conv2d, 4, 3, 3, 3), ones(6, 3, 8, 8), 6),
    "a transposed function": (Functional(functional.conv_transpose1d, 3, 4, 2), ones(3, 8), 1),
    "a function and features over time": (Functional(lambda x, w: x + w[0], 4, 6, 7, 10), ones(6, 7, 10), 6),
    "pooling": (nn.MaxPool2d(2), ones(3, 32, 32), 1),
    "pooling to a size": (nn.Sequential(nn.AdaptiveAvgPool1d(4), nn.ReLU()), ones(3, 32), 1),
    "pooling, a batch": (nn.AvgPool2d(2), ones(5, 3, 8, 8), 5),
    "gray images, pooled": (nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 2)), ones(8, 8, 8), 8),
    "LSTM, time first": (nn.LSTM(10, 20), ones(5, 2, 10), 2),
    "LSTM, batch first": (nn.LSTM(10, 20, batch_first=True), ones(5, 2, 10), 5),
    "LSTM, one sample": (nn.LSTM(10, 20), ones(5, 10), 1),
    "LSTM, batch first, one sample": (nn.LSTM(10, 20, batch_first=True), ones(5, 10), 1),
    "GRU, time first": (nn.GRU(10, 20), ones(5, 2, 10), 2),
    "RNN with a state": (nn.RNN(10, 20), (ones(5, 2, 10), ones(1, 2, 20)), 2),
    "RNN of one sample with a state": (nn.RNN(10, 20), (ones(5, 10), ones(1, 20)), 1),
    "tokens, time first": (nn.Sequential(nn.Embedding(9, 10), nn.GRU(10, 20)), tokens(5, 2), 2),
    "tokens of one sample": (nn.Sequential(nn.Embedding(9, 10), nn.GRU(10, 20)), tokens(5), 1),
    "cell": (nn.GRUCell(10, 20), ones(7, 10), 7),
    "cell, one sample": (nn.LSTMCell(10, 20), ones(10), 1),
    "encoder, time first": (encoder(), ones(7, 2, 16), 2),
    "encoder of layers, time first": (
        nn.TransformerEncoder(encoder(), 2, enable_nested_tensor=False), ones(7, 2, 16), 2
    ),
    "encoder, batch first": (encoder(batch_first=True), ones(7, 2, 16), 7),
    "encoder, one sample": (encoder(batch_first=True), ones(7, 16), 1),
    "projected, then an encoder": (nn.Sequential(nn.Linear(4, 16), encoder()), ones(7, 2, 4), 2),
    "encoder and decoder": (plain_transformer(), (ones(7, 2, 16), ones(6, 2, 16)), 2),
    "attention": (nn.MultiheadAttention(16, 2), (ones(7, 2, 16), ones(5, 2, 16), ones(5, 2, 16)), 2),
    "attention, one sample": (nn.MultiheadAttention(16, 2), (ones(7, 16), ones(5, 16), ones(5, 16)), 1),
    "linear, one sample": (nn.Linear(16, 4), ones(16), 1),
    "normalized, one sample": (nn.LayerNorm(16), ones(16), 1),
    "normalized over two dimensions, one sample": (nn.LayerNorm((4, 16)), ones(4, 16), 1),
    "normalized, a batch": (nn.LayerNorm(16), ones(6, 16), 6),
    "by its mean square, one sample": (nn.Sequential(nn.RMSNorm(16), nn.ReLU()), ones(16), 1),
    "linear, a batch": (nn.Linear(16, 4), ones(6, 16), 6),
    "linear, a batch of sequences": (nn.Linear(16, 4), ones(6, 3, 16), 6),
    "made a batch of one": (Calling(nn.Conv2d(3, 8, 3), lambda x: (x[None],)), ones(3, 8, 8), 1),
    "a gray image made a batch of one": (Calling(nn.Conv2d(1, 8, 3), lambda x: (x[None, None],)), ones(6, 8), 1),
    "a sequence made a batch of one": (Calling(nn.LSTM(10, 20), lambda x: (x[:, None],)), ones(5, 10), 1),
    "features made a batch of one": (Calling(nn.Linear(10, 20), lambda x: (x[None],)), ones(10), 1),
    # What has been reshaped says nothing: the first dimension, as for any other model.
    "flattened first": (nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), ones(6, 8, 8), 6),
    "gray images given a channel": (Calling(nn.Conv2d(1, 8, 3), lambda x: (x[:, None],)), ones(6, 8, 8), 6),
    "gray images, three as colours": (
        Calling(nn.Conv2d(3, 8, 3), lambda x: (x[:, None].expand(-1, 3, -1, -1),)), ones(3, 8, 8), 3
    ),
    "images one after the other": (Calling(nn.Conv2d(3, 8, 3), lambda x: (x[0],)), ones(6, 3, 8, 8), 6),
    "turned round, then time first": (Calling(nn.LSTM(10, 20), lambda x: (x.transpose(0, 1),)), ones(8, 5, 10), 8),
    "packed": (
        Calling(
            nn.LSTM(10, 20, batch_first=True),
            lambda x, n: (nn.utils.rnn.pack_padded_sequence(x, n, batch_first=True),),
        ),
        (ones(3, 1, 10), torch.ones(3, dtype=torch.long)),
        3,
    ),
    "a shared step first, then images": (StepFirst(lambda t: t[None], 1), (ones(8, 3, 6, 6), ones(1)), 8),
    "a shared vector first, then images": (StepFirst(lambda t: t, 16), (ones(8, 3, 6, 6), ones(16)), 8),
    "a shared vector, made a batch of one": (StepFirst(lambda t: t[None], 16), (ones(8, 3, 6, 6), ones(16)), 8),
    "a vector first, then one image": (StepFirst(lambda t: t, 16), (ones(3, 6, 6), ones(16)), 1),
    "several lengths": (Calling(nn.Linear(4, 2), lambda x, y: (torch.cat([x, y]),)), (ones(3, 4), ones(5, 4)), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_throughput_and_the_report_have_the_samples_that_the_layers_take(name: str) -> None:
    model, inputs, samples = CASES[name]
    report = profile(model, inputs, metrics=["execution_time", "throughput"], num_iters=3, warmup=0)
    assert report.batch_size == samples
    throughput = report.statuses["throughput"].value
    if samples is None:
        assert throughput is None
        return
    assert throughput is not None
    assert throughput.median * report["execution_time"].median == pytest.approx(samples)
    assert f"for a batch of {samples}." in str(report)


def test_static_metrics_say_the_same_batch_as_timed_ones() -> None:
    model, inputs, samples = CASES["LSTM, time first"]
    assert profile(model, inputs, metrics=["macs"]).batch_size == samples == 2


def test_wrapped_models_are_taken_as_the_model_inside() -> None:
    wrapped = nn.DataParallel(nn.Conv2d(3, 8, 3))
    assert BACKEND.count_samples(wrapped, ModelInputs(ones(3, 32, 32))) == 1
    compiled: Any = torch.compile(nn.LSTM(10, 20))
    assert BACKEND.count_samples(compiled, ModelInputs(ones(5, 2, 10))) == 2


def test_a_model_that_fails_or_has_no_such_layer_says_nothing() -> None:
    assert BACKEND.count_samples(nn.Conv2d(3, 8, 3), ModelInputs(ones(4, 32, 32))) is None
    assert BACKEND.count_samples(nn.ReLU(), ModelInputs(ones(3))) is None


def test_a_sample_without_a_batch_dimension_makes_no_batch() -> None:
    model, inputs = nn.Conv2d(3, 8, 3), ones(3, 32, 32)
    with pytest.raises(InputError, match="make a batch of 8 .* takes them as one sample without a batch dimension"):
        profile(model, inputs, batch_size=8, metrics=["macs"], strict=True)
    with pytest.raises(InputError, match="a callable that builds them"):
        profile(model, inputs, batch_size=(1, 8), metrics=["batch_sweep"], num_iters=2, strict=True)
    assert profile(model, inputs, batch_size=1, metrics=["macs"])["macs"] == 8 * 3 * 9 * 30 * 30


@pytest.mark.parametrize("steps", [5, 2])  # as many steps as samples too
def test_a_batch_in_another_dimension_is_not_cut_in_its_first(steps: int) -> None:
    with pytest.raises(InputError, match="takes them as a batch of 2, not along the first dimension"):
        profile(nn.LSTM(10, 20), ones(steps, 2, 10), batch_size=4, metrics=["macs"], strict=True)


def test_a_sweep_of_time_first_needs_inputs_that_are_built_so() -> None:
    sweep: dict[str, Any] = {"metrics": ["batch_sweep"], "num_iters": 2, "warmup": 0, "strict": True}
    with pytest.raises(InputError, match=r"inputs for batch size 1, .*\(1, 5, 10\).*, as 5 samples; give a callable"):
        profile(nn.GRU(10, 20), input_shape=(5, 10), batch_size=(1, 2), **sweep)
    table = profile(nn.GRU(10, 20), lambda size: ones(5, size, 10), batch_size=(1, 2), **sweep)["batch_sweep"]
    assert [row["throughput"] * row["execution_time"].median for row in table] == pytest.approx([1, 2])


@pytest.mark.parametrize(("ignored", "times"), [((), 1), (nn.LSTM, 2)], ids=["all layers", "without some"])
def test_the_trace_of_a_profile_tells_its_samples(ignored: Any, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second pass is made only where the trace of the first lacks layers, which might have taken the inputs."""
    traced = []

    def trace_model(*arguments: Any) -> Any:
        traced.append(arguments)
        return tracing.trace_model(*arguments)

    for module in (backend, samples):
        monkeypatch.setattr(module, "trace_model", trace_model)
    model = Calling(nn.LSTM(10, 20), lambda x: (x,))
    report = profile(model, ones(5, 2, 10), metrics=["macs"], ignore=ignored)
    assert (report.batch_size, len(traced)) == (2, times)


class Detector(nn.Module):
    """Takes a list of images, as torchvision's detectors do, and scales them to one size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images: list[Tensor]) -> Tensor:
        scaled = [functional.interpolate(image[None], (8, 8)) for image in images]
        joined: Tensor = self.conv(torch.cat(scaled))
        return joined


@pytest.mark.parametrize("sizes", [(6,), (8,), (8, 8), (6, 10), (5, 6, 7, 8, 9)])
def test_each_image_of_a_list_is_a_sample(sizes: tuple[int, ...]) -> None:
    """And not each of the three channels, which all images share as their first dimension."""
    images = [ones(3, size, size) for size in sizes]
    assert BACKEND.count_samples(Detector(), ModelInputs(images)) == len(sizes)
    missing = profile(Detector(), (images,), metrics=["macs"], batch_size=7).statuses["macs"].missing
    assert missing[0].startswith("cannot make a batch of 7 from these inputs")


class OneByOne(nn.Module):
    """Takes a list of images, and runs each as a batch of one; ``frame`` is an image beside the list."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images: list[Tensor], frame: Tensor | None = None) -> list[Tensor]:
        frames = [] if frame is None else [frame]
        return [self.conv(image[None]) for image in [*images, *frames]]


@pytest.mark.parametrize("sizes", [(6,), (8, 8), (6, 10, 7)])
def test_each_image_of_a_list_is_a_sample_where_they_run_one_by_one(sizes: tuple[int, ...]) -> None:
    images = [ones(3, size, size) for size in sizes]
    assert BACKEND.count_samples(OneByOne(), ModelInputs(images)) == len(sizes)
    assert BACKEND.count_samples(OneByOne(), ModelInputs(images=images)) == len(sizes)


def test_a_sample_of_several_images_is_one() -> None:
    """Two views of one scene are given one by one, and batches in a list are no samples."""
    assert (
        BACKEND.count_samples(Calling(nn.Conv2d(3, 4, 3), lambda a, b: [a[None]]), ModelInputs(*[ones(3, 8, 8)] * 2))
        == 1
    )
    assert BACKEND.count_samples(OneByOne(), ModelInputs([ones(3, 8, 8)] * 2, ones(3, 8, 8))) == 1
