"""Checks whether models and configurations of transformers generate text, and the errors for the others."""

from __future__ import annotations

from typing import Any

from profilerkit import InputError

__all__ = [
    "find_generating_class",
    "find_sound_positions",
    "has_head",
    "is_encoder_decoder",
    "require_decoder",
    "require_no_encoder",
]

_ENCODER = "it is an encoder, which has no cache and generates no tokens"


def has_head(model: Any) -> bool:
    """Return whether a model makes logits of words, or says that it generates text."""
    output = getattr(model, "get_output_embeddings", lambda: None)()
    return output is not None or bool(getattr(model, "can_generate", lambda: False)())


def require_decoder(model: Any) -> None:
    """Raise `InputError` for a model that generates nothing: an encoder, or a model without a head."""
    kind = type(model).__name__
    require_no_encoder(model.config, kind)
    if model.can_generate():
        return
    reason = _ENCODER if has_head(model) else "it has no head for language, and generates no tokens"
    raise _make_error(model.config, kind, reason)


def require_no_encoder(config: Any, kind: str) -> None:
    """Raise `InputError` for a configuration of an encoder, also of a type that can be a decoder."""
    if _is_encoder(config):
        raise _make_error(config, kind, f"{_ENCODER} (is_decoder of its configuration is False)")


def _is_encoder(config: Any) -> bool:
    """Return whether a configuration belongs to an encoder.

    ``is_decoder=False`` alone is not enough: GPT-NeoX has it too, and always is a decoder. Models that can be both
    predict masked tokens if they are no decoder.
    """
    if getattr(config, "is_decoder", None) is not False or is_encoder_decoder(config):
        return False
    import transformers

    return type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING


def is_encoder_decoder(config: Any) -> bool:
    """Return whether a configuration belongs to a model whose prompt goes to an encoder."""
    return bool(getattr(config, "is_encoder_decoder", False))


def find_generating_class(config: Any) -> type:
    """Return the class of transformers that generates text by a configuration; raises `InputError` if there is none.

    It is the class that the configuration names, else the usual class for its type. For an encoder-decoder it is the
    class of the whole: its decoder alone, which transformers offers for some, is another model.
    """
    kind = type(config).__name__
    require_no_encoder(config, kind)
    generating = _find_named_class(config) or _find_usual_class(config)
    if generating is not None:
        return generating
    reason = "transformers has no language model for it"
    if is_encoder_decoder(config):
        reason = "it is an encoder-decoder, and transformers does not list it as one of text"
    raise _make_error(config, kind, reason)


def _find_named_class(config: Any) -> type | None:
    """Return the first class that a configuration names and that generates text."""
    import transformers

    for name in getattr(config, "architectures", None) or ():
        named = getattr(transformers, name, None)
        if isinstance(named, type) and getattr(named, "can_generate", lambda: False)():
            return named
    return None


def _find_usual_class(config: Any) -> type | None:
    """Return the class of transformers that generates text for a type of configurations; None if it has none."""
    import transformers

    mappings: list[Any] = [] if is_encoder_decoder(config) else [transformers.MODEL_FOR_CAUSAL_LM_MAPPING]
    mappings.append(transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING)
    if find_sound_positions(config):
        mappings.append(transformers.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING)
    for mapping in mappings:
        usual: type[Any] | None = mapping.get(type(config), None)
        # A class for the text part alone would leave out the other parts.
        if usual is not None and not isinstance(getattr(config, "text_config", None), usual.config_class):
            return usual
    with_images: Any = transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING.get(type(config), None)
    needs_no_image = with_images is not None and with_images.main_input_name == "input_ids"
    return with_images if needs_no_image else None


def find_sound_positions(config: Any) -> int | None:
    """Return how many positions of the encoder a decoder of sound attends to; None for other models.

    The number is known only if the configuration has it: of Whisper, which always takes 30 seconds.
    """
    import transformers

    positions = getattr(config, "max_source_positions", None)
    takes_sound = type(config) in transformers.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING and hasattr(config, "num_mel_bins")
    takes_text = type(config) in transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    if not takes_sound or takes_text or not isinstance(positions, int):
        return None
    # Speech2Text names the positions of its input, and how many convolutions shorten it.
    return positions if getattr(config, "num_conv_layers", None) is None else None


def _make_error(config: Any, kind: str, reason: str) -> InputError:
    """Return the error for a model that generates no text; its message names other ways to profile the model."""
    name = getattr(config, "model_type", "")
    return InputError(
        f"{kind} is not a model that generates text: {reason}. llm predicts causal language models and "
        f"encoder-decoders of text; to count and measure this model use profile(), or "
        f"'profilerkit profile {f'hf:{name}' if isinstance(name, str) and name else 'MODEL'}'"
    )
