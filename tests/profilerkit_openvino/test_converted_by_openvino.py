"""More than 60 torch models by OpenVINO's converter: torch's MACs, or the change is named here. And NNCF's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("openvino")
pytest.importorskip("onnx")  # the models are those of the tests of ONNX
pytest.importorskip("torch")
import numpy as np
import openvino
import torch
from exported_models import MODELS, require_torchs_macs
from source_tree import ROOT

from profilerkit import ModelInputs, profile
from profilerkit_openvino import OpenvinoBackend

OPENVINO = OpenvinoBackend()
#: Those that are converted in each run; the others take seconds each.
QUICK = ("lenet5",)

#: What the converter changes: the MACs that this adds, worked out by hand, and the reason.
CHANGES: Mapping[str, tuple[int, str]] = {
    # one step of four gates; 2 samples, 12 units
    "nn.LSTMCell": (-2 * 12 * 4 * 12, "the product with the initial state, zero, is computed before"),
    # two layers, projected as keys and as queries: 2 * 512 relative positions, 32 wide
    "DebertaV2Model": (-2 * 2 * (2 * 512) * 32 * 32, "the projections of positions are constants"),
    # 2 samples, 10 queries, 32 wide: queries, keys, values and output, both products of attention; then the queries of
    # the attention to the picture
    "DetrForObjectDetection": (
        -(4 * 2 * 10 * 32 * 32 + 2 * 2 * 10 * 10 * 32 + 2 * 10 * 32 * 32),
        "the first self-attention of the decoder is among learned queries: constants",
    ),
    # 2 samples, 8 latents, 32 wide
    "PerceiverModel": (-2 * 8 * 32 * 32, "the first queries are of learned latents: constants"),
}

#: What the converter refuses: words of its error.
REFUSED: Mapping[str, str] = {
    "collaborative filtering": "aten::bilinear",
    "siamese network": "aten::cosine_similarity",
    "LlavaForConditionalGeneration": "aten::cat",
    "RwkvForCausalLM": "Graphs differed across invocations",
    "WhisperForConditionalGeneration": "aten::diff",
}


def convert(model: Any, inputs: ModelInputs) -> Any:
    example = dict(inputs.kwargs) if inputs.kwargs else inputs.args
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # whose operators the tracer of torch records differently each time
    try:
        return openvino.convert_model(model, example_input=example)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@pytest.mark.filterwarnings("ignore")  # of torch's tracer, and of transformers
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MODELS]
)
def test_a_converted_model_has_torchs_macs_or_the_change_is_named(name: str) -> None:
    require_torchs_macs(name, convert, OPENVINO, CHANGES, REFUSED)


def test_sixty_models_at_least_are_converted() -> None:
    pytest.importorskip("transformers")
    assert len(MODELS.keys() - REFUSED.keys()) >= 60


def test_the_page_has_what_the_converter_changes_and_refuses() -> None:
    page = (ROOT / "docs" / "openvino.rst").read_text()
    changes = {f"``{name}``": f"{change:,}" for name, (change, _) in CHANGES.items()}
    rows = [line for line in page.splitlines() if line.startswith("``")]
    assert {name: next(row.split()[1] for row in rows if row.startswith(name)) for name in changes} == changes
    assert page.count(" refused ") == len(REFUSED)
    equal = len(MODELS.keys() - CHANGES.keys() - REFUSED.keys())
    if len(MODELS) == 77:  # the libraries with the other models are installed
        assert f"{equal} of the 77" in page


#: The bytes of a network of 256, 512 and 10 features with biases of 522, whose weights NNCF has compressed.
WEIGHTS, BIASES, SHAPES = 256 * 512 + 512 * 10, 4 * 522, 2 * 2 * 8
STORED = {
    "INT8_SYM": WEIGHTS + 2 * 522 + BIASES,  # a scale of two bytes for each row
    "INT8_ASYM": WEIGHTS + (2 + 1) * 522 + BIASES,
    "INT4_SYM": WEIGHTS // 2 + 2 * (512 * 4 + 10 * 8) + BIASES + SHAPES,  # and for each 64 numbers of a row
    "INT4_ASYM": WEIGHTS // 2 + (4 + 1) * (512 * 4 + 10 * 8) // 2 + BIASES + SHAPES,
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", STORED)
def test_weights_that_nncf_has_compressed(mode: str) -> None:
    nncf = pytest.importorskip("nncf")
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).eval()
    model = openvino.convert_model(net, example_input=torch.zeros(1, 256))
    options = {"group_size": 64, "all_layers": True} if mode.startswith("INT4") else {}
    compressed = nncf.compress_weights(model, mode=getattr(nncf.CompressWeightsMode, mode), **options)
    report = profile(compressed, input_shape=(256,), batch_size=2, metrics=["total_params", "model_size", "macs"])
    assert (report["total_params"], report["macs"]) == (WEIGHTS + 522, 2 * WEIGHTS)
    assert report["model_size"] == STORED[mode]


def perceive() -> tuple[Any, list[int], int, int, int, int]:
    """Return a network, the shape of a sample, weights, rows, MACs of a sample, and activations that are quantized."""
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    return net, [256], WEIGHTS, 522, WEIGHTS, 256 + 512


def convolve() -> tuple[Any, list[int], int, int, int, int]:
    """The same of a convolution of 8 x 8 pixels to 6 x 6 of 4 channels, and a linear layer."""
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10))
    return net, [3, 8, 8], 4 * 27 + 144 * 10, 4 + 10, 36 * 4 * 27 + 144 * 10, 3 * 64 + 144


@pytest.mark.slow
@pytest.mark.parametrize("build", [perceive, convolve])
def test_a_network_that_nncf_has_quantized(build: Any) -> None:
    """Six operations for each of its activations that is quantized and back; a scale of four bytes for each row."""
    nncf = pytest.importorskip("nncf")
    net, shape, weights, rows, macs, quantized_activations = build()
    model = openvino.convert_model(net.eval(), example_input=torch.zeros(1, *shape))
    quantized = nncf.quantize(model, nncf.Dataset([np.ones((1, *shape), np.float32)]))
    metrics = ["total_params", "model_size", "macs", "flops"]
    report = profile(quantized, input_shape=tuple(shape), batch_size=2, metrics=metrics)
    hidden = quantized_activations - int(np.prod(shape))  # each has a bias and an activation, each of ten a bias
    assert (report["total_params"], report["macs"]) == (weights + rows, 2 * macs)
    assert report["flops"] == 4 * macs + 2 * (2 * hidden + 10) + 6 * 2 * quantized_activations
    shapes = 16 if build is convolve else 0  # of the flattening: two integers of eight bytes
    assert report["model_size"] == weights + (4 + 4) * rows + shapes
