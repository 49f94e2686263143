"""Quantised layers cost what the layers cost that they were made of."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from tiny import Call, ones, trace_complete
from torch import nn
from torch.ao import quantization

from profilerkit_torch import Cost
from profilerkit_torch.costs.matmul import mm_4bit, mm_8bit
from profilerkit_torch.costs.registry import Shape

pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.ao.quantization is deprecated",
    "ignore:Please use quant_min and quant_max",
    "ignore:must run observer before calling calculate_qparams",
    "ignore:torch.quantize_per_tensor",
    "ignore:TypedStorage is deprecated",
)


def dynamic(layer: nn.Module, dtype: torch.dtype = torch.qint8) -> nn.Module:
    model: nn.Module = quantization.quantize_dynamic(nn.Sequential(layer), {type(layer)}, dtype=dtype)
    return model


def counts(model: nn.Module, x: torch.Tensor) -> tuple[int, int]:
    found = trace_complete(model, x)
    return found.macs, found.flops


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
def test_dynamic_linear(dtype: torch.dtype, bias: bool) -> None:
    macs = 2 * 4 * 6
    assert counts(dynamic(nn.Linear(4, 6, bias=bias), dtype), ones(2, 4)) == (macs, 2 * macs + bias * 2 * 6)


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_dynamic_recurrent_layers(kind: type[nn.LSTM | nn.GRU], dtype: torch.dtype, bidirectional: bool) -> None:
    layer = kind(4, 6, 2, bidirectional=bidirectional)
    assert counts(dynamic(layer, dtype), ones(7, 2, 4)) == counts(layer, ones(7, 2, 4))


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_dynamic_cells(kind: type[nn.LSTMCell | nn.GRUCell]) -> None:
    cell = kind(4, 6)
    assert counts(dynamic(cell), ones(2, 4)) == counts(cell, ones(2, 4))


def test_a_model_quantised_with_its_activations() -> None:
    """Products count, as before; their biases and what its other layers do is work on integers."""
    layers = (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 2, 3, bias=False), nn.Flatten(), nn.Linear(128, 5))
    model: Any = nn.Sequential(quantization.QuantStub(), *layers, quantization.DeQuantStub()).eval()
    activations = quantization.default_observer
    model.qconfig = quantization.QConfig(activation=activations, weight=quantization.default_weight_observer)
    prepared = quantization.prepare(model)
    x = ones(1, 3, 8, 8)
    prepared(x)
    convolution, transposed, linear = 4 * 36 * 3 * 9, 4 * 36 * 2 * 9, 128 * 5
    macs = convolution + transposed + linear
    to_integers, back = 4 * x.numel(), 2 * 5
    assert counts(quantization.convert(prepared), x) == (macs, 2 * macs + to_integers + back)


def test_training_that_knows_it_will_be_quantised_quantises_weights_and_activations() -> None:
    """Six operations for each of four weights and two outputs, and two comparisons more for their ranges."""
    model: Any = nn.Sequential(nn.Linear(2, 2, bias=False))
    model.qconfig = quantization.get_default_qat_qconfig("x86")
    prepared = quantization.prepare_qat(model.train())
    assert counts(prepared, ones(1, 2)) == (4, 8 + 8 * (4 + 2))


def test_an_embedding_bag_of_bytes_goes_back_to_floats_and_adds_up() -> None:
    bag: Any = nn.Sequential(nn.EmbeddingBag(10, 4))
    bag.qconfig = quantization.float_qparams_weight_only_qconfig
    converted = quantization.convert(quantization.prepare(bag))
    assert counts(converted, torch.tensor([[1, 2, 3]])) == (0, 3 * (3 * 4))


def test_an_embedding_of_bytes_goes_back_to_floats() -> None:
    """A difference and a product for each of 3 x 4 numbers that are looked up."""
    embedding: Any = nn.Sequential(nn.Embedding(10, 4))
    embedding.qconfig = quantization.float_qparams_weight_only_qconfig
    converted = quantization.convert(quantization.prepare(embedding))
    assert counts(converted, torch.tensor([[1, 2, 3]])) == (0, 3 * 4 * 2)


def test_a_program_of_pt2e_has_its_weights_of_each_channel_go_back_to_floats() -> None:
    """As `torchao`'s ``convert_pt2e`` writes it: the input goes to bytes and back, the weight goes back."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    decomposed = torch.ops.quantized_decomposed

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        small = decomposed.quantize_per_tensor(x, 0.1, 0, 0, 255, torch.uint8)
        x = decomposed.dequantize_per_tensor(small, 0.1, 0, 0, 255, torch.uint8)
        weight = decomposed.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        return nn.functional.linear(x, weight)

    weight, zeros = nn.Buffer(torch.ones(5, 6, dtype=torch.int8)), nn.Buffer(torch.zeros(5, dtype=torch.int64))
    program = Call(run, weight=weight, scales=nn.Buffer(torch.ones(5)), zeros=zeros)
    macs = 3 * 6 * 5
    assert counts(program, ones(3, 6)) == (macs, 2 * macs + (4 + 2) * 3 * 6 + 2 * 5 * 6)


def test_weights_of_one_byte_in_a_product() -> None:
    weight, scales = torch.ones(48, 64, dtype=torch.int8), torch.ones(48, dtype=torch.bfloat16)
    packed = Call(
        lambda self, x: torch._weight_int8pack_mm(x, self.weight, self.scales),
        weight=nn.Buffer(weight),
        scales=nn.Buffer(scales),
    )
    assert counts(packed, ones(32, 64, dtype=torch.bfloat16)) == (32 * 64 * 48, 2 * 32 * 64 * 48)


def test_onednn_layouts_count_as_plain_ones() -> None:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x.to_mkldnn(), torch.ones(6, 4).to_mkldnn()).to_dense()

    assert counts(Call(run), ones(2, 4)) == (2 * 4 * 6, 2 * 2 * 4 * 6)


def test_products_of_libraries_with_packed_weights_count_as_those_of_floats() -> None:
    """2 x 3 rows of 8 features to 4: bitsandbytes gives the shape of the weight, and a bias behind the scales."""
    x, packed, scales = Shape((2, 3, 8)), Shape((16, 1)), Shape((4,))
    out = Shape((2, 3, 4))
    assert mm_4bit(x, packed, [4, 8], scales, scales, 64, out=out) == Cost.of_macs(6 * 8 * 4)
    biased = Cost(6 * 8 * 4, 2 * 6 * 8 * 4 + 6 * 4)
    assert mm_4bit(x, packed, [4, 8], scales, 64, "nf4", Shape((4,)), out=out) == biased
    assert mm_4bit(x, packed, [4, 8], scales, 64, "nf4", None, scales, scales, scales, out=out).flops == 2 * 6 * 8 * 4
    rows = Shape((6, 8))
    assert mm_8bit(rows, Shape((4, 8)), scales, scales, None, torch.float16, out=Shape((6, 4))) == Cost.of_macs(
        6 * 8 * 4
    )
    assert mm_8bit(rows, Shape((4, 8)), scales, scales, Shape((4,)), out=Shape((6, 4))) == biased
