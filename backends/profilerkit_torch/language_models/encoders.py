"""The encoders of images and sound in language models: what they make of one input, on shapes alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

from profilerkit import InputError, ModelInputs
from profilerkit.error_text import error_line
from profilerkit_predict.language_models.records import InputEncoder, InputKind
from profilerkit_predict.language_models.weights import list_layer_weights, weight_parts

from ..trace.operator_facts import tensors_in
from ..trace.tracing import trace_model
from .configurations import find_number, find_text_configuration
from .dtypes import DTYPES, find_dtype
from .models import make_language_model
from .storage import find_storage

__all__ = ["find_input_encoder"]

#: The methods of models that encode an input, and the parts of a configuration that tell its size.
_METHODS = {InputKind.IMAGES: "get_image_features", InputKind.AUDIO: "get_audio_features"}
_PARTS = {InputKind.IMAGES: "vision_config", InputKind.AUDIO: "audio_config"}
#: What these methods take where the tokens of an image follow from its pixels and not from the configuration.
_FREE_SIZES = ("image_grid_thw", "image_sizes", "image_position_ids", "spatial_shapes", "target_sizes")


def find_input_encoder(model: Any, kind: InputKind, dtype: str | None = None) -> InputEncoder:
    """Return what the encoder of a model makes of one image of the size that its configuration names, or of one clip.

    A clip is as long as the encoder takes at once, 30 seconds for those of Whisper. Raises `InputError` for a model
    that takes none, or whose configuration does not tell the size.
    """
    language_model: Any = make_language_model(model, dtype)
    name = type(language_model).__name__
    method = getattr(language_model, _METHODS[kind], None)
    part = getattr(language_model.config, _PARTS[kind], None)
    if method is None or part is None:
        raise InputError(f"{kind}: {name} takes none that llm could follow ({_METHODS[kind]}); leave it out")
    free = list(_list_free(method))
    if free:
        raise InputError(
            f"{kind}: how many tokens one becomes for {name} follows from its own size ({free[0]}), and not from the "
            "configuration; add the tokens to the prompt (prompt=, --prompt), without the work of the encoder"
        )
    shape, size = _find_shape(part, kind, name)
    encoding = _Encoding(_METHODS[kind])
    encoded = torch.empty(1, *shape, dtype=DTYPES.get(find_dtype(language_model), torch.float32), device="meta")
    trace = trace_model(language_model, ModelInputs(encoded).given_to(encoding.run))
    width = find_number(find_text_configuration(language_model.config), "hidden_size")
    tokens = sum(count for count, features in encoding.rows if features == width)
    if trace.failure is not None or not tokens:
        cause = trace.failure.__cause__ or trace.failure if trace.failure is not None else None
        why = f"returned nothing of {width} features" if cause is None else error_line(cause)
        raise InputError(f"{kind}: the encoder of {name} cannot be followed with {size}: {why}; leave it out")
    called = {layer.path for layer in trace.layers if layer.calls}
    weights = [weight for weight in list_layer_weights(trace, (), 1) if weight.layer.path in called]
    storage = find_storage(trace, language_model.config)
    macs = sum(operator.macs for operator in trace.operators)
    return InputEncoder(kind, size, tokens, macs, weight_parts(weights, storage.formats, storage.packed))


def _list_free(method: Any) -> Iterator[str]:
    """Yield what a method needs besides the input: its size, or which part of it is filled."""
    _, *others = inspect.signature(method).parameters.values()
    for parameter in others:
        is_needed = parameter.default is inspect.Parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if parameter.name in _FREE_SIZES or is_needed:
            yield parameter.name


def _find_shape(part: Any, kind: InputKind, name: str) -> tuple[tuple[int, ...], str]:
    """Return the shape of one input by its part of a configuration, and that in words."""
    if kind is InputKind.IMAGES:
        size = getattr(part, "image_size", None)
        height, width = size if isinstance(size, (list, tuple)) and len(size) == 2 else (size, size)
        channels = find_number(part, "num_channels", "in_channels", "in_chans") or 3
        if isinstance(height, int) and isinstance(width, int):
            return (channels, height, width), f"{height:,} by {width:,} pixels"
    else:
        bins, positions = find_number(part, "num_mel_bins"), find_number(part, "max_source_positions")
        if bins is not None and positions is not None:
            return (bins, 2 * positions), f"{2 * positions:,} frames of sound"
    raise InputError(f"{kind}: the configuration of {name} does not tell how large one is; leave it out")


class _Encoding:
    """Runs a method that encodes an input, and keeps how many rows of how many features it returned."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.rows: list[tuple[int, int]] = []

    def run(self, model: Any, encoded: torch.Tensor) -> Any:
        outputs = getattr(model, self.method)(encoded)
        features = getattr(outputs, "pooler_output", outputs)
        self.rows = [(tensor.shape[:-1].numel(), tensor.shape[-1]) for tensor in tensors_in(features)]
        return outputs
