"""Images whose tokens follow from their pixels: tokens and work by hand, by the rules that the processors document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profilerkit import ArgumentError, InputError, llm

transformers: Any = pytest.importorskip("transformers", minversion="5.23")
pytest.importorskip("PIL")

TEXT = {
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}
#: The same for Qwen, whose positions have three parts in a half of a head.
OF_QWEN = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}}
#: The features of a patch in all encoders here, in two heads, and those of four patches, which become one token.
WIDTH, INNER, MERGED = 32, 48, 4 * 32
LENGTHS: dict[str, Any] = {"prompt": 16, "new": 4, "dtype": "bf16", "images": 1}


def make_qwen2(**changes: Any) -> Any:
    vision = {"depth": 1, "embed_dim": WIDTH, "num_heads": 2, "mlp_ratio": 2, "hidden_size": 64}
    return transformers.Qwen2VLConfig(vision_config={**vision, **changes}, text_config=OF_QWEN)


def make_later_qwen(kind: str, **changes: Any) -> Any:
    vision = {"depth": 2, "hidden_size": WIDTH, "intermediate_size": INNER, "num_heads": 2, "out_hidden_size": 64}
    return getattr(transformers, kind)(vision_config={**vision, **changes}, text_config=OF_QWEN)


def make_mistral() -> Any:
    vision = {"model_type": "pixtral", "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 2, "head_dim": 16, "patch_size": 14, "image_size": 140}
    return transformers.Mistral3Config(vision_config=vision, text_config={"model_type": "mistral", **TEXT})


def encode(config: Any, image_size: str) -> Any:
    report: Any = llm(config, image_size=image_size, **LENGTHS)
    return report.cost.inputs[0].encoder


def count_layer(patches: int, inner: int, matrices: int, windows: int = 1) -> int:
    """Return the work of a layer of an encoder, whose patches attend to each other in so many equal windows."""
    return patches * (4 * WIDTH * WIDTH + matrices * WIDTH * inner) + 2 * patches * (patches // windows) * WIDTH


def test_qwen2_rounds_an_image_to_squares_of_28_pixels() -> None:
    """80 by 60 pixels become 84 by 56: 6 by 4 patches of 14 by 14 by 3, twice for time; four are one token."""
    encoder, patches = encode(make_qwen2(), "80x60"), 24
    assert (encoder.tokens, encoder.size) == (6, "80 by 60 pixels")
    merger = 6 * (MERGED * MERGED + MERGED * 64)
    assert encoder.macs == patches * WIDTH * 3 * 2 * 14 * 14 + count_layer(patches, 2 * WIDTH, 2) + merger


@pytest.mark.parametrize(
    ("image_size", "tokens"),
    [
        ("1024x768", 37 * 27),  # 36.6 and 27.4 squares
        ("20x20", 2 * 2),  # at least 56 * 56 pixels
        ("4000x3000", 41 * 30),  # at most 1,003,520 pixels: divided by 3.458, and rounded down
    ],
)
def test_the_tokens_of_qwen2_are_those_of_its_processor(image_size: str, tokens: int) -> None:
    assert encode(make_qwen2(), image_size).tokens == tokens
    width, height = map(int, image_size.split("x"))
    assert transformers.Qwen2VLImageProcessorPil().get_number_of_image_patches(height, width) == 4 * tokens


def test_qwen2_5_attends_in_windows_of_112_pixels() -> None:
    """224 by 112 pixels: 16 by 8 patches in two windows of 8 by 8, in one of two layers."""
    encoder = encode(make_later_qwen("Qwen2_5_VLConfig", fullatt_block_indexes=[1], window_size=112), "224x112")
    layers = count_layer(128, INNER, 3, windows=2) + count_layer(128, INNER, 3)
    assert encoder.tokens == 32
    assert encoder.macs == 128 * WIDTH * 3 * 2 * 14 * 14 + layers + 32 * (MERGED * MERGED + MERGED * 64)


def test_qwen3_has_patches_of_16_pixels_and_merges_at_several_depths() -> None:
    """160 by 96 pixels: 10 by 6 patches; a merger after the first of two layers, and one at the end."""
    encoder = encode(make_later_qwen("Qwen3VLConfig", deepstack_visual_indexes=[0]), "160x96")
    mergers = 2 * 15 * (MERGED * MERGED + MERGED * 64)
    assert encoder.tokens == 15
    assert encoder.macs == 60 * WIDTH * 3 * 2 * 16 * 16 + 2 * count_layer(60, INNER, 2) + mergers


@pytest.mark.parametrize(
    ("image_size", "rows", "columns"),
    [("100x60", 3, 4), ("280x140", 3, 5)],  # the longer edge has 140 pixels at most; 70 take three squares
)
def test_pixtral_fills_squares_of_28_pixels(image_size: str, rows: int, columns: int) -> None:
    """Patches of 14 by 14, four of which a product joins before the two that make features of text."""
    encoder, tokens = encode(make_mistral(), image_size), rows * columns
    projector = tokens * (MERGED * WIDTH + WIDTH * 64 + 64 * 64)
    assert encoder.tokens == tokens
    assert encoder.macs == 4 * tokens * WIDTH * 3 * 14 * 14 + count_layer(4 * tokens, INNER, 3) + projector


def test_a_checkpoint_limits_its_images_itself(tmp_path: Path) -> None:
    """At most 6,272 pixels: 1024 by 768 divided by 11.2 are 91 by 69, of which squares of 28 fit 3 and 2."""
    make_qwen2().save_pretrained(tmp_path)
    by_default: Any = llm(str(tmp_path), image_size="1024x768", **LENGTHS)
    assert by_default.cost.inputs[0].tokens == 999
    assert "images are resized as the Qwen2VLImageProcessorPil of transformers does by default" in " ".join(
        str(by_default).split()
    )
    settings = {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 6272}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")
    limited: Any = llm(str(tmp_path), image_size="1024x768", **LENGTHS)
    assert limited.cost.inputs[0].tokens == 6
    assert "by default" not in str(limited)


def test_a_size_is_needed_where_tokens_follow_from_it() -> None:
    with pytest.raises(InputError, match="its own size .image_grid_thw., .* such as image_size='1024x768'"):
        llm(make_qwen2(), **LENGTHS)


def test_a_size_that_does_not_follow_is_refused_with_the_reason(tmp_path: Path) -> None:
    """LLaVA-NeXT cuts an image into tiles by a list that its processor has."""
    config = transformers.LlavaNextConfig(text_config={"model_type": "llama", **TEXT})
    with pytest.raises(InputError, match="cuts an image of 640 by 480 pixels does not follow from its configuration"):
        llm(config, image_size="640x480", **LENGTHS)
    with pytest.raises(InputError, match="takes no image of 3,000 by 10 pixels: .*aspect ratio"):
        llm(make_qwen2(), image_size="3000x10", **LENGTHS)


@pytest.mark.parametrize("image_size", ["1024", "0x5", "axb", "20000x20000", (1024, 768)])
def test_what_is_no_size_is_an_error(image_size: Any) -> None:
    with pytest.raises(ArgumentError, match="image_size=.* give width and height in pixels, such as '1024x768'"):
        llm(make_qwen2(), image_size=image_size, **LENGTHS)


def test_a_size_needs_images() -> None:
    with pytest.raises(ArgumentError, match="image_size='80x60' .* without images: give images"):
        llm(make_qwen2(), image_size="80x60", prompt=16, new=4)
