"""How configurations say that weights are stored: bits of an element worked out by hand, layer by layer."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from profilerkit import InputError
from profilerkit_predict.checkpoints.formats import WeightKind
from profilerkit_predict.checkpoints.quantization import REFUSED_METHODS, read_formats
from profilerkit_predict.checkpoints.quantization_methods import METHODS
from profilerkit_predict.checkpoints.stored_tensors import StoredTensor, place_tensors

#: So many elements that every group and block is whole.
ELEMENTS = 128 * 128 * 256
GATE, MATRIX, EXPERTS = "model.layers.0.mlp.gate", "model.layers.0.self_attn.q_proj", "model.layers.3.mlp.experts"


def count_bits(
    config: dict[str, Any] | None, path: str = MATRIX, kind: WeightKind = WeightKind.MATRIX
) -> Fraction | None:
    form = read_formats(config)(path, kind)
    return None if form is None else Fraction(8 * form.count_bytes(ELEMENTS), ELEMENTS)


def fraction(bits: int, scale: int, group: int) -> Fraction:
    return bits + Fraction(scale, group)


GROUPED = {"bits": 4, "group_size": 32}
TORCHAO = {"_type": "Int4WeightOnlyConfig", "_data": {}}
UNGROUPED = {"dtype": "fp4", "qscheme": "per_group"}
QUARK = {"weight": {**UNGROUPED, "group_size": 32}}
FLOAT = {"num_bits": 8, "type": "float"}
COMPRESSED = {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}


def describe_compressed(weights: dict[str, Any], group_1: Any = None, **options: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}} | ({"group_1": group_1} if group_1 else {})
    return {"quant_method": "compressed-tensors", "config_groups": groups, **options}


@pytest.mark.parametrize(
    ("config", "bits"),
    [
        (None, None),
        ({}, None),
        ({"quant_method": "gptq", **GROUPED}, fraction(4, 16 + 4, 32)),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, fraction(4, 16 + 4, 64)),
        ({"quant_method": "auto-round", "data_type": "mx_fp", "bits": 4}, fraction(4, 8, 32)),
        ({"quant_method": "auto-round", "data_type": "nv_fp", "bits": 4}, fraction(4, 8, 16)),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, fraction(4, 32, 64)),
        ({"quant_method": "bitsandbytes_4bit", "bnb_4bit_use_double_quant": True}, fraction(4, 8, 64)),
        ({"quant_method": "bitsandbytes_8bit"}, 8),
        ({"quant_method": "bitnet"}, 2),
        ({"quant_method": "eetq"}, 8),
        ({"quant_method": "fbgemm_fp8"}, 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, fraction(8, 32, 128 * 128)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}, fraction(8, 8, 128 * 128)),
        ({"quant_method": "fp8", "weight_block_size": None}, 8),
        ({"quant_method": "fp8", "dequantize": True}, None),
        ({"quant_method": "mxfp8"}, fraction(8, 8, 32)),
        ({"quant_method": "nvfp4"}, fraction(4, 8, 16)),
        ({"quant_method": "mxfp4"}, None),  # the experts alone
        ({"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, fraction(4, 8, 32)),
        ({"quant_method": "fouroversix"}, fraction(4, 8, 16)),
        ({"quant_method": "higgs", "bits": 3, "group_size": 128}, fraction(3, 16, 128)),
        ({"quant_method": "metal", "bits": 4, "group_size": 64}, fraction(4, 2 * 16, 64)),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 2, "group_size": 16}}}, 2 + 2),
        ({"quant_method": "hqq", "quant_config": {"self_attn.q_proj": {"nbits": 3, "group_size": 64}}}, 3.5),
        ({"quant_method": "quanto", "weights": "int2"}, fraction(2, 16 + 16, 128)),  # a scale and a shift
        ({"quant_method": "quanto", "weights": "float8"}, 8),
        ({"quant_method": "gemma", "num_bits": 2}, 2),
        ({"quant_method": "gemma", "module_quant_configs": {r"q_proj$": {"num_bits": 8}}}, 8),
        ({"quant_method": "torchao", "quant_type": {"default": TORCHAO}}, fraction(4, 2 * 16, 128)),
        ({"quant_method": "quark", "global_quant_config": QUARK}, fraction(4, 8, 32)),
        (describe_compressed(COMPRESSED), fraction(4, 16, 32)),
        (describe_compressed({**COMPRESSED, "symmetric": False}), fraction(4, 16 + 4, 32)),
        (describe_compressed({"num_bits": 4, "type": "float", "group_size": 16}), fraction(4, 8, 16)),
        (describe_compressed({**FLOAT, "strategy": "channel"}), 8),
        (describe_compressed({**FLOAT, "block_structure": [128, 128]}), fraction(8, 16, 128 * 128)),
        (describe_compressed(COMPRESSED, sparsity_config={"format": "sparse-24-bitmask"}), "sparse weights"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, fraction(4, 8, 16)),
        ({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, 8),
        ({"quantization": {"quant_algo": "W4A16_AWQ", "group_size": 128}}, fraction(4, 16, 128)),
        ({"quantization": {"quant_algo": "FP8_PB_WO"}}, fraction(8, 32, 128 * 128)),
        ({"quantization": {"quant_algo": None}}, None),
        ({"quantization": {"quant_algo": "NVFP9"}}, "NVFP9"),
        # What is missing is named, and not guessed.
        ({"quant_method": "quark", "global_quant_config": {"weight": UNGROUPED}}, r"not known here \(KeyError: 0\)"),
        ({"quant_method": "aqlm"}, "each matrix has codebooks of its own"),
        ({"quant_method": "gguf"}, "give that file, path/to/model.gguf"),
        ({"quant_method": "made-up"}, "stored by 'made-up', whose bytes are not known here; known are auto-round"),
        ({"bits": 4}, "stored by a nameless method"),
    ],
)
def test_bits_of_an_element(config: dict[str, Any] | None, bits: Fraction | int | str | None) -> None:
    if not isinstance(bits, str):
        assert count_bits(config) == bits
        return
    with pytest.raises(InputError, match=bits) as caught:
        count_bits(config)
    assert str(caught.value).endswith("or weights='bf16' for the model as it was before")


@pytest.mark.parametrize(
    ("config", "bits"),
    [
        ({"quant_method": "fp8", "modules_to_not_convert": ["mlp.gate", "lm_head"]}, {GATE: None, MATRIX: 8}),
        ({"quant_method": "fp8", "ignored_layers": ["layers.1"]}, {"layers.1.x": None, "layers.11.x": 8}),
        ({"quantization": {"quant_algo": "FP8", "exclude_modules": ["model.*.self_attn*"]}}, {MATRIX: None, GATE: 8}),
        (describe_compressed(COMPRESSED, ignore=["re:.*self_attn.*"]), {MATRIX: None, GATE: Fraction(9, 2)}),
        (
            describe_compressed(COMPRESSED, group_1={"targets": ["re:.*self_attn.*"], "weights": FLOAT}),
            {MATRIX: 8, GATE: Fraction(9, 2)},
        ),
        (
            {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {MATRIX: {"quant_algo": "NVFP4"}}}},
            {MATRIX: Fraction(9, 2), GATE: None},
        ),
        (
            {"quant_method": "gptq", **GROUPED, "dynamic": {r"-:.*gate$": {}, r"+:.*q_proj$": {"bits": 8}}},
            {GATE: None, MATRIX: fraction(8, 16 + 8, 32), "model.layers.0.mlp.up_proj": fraction(4, 16 + 4, 32)},
        ),
        (
            {
                "quant_method": "gptq",
                **GROUPED,
                "modules_in_block_to_quantize": [["self_attn.q_proj"], ["mlp.up_proj"]],
            },
            {GATE: None, MATRIX: 4.625, "model.layers.0.mlp.up_proj": 4.625, "model.layers.0.mlp.up": None},
        ),
        ({"quant_method": "auto-round", **GROUPED, "extra_config": {GATE: {"bits": 16}}}, {GATE: None, MATRIX: 4.625}),
        (
            {
                "quant_method": "quark",
                "global_quant_config": QUARK,
                "layer_quant_config": {"*q_proj": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}},
            },
            {MATRIX: 8, GATE: Fraction(17, 4)},
        ),
    ],
)
def test_layers_that_differ(config: dict[str, Any], bits: dict[str, Fraction | None]) -> None:
    assert {path: count_bits(config, path) for path in bits} == bits


def test_experts_that_a_library_joins_are_known_by_one_of_them() -> None:
    pattern = r"re:.*mlp\.experts\.\d+\.gate_proj$"
    group = {"targets": [pattern], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}
    config = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}
    assert count_bits(config, EXPERTS, WeightKind.EXPERTS) == Fraction(9, 2)
    assert count_bits(config, MATRIX) is None
    deepseek = {"quant_method": "fp8", "weight_block_size": [128, 128], "expert_dtype": "fp4", "scale_fmt": "ue8m0"}
    assert count_bits(deepseek, EXPERTS, WeightKind.EXPERTS) == fraction(4, 8, 32)
    assert count_bits(deepseek) == fraction(8, 8, 128 * 128)
    assert count_bits({"quant_method": "mxfp4"}, EXPERTS, WeightKind.EXPERTS) == fraction(4, 8, 32)


def test_tables_norms_and_the_head_keep_their_dtype() -> None:
    for kind in (WeightKind.EMBEDDING, WeightKind.HEAD, WeightKind.OTHER):
        assert count_bits({"quant_method": "fp8"}, MATRIX, kind) is None
    gemma = {"quant_method": "gemma", "quantize_embeddings": True}
    assert count_bits(gemma, MATRIX, WeightKind.EMBEDDING) == 4
    assert count_bits(gemma, MATRIX, WeightKind.OTHER) is None


@pytest.mark.parametrize(
    ("config", "bits"),
    [
        ({"quant_method": "gptq", **GROUPED}, None),
        ({"quant_method": "gptq", **GROUPED, "lm_head": True}, 4.625),
        ({"quant_method": "auto-round", **GROUPED, "extra_config": {"lm_head": {"bits": 8}}}, fraction(8, 16 + 8, 32)),
        (describe_compressed(COMPRESSED), 4.5),
        (describe_compressed(COMPRESSED, ignore=["lm_head"]), None),
        ({"quant_method": "quark", "global_quant_config": QUARK}, 4.25),
        ({"quant_method": "quark", "global_quant_config": QUARK, "exclude": ["lm_head"]}, None),
        ({"quantization": {"quant_algo": "NVFP4", "group_size": 16}}, 4.5),
        ({"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}}, None),
        ({"quant_method": "fp8", "modules_to_not_convert": None}, None),
    ],
)
@pytest.mark.parametrize("path", ["lm_head", "model.embed_tokens"])
def test_a_head_is_converted_where_a_configuration_says_so(
    config: dict[str, Any], bits: float | None, path: str
) -> None:
    """Named alone, or as one of all linear layers that are not left out; it may be one weight with the table."""
    assert count_bits(config, path, WeightKind.HEAD) == bits


def test_a_layer_with_a_counter_is_not_packed() -> None:
    """Four integers of 8 bits and a scale of 4 bytes are; a weight and the number of its batches are not.

    An engine keeps no ``g_idx`` of columns that are in their order.
    """
    tensors = [
        StoredTensor("packed.weight", (4,), "int8", 0, 4),
        StoredTensor("packed.scale", (1,), "float32", 4, 4),
        StoredTensor("plain.weight", (4,), "bfloat16", 8, 8),
        StoredTensor("plain.num_batches_tracked", (), "int64", 16, 8),
        StoredTensor("packed.g_idx", (4,), "int32", 24, 16),
    ]
    placed = place_tensors(tensors, {"packed": False, "plain": False})
    assert {path: layer.bytes for path, layer in placed.layers.items()} == {"packed": 8}


@pytest.mark.heavy
def test_every_method_of_transformers_is_read_or_refused() -> None:
    auto = pytest.importorskip("transformers.quantizers.auto")
    for method, kind in auto.AUTO_QUANTIZATION_CONFIG_MAPPING.items():
        if method in REFUSED_METHODS:
            with pytest.raises(InputError, match=f"'{method}', whose bytes are not known here, for "):
                read_formats({"quant_method": method})
            continue
        assert method in METHODS, f"{method} is new in transformers: read it, or say why not"
        try:
            config = kind().to_dict()
        except (ImportError, KeyError, TypeError, ValueError):  # it asks for its own package, or has no defaults
            continue
        if method != "compressed-tensors":  # by default it has no groups
            form = read_formats({**config, "quant_method": method})(EXPERTS, WeightKind.EXPERTS)
            assert form is not None, method
