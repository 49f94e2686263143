"""The encoders of images and sound in language models: their work for one input, on shapes alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from profilerkit import InputError, ModelInputs, ModelTrace
from profilerkit.error_text import error_line
from profilerkit_predict.language_models.facts.prompts import ImageSize, InputEncoder, InputKind
from profilerkit_predict.language_models.facts.records import WeightPart
from profilerkit_predict.language_models.facts.weights import list_layer_weights, weight_parts

from ..trace.operator_facts import tensors_in
from ..trace.tracing import trace_model
from .checkpoints import find_storage
from .configurations import find_number, find_text_configuration
from .images import process_image
from .models import choose_dtype, make_language_model

__all__ = ["find_input_encoder"]

#: The methods of models that encode an input, and the parts of a configuration with its size.
_METHODS = {InputKind.IMAGES: "get_image_features", InputKind.AUDIO: "get_audio_features"}
_PARTS = {InputKind.IMAGES: "vision_config", InputKind.AUDIO: "audio_config"}
#: What the tokens of an input may follow from, and what to give then.
_REMEDIES = {
    InputKind.IMAGES: ("size", "give that, such as image_size='1024x768' (--image-size)"),
    InputKind.AUDIO: (
        "length",
        "add the tokens to the prompt (prompt=, --prompt), without the work of the encoder",
    ),
}
#: Arguments of these methods if the tokens of an image follow from its pixels and not from the configuration.
_FREE_SIZES = ("image_grid_thw", "image_sizes", "image_position_ids", "spatial_shapes", "target_sizes")


def find_input_encoder(
    model: Any, kind: InputKind, dtype: str | None = None, image_size: ImageSize | None = None
) -> InputEncoder:
    """Return the work of a model's encoder for one image of a size, or for one clip.

    Without a size, an image has the size that the configuration names. A clip is as long as one input of the encoder,
    30 seconds for Whisper. Raises `InputError` for a model without an encoder of this kind, or with an unknown size.
    """
    language_model: Any = make_language_model(model, dtype)
    name = type(language_model).__name__
    if not hasattr(language_model, _METHODS[kind]) or getattr(language_model.config, _PARTS[kind], None) is None:
        raise InputError(f"{kind}: {name} takes none that llm could follow ({_METHODS[kind]}); leave it out")
    taken = _make_usual_input(language_model, kind) if image_size is None else _make_image(language_model, image_size)
    encoding = _Encoding(_METHODS[kind])
    trace = trace_model(language_model, taken.inputs.given_to(encoding.run))
    width = find_number(find_text_configuration(language_model.config), "hidden_size")
    tokens = encoding.count_rows(width)
    if trace.failure is not None or not tokens:
        own_error = trace.failure and (trace.failure.__cause__ or trace.failure)
        why = f"returned nothing of {width} features" if own_error is None else error_line(own_error)
        raise InputError(f"{kind}: the encoder of {name} cannot be followed with {taken.size}: {why}; leave it out")
    uncounted = [f"the work for {kind} is a lower bound, not counted: {', '.join(trace.missing)}"]
    return InputEncoder(
        kind,
        taken.size,
        tokens,
        macs=sum(operator.macs for operator in trace.operators),
        weights=_list_weight_parts(trace, language_model.config),
        notes=(*taken.notes, *(uncounted if trace.uncounted else ())),
    )


def _list_weight_parts(trace: ModelTrace, config: Any) -> tuple[WeightPart, ...]:
    """Return the weights of the layers that encode an input, as stored by files or configuration."""
    called = {layer.path for layer in trace.layers if layer.calls}
    weights = [weight for weight in list_layer_weights(trace, (), 1) if weight.layer.path in called]
    storage = find_storage(trace, config)
    return weight_parts(weights, storage.formats, storage.packed)


class _EncoderInput(NamedTuple):
    """The inputs of a followed encoder, their size in words, and the notes for the reader."""

    inputs: ModelInputs
    size: str
    notes: tuple[str, ...] = ()


def _make_image(model: Any, size: ImageSize) -> _EncoderInput:
    """Return an image as the model's processor returns it; its pixels have no values."""
    processed = process_image(model.config, size, type(model).__name__)
    dtype = choose_dtype(model)
    names = inspect.signature(model.get_image_features).parameters
    tensors = {
        key: torch.empty_like(tensor, dtype=dtype, device="meta") if tensor.is_floating_point() else tensor
        for key, tensor in processed.tensors.items()
        if key in names
    }
    return _EncoderInput(ModelInputs(**tensors), str(size), processed.notes)


def _make_usual_input(model: Any, kind: InputKind) -> _EncoderInput:
    """Return an image of the size that the configuration names, or a clip; raises `InputError` if it names no size."""
    name = type(model).__name__
    free = next(_list_free(getattr(model, _METHODS[kind])), None)
    if free is not None:
        size, remedy = _REMEDIES[kind]
        raise InputError(
            f"{kind}: how many tokens one becomes for {name} follows from its own {size} ({free}), and not from the "
            f"configuration; {remedy}"
        )
    shape, size = _find_shape(getattr(model.config, _PARTS[kind]), kind, name)
    encoded = torch.empty(1, *shape, dtype=choose_dtype(model), device="meta")
    return _EncoderInput(ModelInputs(encoded), size)


def _list_free(method: Any) -> Iterator[str]:
    """Yield the arguments that a method needs besides the input: its size, or the part of it that is filled."""
    _, *others = inspect.signature(method).parameters.values()
    for parameter in others:
        is_needed = parameter.default is inspect.Parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if parameter.name in _FREE_SIZES or is_needed:
            yield parameter.name


def _find_shape(part: Any, kind: InputKind, name: str) -> tuple[tuple[int, ...], str]:
    """Return the shape of one input by its part of a configuration, and its size in words."""
    if kind is InputKind.IMAGES:
        size = getattr(part, "image_size", None)
        height, width = size if isinstance(size, (list, tuple)) and len(size) == 2 else (size, size)
        channels = find_number(part, "num_channels", "in_channels", "in_chans") or 3
        if isinstance(height, int) and isinstance(width, int):
            return (channels, height, width), str(ImageSize(width, height))
    else:
        bins, positions = find_number(part, "num_mel_bins"), find_number(part, "max_source_positions")
        if bins is not None and positions is not None:
            return (bins, 2 * positions), f"{2 * positions:,} frames of sound"
    raise InputError(f"{kind}: the configuration of {name} does not tell how large one is; leave it out")


class _Encoding:
    """Runs a method that encodes an input, and keeps the numbers of rows and features that it returned."""

    def __init__(self, method: str) -> None:
        self.method = method
        self._rows: list[tuple[int, int]] = []

    def run(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = getattr(model, self.method)(*args, **kwargs)
        features = getattr(outputs, "pooler_output", outputs)
        self._rows = [(tensor.shape[:-1].numel(), tensor.shape[-1]) for tensor in tensors_in(features)]
        return outputs

    def count_rows(self, width: int | None) -> int:
        """Return how many rows of so many features were returned: each is a token."""
        return sum(rows for rows, features in self._rows if features == width)
