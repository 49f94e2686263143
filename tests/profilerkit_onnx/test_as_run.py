"""onnxruntime rewrites and quantizes exported models; what the models multiply stays what it was."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytest.importorskip("torch")
pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
import onnx
import torch
from onnxruntime.quantization import QuantFormat, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from torch import nn

from profilerkit import ModelInputs
from profilerkit_onnx import optimize
from profilerkit_onnx.backend import OnnxBackend
from profilerkit_onnx.running.sessions import LEVELS
from profilerkit_torch import TorchBackend

ONNX = OnnxBackend()
WIDTH = 32  # a multiple of every block of the blocked layout, so that no channels are added to fill one up


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(WIDTH)
        self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(WIDTH)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(x + self.second_norm(self.second(y)))


class ResidualNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 3, 2, 1)
        self.blocks = nn.Sequential(Residual(), Residual())
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(nn.functional.max_pool2d(self.stem(x), 2)).mean((2, 3)))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, activation="gelu")
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x).mean(1))


NETWORKS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "residual": (ResidualNet, (1, 3, 32, 32)),
    "encoder": (Encoder, (1, 6, WIDTH)),
}
WAYS = ("exported", "dynamically quantized", "QDQ", "QOperator")


class Batches:
    """What onnxruntime calibrates with: one batch."""

    def __init__(self, name: str, batch: Any) -> None:
        self.batches: Iterator[Any] = iter([{name: batch}])

    def get_next(self) -> Any:
        return next(self.batches, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exported")


@cache
def network(name: str) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    kind, shape = NETWORKS[name]
    return kind().eval(), torch.randn(*shape)


def export_network(name: str, way: str, folder: Path) -> Any:
    """Return a network as torch exports it, or as onnxruntime's tools quantize that."""
    path = folder / f"{name}.onnx"
    model, x = network(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not path.exists():
            torch.onnx.export(model, (x,), path, dynamo=True, verbose=False)
        if way == "exported":
            return onnx.load(path)
        target = folder / f"{name} {way}.onnx"
        if way == "dynamically quantized":
            quantize_dynamic(path, target)
        else:
            batches = Batches(onnx.load(path).graph.input[0].name, x.numpy())
            quantize_static(path, target, batches, quant_format=QuantFormat[way])
    return onnx.load(target)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NETWORKS)
def test_macs_stay_those_of_the_source_on_every_level(name: str, way: str, folder: Path) -> None:
    model, x = network(name)
    expected = TorchBackend().trace(model, ModelInputs(x)).macs
    proto, inputs = export_network(name, way, folder), ModelInputs(x.numpy())
    graphs = {"written": proto, **{level: optimize(proto, level) for level in LEVELS}}
    operators = {level: {node.op_type for node in graph.graph.node} for level, graph in graphs.items()}
    assert way != "exported" or operators["extended"] != operators["written"]
    for level, graph in graphs.items():
        trace = ONNX.trace(graph, inputs)
        assert (level, trace.failure, trace.missing, trace.macs) == (level, None, (), expected)


def test_weights_of_few_bits_count_what_they_stand_for(folder: Path) -> None:
    """Products and parameters stay; the bytes are those of 4 bits for each weight, and of the scales."""

    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(64, 48))

        def forward(self, x: Any) -> Any:
            return x @ self.weight

    path = folder / "linear.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Linear(), (torch.ones(2, 64),), path, dynamo=True, verbose=False)
        quantizer = MatMulNBitsQuantizer(onnx.load(path), bits=4, block_size=32, is_symmetric=True)
        quantizer.process()
    model = quantizer.model.model
    assert [node.op_type for node in model.graph.node] == ["MatMulNBits"]
    trace = ONNX.trace(model, ModelInputs(torch.ones(2, 64).numpy()))
    [weight] = [weight for layer in trace.layers for weight in layer.parameters]
    assert (trace.missing, trace.macs) == ((), 2 * 64 * 48)
    assert (weight.count, weight.bytes) == (64 * 48, 64 * 48 // 2)
