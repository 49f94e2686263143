"""Profiles in which torch runs whole layers as one operator, or products by other names, joined by their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from chrome_traces import ChromeTrace
from torch import nn
from torch.profiler import ProfilerActivity
from torch.profiler import profile as profiled

import profilerkit
from profilerkit import JoinedProfile, ProfileFileError


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


class Recurrent(nn.Module):
    def __init__(self, cells: nn.Module) -> None:
        super().__init__()
        self.cells = cells

    def forward(self, x: torch.Tensor) -> Any:
        return self.cells(x)[0]


def rows(profile: JoinedProfile) -> dict[str, Any]:
    return {row["path"]: row for row in profile.layers}


# torch 2.10 warns of a setting that nobody has set.
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")
def test_an_encoder_on_its_fast_path_is_refused_without_ranges(tmp_path: Path) -> None:
    model, x = encoder(), torch.zeros(2, 5, 8)
    with torch.no_grad(), profiled(activities=[ProfilerActivity.CPU]) as made:
        model(x)
    made.export_chrome_trace(str(tmp_path / "profile.json"))
    with pytest.raises(ProfileFileError, match="names no layers, and .* runs a TransformerEncoderLayer as a whole"):
        profilerkit.join(tmp_path / "profile.json", model, x)


def test_an_encoder_on_its_fast_path_has_the_time_of_its_ranges(tmp_path: Path) -> None:
    trace = ChromeTrace()
    trace.layer("", 0, 100)
    for index, start in enumerate((10, 50)):
        trace.layer(f"layers.{index}", start, start + 30 + index)
        trace.operator("aten::_transformer_encoder_layer_fwd", start, start + 30 + index)
        trace.operator("aten::bmm", start + 10, start + 20)
    profile = profilerkit.join(trace.save(tmp_path / "profile.json"), encoder(), torch.zeros(2, 5, 8))
    by_path = rows(profile)
    assert {path: round(1e6 * row["own_seconds"]) for path, row in by_path.items() if row["own_seconds"]} == {
        "layers.0": 30,
        "layers.1": 31,
    }
    # A layer has 4 projections of 8 x 8 and two of 8 x 16 for 10 tokens, and 2 * 5 * 8 for each of 10 tokens.
    assert by_path["layers.0"]["macs"] == 10 * (4 * 64 + 2 * 128) + 10 * 80
    assert sum(row["own_macs"] for row in profile.layers) == profile.trace.macs
    assert any("runs a TransformerEncoderLayer as a whole" in note for note in profile.notes)


@pytest.mark.parametrize("passes", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"num_layers": 2, "bidirectional": True}], ids=str)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_the_training_step_of_a_recurrent_layer_is_joined_by_order(
    kind: Any, options: dict[str, Any], passes: int, tmp_path: Path
) -> None:
    trace = ChromeTrace()
    name = {nn.LSTM: "aten::lstm", nn.GRU: "aten::gru", nn.RNN: "aten::rnn_tanh"}[kind]
    for start in range(1000, 1000 + 300 * passes, 300):
        trace.operator(name, start, start + 50)
        trace.operator("aten::linear", start + 100, start + 140)
        trace.operator("aten::mm", start + 110, start + 130)
        trace.operator("aten::sum", start + 150, start + 160)  # a loss, which joins its parts
        trace.operator("aten::cat", start + 170, start + 180)
    path = trace.save(tmp_path / "profile.json")
    width = 16 if "bidirectional" in options else 8
    model = nn.Sequential(Recurrent(kind(4, 8, batch_first=True, **options)), nn.Linear(width, 3))
    profile = profilerkit.join(path, model, torch.zeros(2, 3, 4), training=True)
    assert len(profile.recording.passes) == passes
    seconds = {path: round(1e6 * row["own_seconds"], 6) for path, row in rows(profile).items()}
    assert seconds == {"": 0, "0": 0, "0.cells": 50, "1": 40}


def test_products_have_the_names_that_compilers_give_them(tmp_path: Path) -> None:
    trace = ChromeTrace()
    for index, name in enumerate(["aten::convolution", "aten::addmm", "aten::mm"]):
        trace.operator(name, 1000 + 100 * index, 1010 + 100 * index + index)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 4), nn.Linear(4, 2, bias=False))
    profile = profilerkit.join(trace.save(tmp_path / "profile.json"), model, torch.zeros(1, 1, 4, 4))
    seconds = {path: round(1e6 * row["own_seconds"], 6) for path, row in rows(profile).items()}
    assert seconds == {"": 0, "0": 10, "1": 0, "2": 11, "3": 12}


def test_a_compiled_product_of_all_rows_is_that_of_a_linear_layer(tmp_path: Path) -> None:
    """A linear layer on (2, 5, 8) is a product of 10 rows; of (3, 5, 8) it would be one of 15."""
    trace = ChromeTrace()
    trace.operator("aten::addmm", 1000, 1010, Input_Dims=[[4], [10, 8], [8, 4]])
    path = trace.save(tmp_path / "profile.json")
    profile = profilerkit.join(path, nn.Sequential(nn.Linear(8, 4)), torch.zeros(2, 5, 8))
    assert round(1e6 * rows(profile)["0"]["own_seconds"], 6) == 10
    with pytest.raises(ProfileFileError, match=r"makes \(10, 4\) in the profile, \(15, 4\) in the trace"):
        profilerkit.join(path, nn.Sequential(nn.Linear(8, 4)), torch.zeros(3, 5, 8))


@pytest.mark.parametrize("has_relu", [True, False])
def test_what_comes_before_the_first_product_is_of_each_pass(has_relu: bool, tmp_path: Path) -> None:
    """Where the profile has the ReLU between them, and where it was fused into another kernel."""
    trace = ChromeTrace()
    for start in (1000, 1100, 1200):
        trace.operator("aten::layer_norm", start, start + 6)
        if has_relu:
            trace.operator("aten::relu", start + 7, start + 9)
        trace.operator("aten::linear", start + 10, start + 14)
        trace.operator("aten::linear", start + 20, start + 25)
        trace.operator("aten::gelu", start + 30, start + 33)
    model = nn.Sequential(nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 4), nn.GELU())
    profile = profilerkit.join(trace.save(tmp_path / "profile.json"), model, torch.zeros(1, 4))
    seconds = {path: round(1e6 * row["own_seconds"], 6) for path, row in rows(profile).items()}
    assert seconds == {"": 0, "0": 6, "1": 2 if has_relu else 0, "2": 4, "3": 5, "4": 3}
    assert profile.recording.passes == pytest.approx((33e-6,) * 3)


@pytest.mark.parametrize("lost", [3, 4])
def test_products_that_do_not_repeat_are_of_no_known_passes(tmp_path: Path, lost: int) -> None:
    trace = ChromeTrace()
    for index in range(6):
        if index != lost:
            trace.operator(("aten::linear", "aten::bmm")[index % 2], 1000 + 10 * index, 1005 + 10 * index)

    class Products(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> Any:
            return torch.bmm(self.linear(x), x)

    with pytest.raises(ProfileFileError, match=r"marks no passes, and has 2\.5 times the model's products"):
        profilerkit.join(trace.save(tmp_path / "profile.json"), Products(), torch.zeros(1, 4, 4))


def test_an_operator_beside_one_that_the_profile_lacks_is_of_no_known_layer(tmp_path: Path) -> None:
    """Between two products of the model itself a layer runs, whose operator has another name in the profile."""

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.inner = nn.Parameter(torch.zeros(4, 4)), nn.Hardswish()

        def forward(self, x: torch.Tensor) -> Any:
            return self.inner(x @ self.weight) @ self.weight

    trace = ChromeTrace()
    for start, (name, taken) in enumerate((("aten::mm", 4), ("mine::fused_hardswish", 7), ("aten::mm", 5))):
        trace.operator(name, 1000 + 100 * start, 1000 + 100 * start + taken)
    profile = profilerkit.join(trace.save(tmp_path / "profile.json"), Around(), torch.zeros(1, 4))
    assert round(1e6 * rows(profile)[""]["own_seconds"], 6) == 4 + 5
    assert [(row["kernel"], round(1e6 * row["seconds"], 6)) for row in profile.unattributed] == [
        ("mine::fused_hardswish", 7)
    ]


def test_an_operator_around_those_of_one_layer_is_that_layers(tmp_path: Path) -> None:
    trace = ChromeTrace()
    trace.operator("aten::wrapper", 1000, 1100)
    trace.operator("aten::linear", 1010, 1030)
    trace.operator("aten::linear", 1200, 1240)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    profile = profilerkit.join(trace.save(tmp_path / "profile.json"), model, torch.zeros(1, 4))
    seconds = {path: round(1e6 * row["own_seconds"], 6) for path, row in rows(profile).items()}
    assert seconds == {"": 0, "0": 100, "1": 40}


@pytest.mark.parametrize("count", [1, 5, 10])
def test_a_model_with_one_product_in_common_is_another(count: int, tmp_path: Path) -> None:
    trace = ChromeTrace()
    for index in range(count):
        trace.operator("aten::conv2d", 1000 + 100 * index, 1040 + 100 * index)
        trace.operator("aten::linear", 1050 + 100 * index, 1060 + 100 * index)
    model = nn.Sequential(Recurrent(nn.LSTM(4, 8, 2, batch_first=True)), nn.Linear(8, 3))
    with pytest.raises(ProfileFileError, match="the profile is of another model"):
        profilerkit.join(trace.save(tmp_path / "profile.json"), model, torch.zeros(2, 3, 4))


def test_convolutions_with_other_channels_are_of_another_model(tmp_path: Path) -> None:
    trace = ChromeTrace()
    trace.operator("aten::conv2d", 1000, 1040, Input_Dims=[[2, 3, 8, 8], [16, 3, 3, 3], [16]])
    path = trace.save(tmp_path / "profile.json")
    assert profilerkit.join(path, nn.Conv2d(3, 16, 3), torch.zeros(2, 3, 8, 8)).unattributed_share == 0
    with pytest.raises(ProfileFileError, match=r"makes \(2, 16\) in the profile, \(2, 8\) in the trace"):
        profilerkit.join(path, nn.Conv2d(3, 8, 3), torch.zeros(2, 3, 8, 8))
