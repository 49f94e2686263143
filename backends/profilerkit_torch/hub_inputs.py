"""The inputs of transformers' models: the shapes of one sample, read from a model's signature and its configuration.

A model names its main input. It also needs the arguments of its ``forward`` without a default; a model that compares
text with images or sound (``return_loss`` is in its signature) needs both. The few other inputs are in `BESIDE`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import torch

__all__ = ["BESIDE", "SAMPLES", "TOKENS", "find_shapes"]

#: Tokens in the sequences for language models, and samples in a second of sound.
TOKENS, SAMPLES = 128, 16_000
#: The regions of an image that LXMERT takes.
_REGIONS = 36

#: Further inputs that models need although their signature has a default for them, by type of configuration.
BESIDE: Mapping[str, tuple[str, ...]] = {
    "aimv2": ("pixel_values",),
    "bridgetower": ("pixel_values",),
    "bros": ("bbox",),
    "decision_transformer": ("actions", "rewards", "returns_to_go", "timesteps", "attention_mask"),
    "flava": ("pixel_values",),
    "lxmert": ("visual_feats", "visual_pos"),
    "sam3": ("input_ids",),
    "speecht5": ("decoder_input_values",),
    "seggpt": ("prompt_pixel_values", "prompt_masks"),
    "udop": ("bbox",),
    "vilt": ("pixel_values",),
}

#: Models that read in one input how another one is laid out: the places of an image's tokens, or its rows of patches.
_NEED_VALUES = ("blip-2", "kosmos-2", "siglip2")

#: Parts of a model that compares two kinds of data.
_COMPARED = ("input_ids", "pixel_values", "input_features")

#: A shape of one sample and its dtype.
Input: TypeAlias = "tuple[tuple[int, ...], str]"


def find_shapes(model: Any, config: Any, dtype: torch.dtype = torch.float32) -> dict[str, Input] | None:
    """Return the shapes of one sample by the names of the inputs that a model of a dtype needs.

    Inputs that are no integers have the dtype of the model: its first layer multiplies them with weights of it.
    None if its main input, or another necessary input, is of a kind that no configuration describes, and if the model
    needs values that fit each other.
    """
    names = list(_list_needed(model, config))
    if _read_type(config) in _NEED_VALUES or not _SHAPES.keys() >= set(names):
        return None
    integers = _INTEGERS - {"bbox"} if _read_type(config) == "udop" else _INTEGERS  # UDOP's boxes are parts of a page
    floating = str(dtype).removeprefix("torch.")
    return {name: (_SHAPES[name](config), "int64" if name in integers else floating) for name in names}


def _list_needed(model: Any, config: Any) -> Iterator[str]:
    """Yield the names of the inputs that a model needs, some of them more than once."""
    parameters = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    yield from [main] if isinstance(main, str) else main  # OneFormer has two
    yield from (name for name, parameter in parameters.items() if _is_required(parameter))
    yield from BESIDE.get(_read_type(config), ())
    if "return_loss" in parameters:
        yield from (name for name in _COMPARED if name in parameters)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in parameters:
        yield "decoder_input_ids"


def _is_required(parameter: inspect.Parameter) -> bool:
    is_named = parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return is_named and parameter.default is inspect.Parameter.empty


# Shapes of one sample by a configuration ------------------------------------------------------------------------------


def _read(config: Any, *names: str, section: str = "", default: Any = None) -> Any:
    """Return the first of several attributes that a section of a configuration has, or the whole, or a backbone."""
    inner = getattr(config, section, None) if section else None
    for holder in (inner, getattr(inner, "backbone_config", None), config, getattr(config, "backbone_config", None)):
        for name in names:
            value = getattr(holder, name, None)
            if value is not None:
                return value
    return default


def _read_type(config: Any) -> str:
    return str(getattr(config, "model_type", ""))


def _shape_tokens(config: Any) -> tuple[int, ...]:
    longest = _read(config, "max_position_embeddings", section="text_config", default=TOKENS)
    return (min(TOKENS, longest) if longest > 0 else TOKENS,)  # XLNet has -1: sequences of any length


def _shape_decoded_tokens(config: Any) -> tuple[int, ...]:
    """Return the shape of the tokens of a decoder, some of which take fewer than their encoder; Dia's have channels."""
    longest = _read(config, "max_target_positions", "max_decoder_position_embeddings", default=TOKENS)
    channels = (config.decoder_config.num_channels,) if _read_type(config) == "dia" else ()
    return min(*_shape_tokens(config), longest), *channels


