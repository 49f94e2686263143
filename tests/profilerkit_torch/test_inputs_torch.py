"""What a model of torch is called with: tensors, arrays, functions and objects, and what a program declares."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import BACKEND
from torch import nn
from torch.export import export

from profilerkit import LoadedModel, compare, profile
from profilerkit.job import Job
from profilerkit_torch import TorchDataLoader


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_made_up_inputs_have_the_dtype_of_the_weights(dtype: torch.dtype) -> None:
    """Counts and outputs of a converted model are those of the original; what is named keeps its dtype."""
    model = nn.Linear(8, 4)
    converted = copy.deepcopy(model).to(dtype)
    both = compare(model, converted, input_shape=(8,), metrics=["macs", "output_difference"])
    assert [report["macs"] for report in both.reports] == [32, 32]
    assert [report.input_dtypes for report in both.reports] == ["float32", str(dtype).removeprefix("torch.")]
    assert both["output_difference"] is not None
    mixed = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2).to(dtype))
    assert profile(mixed, input_shape=(8,), metrics=["total_params", "inputs"]).input_dtypes == "float32"
    for named in ("int64", "float32"):
        assert profile(converted, input_shape=((8,), named), metrics=["inputs"]).input_dtypes == named


class _Looking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.linear = nn.Embedding(5, 4), nn.Linear(4, 2)

    def forward(self, x: Any, words: Any) -> Any:
        return self.linear(x + self.words(words))


@pytest.mark.parametrize("given", ["by the loader", "by the caller"])
@pytest.mark.parametrize(
    "inputs",
    [
        (torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64)),
        {"x": np.zeros((3, 4), np.float32), "words": np.zeros(3, np.int64)},
        lambda batch_size: (torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64)),
    ],
)
def test_the_dtype_of_a_job_holds_for_the_floats_among_the_inputs(inputs: Any, given: str) -> None:
    """Bytes: 2 * (5 * 4 + 4 * 2 + 2) of weights, 2 * 12 + 8 * 3 of inputs, 2 * 12 of vectors, 2 * 12 of their sums."""
    own, further = (inputs, None) if given == "by the loader" else (None, inputs)
    job = Job(lambda: LoadedModel(_Looking(), own), further, metrics=["memory_footprint"], dtype="float16").load()
    report = job.compute_report(job.make_profiler(once=True))
    assert (report.input_dtypes, report["memory_footprint"]) == ("float16, int64", 60 + 48 + 24 + 24)


def test_weights_are_read_without_methods_that_a_model_may_have_of_its_own() -> None:
    """Those of Keras make a table of the weights in the model when they are first called."""

    class WithOwnMethod(nn.Linear):
        def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
            raise AssertionError("a method of the model was called")

    model = WithOwnMethod(8, 4, dtype=torch.float16)
    assert profile(model, input_shape=(8,), metrics=["inputs"]).input_dtypes == "float16"


def test_the_dataset_of_a_native_loader_can_be_asked_for() -> None:
    dataset = torch.utils.data.TensorDataset(torch.zeros(5, 3), torch.zeros(5))
    loader = TorchDataLoader(torch.utils.data.DataLoader(dataset, batch_size=2))
    assert (len(loader.dataset), len(loader), loader.batch_size) == (5, 3, 2)


def test_a_function_is_no_model_of_torch() -> None:
    assert BACKEND.accepts(nn.Linear(1, 1))
    assert not BACKEND.accepts(lambda x: x)


def test_a_packed_sequence_is_one_input() -> None:
    """Samples of 5, 4 and 2 steps: at each of these 11 a GRU multiplies with matrices of 3 * 4 x (8 + 4)."""
    packed = nn.utils.rnn.pack_padded_sequence(torch.zeros(5, 3, 8), torch.tensor([5, 4, 2]))
    report = profile(nn.GRU(8, 4), packed, metrics=["macs"])
    assert report["macs"] == 11 * 12 * (8 + 4)


ARRAY = np.ones((4, 3), dtype=np.float32)


@pytest.mark.parametrize("inputs", [ARRAY, (ARRAY,), lambda batch_size: np.ones((batch_size, 3), dtype=np.float32)])
def test_arrays_are_inputs_of_a_batch_size(inputs: Any) -> None:
    report = profile(nn.Linear(3, 2), inputs, batch_size=2, num_iters=2, warmup=0)
    assert report["macs"] == 2 * 3 * 2
    assert report.batch_size == 2
    assert report["throughput"] is not None


class Graph:
    """An object of a graph library: its call yields what it stores."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def __call__(self, *names: str) -> Iterator[tuple[str, torch.Tensor]]:
        return iter([("x", self.x)])


class OfGraph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, graph: Graph) -> torch.Tensor:
        return self.fc(graph.x)  # type: ignore[no-any-return]


class OfLayer(nn.Module):
    """Runs the layer that it is given, on numbers of its own."""

    def forward(self, layer: nn.Module) -> Any:
        return layer(torch.ones(4, 8))


def test_an_object_that_can_be_called_is_an_input() -> None:
    assert profile(OfGraph(), Graph(torch.randn(4, 8)), metrics=["macs"])["macs"] == 4 * 8 * 8


def test_a_layer_is_an_input() -> None:
    assert profile(OfLayer(), nn.Linear(8, 2), metrics=["macs"])["macs"] == 4 * 8 * 2


def make(width: int, batch_size: int) -> torch.Tensor:
    return torch.randn(batch_size, width)


class Maker:
    def make(self, batch_size: int) -> torch.Tensor:
        return make(8, batch_size)


@pytest.mark.parametrize("function", [lambda size: make(8, size), partial(make, 8), Maker().make])
def test_a_function_makes_inputs(function: Any) -> None:
    assert profile(nn.Linear(8, 2), function, batch_size=3, metrics=["macs"])["macs"] == 3 * 8 * 2


def test_numbers_that_a_model_takes_are_inputs() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, rows: int, columns: int) -> Any:
            return self.linear(self.linear.weight.new_ones(rows, columns))

    assert profile(Scaled(), (3, 4), metrics=["macs"])["macs"] == 24


def test_keyword_inputs_and_dtypes_are_those_of_the_program(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
            return x * mask

    program = export(Masked(), (torch.randn(3, 4),), {"mask": torch.ones(3, 4, dtype=torch.int64)})
    found = profile(program, metrics=["flops"])
    assert (found["flops"], found.inputs) == (12, "ModelInputs(Tensor(3, 4), mask=Tensor(3, 4))")


def test_the_program_is_left_as_it_is() -> None:
    program = export(nn.Sequential(nn.Linear(4, 2)), (torch.randn(3, 4),), strict=False)
    before = dict(vars(program))
    profile(program, metrics=["macs"])
    assert vars(program).keys() == before.keys()
    assert all(vars(program)[name] is value for name, value in before.items())
