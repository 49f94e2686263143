"""More than 60 torch models by litert-torch: torch's MACs, to the last one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnx")  # the models are those of the tests of ONNX
pytest.importorskip("torch")
pytest.importorskip("litert_torch")
import litert_torch
from exported_models import MODELS, built
from source_tree import ROOT

from profilerkit import ModelInputs
from profilerkit_litert import LiteRTBackend, LiteRTModel
from profilerkit_torch import TorchBackend

TORCH, LITERT = TorchBackend(), LiteRTBackend()

#: What the converter refuses: words of its error.
REFUSED: Mapping[str, str] = {
    "collaborative filtering": r"aten\._trilinear",
    "generator": "mhlo.convolution",
    "LlavaForConditionalGeneration": r"aten\._is_all_true",
}


def convert(model: Any, inputs: ModelInputs) -> LiteRTModel:
    return LiteRTModel(litert_torch.convert(model, inputs.args, dict(inputs.kwargs)).model_content())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's exporter, and of transformers
@pytest.mark.parametrize("name", MODELS)
def test_a_converted_model_has_torchs_macs(name: str) -> None:
    model, inputs = built(name)
    if name in REFUSED:
        with pytest.raises(Exception, match=REFUSED[name]):
            convert(model, inputs)
        return
    expected = TORCH.trace(model, inputs)
    assert (expected.failure, expected.missing) == (None, ())
    converted = convert(model, inputs)
    trace = LITERT.trace(converted, LITERT.fit_inputs(converted, inputs.map(LITERT.as_tensor)))
    assert (trace.failure, trace.missing, trace.choices) == (None, (), ())
    assert trace.macs == expected.macs > 0


def test_sixty_models_at_least_are_converted() -> None:
    pytest.importorskip("transformers")
    assert len(MODELS.keys() - REFUSED.keys()) >= 60


def test_the_page_has_what_litert_torch_refuses() -> None:
    page = (ROOT / "docs" / "litert.rst").read_text()
    rows = [line for line in page.splitlines() if " refused " in line]
    for words in REFUSED.values():
        assert sum(row.startswith(f"``{words.replace(chr(92), '')}``") for row in rows) == 1, words
    if len(MODELS) == 77:  # the libraries with the other models are installed
        assert f"{77 - len(REFUSED)} of the 77" in page
