"""From what the user gives, a model or a configuration of transformers, to the language model that is followed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from profilerkit import ArgumentError, InputError
from profilerkit.backend_kit.installed import find_version
from profilerkit_predict.checkpoints.quantization import read_modelopt_file
from profilerkit_predict.language_models.records import CacheContents, CacheLayer, ExecutionModel, LatentAttention

from ..compat import read_attention, read_experts, read_origin
from ..model.modules import list_modules, list_parameters

__all__ = [
    "cache_repeats",
    "default_dtype",
    "describe_execution",
    "find_dtype",
    "find_folder",
    "find_quantization",
    "find_routing",
    "find_windows",
    "is_configuration",
    "language_model",
    "latent_attention",
    "longest_context",
    "require_decoder",
    "text_configuration",
    "unify_dtype",
    "with_head",
]

#: The dtypes that activations and caches may have.
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def is_configuration(model: Any) -> bool:
    """Return whether an object is a configuration of transformers."""
    return any(
        cls.__module__ == "transformers.configuration_utils"
        and cls.__name__ in ("PreTrainedConfig", "PretrainedConfig")
        for cls in type(model).__mro__
    )


def language_model(model: Any, dtype: str | None) -> nn.Module:
    """Return the language model of a model or configuration of transformers, in a dtype.

    A configuration becomes a model on the meta device; so does a model without a head, if it has no values, and a model
    of another dtype. Anything else is returned as it is. Raises `InputError` for what is no language model.
    """
    if dtype is not None and dtype not in _DTYPES:
        raise ArgumentError(f"dtype={dtype!r}: give {', '.join(_DTYPES)}, the dtype of activations and cache")
    if is_configuration(model):
        return _build(model, None, dtype)
    if not isinstance(model, nn.Module):
        raise InputError(
            f"{type(model).__name__} is not a model that generates text; give a language model of transformers or its "
            "configuration, or use profile() for this one"
        )
    config = getattr(model, "config", None)
    if not is_configuration(config):
        raise InputError(
            f"{type(model).__name__} is not a model of transformers, whose cache and configuration llm reads; give a "
            "language model of transformers, its configuration or hf:NAME, or use profile() for this one"
        )
    if any(parameter.is_meta for parameter in list_parameters(model)) and not _has_head(model):
        return _build(config, None, dtype)
    if dtype is not None and find_dtype(model) != dtype:
        return _build(config, type(model), dtype)
    return model


def _has_head(model: Any) -> bool:
    output = getattr(model, "get_output_embeddings", lambda: None)()
    return output is not None or bool(getattr(model, "can_generate", lambda: False)())


def with_head(model: Any) -> Any:
    """Return a model of transformers with the head for language that it lacks, its weights random; others as they are.

    It is for models that a loader built from a configuration. A large one stays on the meta device.
    """
    config = getattr(model, "config", None)
    if not isinstance(model, nn.Module) or not is_configuration(config) or _has_head(model):
        return model
    on_meta = any(parameter.is_meta for parameter in list_parameters(model))
    return _build(config, None, find_dtype(model), "meta" if on_meta else "cpu")


def _build(config: Any, kind: type | None, dtype: str | None, device: str = "meta") -> nn.Module:
    """Return a model of a configuration on a device; with a head for language unless a class is given."""
    import transformers

    if kind is None:
        kind = _kind_with_head(transformers, config)
    config, chosen = unify_dtype(config, _DTYPES[dtype] if dtype else None)
    with default_dtype(chosen), torch.device(device):
        model: nn.Module = kind(config)
    return model.eval()


def _kind_with_head(transformers: Any, config: Any) -> type:
    """Return the class of transformers that generates text by a configuration; raises `InputError` if there is none.

    Of an encoder-decoder that is the whole: its decoder alone, which transformers offers for some, is another model.
    """
    _require_no_encoder(config, type(config).__name__)
    is_encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    named = [getattr(transformers, name, None) for name in getattr(config, "architectures", None) or ()]
    kinds = [kind for kind in named if isinstance(kind, type) and getattr(kind, "can_generate", lambda: False)()]
    whole, decoders = transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    for mapping in (whole,) if is_encoder_decoder else (decoders, whole):
        kinds += [mapping[type(config)]] if type(config) in mapping else []
    if not kinds:
        reason = "transformers has no language model for it"
        if is_encoder_decoder:
            reason = "it is an encoder-decoder whose encoder takes no text (audio or images)"
        raise _no_language(config, type(config).__name__, reason)
    return kinds[0]


def unify_dtype(config: Any, dtype: torch.dtype | None = None) -> tuple[Any, torch.dtype]:
    """Return a copy of a configuration whose parts all have one dtype, and that dtype.

    It is the dtype that is asked for, else that of the configuration, else that of its text, else that of its first
    part that names one, else float32. transformers loads all parts of a model in one dtype too; a part that names
    another would be built in that. Raises `InputError` for a dtype that no model can be built in.
    """
    config = copy.deepcopy(config)
    parts = list(_list_parts(config))
    text = getattr(config, "text_config", None)
    named = [part.dtype for part in (config, text, *parts[1:]) if getattr(part, "dtype", None) is not None]
    chosen = _read_dtype(dtype or (named[0] if named else torch.float32))
    for part in parts:
        part.dtype = chosen
    return config, chosen


def _list_parts(config: Any) -> Iterator[Any]:
    """Yield a configuration and the configurations inside it, at any depth."""
    yield config
    for value in vars(config).values():
        if is_configuration(value):
            yield from _list_parts(value)


def _read_dtype(value: Any) -> torch.dtype:
    """Return the dtype that a configuration names; of one that has a dtype for each part, that of the whole."""
    if isinstance(value, dict):
        value = value.get("", "float32")
    dtype = getattr(torch, value, None) if isinstance(value, str) else value
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point or dtype.itemsize < 2:
        raise InputError(
            f"the configuration names the dtype {str(value).removeprefix('torch.')!r}, and models are built in "
            "float32, bfloat16, float16 or float64; write one of these as dtype, and what the weights are stored in as "
            "quantization_config"
        )
    return dtype


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Have new parameters in a dtype."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(previous)


def find_dtype(model: nn.Module) -> str:
    """Return the dtype that most elements of floating-point parameters have."""
    elements: dict[str, int] = {}
    for parameter in list_parameters(model):
        if parameter.is_floating_point():
            name = str(parameter.dtype).removeprefix("torch.")
            elements[name] = elements.get(name, 0) + parameter.numel()
    return max(elements, key=elements.__getitem__) if elements else "float32"


_ENCODER = "it is an encoder, which has no cache and generates no tokens"


def _no_language(config: Any, kind: str, reason: str) -> InputError:
    """Return the error for a model that generates no text; it says what to do with the model instead."""
    name = getattr(config, "model_type", "")
    return InputError(
        f"{kind} is not a model that generates text: {reason}. llm predicts causal language models and "
        f"encoder-decoders of text; to count and measure this model use profile(), or "
        f"'profilerkit profile {f'hf:{name}' if isinstance(name, str) and name else 'MODEL'}'"
    )


def require_decoder(model: Any) -> None:
    """Raise `InputError` for a model that generates nothing: an encoder, or one without a head."""
    kind = type(model).__name__
    _require_no_encoder(model.config, kind)
    if model.can_generate():
        return
    reason = _ENCODER if _has_head(model) else "it has no head for language, and generates no tokens"
    raise _no_language(model.config, kind, reason)


def _require_no_encoder(config: Any, kind: str) -> None:
    """Raise `InputError` for a configuration of an encoder: one that could be a decoder says that it is none."""
    if _is_encoder(config):
        raise _no_language(config, kind, f"{_ENCODER} (is_decoder of its configuration is False)")


def _is_encoder(config: Any) -> bool:
    """Say whether a configuration is one of an encoder.

    ``is_decoder=False`` alone does not say so: GPT-NeoX has it too, and always is a decoder. Models that can be both
    predict masked tokens where they are no decoder.
    """
    if getattr(config, "is_decoder", None) is not False or getattr(config, "is_encoder_decoder", False):
        return False
    import transformers

    return type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING


def text_configuration(config: Any) -> Any:
    """Return the part of a configuration that is about text."""
    inner = getattr(config, "get_text_config", None)
    return inner(decoder=True) if inner is not None else config


def longest_context(config: Any) -> int | None:
    """Return the most tokens that a model takes, by its configuration; None if it says no number.

    Raises `InputError` for the configuration of an encoder.
    """
    if not is_configuration(config):
        return None
    _require_no_encoder(config, type(config).__name__)
    text = text_configuration(config)
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def describe_execution(model: Any, has_experts: bool) -> ExecutionModel:
    """Return how the model's own code runs: the library, and its implementations of attention and experts."""
    config = text_configuration(model.config)
    return ExecutionModel(
        "as written",
        f"transformers {find_version('transformers')}",
        read_attention(config),
        read_experts(config) if has_experts else "",
    )


