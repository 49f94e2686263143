"""GGUF files of small models, by the names of tensors and keys that llama.cpp's converter writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkpoint_files import GgufTensor, write_gguf

__all__ = ["F16", "F32", "Q4_K", "attention", "feed_forward", "matrix", "write_model"]

#: The number of a type, and elements and bytes of a block.
F32, F16, Q4_K = (0, 1, 4), (1, 1, 2), (12, 256, 144)
#: Tokens of the vocabulary.
WORDS = 512


def matrix(inputs: int, outputs: int, form: tuple[int, int, int], *experts: int) -> GgufTensor:
    return (inputs, outputs, *experts), *form


def attention(width: int, heads: int, groups: int, size: int, form: tuple[int, int, int]) -> dict[str, GgufTensor]:
    return {
        "attn_norm.weight": ((width,), *F32),
        "attn_q.weight": matrix(width, heads * size, form),
        "attn_k.weight": matrix(width, groups * size, form),
        "attn_v.weight": matrix(width, groups * size, form),
        "attn_output.weight": matrix(heads * size, width, form),
    }


def feed_forward(width: int, inner: int, form: tuple[int, int, int], experts: int = 0) -> dict[str, GgufTensor]:
    counts, ending = ((experts,), "_exps") if experts else ((), "")
    layer = {
        "ffn_norm.weight": ((width,), *F32),
        f"ffn_gate{ending}.weight": matrix(width, inner, form, *counts),
        f"ffn_up{ending}.weight": matrix(width, inner, form, *counts),
        f"ffn_down{ending}.weight": matrix(inner, width, form, *counts),
    }
    return layer | ({"ffn_gate_inp.weight": matrix(width, experts, F32)} if experts else {})


def write_model(
    path: Path,
    architecture: str,
    sizes: Mapping[str, Any],
    layers: list[dict[str, GgufTensor]],
    *,
    is_tied: bool = False,
    **others: GgufTensor,
) -> int:
    """Write a model of ``len(layers)`` layers, and return the bytes of its tensors."""
    width = sizes["embedding_length"]
    tensors = {"token_embd.weight": matrix(width, WORDS, F16), "output_norm.weight": ((width,), *F32), **others}
    tensors |= {} if is_tied else {"output.weight": matrix(width, WORDS, F16)}
    for block, layer in enumerate(layers):
        tensors |= {f"blk.{block}.{name}": tensor for name, tensor in layer.items()}
    metadata: dict[str, Any] = {"general.architecture": architecture, "tokenizer.ggml.tokens": ["word"] * WORDS}
    metadata |= {f"{architecture}.block_count": len(layers)}
    return write_gguf(path, metadata | {f"{architecture}.{key}": value for key, value in sizes.items()}, tensors)
