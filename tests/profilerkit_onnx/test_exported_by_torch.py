"""Exports of torch's two exporters cost what torch's own count of the model says: to the last digit."""

from __future__ import annotations

import io
import warnings
from functools import cache
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("torch")
import onnx
import torch
from torch import nn
from torch_architectures import BUILDERS

from profilerkit import ModelInputs, compare, profile
from profilerkit.models.recognition import find_backend
from profilerkit.testing import ARCHITECTURES
from profilerkit_onnx.backend import OnnxBackend
from profilerkit_torch import TorchBackend

TORCH, ONNX = TorchBackend(), OnnxBackend()


class Residual(nn.Module):
    """Two convolutions with batch norms and a shortcut that is one as well."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResidualNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.stages = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.stages(self.pool(torch.relu(self.stem(x)))).mean((2, 3)))


class Block(nn.Module):
    """A transformer block as language models have it: fused projections, causal attention, an MLP."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        attended = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Tagger(nn.Module):
    """A bidirectional LSTM of two layers over words, and a class for each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 12)
        self.lstm = nn.LSTM(12, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 7)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(self.words(x))[0])


MODELS: dict[str, tuple[Any, Any]] = {
    "residual network": (ResidualNet, lambda: torch.randn(2, 3, 32, 32)),
    "transformer block": (Block, lambda: torch.randn(2, 6, 32)),
    "bidirectional LSTM": (Tagger, lambda: torch.zeros(3, 9, dtype=torch.int64)),
}


@cache
def export_network(name: str, dynamo: bool) -> tuple[Any, Any, Any]:
    """Return a model, its input, and what the exporter made of it."""
    build, example = MODELS[name]
    torch.manual_seed(0)
    model, x = build().eval(), example()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            pytest.importorskip("onnxscript")
            return model, x, torch.onnx.export(model, (x,), dynamo=True, verbose=False)
        file: Any = io.BytesIO()  # which torch's annotation leaves out
        torch.onnx.export(model, (x,), file, dynamo=False)
    return model, x, onnx.load_from_string(file.getvalue())


@pytest.mark.parametrize("dynamo", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_macs_of_both_exporters_are_those_of_torch(name: str, dynamo: bool) -> None:
    model, x, export = export_network(name, dynamo)
    expected = TORCH.trace(model, ModelInputs(x))
    trace = ONNX.trace(ONNX.open_model(export), ModelInputs(x))
    assert trace.failure is None
    assert trace.missing == ()
    assert trace.macs == expected.macs > 0


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_shared_architectures_have_torchs_macs_after_export(name: str) -> None:
    model = BUILDERS[name]().eval()
    inputs = ARCHITECTURES[name].model_inputs(TORCH, "channels_first", 3)
    file: Any = io.BytesIO()  # which torch's annotation leaves out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs.args or (inputs.kwargs,), file, dynamo=False)
    proto = onnx.load_from_string(file.getvalue())
    trace = ONNX.trace(proto, ONNX.example_inputs(proto))
    assert trace.failure is None
    assert trace.macs == ARCHITECTURES[name].macs(3)
    if name not in ("depthwise_cnn", "residual_cnn"):  # the exporter folds batch norms into convolutions
        assert trace.flops == ARCHITECTURES[name].flops(3)


def test_flops_and_parameters_of_a_block_are_torchs_where_the_exporter_changes_nothing() -> None:
    model, x, export = export_network("transformer block", False)
    expected, trace = TORCH.trace(model, ModelInputs(x)), ONNX.trace(ONNX.open_model(export), ModelInputs(x))
    weights = sum(parameter.numel() for parameter in model.parameters())
    shared = 32 + 32  # two layer norms start with equal weights and biases, which the exporter keeps once
    assert trace.total_params == weights - shared
    assert expected.total_params == weights


@pytest.mark.parametrize("dynamo", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_layers_are_those_of_the_source_model(dynamo: bool) -> None:
    model, x, export = export_network("transformer block", dynamo)
    expected = {row["path"]: row["macs"] for row in TORCH.trace(model, ModelInputs(x)).table if row["macs"]}
    trace = ONNX.trace(ONNX.open_model(export), ModelInputs(x))
    assert {row["path"]: row["macs"] for row in trace.table if row["macs"]} == expected
    assert [len(layer.calls) for layer in trace.layers if layer.path in expected] == [1] * len(expected)


@pytest.mark.slow
def test_the_newer_exporter_tells_the_classes() -> None:
    _, x, program = export_network("bidirectional LSTM", True)
    types = {layer.path: layer.type for layer in ONNX.trace(ONNX.open_model(program), ModelInputs(x)).layers}
    assert types == {"": "Tagger", "words": "Embedding", "lstm": "LSTM", "head": "Linear"}


@pytest.mark.slow
def test_an_exported_program_is_this_backends_and_not_torchs() -> None:
    model, x, program = export_network("bidirectional LSTM", True)
    assert find_backend(program).name == "onnx"
    report = profile(program, metrics=["macs"])
    assert report["macs"] == TORCH.trace(model, ModelInputs(x)).macs


def test_a_model_and_its_export_stand_in_one_report() -> None:
    model, x, export = export_network("bidirectional LSTM", False)
    comparison = compare(model, export, inputs=x, metrics=["macs", "total_params"])
    assert [report.backend for report in comparison.reports] == ["torch", "onnx"]
    assert comparison.ratio("macs").value == 1
