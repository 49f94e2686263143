"""Which models of transformers generate text, and what is said of the others."""

from __future__ import annotations

from typing import Any, cast

from profilerkit import InputError

__all__ = ["find_generating_class", "has_head", "require_decoder", "require_no_encoder"]

_ENCODER = "it is an encoder, which has no cache and generates no tokens"


def has_head(model: Any) -> bool:
    """Return whether a model makes logits of words, or says that it generates text."""
    output = getattr(model, "get_output_embeddings", lambda: None)()
    return output is not None or bool(getattr(model, "can_generate", lambda: False)())


def require_decoder(model: Any) -> None:
    """Raise `InputError` for a model that generates nothing: an encoder, or one without a head."""
    kind = type(model).__name__
    require_no_encoder(model.config, kind)
    if model.can_generate():
        return
    reason = _ENCODER if has_head(model) else "it has no head for language, and generates no tokens"
    raise _make_error(model.config, kind, reason)


def require_no_encoder(config: Any, kind: str) -> None:
    """Raise `InputError` for a configuration of an encoder: one that could be a decoder says that it is none."""
    if _is_encoder(config):
        raise _make_error(config, kind, f"{_ENCODER} (is_decoder of its configuration is False)")


def _is_encoder(config: Any) -> bool:
    """Return whether a configuration is one of an encoder.

    ``is_decoder=False`` alone does not say so: GPT-NeoX has it too, and always is a decoder. Models that can be both
    predict masked tokens where they are no decoder.
    """
    if getattr(config, "is_decoder", None) is not False or getattr(config, "is_encoder_decoder", False):
        return False
    import transformers

    return type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING


def find_generating_class(config: Any) -> type:
    """Return the class of transformers that generates text by a configuration; raises `InputError` if there is none.

    It is the class that the configuration names, else the usual one for its type. Of an encoder-decoder that is the
    whole: its decoder alone, which transformers offers for some, is another model.
    """
    import transformers

    kind = type(config)
    require_no_encoder(config, kind.__name__)
    named = [getattr(transformers, name, None) for name in getattr(config, "architectures", None) or ()]
    for candidate in named:
        if isinstance(candidate, type) and getattr(candidate, "can_generate", lambda: False)():
            return candidate
    is_encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    mappings = [transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING]
    if not is_encoder_decoder:
        mappings.insert(0, transformers.MODEL_FOR_CAUSAL_LM_MAPPING)
    for mapping in mappings:
        if kind in mapping:
            usual: Any = mapping[kind]
            return cast(type, usual)
    reason = "transformers has no language model for it"
    if is_encoder_decoder:
        reason = "it is an encoder-decoder whose encoder takes no text (audio or images)"
    raise _make_error(config, kind.__name__, reason)


def _make_error(config: Any, kind: str, reason: str) -> InputError:
    """Return the error for a model that generates no text; it says what to do with the model instead."""
    name = getattr(config, "model_type", "")
    return InputError(
        f"{kind} is not a model that generates text: {reason}. llm predicts causal language models and "
        f"encoder-decoders of text; to count and measure this model use profile(), or "
        f"'profilerkit profile {f'hf:{name}' if isinstance(name, str) and name else 'MODEL'}'"
    )
