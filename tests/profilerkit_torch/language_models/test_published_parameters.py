"""Parameters at published sizes are the published totals, to the unit.

Two sources: the presets of keras-team/keras-hub at commit 71453d08f59e (``keras_hub/src/models/*/*_presets.py``, each
model's "params"), and ``safetensors.total`` of the models at huggingface.co, which counts the elements of the files.
Left out are totals that count something else: files with buffers for rotations (Llama 2 13B and 70B), files that hold a
tied head twice (Qwen3 0.6B, Falcon 180B), presets that do (Llama 3.2), round numbers (Qwen2.5 coder 14B), presets with
other positions than the checkpoints (OPT, BART), and the head of Flan-T5, which transformers ties.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from profilerkit import llm

transformers = pytest.importorskip("transformers")
TIED = {"tie_word_embeddings": True}
HEADS = ("num_attention_heads", "num_key_value_heads")
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", *HEADS, "vocab_size")
FALCON_RW = {"alibi": True, "bias": True, "multi_query": False, "parallel_attn": False}


class Published(NamedTuple):
    """A model: its configuration's class, its total and its sizes."""

    name: str
    kind: str
    total: int
    sizes: dict[str, Any]

    def build(self) -> Any:
        return getattr(transformers, self.kind)(**self.sizes)


def decoder(name: str, kind: str, total: int, sizes: tuple[int, ...], **others: Any) -> Published:
    """Return a decoder of so many features, features between, layers, heads, heads of keys and values, and words."""
    return Published(name, kind, total, dict(zip(SIZES, sizes, strict=True)) | others)


def t5(name: str, total: int, sizes: tuple[int, ...], **others: Any) -> Published:
    names = ("d_model", "d_ff", "num_layers", "num_heads")
    return Published(name, "T5Config", total, dict(zip(names, sizes, strict=True)) | others)


