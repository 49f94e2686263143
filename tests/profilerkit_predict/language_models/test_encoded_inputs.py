"""Images and sound as tokens with their encoder, against counts by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit import ArgumentError
from profilerkit_predict.checkpoints.formats import WeightKind
from profilerkit_predict.language_models import LanguageModelReport, StepCost
from profilerkit_predict.language_models.engine.serving import predict_serving
from profilerkit_predict.language_models.facts.prompts import EncodedInputs, InputEncoder, InputKind, read_image_size
from profilerkit_predict.language_models.facts.records import ReadIn, WeightPart

#: An encoder of 500 elements, of 1,000 bytes, that makes 5 tokens of an image with 7,000 multiply-accumulates.
PART = WeightPart(WeightKind.MATRIX, 500, 1000, "bfloat16", read_in=ReadIn.NONE)
ENCODER = InputEncoder(
    InputKind.IMAGES, "8 by 8 pixels", 5, 7000, (replace(PART, read_in=ReadIn.ALL),), ("images are resized",)
)
FACTS = toy_facts(weights=(*toy_facts().weights, PART), notes_on_text=("text does not go through the encoder",))
COST: Any = StepCost(FACTS, DEVICE, inputs=(EncodedInputs(ENCODER, 2),))


def test_a_prefill_runs_the_encoder_once_for_each_image() -> None:
    """Three prompts with two images each; the weights of the encoder are read once."""
    plain = StepCost(FACTS, DEVICE)(3, 20)
    row: Any = predict_serving(COST, 3, 20, 4)
    assert row.prefill.macs == plain.macs + 3 * 2 * 7000
    assert row.prefill.weight_bytes == plain.weight_bytes + 1000
    amounts = {term.name: term.amount for term in row.prefill.terms}
    assert (amounts["products of the encoder"], amounts["encoder"]) == (42000, 1000)
    assert not any("encoder" in term.name for term in row.decode.terms)


def test_a_report_shows_them() -> None:
    row = predict_serving(COST, 1, 20, 4)
    report = LanguageModelReport(COST, 20, 4, (row,))
    text = " ".join(report.to_text().split())
    assert "Engine, 20 tokens of prompt, 10 of images, and 4 new" in text
    assert "images 2 of 8 by 8 pixels, each 5 tokens their encoder 7 k MACs for each" in text
    assert "a prefill runs the encoder of images, on the same devices" in text
    assert "text does not go through the encoder" not in text
    inputs = {"kind": "images", "count": 2, "size": "8 by 8 pixels", "tokens": 5, "macs": 7000}
    inputs |= {"notes": ["images are resized"]}
    assert "- images are resized" in report.to_text()
    assert report.to_dict()["engine"]["inputs"] == [inputs]
    of_text = StepCost(FACTS, DEVICE)
    report = LanguageModelReport(of_text, 20, 4, (predict_serving(of_text, 1, 20, 4),))
    assert "text does not go through the encoder" in report.to_text()


@pytest.mark.parametrize("images", [None, 0])
def test_a_size_without_images_is_refused(images: int | None) -> None:
    with pytest.raises(ArgumentError, match="without images"):
        read_image_size("10x10", images)
