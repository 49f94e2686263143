"""What the allocator gave out, by hand for small models, and beside the prediction."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import ModelInputs, NotOfferedError, profile
from profilerkit_torch.running.measured_memory import _count_input_bytes, measure_accelerator_peak

NO_GPU = not torch.cuda.is_available()
KIB = 1024
#: Bytes of 64 samples of 256 floats.
ACTIVATION = 64 * KIB


def x() -> torch.Tensor:
    return ones(64, 256)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 256, bias=False), nn.ReLU(), nn.Linear(256, 256, bias=False))


def measure_bytes(model: nn.Module, *args: Any) -> int:
    return BACKEND.measure_memory(model, ModelInputs(*args))


def test_inputs_and_two_activations_of_a_chain() -> None:
    assert measure_bytes(mlp(), x()) == 3 * ACTIVATION


def test_what_is_dropped_is_given_back_and_what_is_in_place_takes_nothing() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        for _ in range(5):
            x = x.neg().relu_()
        return x

    assert measure_bytes(Call(run), x()) == 3 * ACTIVATION


@pytest.mark.parametrize("make", [lambda keys: [keys], lambda keys: SimpleNamespace(keys=keys)], ids=["list", "object"])
def test_a_cache_that_a_pass_makes_grow_has_the_length_that_was_given(make: Any) -> None:
    """64 rows of keys and one of the input are joined to 65: no pass before has added rows."""

    def grow(self: Any, row: torch.Tensor, cache: Any) -> Any:
        if isinstance(cache, list):
            cache[0] = torch.cat((cache[0], row))
        else:
            cache.keys = torch.cat((cache.keys, row))
        return row

    row = KIB  # 256 floats
    assert measure_bytes(Call(grow), ones(1, 256), make(x())) == 2 * (ACTIVATION + row)


@pytest.mark.parametrize(
    ("choose", "held"),
    [
        (lambda data: (data[:64], data[64:128]), 2 * ACTIVATION),  # two batches of one data set
        (lambda data: (data[:64], data[:64]), ACTIVATION),
        (lambda data: (data[:64], data[64:65].expand(64, 256)), ACTIVATION + KIB),
        (lambda data: (data[:256:4], data[64:128]), 2 * ACTIVATION),
        (lambda data: (data[:256].view(256, 256)[:, :64].T, data[:256, :64].T), 256 * 64 * 4),
    ],
)
def test_inputs_that_share_a_storage_are_what_they_show_of_it(choose: Callable[..., Any], held: int) -> None:
    """Beside the result they are all that there is; a count on shapes or in a real run has them so, too."""

    def add(self: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
        return a + b if self.training or a[0, 0].numpy() else a  # without values, numpy cannot have it

    inputs = choose(ones(512, 256))
    assert measure_bytes(Call(add), *inputs) == held + inputs[0].numel() * 4
    trace = BACKEND.trace(Call(add).eval(), ModelInputs(*inputs))
    assert any("counted in a real run" in note for note in trace.notes)
    assert trace.memory.input_bytes == held
    on_shapes = BACKEND.trace(Call(lambda self, a, b: a + b), ModelInputs(*inputs))
    assert on_shapes.method == "meta tensors"
    assert on_shapes.memory.live_bytes == (held + inputs[0].numel() * 4,)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(
    ("convert", "size"),
    [
        (lambda eye: eye, 100 * 100 * 4),
        (lambda eye: eye[:1].expand(100, 100), 100 * 100 * 4),
        (lambda eye: eye.to_sparse_coo(), 100 * (2 * 8 + 4)),
        (lambda eye: eye.to_sparse_csr(), (101 + 100) * 8 + 100 * 4),
    ],
)
def test_an_input_that_is_moved_to_the_device_is_what_its_copy_stores(
    convert: Callable[[torch.Tensor], torch.Tensor], size: int
) -> None:
    """A copy of an expanded tensor has all its elements; one of a sparse tensor its indices and values."""
    given = convert(torch.eye(100))
    assert _count_input_bytes(ModelInputs(given, given), torch.device("cuda")) == size, "given twice, copied once"


def test_what_an_operator_asks_for_inside_is_measured_too() -> None:
    """A convolution of small images works on tensors in layouts of its own: copies, gone when it returns."""
    model = nn.Conv2d(256, 256, 3, padding=1, bias=False)
    images = ones(2, 256, 4, 4)
    predicted = BACKEND.trace(model, ModelInputs(images)).memory.peak_bytes(include_weights=False)
    assert predicted == 2 * 32 * KIB
    assert measure_bytes(model, images) > predicted


@pytest.mark.parametrize("include_weights", [True, False])
def test_the_metric_counts_weights_and_has_the_prediction_beside_it(include_weights: bool) -> None:
    report = profile(mlp(), x(), metrics=["measured_memory", "memory_footprint"], include_weights=include_weights)
    expected = 3 * ACTIVATION + include_weights * 2 * 256 * 256 * 4
    assert (report["measured_memory"], report["memory_footprint"]) == (expected, expected)
    assert report.status("measured_memory").note == f"memory_footprint predicts {expected:,} B, 100 % of it"


def test_it_is_computed_where_it_is_asked_for_alone() -> None:
    assert "measured_memory" not in profile(mlp(), x(), num_iters=1, warmup=0).statuses


def test_a_model_without_values_cannot_be_measured() -> None:
    with torch.device("meta"):
        model = mlp()
    status = profile(model, input_shape=(256,), metrics=["measured_memory"]).status("measured_memory")
    assert status.completeness.value == "unavailable"
    assert "meta device" in status.missing[0]


def test_a_model_that_raises_is_named() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        raise ValueError("no")

    status = profile(Call(run), x(), metrics=["measured_memory"]).status("measured_memory")
    assert (status.completeness.value, "ValueError: no" in status.missing[0]) == ("failed", True)


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU")
def test_a_device_that_does_not_tell_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: torch.device) -> None:
        raise RuntimeError("not on this device")

    # A CUDA build without a device answers 0, and a build for the CPU raises.
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", refuse)
    with pytest.raises(NotOfferedError, match="torch does not report the peak of the memory on cuda"):
        measure_accelerator_peak(lambda: None, torch.device("cuda"))


@pytest.mark.gpu
@pytest.mark.skipif(NO_GPU, reason="needs a CUDA device")
def test_the_gpus_own_peak_is_measured() -> None:
    """Its allocator gives out multiples of 512 bytes, which these are."""
    found = BACKEND.measure_memory(mlp(), ModelInputs(x()), "cuda")
    assert 3 * ACTIVATION <= found <= 3 * ACTIVATION + 64 * KIB * KIB  # and workspaces of its products
