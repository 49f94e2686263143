"""GGUF files beside what transformers makes of the same models: headers, types, work, cache and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf_models import F16, F32, Q4_K, attention, feed_forward, write_model

from profilerkit import llm
from profilerkit_predict.checkpoints.formats import GGML_TYPES
from profilerkit_predict.checkpoints.gguf import read_gguf

transformers = pytest.importorskip("transformers")
WIDTH, INNER, HEADS, GROUPS, SIZE, WORDS = 256, 512, 4, 2, 64, 512
SIZES = {"embedding_length": WIDTH, "attention.head_count": HEADS, "attention.head_count_kv": GROUPS}
SIZES |= {"attention.key_length": SIZE, "attention.value_length": SIZE, "context_length": 4096}
COMMON = {"hidden_size": WIDTH, "vocab_size": WORDS, "num_hidden_layers": 2, "num_attention_heads": HEADS}
COMMON |= {"num_key_value_heads": GROUPS, "head_dim": SIZE, "intermediate_size": INNER}
NORMS = {f"attn_{name}_norm.weight": ((SIZE,), *F32) for name in "qk"}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": INNER}


@pytest.mark.parametrize(
    ("kind", "architecture", "options", "sizes"),
    [
        ("LlamaConfig", "llama", {}, {}),
        ("Qwen3Config", "qwen3", {}, {}),
        ("Qwen3MoeConfig", "qwen3moe", EXPERTS, {"expert_count": 8, "expert_used_count": 2}),
    ],
)
def test_a_file_and_a_configuration_of_one_model_cost_the_same(
    tmp_path: Path, kind: str, architecture: str, options: dict[str, int], sizes: dict[str, int]
) -> None:
    path = tmp_path / "model.gguf"
    norms = NORMS if architecture != "llama" else {}
    layer = attention(WIDTH, HEADS, GROUPS, SIZE, F16) | feed_forward(WIDTH, INNER, F16, 8 if sizes else 0) | norms
    write_model(path, architecture, SIZES | sizes, [layer, layer])
    config = getattr(transformers, kind)(**COMMON, **options, tie_word_embeddings=False)
    file: Any = llm(str(path), prompt=16, new=4)
    model: Any = llm(config, prompt=16, new=4, dtype="fp16")
    assert file.facts.parameters == model.facts.parameters
    for batch, new, cached in ((1, 1, 0), (3, 1, 100), (2, 64, 0), (1, 16, 48)):
        ours, theirs = file.cost(batch, new, cached), model.cost(batch, new, cached)
        assert (ours.macs, ours.cache_read_bytes, ours.cache_write_bytes) == (
            theirs.macs,
            theirs.cache_read_bytes,
            theirs.cache_write_bytes,
        )
    assert file.cost.cache_bytes(1000, 3) == model.cost.cache_bytes(1000, 3)


def test_headers_are_those_that_transformers_reads(tmp_path: Path) -> None:
    reader = pytest.importorskip("transformers.integrations.gguf.reader")
    path = tmp_path / "model.gguf"
    layer = attention(WIDTH, HEADS, GROUPS, SIZE, Q4_K) | feed_forward(WIDTH, INNER, Q4_K)
    write_model(path, "llama", SIZES, [layer])
    names = {kind: form.name for kind, form in GGML_TYPES.items()}
    theirs = reader.GgufHeader.from_file(str(path)).tensors
    assert [(tensor.name, tensor.shape, tensor.dtype, tensor.bytes) for tensor in read_gguf(path).tensors] == [
        (tensor.name, tensor.shape, names[tensor.ggml_type], tensor.nbytes) for tensor in theirs
    ]


def test_types_have_the_blocks_that_transformers_unpacks() -> None:
    dequant = pytest.importorskip("transformers.integrations.gguf.dequant")
    for kind, block in dequant.GGML_BLOCK.items():
        assert (GGML_TYPES[kind].elements, GGML_TYPES[kind].bytes) == block
        assert GGML_TYPES[kind].name == dequant.GGML_NAME[kind]
