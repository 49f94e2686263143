"""Language models of transformers with a few thousand parameters."""

from __future__ import annotations

from typing import Any

__all__ = ["skip_where_experts_ask_for_addresses", "tiny_config", "tiny_llama"]

#: Two layers of 32, four heads of 8, two of them with keys and values; 64 tokens in all.
SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


def skip_where_experts_ask_for_addresses() -> None:
    """Skip with a release of torch with which transformers chooses the kernel of experts by the address of weights."""
    import pytest
    import torch

    if torch.__version__ < "2.11":
        pytest.skip("transformers asks where the weights of experts lie, which only a run with values can tell")


def tiny_config(**changes: Any) -> Any:
    """Return the configuration of a tiny Llama."""
    from transformers import LlamaConfig

    return LlamaConfig(**{**SIZES, **changes})


def tiny_llama(**changes: Any) -> Any:
    """Return a tiny Llama with random weights."""
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(tiny_config(**changes))