def find_windows(model: nn.Module, cache_windows: dict[int, int]) -> dict[str, int | None]:
    """Return the tokens that each attention attends to by its path, from the windows of the layers of the cache."""
    windows: dict[str, int | None] = {}
    for path, module in model.named_modules():
        index = getattr(module, "layer_idx", None)
        if isinstance(index, int) and index in cache_windows:
            windows[path] = cache_windows[index]
    return windows


def cache_repeats(model: nn.Module, cache: CacheContents) -> int:
    """Return how often a cache holds each head of keys and values; 1 unless the model repeats them before it caches.

    The cache then has the heads of the queries, though the configuration has fewer of keys and values, and a projection
    of the model makes as many.
    """
    config = text_configuration(model.config)
    heads = _number(config, "num_attention_heads")
    groups = _number(config, "num_kv_heads", "num_key_value_heads")
    shapes = {tensor.shape for tensor in cache.tensors if len(tensor.shape) == 4}
    widths = {shape[3] for shape in shapes}
    if heads is None or groups is None or len(widths) != 1 or groups == heads:
        return 1
    if heads % groups or any(shape[1] != heads for shape in shapes):
        return 1
    width = widths.pop()
    made = {parameter.shape[0] for parameter in list_parameters(model) if parameter.dim() == 2}
    is_grouped = made & {groups * width, (heads + 2 * groups) * width} and 3 * heads * width not in made
    return heads // groups if is_grouped else 1


