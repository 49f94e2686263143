"""More than 60 torch models by litert-torch: torch's MACs, or the change is named here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnx")  # the models are those of the tests of ONNX
pytest.importorskip("torch")
pytest.importorskip("litert_torch")
from exported_models import MODELS, require_torchs_macs
from source_tree import ROOT

from profilerkit import ModelInputs
from profilerkit_litert import LiteRTBackend, LiteRTModel

LITERT = LiteRTBackend()

_STATE = "the product with the initial state, zero, is computed before"
#: What the converter changes: the MACs that this adds, worked out by hand, and the reason.
CHANGES: Mapping[str, tuple[int, str]] = {
    # 3 samples, 12 units, of four gates and of three
    "lstm": (-3 * 12 * 4 * 12, _STATE),
    "gru": (-3 * 12 * 3 * 12, _STATE),
    # 2 samples, 12 units: three gates of the encoder; two layers in two directions; one step of four gates
    "sequence to sequence": (-2 * 12 * 3 * 12, _STATE),
    "nn.RNN": (-2 * 2 * 2 * 12 * 12, _STATE),
    "nn.LSTMCell": (-2 * 12 * 4 * 12, _STATE),
    # two layers, projected as keys and as queries: 2 * 512 relative positions, 32 wide
    "DebertaV2Model": (-2 * 2 * (2 * 512) * 32 * 32, "the projections of positions are constants"),
    # 2 samples, 10 queries, 32 wide; all else that depends on learned queries stays in the file, and counts
    "DetrForObjectDetection": (-2 * 10 * 32 * 32, "the first values of the decoder are a product with zeros"),
}

#: What the converter refuses: words of its error.
REFUSED: Mapping[str, str] = {
    "collaborative filtering": r"aten\._trilinear",
    "generator": "mhlo.convolution",
    "LlavaForConditionalGeneration": r"aten\._is_all_true",
}


def convert(model: Any, inputs: ModelInputs) -> LiteRTModel:
    converter: Any = import_module("litert_torch")
    return LiteRTModel(converter.convert(model, inputs.args, dict(inputs.kwargs)).model_content())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's exporter, and of transformers
@pytest.mark.parametrize("name", MODELS)
def test_a_converted_model_has_torchs_macs_or_the_change_is_named(name: str) -> None:
    require_torchs_macs(name, convert, LITERT, CHANGES, REFUSED)


def test_sixty_models_at_least_are_converted() -> None:
    pytest.importorskip("transformers")
    assert len(MODELS.keys() - REFUSED.keys()) >= 60


def test_the_page_has_what_litert_torch_changes_and_refuses() -> None:
    page = (ROOT / "docs" / "litert.rst").read_text()
    section = page.partition("From PyTorch\n")[2].partition("Run the model\n")[0]
    cells = [line.split() for line in section.splitlines() if line.startswith("``")]
    told = {row[0].strip("`"): row[1] for row in cells if row[1][0] == "-" or row[1] == "refused"}
    changes = {name: f"{change:,}" for name, (change, _) in CHANGES.items() if " " not in name}
    refused = {words.replace("\\", ""): "refused" for words in REFUSED.values()}
    assert told == changes | refused
    if len(MODELS) == 77:  # the libraries with the other models are installed
        assert f"{77 - len(CHANGES) - len(REFUSED)} of the 77" in page
