"""The facts of a language model in a configuration of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profilerkit.backend_kit.installed import find_version
from profilerkit_predict.checkpoints.quantization import read_modelopt_file
from profilerkit_predict.language_models.facts.records import ExecutionModel, ModelSizes, Routing

from ..compat.configurations import read_attention, read_experts, read_origin
from .generating import find_sound_positions, require_no_encoder

__all__ = [
    "describe_execution",
    "find_folder",
    "find_index_stride",
    "find_longest_context",
    "find_most_attended",
    "find_number",
    "find_quantization",
    "find_routing",
    "find_sizes",
    "find_text_configuration",
    "has_chunks",
    "is_configuration",
]

#: The names in configurations of the most tokens that a model takes.
_LONGEST = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
#: Their names of the number of experts, and of the number of experts that a token is sent to.
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "num_selected_experts", "moe_topk", "moe_k", "top_k_experts")
#: Their names of the number of features of a token between layers, and of the number of layers.
_WIDTH = ("hidden_size", "d_model", "n_embd", "emb_dim")
_LAYERS = ("decoder_layers", "num_decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers")
#: Their names of the flag that attention and the feed-forward part of a layer run side by side.
_SIDE_BY_SIDE = ("parallel_attn", "use_parallel_residual")
#: The types of models that always run both so; and the types in which most layers are one part, as a state-space model.
_ALWAYS_SIDE_BY_SIDE = ("codegen", "cohere", "cohere2", "gptj", "phi")
_OF_ONE_PART = ("falcon_mamba", "mamba", "mamba2", "nemotron_h", "zamba", "zamba2")


def is_configuration(model: Any) -> bool:
    """Return whether an object is a configuration of transformers."""
    return any(
        cls.__module__ == "transformers.configuration_utils"
        and cls.__name__ in ("PreTrainedConfig", "PretrainedConfig")
        for cls in type(model).__mro__
    )


def find_text_configuration(config: Any) -> Any:
    """Return the part of a configuration that is about text."""
    inner = getattr(config, "get_text_config", None)
    return inner(decoder=True) if inner is not None else config


def find_longest_context(config: Any) -> int | None:
    """Return the most tokens that a model takes, by its configuration; None if it has no number.

    Raises `InputError` for the configuration of an encoder.
    """
    if not is_configuration(config):
        return None
    require_no_encoder(config, type(config).__name__)
    sound = find_sound_positions(config)
    if sound is not None:
        return sound + int(config.max_target_positions)
    return find_number(find_text_configuration(config), *_LONGEST)


def find_number(config: Any, *names: str) -> int | None:
    """Return the first of these attributes that is a number above 0; None for none, and for a number by layer."""
    for name in names:
        try:
            value = getattr(config, name, None)
        except MemoryError:
            raise
        except Exception:  # transformers refuses one number if the layers have several
            continue
        if isinstance(value, int) and value > 0:
            return value
    return None


def find_routing(config: Any) -> Routing | None:
    """Return the number of experts in a layer, and how many of them a token is sent to; None if it is sent to all."""
    text = find_text_configuration(config)
    experts, chosen = find_number(text, *_EXPERTS), find_number(text, *_CHOSEN)
    return Routing(experts, chosen) if experts and chosen and chosen < experts else None


def find_most_attended(config: Any) -> int | None:
    """Return the least number of keys that a query attends to if an indexer selects keys; None without an indexer.

    If it selects blocks, only blocks that are complete with the query's own key count. Keys beside a budget are not
    counted.
    """
    text = find_text_configuration(config)
    blocks, size = find_number(text, "index_topk_blocks"), find_number(text, "index_block_size")
    if blocks is not None and size is not None:
        return (blocks - 1) * size + 1
    return find_number(text, "index_topk", "indexer_budget")


def has_chunks(config: Any) -> bool:
    """Return whether the windows in the cache of a model are chunks that tokens attend inside of, as in Llama 4."""
    return "chunked_attention" in (getattr(find_text_configuration(config), "layer_types", None) or ())


def find_index_stride(config: Any) -> int:
    """Return how many keys an indexer joins to one, in a step and not in the cache; 1 without an indexer."""
    return find_number(find_text_configuration(config), "indexer_compress_ratio") or 1


def find_sizes(config: Any) -> ModelSizes:
    """Return the sizes of a model by its configuration."""
    text = find_text_configuration(config)
    is_side_by_side = any(getattr(text, name, False) is True for name in _SIDE_BY_SIDE)
    is_reduced_once = is_side_by_side or getattr(text, "model_type", "") in _ALWAYS_SIDE_BY_SIDE + _OF_ONE_PART
    return ModelSizes(
        find_longest_context(config),
        find_number(text, *_WIDTH),
        find_number(text, *_LAYERS),
        all_reduces_per_layer=1 if is_reduced_once else 2,
    )


def describe_execution(config: Any, has_experts: bool) -> ExecutionModel:
    """Return how the model's own code runs: the library, and its implementations of attention and experts."""
    text = find_text_configuration(config)
    return ExecutionModel(
        "as written",
        f"transformers {find_version('transformers')}",
        read_attention(text),
        read_experts(text) if has_experts else None,
    )


def find_quantization(config: Any) -> dict[str, Any] | None:
    """Return the quantization that a configuration names, or ModelOpt's file beside it, as a dict; None without one."""
    for part in (config, find_text_configuration(config)):
        value = getattr(part, "quantization_config", None)
        if value is not None:
            return dict(value if isinstance(value, dict) else value.to_dict())
    folder = find_folder(config)
    return None if folder is None else read_modelopt_file(folder)


def find_folder(config: Any) -> Path | None:
    """Return the folder that a configuration was read from; None if it was read from elsewhere."""
    name = read_origin(config)
    return Path(name) if name and Path(name).is_dir() else None
