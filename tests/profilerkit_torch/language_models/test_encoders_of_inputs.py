"""Encoders of images and sound: their tokens and work by hand, and models whose configuration does not tell them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from profilerkit import InputError, llm

transformers = pytest.importorskip("transformers")

TEXT = {
    "model_type": "llama",
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
#: CLIP with images of 28 by 28 pixels: four patches of 14 by 14, and a class token.
VISION = {
    "model_type": "clip_vision_model",
    "hidden_size": 32,
    "intermediate_size": 48,
    "image_size": 28,
    "patch_size": 14,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
LENGTHS: dict[str, Any] = {"prompt": 16, "new": 4, "dtype": "bf16"}


def make_llava() -> Any:
    return transformers.LlavaConfig(vision_config=VISION, text_config=TEXT)


def test_an_image_becomes_its_patches_and_takes_the_work_of_the_encoder() -> None:
    """Patches by a convolution, two layers over five tokens, and two matrices that make features of text of four."""
    report: Any = llm(make_llava(), images=3, **LENGTHS)
    (inputs,) = report.cost.inputs
    layers = 2 * (5 * (4 * 32 * 32 + 2 * 32 * 48) + 2 * 5 * 5 * 32)
    projector = 4 * (32 * 64 + 64 * 64)
    assert inputs.encoder.tokens == 4
    assert inputs.encoder.macs == 4 * 32 * 3 * 14 * 14 + layers + projector
    assert report.prompt == 16 + 3 * 4
    text: Any = llm(make_llava(), **{**LENGTHS, "prompt": 28})
    assert report.serving[0].prefill.macs == text.serving[0].prefill.macs + 3 * inputs.encoder.macs
    tower = sum(part.bytes for part in text.facts.weights if part.read_in == "none")
    read = sum(part.bytes for part in inputs.encoder.weights)
    assert 0.9 * tower < read <= tower, "the norm after the last layer is not used"
    assert "where they are for images or sound" not in str(report)
    assert "28 by 28 pixels" in str(report)


def test_work_of_an_encoder_that_has_no_formula_is_said() -> None:
    class Unknown(transformers.LlavaForConditionalGeneration):  # type: ignore[misc,name-defined]
        def get_image_features(self, *args: Any, **kwargs: Any) -> Any:
            features = super().get_image_features(*args, **kwargs)
            torch.ops.profilerkit_images.unknown(features.last_hidden_state)
            return features

    with torch.library._scoped_library("profilerkit_images", "DEF") as library:
        library.define("unknown(Tensor x) -> Tensor")
        library.impl("unknown", lambda x: x.clone(), "CompositeExplicitAutograd")
        with torch.device("meta"):
            model = Unknown(make_llava()).eval()
        text = " ".join(str(llm(model, images=1, **{**LENGTHS, "dtype": None})).split())
    assert "the work for images is a lower bound, not counted: profilerkit_images::unknown (1 call)" in text


def test_adapters_are_beside_the_matrices_of_text_alone() -> None:
    """Rank 4 in both layers: q, k, v and o of 64 by 64, three matrices of 64 by 128; none of the encoder's q_proj."""
    report: Any = llm(make_llava(), lora_rank=4, **LENGTHS)
    assert report.cost.adapters.parameters == 2 * 4 * (4 * (64 + 64) + 3 * (64 + 128))


def test_sound_becomes_tokens() -> None:
    """Voxtral: 40 frames, of which a convolution makes 20 positions; four of those are one token."""
    audio = {
        "num_mel_bins": 8,
        "hidden_size": 32,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "max_source_positions": 20,
    }
    text = {**TEXT, "num_key_value_heads": 4, "head_dim": 16}  # Voxtral has other defaults than Llama
    config = transformers.VoxtralConfig(audio_config=audio, text_config=text)
    report: Any = llm(config, audio=1, **LENGTHS)
    (inputs,) = report.cost.inputs
    convolutions = 40 * 32 * 8 * 3 + 20 * 32 * 32 * 3
    layer = 20 * (4 * 32 * 32 + 2 * 32 * 128) + 2 * 20 * 20 * 32
    assert (inputs.encoder.tokens, inputs.encoder.size) == (5, "40 frames of sound")
    assert inputs.encoder.macs == convolutions + layer + 5 * (128 * 64 + 64 * 64)


@pytest.mark.parametrize(("option", "name"), [("images", "LlamaForCausalLM"), ("audio", "LlamaForCausalLM")])
def test_a_model_of_text_takes_none(option: str, name: str) -> None:
    config = transformers.LlamaConfig(**{key: value for key, value in TEXT.items() if key != "model_type"})
    with pytest.raises(InputError, match=f"{option}: {name} takes none that llm could follow"):
        llm(config, **{**LENGTHS, option: 1})


def test_a_size_that_no_encoder_takes_is_refused_with_the_reason() -> None:
    """Gemma 3 makes 256 tokens of an image, of 16 patches in each direction at least; 28 pixels have two."""
    config = transformers.Gemma3Config(vision_config={**VISION, "model_type": "siglip_vision_model"}, text_config=TEXT)
    with pytest.raises(
        InputError, match="images: the encoder of Gemma3ForCond.* cannot be followed with 28 by 28 pixels"
    ):
        llm(config, images=1, **LENGTHS)


@pytest.mark.slow
def test_published_encoders_make_the_tokens_that_their_papers_have() -> None:
    """LLaVA-1.5 (https://arxiv.org/abs/2310.03744): 576 of 336 pixels.

    PaliGemma (https://arxiv.org/abs/2407.07726): 256 of 224. InternVL (https://arxiv.org/abs/2404.16821): 256 of 448.
    Gemma 3 (https://arxiv.org/abs/2503.19786): 256 of 896.
    """
    siglip = {"model_type": "siglip_vision_model", "image_size": 896, "patch_size": 14}
    published = [
        (transformers.LlavaConfig(), 576),
        (transformers.PaliGemmaConfig(), 256),
        (transformers.InternVLConfig(), 256),
        (transformers.Gemma3Config(vision_config=siglip), 256),
    ]
    for config, expected in published:
        report: Any = llm(config, images=1, **LENGTHS)
        assert report.cost.inputs[0].encoder.tokens == expected, type(config)
