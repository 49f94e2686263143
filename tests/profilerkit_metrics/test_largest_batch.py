"""The largest batch that fits: the next one does not, by the metrics of the memory themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from profilerkit import ArgumentError, Completeness, profile
from profilerkit.cli import cli
from profilerkit.devices import device
from profilerkit.trace.bounds import Bounds


def make_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(4 * 4 * 4, 2))


@pytest.mark.parametrize(
    ("found", "key", "arguments"),
    [
        ("largest_batch", "memory_footprint", {}),
        ("largest_training_batch", "training_memory", {}),
        ("largest_training_batch", "training_memory", {"optimizer": "adam"}),
    ],
)
@pytest.mark.parametrize("room", [200_000, 10_000_000])
def test_one_sample_more_does_not_fit(found: str, key: str, arguments: dict[str, Any], room: int) -> None:
    report = profile(make_net(), input_shape=(3, 8, 8), metrics=[found], fit_in=room, **arguments)
    largest = report[found]
    taken = [
        profile(make_net(), input_shape=(3, 8, 8), metrics=[key], batch_size=batch, **arguments)[key]
        for batch in (largest, largest + 1)
    ]
    assert taken[0] <= 0.9 * room < taken[1]
    assert report.status(found).completeness is Completeness.COMPLETE


def test_weights_that_do_not_fit_leave_no_batch() -> None:
    """A million weights of four bytes are 4 MB; a batch of one also has 4 kB of inputs and of outputs."""
    report = profile(nn.Linear(1000, 1000, bias=False), input_shape=(1000,), metrics=["largest_batch"], fit_in="4 MB")
    assert report["largest_batch"] == 0
    assert any("a batch of 1 takes 3.822 MiB of 3.815 MiB" in note for note in report.notes)  # 4,008,000 of 4,000,000


def test_a_device_is_a_memory() -> None:
    room = device("t4").memory
    first, second = (
        profile(nn.Linear(8, 2), input_shape=(8,), fit_in=size, metrics=["largest_batch"])["largest_batch"]
        for size in ("t4", room)
    )
    assert first == second == (int(0.9 * (room or 0)) - 72) // 40  # a sample has 8 floats, and 2 of the output


def test_what_is_asked_with_the_memory_is_computed_beside_the_rest() -> None:
    report = profile(nn.Linear(8, 2), input_shape=(8,), fit_in="8 GB", static=True)
    assert {"macs", "largest_batch", "largest_training_batch"} <= set(report)
    assert report.batch_size == 1


@pytest.mark.parametrize("wrong", ["8 GX", "a t99", -1, 0, 2.5, True])
def test_a_memory_that_is_none_is_an_error(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="fit_in=.*give a memory: a number of bytes, a text such as '8 GB'"):
        profile(nn.Linear(8, 2), input_shape=(8,), fit_in=wrong, metrics=["largest_batch"])


class Padded(nn.Module):
    """Works on twelve samples at least."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x.new_zeros(max(12 - len(x), 0), 8)]) * 2


@pytest.mark.parametrize(
    ("model", "shape", "reason"),
    [
        (Padded(), (8,), "does not grow evenly"),
        (nn.Linear(8, 2), None, "fit_in='8 GB'"),
    ],
)
def test_what_cannot_be_said_has_a_reason(model: nn.Module, shape: Any, reason: str) -> None:
    memory: dict[str, Any] = {} if shape is None else {"fit_in": "1 MB"}
    report = profile(model, input_shape=(8,), metrics=["largest_batch"], **memory)
    record = report.status("largest_batch")
    assert record.completeness is Completeness.UNAVAILABLE
    assert reason in record.missing[0]


def test_the_command() -> None:
    arguments = ["profile", "examples/models/mobilenet.py:mobilenet_v2", "--input-shape", "3,224,224", "--static"]
    result = CliRunner().invoke(cli, [*arguments, "--fit-in", "8GB", "--metric", "largest_batch"])
    assert result.exit_code == 0, result.output
    assert "Largest Batch" in result.output
    result = CliRunner().invoke(cli, [*arguments, "--fit-in", "much"])
    assert result.exit_code == 2
    assert "give a memory" in result.output


def test_inputs_without_a_batch_are_a_reason() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(1, 8) * 2

    report = profile(Fixed(), torch.zeros(1, 8), fit_in="1 MB", metrics=["largest_batch"])
    record = report.status("largest_batch")
    assert (record.value, record.completeness) == (None, Completeness.UNAVAILABLE)
    assert "could not be traced" in record.missing[0]


class TwoCalls(nn.Module):
    """Repeats each sample a hundred times, unless it is called by `small`."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.small(x.repeat(1, 100).view(-1, 8))

    def small(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layer(x)
        return outputs


def test_other_sizes_are_of_the_call_that_is_profiled() -> None:
    """The weights have 72 floats; a sample has 8 as an input and 8 as an output, in a step gradients of both too."""
    found = ["largest_batch", "memory_footprint", "batch_sweep"]
    report = profile(
        TwoCalls(), torch.ones(1, 8), call=lambda model, x: model.small(x), fit_in=1_000_000, metrics=found,
        batch_size=(1, 4), num_iters=2,
    )  # fmt: skip
    assert report["largest_batch"] == (900_000 - 4 * 72) // (4 * 16)
    assert [row["memory_footprint"] for row in report["batch_sweep"]] == [4 * (72 + 16), 4 * (72 + 4 * 16)]


def test_other_sizes_are_of_the_split_that_is_profiled() -> None:
    splits = {"train": [(torch.ones(1, 8), 0)], "test": [(torch.ones(1, 5, 8), 0)]}
    report = profile(nn.Linear(8, 8), data_splits=splits, split="test", fit_in=1_000_000, metrics=["largest_batch"])
    assert report["largest_batch"] == (900_000 - 4 * 72) // (4 * 5 * 16)


def test_a_memory_far_larger_than_the_model_has_a_largest_batch() -> None:
    report = profile(nn.Linear(8, 2), input_shape=(8,), fit_in="1000 TB", metrics=["largest_batch"])
    assert report["largest_batch"] == (900 * 10**12 - 4 * 18) // 40


def test_a_branch_that_is_not_known_leaves_both_ends_open() -> None:
    """A cheaper branch would leave room for more samples; and a backend that does not train has no step to fit in."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper

    def make_branch(name: str, *nodes: Any) -> Any:
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, 1, ["n", 4])])

    branches = {
        "then_branch": make_branch("same", helper.make_node("Identity", ["x"], ["same"])),
        "else_branch": make_branch(
            "slice",
            helper.make_node("Concat", ["x"] * 50, ["wide"], axis=1),
            helper.make_node("Slice", ["wide", "begin", "end", "axis"], ["slice"]),
        ),
    }
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "limit"], ["is_large"]),
        helper.make_node("If", ["is_large"], ["y"], **branches),
    ]
    constants = {"begin": np.array([0]), "end": np.array([4]), "axis": np.array([1]), "limit": np.float32(0)}
    weights = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    ends = [helper.make_tensor_value_info(name, 1, ["n", 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    report = profile(model, input_shape=(4,), fit_in=100_000, metrics=["macs"], batch_size=(1, 2), num_iters=2)
    for key in ("largest_batch", "batch_sweep"):
        record = report.status(key)
        assert record.completeness is Completeness.PARTIAL, key
        assert "the condition of the If 'y' depends on values" in record.missing[0]
    assert report.status("largest_batch").bounds == Bounds()
    step = report.status("largest_training_batch")
    assert (step.completeness, step.missing) == (
        Completeness.UNAVAILABLE,
        ("the onnx backend does not trace training steps",),
    )