def _shape_boxes(config: Any) -> tuple[int, ...]:
    """Return the shape of the boxes around words: two corners of each, for BROS four."""
    return (*_shape_tokens(config), 8 if _read_type(config) == "bros" else 4)


def _shape_image(config: Any) -> tuple[int, ...]:
    """Return the shape of an image, or of the frames of a film."""
    size = _read(config, "image_size", "crop_size", section="vision_config")
    if size is None and _read_type(config) == "depth_pro":
        size = config.patch_size * round(1 / min(config.scaled_images_ratios))  # the smallest copy is one patch
    size = size or 224
    if isinstance(size, Mapping):
        size = size["height"], size["width"]
    height, width = size if isinstance(size, (tuple, list)) else (size, size)
    backbone: Any = getattr(config, "backbone_config", None)
    if getattr(backbone, "num_windows", 0):  # RF-DETR's default size is no whole number of windows
        step = backbone.patch_size * backbone.num_windows
        height, width = height - height % step, width - width % step
    if _read_type(config) == "seggpt":  # puts the image below its prompt
        height //= 2
    channels = _read(config, "num_channels", "in_channels", "in_chans", section="vision_config", default=3)
    frames = _read(config, "num_frames", "frames_per_clip", section="vision_config")
    return (channels, height, width) if frames is None else (frames, channels, height, width)


def _shape_sound(config: Any) -> tuple[int, ...]:
    """Return the shape of a second of sound, or of a spectrogram for a model that has no channel of sound."""
    bins, frames = getattr(config, "num_mel_bins", None), getattr(config, "max_length", None)
    if bins and frames and not hasattr(config, "conv_dim"):
        return frames, bins
    if _read_type(config) == "speecht5":  # the model without its first layers takes their output
        return TOKENS, config.hidden_size
    channels = _read(config, "audio_channels", default=1 if _read_type(config) in ("dac", "xcodec") else None)
    return (SAMPLES,) if channels is None else (channels, SAMPLES)


def _shape_spectrogram(config: Any) -> tuple[int, ...]:
    """Return the shape of a spectrogram: frames by features, for Whisper features by frames."""
    audio: Any = getattr(config, "audio_config", None)
    if hasattr(audio, "spec_size"):  # CLAP: a picture whose size is made square
        return 1, audio.spec_size * audio.spec_size // audio.num_mel_bins, audio.num_mel_bins
    features = _read(config, "feature_projection_input_dim", "input_feat_per_channel", "num_mel_channels")
    if features is not None:
        return TOKENS, features
    bins = _read(config, "num_mel_bins", section="encoder_config", default=80)
    longest = getattr(config, "max_source_positions", None)
    return (TOKENS, bins) if longest is None else (bins, 2 * longest)


def _shape_series(config: Any) -> tuple[int, ...]:
    """Return the shape of a series: the past steps that the model reads, by the number of series."""
    return int(config.context_length), _read(config, "num_input_channels", default=1)


def _shape_steps(width: str, steps: int = TOKENS) -> Callable[[Any], tuple[int, ...]]:
    """Return the shape of a sequence with numbers for each step: as many as a configuration has under a name."""
    return lambda config: (steps, getattr(config, width))


_INTEGERS = {"input_ids", "decoder_input_ids", "bbox", "timesteps", "attention_mask"}
_SHAPES: Mapping[str, Callable[[Any], tuple[int, ...]]] = {
    "input_ids": _shape_tokens,
    "decoder_input_ids": _shape_decoded_tokens,
    "bbox": _shape_boxes,
    "timesteps": lambda config: (TOKENS,),
    "attention_mask": lambda config: (TOKENS,),
    "pixel_values": _shape_image,
    "pixel_values_videos": _shape_image,
    "prompt_pixel_values": _shape_image,
    "prompt_masks": _shape_image,
    "input_values": _shape_sound,
    "decoder_input_values": _shape_steps("hidden_size"),
    "input_features": _shape_spectrogram,
    "inputs": _shape_steps("d_model"),
    "past_values": _shape_series,
    "visual_feats": _shape_steps("visual_feat_dim", _REGIONS),
    "visual_pos": _shape_steps("visual_pos_dim", _REGIONS),
    "states": _shape_steps("state_dim"),
    "actions": _shape_steps("act_dim"),
    "rewards": lambda config: (TOKENS, 1),
    "returns_to_go": lambda config: (TOKENS, 1),
}