#: By the presets of KerasHub.
BY_KERAS_HUB = (
    decoder("llama2_7b", "LlamaConfig", 6_738_415_616, (4096, 11008, 32, 32, 32, 32000)),
    decoder("gemma_2b", "GemmaConfig", 2_506_172_416, (2048, 16384, 18, 8, 1, 256000), head_dim=256),
    decoder("gemma_7b", "GemmaConfig", 8_537_680_896, (3072, 24576, 28, 16, 16, 256000), head_dim=256),
    decoder("gemma2_2b", "Gemma2Config", 2_614_341_888, (2304, 9216, 26, 8, 4, 256000), head_dim=256),
    decoder("gemma2_9b", "Gemma2Config", 9_241_705_984, (3584, 14336, 42, 16, 8, 256000), head_dim=256),
    decoder("gemma2_27b", "Gemma2Config", 27_227_128_320, (4608, 36864, 46, 32, 16, 256000), head_dim=128),
    decoder("gemma3_270m", "Gemma3TextConfig", 268_098_176, (640, 2048, 18, 4, 1, 262144), head_dim=256),
    decoder("gemma3_4b_text", "Gemma3TextConfig", 3_880_099_328, (2560, 10240, 34, 8, 4, 262144), head_dim=256),
    decoder("gemma3_12b_text", "Gemma3TextConfig", 11_765_788_416, (3840, 15360, 48, 16, 8, 262144), head_dim=256),
    decoder("gemma3_27b_text", "Gemma3TextConfig", 27_009_002_240, (5376, 21504, 62, 32, 16, 262144), head_dim=128),
    decoder("mistral_7b", "MistralConfig", 7_241_732_096, (4096, 14336, 32, 32, 8, 32000)),
    decoder("mistral_0.3_7b", "MistralConfig", 7_248_023_552, (4096, 14336, 32, 32, 8, 32768)),
    decoder("magistral_small", "MistralConfig", 23_572_403_200, (5120, 32768, 40, 32, 8, 131072), head_dim=128),
    decoder("mixtral_8_7b", "MixtralConfig", 46_702_792_704, (4096, 14336, 32, 32, 8, 32000)),
    decoder("qwen2.5_0.5b", "Qwen2Config", 494_032_768, (896, 4864, 24, 14, 2, 151936), **TIED),
    decoder("qwen2.5_math_1.5b", "Qwen2Config", 1_543_714_304, (1536, 8960, 28, 12, 2, 151936), **TIED),
    decoder("qwen2.5_3b", "Qwen2Config", 3_085_938_688, (2048, 11008, 36, 16, 2, 151936), **TIED),
    decoder("qwen2.5_math_7b", "Qwen2Config", 7_615_616_512, (3584, 18944, 28, 28, 4, 152064)),
    decoder("qwen2.5_32b", "Qwen2Config", 32_763_876_352, (5120, 27648, 64, 40, 8, 152064)),
    decoder("qwen2.5_72b", "Qwen2Config", 72_706_203_648, (8192, 29568, 80, 64, 8, 152064)),
    Published("qwen1.5_moe_2.7b", "Qwen2MoeConfig", 14_315_784_192, {"num_experts": 60}),
    decoder("qwen3_0.6b", "Qwen3Config", 596_049_920, (1024, 3072, 28, 16, 8, 151936), **TIED),
    decoder("qwen3_1.7b", "Qwen3Config", 1_720_574_976, (2048, 6144, 28, 16, 8, 151936), **TIED),
    decoder("qwen3_4b", "Qwen3Config", 4_022_468_096, (2560, 9728, 36, 32, 8, 151936), **TIED),
    decoder("qwen3_8b", "Qwen3Config", 8_190_735_360, (4096, 12288, 36, 32, 8, 151936)),
    decoder("qwen3_14b", "Qwen3Config", 14_768_307_200, (5120, 17408, 40, 40, 8, 151936)),
    decoder("qwen3_32b", "Qwen3Config", 32_762_123_264, (5120, 25600, 64, 64, 8, 151936)),
    decoder(
        "qwen3_moe_30b_a3b",
        "Qwen3MoeConfig",
        30_532_122_624,
        (2048, 6144, 48, 32, 4, 151936),
        head_dim=128,
        moe_intermediate_size=768,
        num_experts=128,
    ),
    decoder(
        "qwen3_moe_235b_a22b",
        "Qwen3MoeConfig",
        235_093_634_560,
        (4096, 12288, 94, 64, 4, 151936),
        head_dim=128,
        moe_intermediate_size=1536,
        num_experts=128,
    ),
    decoder("phi3_mini", "Phi3Config", 3_821_079_552, (3072, 8192, 32, 32, 32, 32064)),
    Published(
        "falcon_refinedweb_1b",
        "FalconConfig",
        1_311_625_216,
        {"vocab_size": 50304, "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, **FALCON_RW},
    ),
    Published("gpt2_base", "GPT2Config", 124_439_808, {}),
    Published("gpt2_medium", "GPT2Config", 354_823_168, {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    Published("gpt2_large", "GPT2Config", 774_030_080, {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
    Published("gpt2_extra_large", "GPT2Config", 1_557_611_200, {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    Published("bloom_560m", "BloomConfig", 559_214_592, {"hidden_size": 1024, "n_layer": 24, "n_head": 16}),
    Published("bloom_1.1b", "BloomConfig", 1_065_314_304, {"hidden_size": 1536, "n_layer": 24, "n_head": 16}),
    Published("bloom_1.7b", "BloomConfig", 1_722_408_960, {"hidden_size": 2048, "n_layer": 24, "n_head": 16}),
    Published("bloom_3b", "BloomConfig", 3_002_557_440, {"hidden_size": 2560, "n_layer": 30, "n_head": 32}),
    t5("t5_small", 60_506_624, (512, 2048, 6, 8)),
    t5("t5_base", 222_903_552, (768, 3072, 12, 12)),
    t5("t5_large", 737_668_096, (1024, 4096, 24, 16)),
    t5("t5_1.1_small", 60_511_616, (512, 1024, 8, 6), feed_forward_proj="gated-gelu"),
    t5("t5_1.1_large", 750_251_008, (1024, 2816, 24, 16), feed_forward_proj="gated-gelu"),
)
#: By the files at huggingface.co.
BY_FILES = (
    decoder("meta-llama/Llama-3.1-8B", "LlamaConfig", 8_030_261_248, (4096, 14336, 32, 32, 8, 128256)),
    decoder("meta-llama/Llama-3.1-70B", "LlamaConfig", 70_553_706_496, (8192, 28672, 80, 64, 8, 128256)),
    decoder("meta-llama/Llama-3.1-405B", "LlamaConfig", 405_853_388_800, (16384, 53248, 126, 128, 8, 128256)),
    decoder("meta-llama/Llama-3.2-1B", "LlamaConfig", 1_235_814_400, (2048, 8192, 16, 32, 8, 128256), **TIED),
    decoder("meta-llama/Llama-3.2-3B", "LlamaConfig", 3_212_749_824, (3072, 8192, 28, 24, 8, 128256), **TIED),
    decoder("HuggingFaceTB/SmolLM2-135M", "LlamaConfig", 134_515_008, (576, 1536, 30, 9, 3, 49152), **TIED),
    decoder("HuggingFaceTB/SmolLM2-360M", "LlamaConfig", 361_821_120, (960, 2560, 32, 15, 5, 49152), **TIED),
    decoder("HuggingFaceTB/SmolLM2-1.7B", "LlamaConfig", 1_711_376_384, (2048, 8192, 24, 32, 32, 49152), **TIED),
    decoder("HuggingFaceTB/SmolLM3-3B", "SmolLM3Config", 3_075_098_624, (2048, 11008, 36, 16, 4, 128256), **TIED),
    decoder("ibm-granite/granite-3.3-2b", "GraniteConfig", 2_533_539_840, (2048, 8192, 40, 32, 8, 49159), **TIED),
    decoder("ibm-granite/granite-3.3-8b", "GraniteConfig", 8_170_864_640, (4096, 12800, 40, 32, 8, 49159), **TIED),
    decoder("microsoft/phi-4", "Phi3Config", 14_659_507_200, (5120, 17920, 40, 40, 10, 100352)),
    decoder("microsoft/Phi-4-mini", "Phi3Config", 3_836_021_760, (3072, 8192, 32, 24, 8, 200064), **TIED),
    decoder("mistralai/Ministral-8B", "MistralConfig", 8_019_808_256, (4096, 12288, 36, 32, 8, 131072), head_dim=128),
    decoder("allenai/OLMo-2-1124-7B", "Olmo2Config", 7_298_617_344, (4096, 11008, 32, 32, 32, 100352)),
    decoder("allenai/OLMo-2-1124-13B", "Olmo2Config", 13_716_198_400, (5120, 13824, 40, 40, 40, 100352)),
    decoder("mistralai/Mixtral-8x22B-Instruct", "MixtralConfig", 140_630_071_296, (6144, 16384, 56, 48, 8, 32768)),
    Published("openai/gpt-oss-20b", "GptOssConfig", 20_914_757_184, {"num_hidden_layers": 24, "num_local_experts": 32}),
    Published("openai/gpt-oss-120b", "GptOssConfig", 116_829_156_672, {}),
    # Without its head for several tokens; transformers has the 256 biases of each router as a buffer.
    Published("deepseek-ai/DeepSeek-V3", "DeepseekV3Config", 671_026_419_200 - 58 * 256, {}),
)
PUBLISHED = (*BY_KERAS_HUB, *BY_FILES)
#: The largest total that is followed in every run.
LIGHT = 300_000_000


@pytest.mark.parametrize(
    "model",
    [pytest.param(model, marks=[pytest.mark.slow] if model.total > LIGHT else []) for model in PUBLISHED],
    ids=lambda model: model.name,
)
def test_parameters_are_the_published_total(model: Published) -> None:
    report: Any = llm(model.build(), prompt=8, new=2, dtype="bf16")
    assert report.facts.parameters == model.total