def _number(config: Any, *names: str) -> int | None:
    """Return the first of these attributes that is a number above 0; None for none, and for one by layer."""
    for name in names:
        try:
            value = getattr(config, name, None)
        except MemoryError:
            raise
        except Exception:  # transformers refuses one number where the layers have several
            continue
        if isinstance(value, int) and value > 0:
            return value
    return None


#: What configurations call the number of experts, and how many a token is sent to.
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "num_selected_experts", "moe_topk", "moe_k", "top_k_experts")


def find_routing(config: Any) -> tuple[int, int] | None:
    """Return how many experts the layers of a configuration have, and to how many a token is sent; None for none."""
    text = text_configuration(config)
    experts, chosen = _number(text, *_EXPERTS), _number(text, *_CHOSEN)
    return (experts, chosen) if experts and chosen and chosen < experts else None


def find_quantization(config: Any) -> dict[str, Any] | None:
    """Return the quantization that a configuration names, or ModelOpt's file beside it, as a dict; None without one."""
    for part in (config, text_configuration(config)):
        value = getattr(part, "quantization_config", None)
        if value is not None:
            return dict(value if isinstance(value, dict) else value.to_dict())
    folder = find_folder(config)
    return None if folder is None else read_modelopt_file(folder)


def find_folder(config: Any) -> Path | None:
    """Return the folder that a configuration was read from; None if it was read from elsewhere."""
    name = read_origin(config)
    return Path(name) if name and Path(name).is_dir() else None


def latent_attention(model: nn.Module, cache: Sequence[CacheLayer]) -> LatentAttention | None:
    """Return the sizes of latent attention; None for a model that has it nowhere, or not in all layers alike.

    The cache that was seen has for each token the latents, or the keys and values that are expanded from them. What it
    has besides are the keys of an indexer. Raises `InputError` for a cache that has less.
    """
    names = ("num_heads", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    sizes = [
        tuple(getattr(module, name) for name in names)
        for module in list_modules(model)
        if hasattr(module, "kv_b_proj") and all(isinstance(getattr(module, name, None), int) for name in names)
    ]
    if not sizes or len(set(sizes)) != 1:
        return None
    chosen = getattr(text_configuration(model.config), "index_topk", None)
    heads, rank, rope, nope, value = sizes[0]
    latent = LatentAttention(len(sizes), heads, rank, rope, nope, value, chosen)
    seen = round(sum(layer.bytes_per_token for layer in cache))
    item = _DTYPES[find_dtype(model)].itemsize if find_dtype(model) in _DTYPES else 4
    latents = latent.layers * (latent.rank + latent.rope) * item
    expanded = latent.layers * latent.heads * (latent.nope + latent.rope + latent.value) * item
    rest = seen - (expanded if seen >= expanded else latents)
    if rest < 0:
        raise InputError(
            f"{type(model).__name__} has latent attention of {latents:,} bytes a token, but its cache adds {seen:,}: "
            "llm does not know this kind of it; kv_bytes(model, context) gives the bytes of its own cache"
        )
    return replace(latent, index_bytes=rest)
