"""Weights by the headers of the files beside a configuration: bytes are those of the files, whatever packs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import write_safetensors
from tiny_language_models import skip_where_experts_ask_for_addresses

from profilerkit import InputError, llm

transformers = pytest.importorskip("transformers")
WIDTH, INNER, WORDS = 32, 64, 50
COMMON: dict[str, Any] = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
COMMON |= {"num_key_value_heads": 4, "intermediate_size": INNER, "dtype": "bfloat16"}
#: Inputs and outputs of the matrices of a layer.
MATRICES = {f"self_attn.{name}_proj": (WIDTH, WIDTH) for name in "qkvo"}
MATRICES |= {"mlp.gate_proj": (WIDTH, INNER), "mlp.up_proj": (WIDTH, INNER), "mlp.down_proj": (INNER, WIDTH)}


def pack(inputs: int, outputs: int, name: str) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Return four bits an element in integers of 32 bits, and a scale of 16 bits for 16 inputs."""
    integers, scales = inputs * outputs // 8, inputs * outputs // 16
    return {f"{name}.qweight": ("I32", (integers,), 4 * integers), f"{name}.scales": ("F16", (scales,), 2 * scales)}


def plain(count: int) -> tuple[str, tuple[int, ...], int]:
    return "BF16", (count,), 2 * count


def layer_files(block: int, names: dict[str, tuple[int, int]]) -> dict[str, tuple[str, tuple[int, ...], int]]:
    tensors: dict[str, tuple[str, tuple[int, ...], int]] = {}
    for name, (inputs, outputs) in names.items():
        tensors |= pack(inputs, outputs, f"model.layers.{block}.{name}")
    return tensors


def tables() -> dict[str, tuple[str, tuple[int, ...], int]]:
    return {"model.embed_tokens.weight": plain(WORDS * WIDTH), "lm_head.weight": plain(WORDS * WIDTH)}


def read(folder: Path, **options: Any) -> Any:
    return llm(str(folder), prompt=12, new=4, **options)


@pytest.mark.parametrize("quantization", [{"quant_method": "aqlm"}, {"quant_method": "gptq", "bits": 4}, None])
def test_packed_layers_have_the_bytes_of_the_files(tmp_path: Path, quantization: dict[str, Any] | None) -> None:
    options = {} if quantization is None else {"quantization_config": quantization}
    transformers.LlamaConfig(**COMMON, **options, tie_word_embeddings=False).save_pretrained(tmp_path)
    tensors = layer_files(0, MATRICES) | layer_files(1, MATRICES) | tables()
    write_safetensors(tmp_path / "model.safetensors", tensors | {"vision.weight": plain(100)})
    report = read(tmp_path)
    elements = 2 * (4 * WIDTH * WIDTH + 3 * WIDTH * INNER)
    norms, frequencies = 5 * WIDTH, 2 * WIDTH // 4 // 2  # two buffers of float32, of half a head
    packed_bytes = elements // 2 + elements // 8
    assert report.cost.stored_weight_bytes == packed_bytes + 2 * (2 * WORDS * WIDTH + norms) + 4 * frequencies
    assert report.facts.parameters == elements + 2 * WORDS * WIDTH + norms
    assert report.weights == ("int4" if quantization == {"quant_method": "gptq", "bits": 4} else "int32")
    assert "200 bytes of these files are of no layer of this model, and not counted" in report.facts.notes
    step = report.cost(1, 1, 0)
    assert step.weight_bytes == report.cost.stored_weight_bytes - 2 * WORDS * WIDTH + 2 * WIDTH


def test_files_that_are_not_packed_change_nothing(tmp_path: Path) -> None:
    config = transformers.LlamaConfig(**COMMON, tie_word_embeddings=False)
    config.save_pretrained(tmp_path)
    before = read(tmp_path).cost.stored_weight_bytes
    layers = {
        f"model.layers.{block}.{name}.weight": plain(inputs * outputs)
        for block in range(2)
        for name, (inputs, outputs) in MATRICES.items()
    }
    write_safetensors(tmp_path / "model.safetensors", layers | tables())
    report = read(tmp_path)
    assert (report.cost.stored_weight_bytes, report.weights) == (before, "bfloat16")
    assert not any("packed" in note for note in report.facts.notes)


def test_experts_one_by_one_belong_to_the_layer_that_joins_them(tmp_path: Path) -> None:
    """Mixtral's files name experts as the library no longer does."""
    skip_where_experts_ask_for_addresses()
    config = transformers.MixtralConfig(**COMMON, num_local_experts=4, num_experts_per_tok=1, tie_word_embeddings=False)
    config.save_pretrained(tmp_path)
    attention = {name: sizes for name, sizes in MATRICES.items() if name.startswith("self_attn")}
    experts = {
        f"block_sparse_moe.experts.{expert}.w{matrix}": (WIDTH, INNER) for expert in range(4) for matrix in (1, 2, 3)
    }
    routers = {f"model.layers.{block}.mlp.gate.weight": plain(4 * WIDTH) for block in range(2)}
    tensors = layer_files(0, attention | experts) | layer_files(1, attention | experts) | tables() | routers
    write_safetensors(tmp_path / "model.safetensors", tensors)
    (part,) = [part for part in read(tmp_path).facts.weights if part.kind == "experts"]
    elements = 2 * 4 * 3 * WIDTH * INNER
    assert (part.elements, part.bytes, part.routing.experts) == (elements, elements // 2 + elements // 8, 4)


def test_files_of_another_model_are_not_used(tmp_path: Path) -> None:
    transformers.LlamaConfig(**COMMON).save_pretrained(tmp_path)
    before = read(tmp_path).cost.stored_weight_bytes
    write_safetensors(tmp_path / "model.safetensors", pack(WIDTH, WIDTH, "transformer.h.0.attn.c_attn"))
    assert read(tmp_path).cost.stored_weight_bytes == before


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    transformers.LlamaConfig(**COMMON).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"abc")
    with pytest.raises(InputError, match="is no safetensors file"):
        read(tmp_path)
