"""The inputs of transformers' models: what each kind needs beside its main input, read from its configuration."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from profilerkit import InputError, profile
from profilerkit.models.loaders import load_model

transformers = pytest.importorskip("transformers")

FLOAT, INT = "float32", "int64"
EXPECTED: dict[str, dict[str, Any] | None] = {
    "clip": {"input_ids": ((77,), INT), "pixel_values": ((3, 224, 224), FLOAT)},
    "siglip": {"input_ids": ((64,), INT), "pixel_values": ((3, 224, 224), FLOAT)},
    "xlnet": {"input_ids": ((128,), INT)},
    "funnel": {"input_ids": ((128,), INT)},
    "lxmert": {"input_ids": ((128,), INT), "visual_feats": ((36, 2048), FLOAT), "visual_pos": ((36, 4), FLOAT)},
    "timesformer": {"pixel_values": ((8, 3, 224, 224), FLOAT)},
    "audio-spectrogram-transformer": {"input_values": ((1024, 128), FLOAT)},
    "encodec": {"input_values": ((1, 16000), FLOAT)},
    "hubert": {"input_values": ((16000,), FLOAT)},
    "wav2vec2-bert": {"input_features": ((128, 160), FLOAT)},
    "vilt": {"input_ids": ((40,), INT), "pixel_values": ((3, 384, 384), FLOAT)},
    "llava": {"input_ids": ((128,), INT)},
    "sam2": {"pixel_values": ((3, 1024, 1024), FLOAT)},
    "xcodec": {"input_values": ((1, 16000), FLOAT)},
    "lasr_ctc": {"input_features": ((128, 128), FLOAT)},
    "aimv2": {"input_ids": ((77,), INT), "pixel_values": ((3, 224, 224), FLOAT)},
    "dia": {"input_ids": ((128,), INT), "decoder_input_ids": ((128, 9), INT)},
    "rf_detr": {"pixel_values": ((3, 504, 504), FLOAT)},  # of 518, nine windows of four patches of 14
    "sam3": {"pixel_values": ((3, 1008, 1008), FLOAT), "input_ids": ((32,), INT)},
    "udop": {"input_ids": ((128,), INT), "bbox": ((128, 4), FLOAT), "decoder_input_ids": ((128,), INT)},
    **dict.fromkeys(("blip-2", "kosmos-2", "siglip2")),  # the values of one input lay out another one
    "oneformer": None,  # it has two main inputs, and one of them is of a kind that no configuration describes
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_inputs_of_each_kind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are those of the default configurations in transformers' documentation."""
    from profilerkit_torch import hub_models

    monkeypatch.setattr(hub_models, "LARGE", 0)  # every model stays without values
    assert load_model(f"hf:{name}").input_shape == EXPECTED[name]


@pytest.mark.parametrize(("longest", "tokens"), [(448, 128), (64, 64)])
def test_a_decoder_is_given_no_more_tokens_than_it_takes(longest: int, tokens: int) -> None:
    from profilerkit_torch.hub_inputs import find_shapes

    layers = {"encoder_layers": 1, "decoder_layers": 1}
    config = transformers.WhisperConfig(max_target_positions=longest, **layers)
    shapes = find_shapes(transformers.WhisperForConditionalGeneration(config), config)
    assert shapes is not None
    assert shapes["decoder_input_ids"] == ((tokens,), INT)
    assert shapes["input_features"] == ((80, 3000), FLOAT)


@pytest.mark.parametrize("size", [{"height": 64, "width": 96}, [64, 96]])
def test_an_image_has_the_height_and_width_that_a_configuration_has(size: Any) -> None:
    from profilerkit_torch.hub_inputs import find_shapes

    sizes = {"hidden_sizes": [8] * 4, "depths": [1] * 4, "num_attention_heads": [1] * 4}
    config = transformers.PvtV2Config(image_size=size, **sizes)
    shapes = find_shapes(transformers.PvtV2Model(config), config)
    assert shapes == {"pixel_values": ((3, 64, 96), FLOAT)}


def test_an_image_has_the_size_of_the_backbone_in_whole_windows() -> None:
    """LW-DETR takes 4 windows in each direction, of patches of 16: with 1024 pixels a window has 16 of them."""
    from profilerkit_torch.hub_inputs import find_shapes

    config = transformers.LwDetrConfig(projector_scale_factors=[1.0])
    with torch.device("meta"):
        model = transformers.LwDetrModel(config)
    shapes = find_shapes(model, config)
    assert shapes == {"pixel_values": ((3, 1024, 1024), FLOAT)}
    assert profile(model.eval(), input_shape=shapes, metrics=["macs"]).statuses["macs"].completeness.value == "complete"


def test_a_configuration_of_which_nothing_can_be_built() -> None:
    """The default configuration of ESM has no vocabulary."""
    with pytest.raises(InputError, match=r"'hf:esm': transformers cannot build a model of this config.*: TypeError"):
        load_model("hf:esm")


def test_a_main_input_that_no_configuration_describes() -> None:
    from profilerkit_torch.hub_inputs import find_shapes

    class Odd(torch.nn.Module):
        main_input_name = "graph"

        def forward(self, graph: Any) -> Any:
            return graph

    assert find_shapes(Odd(), transformers.BertConfig()) is None


def test_a_model_that_compares_text_with_images_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two towers' matrix products: 12 layers each, by hand from the sizes of the configuration."""
    from profilerkit_torch import hub_models

    monkeypatch.setattr(hub_models, "LARGE", 0)
    loaded = load_model("hf:clip")
    report = profile(loaded.model, input_shape=loaded.input_shape, metrics=["macs"])

    def tower(tokens: int, width: int) -> int:
        return 12 * (tokens * 12 * width * width + 2 * tokens * tokens * width)

    patches = 49 * 768 * 3 * 32 * 32
    projections = 512 * 512 + 768 * 512
    assert report["macs"] == tower(77, 512) + tower(50, 768) + patches + projections + 512
