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


def join_profile(model: nn.Module, x: torch.Tensor, path: Path) -> JoinedProfile:
    """Profile three passes and join them."""
    with torch.no_grad(), profiled(activities=[ProfilerActivity.CPU]) as made:
        for _ in range(3):
            model(x)
    made.export_chrome_trace(str(path))
    return profilerkit.join(path, model, x)


def rows(profile: JoinedProfile) -> dict[str, Any]:
    return {row["path"]: row for row in profile.layers}


# torch 2.10 warns of a setting that nobody has set.
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")
def test_an_encoder_on_its_fast_path_has_the_time_of_its_layers(tmp_path: Path) -> None:
    profile = join_profile(encoder(), torch.zeros(2, 5, 8), tmp_path / "profile.json")
    by_path = rows(profile)
    assert all(by_path[f"layers.{index}"]["own_seconds"] > 0 for index in (0, 1))
    assert by_path["layers.0.linear1"]["own_seconds"] == 0
    # A layer has 4 projections of 8 x 8 and two of 8 x 16 for 10 tokens, and 2 * 5 * 8 for each of 10 tokens.
    assert by_path["layers.0"]["macs"] == 10 * (4 * 64 + 2 * 128) + 10 * 80
    assert sum(row["own_macs"] for row in profile.layers) == profile.trace.macs
    assert any("runs a TransformerEncoderLayer as a whole" in note for note in profile.notes)


def test_a_model_that_is_one_whole_layer_has_all_of_the_time(tmp_path: Path) -> None:
    trace = ChromeTrace()
    for start, end in ((1000, 1050), (1100, 1160), (1200, 1270)):
        trace.operator("aten::_transformer_encoder_layer_fwd", start, end)
        trace.operator("aten::addmm", start + 10, start + 20)
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    profile = profilerkit.join(trace.save(tmp_path / "profile.json"), model, torch.zeros(2, 5, 8))
    seconds = {path: round(1e6 * row["own_seconds"], 6) for path, row in rows(profile).items()}
    assert {path: spent for path, spent in seconds.items() if spent} == {"": 60}


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
    path = trace.save(tmp_path / "profile.json")
    width = 16 if "bidirectional" in options else 8
    model = nn.Sequential(Recurrent(kind(4, 8, batch_first=True, **options)), nn.Linear(width, 3))
    profile = profilerkit.join(path, model, torch.zeros(2, 3, 4), training=True)
    assert len(profile.recording.passes) == passes
    seconds = {path: round(1e6 * row["own_seconds"], 6) for path, row in rows(profile).items()}
    assert seconds == {"": 0, "0": 0, "0.cells": 50, "1": 40}


class CalledTwice(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        for _ in range(2):
            x = self.inner(x, x, x)[0] if isinstance(self.inner, nn.MultiheadAttention) else self.inner(x)
        return x


@pytest.mark.parametrize(
    ("name", "inner"),
    [
        ("aten::_transformer_encoder_layer_fwd", nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
        ("aten::_native_multi_head_attention", nn.MultiheadAttention(8, 2, batch_first=True)),
    ],
)
def test_a_layer_that_is_called_twice_in_a_row_is_two_operators_of_each_pass(
    name: str, inner: nn.Module, tmp_path: Path
) -> None:
    trace = ChromeTrace()
    for index, seconds in enumerate((50, 70, 60, 80)):
        trace.operator(name, 1000 + 100 * index, 1000 + 100 * index + seconds)
    model = CalledTwice(inner).eval()
    row = rows(profilerkit.join(trace.save(tmp_path / "profile.json"), model, torch.zeros(2, 5, 8)))["inner"]
    assert row["calls"] == 2
    # Two passes of two calls each: (50 + 70) and (60 + 80) microseconds.
    assert round(1e6 * row["own_seconds"], 6) == 130


def test_products_have_the_names_that_compilers_give_them(tmp_path: Path) -> None:
    trace = ChromeTrace()
    for index, name in enumerate(["aten::convolution", "aten::addmm", "aten::mm"]):
        trace.operator(name, 1000 + 100 * index, 1010 + 100 * index + index)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 4), nn.Linear(4, 2, bias=False))
    profile = profilerkit.join(trace.save(tmp_path / "profile.json"), model, torch.zeros(1, 1, 4, 4))
    seconds = {path: round(1e6 * row["own_seconds"], 6) for path, row in rows(profile).items()}
    assert seconds == {"": 0, "0": 10, "1": 0, "2": 11, "3": 12}


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
