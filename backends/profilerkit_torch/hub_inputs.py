"""The inputs of transformers' models: the shapes of one sample, read from a model's signature and its configuration.

A model names its main input. What it needs beside that is what its ``forward`` has no default for; a model that
compares text with images or sound (``return_loss`` is in its signature) needs both. The few others are in `BESIDE`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

__all__ = ["BESIDE", "SAMPLES", "TOKENS", "find_shapes"]

#: Tokens in the sequences that language models are given, and samples in a second of sound.
TOKENS, SAMPLES = 128, 16_000

#: What models need beside their main input although their signature has a default for it, by type of configuration.
BESIDE: Mapping[str, tuple[str, ...]] = {
    "blip-2": ("input_ids",),
    "bridgetower": ("pixel_values",),
    "bros": ("bbox",),
    "decision_transformer": ("actions", "rewards", "returns_to_go", "timesteps", "attention_mask"),
    "flava": ("pixel_values",),
    "lxmert": ("visual_feats", "visual_pos"),
    "speecht5": ("decoder_input_values",),
    "seggpt": ("prompt_pixel_values", "prompt_masks"),
    "vilt": ("pixel_values",),
}

#: Parts of a model that compares two kinds of data.
_COMPARED = ("input_ids", "pixel_values", "input_features")

#: A shape of one sample and its dtype.
Input: TypeAlias = "tuple[tuple[int, ...], str]"


def find_shapes(model: Any, config: Any, dtype: torch.dtype = torch.float32) -> dict[str, Input] | None:
    """Return the shapes of one sample by the names of the inputs that a model of a dtype needs.

    Inputs that are no integers have the dtype of the model: its first layer multiplies them with weights of it.
    None if its main input, or another one that it cannot do without, is of a kind that no configuration describes.
    """
    parameters = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    names = [main, *(name for name, value in parameters.items() if _is_required(value))]
    names += BESIDE.get(getattr(config, "model_type", ""), ())
    if "return_loss" in parameters:
        names += [name for name in _COMPARED if name in parameters]
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in parameters:
        names.append("decoder_input_ids")
    if any(name not in _SHAPES for name in names):
        return None
    shapes = {name: _SHAPES[name](config) for name in dict.fromkeys(names)}
    floating = str(dtype).removeprefix("torch.")
    return {name: (shape, floating if kind == "float32" else kind) for name, (shape, kind) in shapes.items()}


def _is_required(parameter: inspect.Parameter) -> bool:
    named = parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return named and parameter.default is inspect.Parameter.empty


def _fact(config: Any, names: str, default: Any, section: str = "") -> Any:
    """Return the first of several facts that a section of a configuration has, or the configuration itself."""
    for holder in (getattr(config, section, None) if section else None, config):
        for name in names.split():
            value = getattr(holder, name, None)
            if value is not None:
                return value
    return default


# Shapes ---------------------------------------------------------------------------------------------------------------


def _tokens(config: Any) -> Input:
    longest = _fact(config, "max_position_embeddings", TOKENS, "text_config")
    return (min(TOKENS, longest) if longest > 0 else TOKENS,), "int64"  # XLNet has -1: sequences of any length


def _image(config: Any) -> Input:
    """Return the shape of an image, or of the frames of a film."""
    size = _fact(config, "image_size crop_size", None, "vision_config")
    if size is None and getattr(config, "model_type", "") == "depth_pro":
        size = config.patch_size * round(1 / min(config.scaled_images_ratios))  # the smallest copy is one patch
    size = size or 224
    height, width = size if isinstance(size, (tuple, list)) else (size, size)
    if getattr(config, "model_type", "") == "seggpt":  # puts the image below its prompt
        height //= 2
    channels = _fact(config, "num_channels in_channels in_chans", 3, "vision_config")
    frames = _fact(config, "num_frames frames_per_clip", None, "vision_config")
    return ((channels, height, width) if frames is None else (frames, channels, height, width)), "float32"


def _sound(config: Any) -> Input:
    """Return the shape of a second of sound, or of a spectrogram for a model that has no channel of sound."""
    bins, frames = getattr(config, "num_mel_bins", None), getattr(config, "max_length", None)
    if bins and frames and not hasattr(config, "conv_dim"):
        return (frames, bins), "float32"
    if getattr(config, "model_type", "") == "speecht5":  # the model without its first layers takes their output
        return (TOKENS, config.hidden_size), "float32"
    channels = _fact(config, "audio_channels", 1 if getattr(config, "model_type", "") == "dac" else None)
    return ((SAMPLES,) if channels is None else (channels, SAMPLES)), "float32"


def _spectrogram(config: Any) -> Input:
    """Return the shape of a spectrogram: frames by features, for Whisper features by frames."""
    if getattr(config, "audio_config", None) is not None and hasattr(config.audio_config, "spec_size"):
        audio = config.audio_config  # CLAP: a picture whose size is made square
        return (1, audio.spec_size * audio.spec_size // audio.num_mel_bins, audio.num_mel_bins), "float32"
    names = "feature_projection_input_dim input_feat_per_channel num_mel_channels"
    features = _fact(config, names, None)
    if features is not None:
        return (TOKENS, features), "float32"
    bins = _fact(config, "num_mel_bins", 80)
    longest = getattr(config, "max_source_positions", None)
    return ((TOKENS, bins) if longest is None else (bins, 2 * longest)), "float32"


def _values(config: Any) -> Input:
    """Return the shape of a series: what the model looks back on, by the number of series."""
    return (int(config.context_length), _fact(config, "num_input_channels", 1)), "float32"


def _per_step(name: str) -> Callable[[Any], Input]:
    return lambda config: ((TOKENS, getattr(config, name) if name else 1), "float32")


_SHAPES: Mapping[str, Callable[[Any], Input]] = {
    "input_ids": _tokens,
    "decoder_input_ids": _tokens,
    "pixel_values": _image,
    "pixel_values_videos": _image,
    "prompt_pixel_values": _image,
    "prompt_masks": _image,
    "input_values": _sound,
    "decoder_input_values": lambda config: ((TOKENS, config.hidden_size), "float32"),
    "input_features": _spectrogram,
    "past_values": _values,
    "inputs": lambda config: ((TOKENS, config.d_model), "float32"),
    "bbox": lambda config: ((*_tokens(config)[0], 8 if config.model_type == "bros" else 4), "int64"),
    "visual_feats": lambda config: ((36, config.visual_feat_dim), "float32"),
    "visual_pos": lambda config: ((36, config.visual_pos_dim), "float32"),
    "states": _per_step("state_dim"),
    "actions": _per_step("act_dim"),
    "rewards": _per_step(""),
    "returns_to_go": _per_step(""),
    "timesteps": lambda config: ((TOKENS,), "int64"),
    "attention_mask": lambda config: ((TOKENS,), "int64"),
}
