"""What makes a bound of a language model none, family by family, with the numbers worked out by hand.

Experts that a library runs though no token is sent to them, caches that grow once in several tokens, keys that an
indexer chooses, heads that differ by layer, weights that a checkpoint stores in few bits, latents on each device.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_language_models import skip_where_experts_ask_for_addresses

from profilerkit import InputError, kv_bytes, llm
from profilerkit.models.loaders import load_model
from profilerkit_predict.language_models import Layout

transformers = pytest.importorskip("transformers")
WIDTH, WORDS, PROMPT = 32, 50, 12
COMMON = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
COMMON |= {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}


def configuration(kind: str, **options: Any) -> Any:
    if not hasattr(transformers, kind):
        pytest.skip(f"this release of transformers has no {kind}")
    return getattr(transformers, kind)(**{**COMMON, **options})


def llama_4(chunk: int = 64, layers: int = 2) -> Any:
    experts = {"num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1}
    sizes = {"intermediate_size": 16, "intermediate_size_mlp": 64, "head_dim": 8, "num_key_value_heads": 2}
    sizes["num_hidden_layers"] = layers
    return configuration("Llama4TextConfig", **experts, **sizes, attention_chunk_size=chunk)


def test_experts_that_a_token_is_not_sent_to_are_left_out() -> None:
    """Llama 4's code runs all four experts; one of 3 * 32 * 16 is chosen, beside a shared one and a router of 128."""
    report: Any = llm(llama_4(), prompt=PROMPT, new=4, dtype="bf16")
    expert, attention = 3 * WIDTH * 16, WIDTH * (4 + 2 * 2) * 8 + 4 * 8 * WIDTH
    token = attention + WIDTH * 4 + expert + expert
    assert report.cost(1, 1, PROMPT).macs == 2 * token + 2 * 2 * 4 * 8 * (PROMPT + 1) + WIDTH * WORDS
    assert report.cost.as_written(1, 1, PROMPT) == report.cost(1, 1, PROMPT).macs + 2 * 3 * expert
    (experts,) = [part for part in report.facts.weights if part.kind == "experts"]
    assert (experts.routing.experts, experts.routing.experts_per_token, experts.elements) == (4, 1, 2 * 4 * expert)
    assert any("runs every expert" in note for note in report.facts.notes)


def test_biases_of_experts_are_read_with_the_experts() -> None:
    """Four experts of gpt-oss, each with biases of twice 16 and of 32, of which a token is sent to one."""
    skip_where_experts_ask_for_addresses()
    sizes = {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size": 16, "head_dim": 8}
    report: Any = llm(configuration("GptOssConfig", num_key_value_heads=2, **sizes), prompt=PROMPT, new=4, dtype="bf16")
    (biases,) = [part for part in report.facts.weights if part.kind == "other" and part.routing]
    assert biases.bytes == 2 * 4 * (2 * 16 + WIDTH) * 2
    term = next(term for term in report.cost(1, 1, 0).terms if term.name == "norms and buffers")
    others = sum(part.bytes for part in report.facts.weights if part.kind == "other" and not part.routing)
    assert term.amount == others + biases.bytes / 4


def test_a_token_attends_to_its_own_chunk() -> None:
    """Three layers of four see the tokens of chunks of 8 up to themselves, the fourth all before it."""
    report: Any = llm(llama_4(chunk=8, layers=4), prompt=PROMPT, new=4, dtype="bf16", block_size=1)
    expert, attention = 3 * WIDTH * 16, WIDTH * (4 + 2 * 2) * 8 + 4 * 8 * WIDTH
    token, pair, entry = 4 * (attention + WIDTH * 4 + expert + expert), 2 * 4 * 8, 2 * 2 * 8 * 2
    for new, cached in ((1, 0), (PROMPT, 0), (1, 15), (1, 16), (1, 70), (5, 6), (40, 20)):
        keys = sum(3 * (position % 8 + 1) + position + 1 for position in range(cached, cached + new))
        step = report.cost(1, new, cached)
        assert step.macs == new * token + pair * keys + WIDTH * WORDS, (new, cached)
        assert step.cache_read_bytes == entry * (3 * (cached % 8) + cached), (new, cached)
    assert report.cost.cache_bytes(70) == entry * (3 * 7 + 70)
    assert "chunks 3 of 4 layers: 8 tokens" in " ".join(report.to_text().split())


def deepseek_32() -> Any:
    sizes = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
    index = {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 4}
    dense = {"first_k_dense_replace": 2, "mlp_layer_types": ["dense"] * 2}
    return configuration("DeepseekV32Config", **sizes, **index, **dense, intermediate_size=64, num_key_value_heads=4)


def test_an_indexer_reads_every_key_and_attention_the_chosen_ones() -> None:
    report: Any = llm(deepseek_32(), prompt=PROMPT, new=4, dtype="bf16")
    latent = WIDTH * 24 + 24 * 4 * (8 + 4) + WIDTH * (16 + 4) + 16 * 4 * (8 + 8) + 4 * 8 * WIDTH
    index = 24 * 2 * 8 + WIDTH * 8 + WIDTH * 2
    token = latent + index + 3 * WIDTH * 64
    # A pair of the indexer: two heads of 8, and their weighted sum; absorbed attention: 4 * (16 + 4 + 16) for 4 keys.
    pairs = (2 * 8 + 2) * (PROMPT + 1) + 4 * (16 + 4 + 16) * 4
    assert report.cost(1, 1, PROMPT).macs == 2 * (token + pairs) + WIDTH * WORDS
    # In bfloat16 a latent of 16 + 4 and a key of the indexer of 8, in each of two layers.
    assert sum(layer.bytes_per_token for layer in report.cost.cache.parts) == 2 * (16 + 4 + 8) * 2
    assert report.cost(1, 1, PROMPT).cache_read_bytes == 2 * 2 * ((16 + 4) * 4 + 8 * PROMPT)


def test_latents_of_64_bits_leave_nothing_for_an_indexer() -> None:
    """DeepSeek-V3 has none: a token adds a latent of 16 and a key of 4 in each of two layers."""
    sizes = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
    options = {"first_k_dense_replace": 2, "intermediate_size": 64, "num_key_value_heads": 4, "dtype": "float64"}
    report: Any = llm(configuration("DeepseekV3Config", **sizes, **options), prompt=PROMPT, new=4)
    assert report.cost(1, 1, PROMPT).cache_read_bytes == 2 * (16 + 4) * 8 * PROMPT


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_scores_that_an_engine_never_writes_are_no_activations(dtype: str) -> None:
    """The CPU's kernel takes no values narrower than the queries: it writes 8 heads * 512 * 512 scores of 4 bytes."""
    sizes = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 8, "first_k_dense_replace": 2}
    config = configuration("DeepseekV3Config", **sizes, **heads, intermediate_size=64)
    report: Any = llm(config, prompt=512, new=4, dtype=dtype)
    assert report.facts.traced.prefill.activation_bytes < 8 * 512 * 512 * 4


def deepseek_4() -> Any:
    kinds = ["heavily_compressed_attention", "compressed_sparse_attention"]
    return configuration("DeepseekV4Config", num_hidden_layers=2, layer_types=kinds, hidden_size=512)


@pytest.mark.slow
@pytest.mark.parametrize("prompt", [4, 20, 126, 130, 1000, 1024])
def test_a_cache_that_grows_once_in_several_tokens(prompt: int) -> None:
    """The cache object itself is the oracle, at eight lengths: windows of 128, an entry for 4 tokens and for 128."""
    skip_where_experts_ask_for_addresses()
    config = deepseek_4()
    report: Any = llm(config, prompt=prompt, new=4, dtype="bf16")
    for context in (5, 127, 128, 129, 1023, 1025, 4096, 20_000):
        own = kv_bytes(config, context, dtype="bf16").logical
        assert sum(layer.count_paged_bytes(context, block_size=1) for layer in report.facts.cache.parts) == own, context


@pytest.mark.slow
def test_deepseek_v4_at_its_published_size() -> None:
    """Flash, in bfloat16: 21 layers have an entry of 512 and an indexer's of 128 for 4 tokens, 20 one of 512 for 128.

    ``c / 4 * 640 * 21 * 2`` and ``c / 128 * 512 * 20 * 2`` bytes are 0.84 GiB for c of 128 K and 6.72 for 1 M. All 43
    layers have a window of 127 keys of 512, two of them values too, and 21 half a chunk of entries that overlap.
    """
    skip_where_experts_ask_for_addresses()
    config = transformers.DeepseekV4Config(compress_ratios=[0, 0, *([4, 128] * 20), 4, 0])
    kinds = list(config.layer_types)
    assert [kinds.count(kind) for kind in sorted(set(kinds))] == [21, 20, 2]
    report: Any = llm(config, prompt=1024, new=4, dtype="bf16")
    for context in (131_072, 1_048_576):
        held = sum(part.count_paged_bytes(context, block_size=1) for part in report.facts.cache.parts)
        entries = context // 4 * (512 + 128) * 21 * 2 + context // 128 * 512 * 20 * 2
        windows = 127 * 512 * (43 + 2) * 2
        overlaps = 21 * 2 * 4 * (512 + 128) * 2
        assert held == entries + windows + overlaps


@pytest.mark.slow
def test_a_step_of_deepseek_v4_grows_with_its_entries() -> None:
    """64 heads of 512 attend to at most 512 of the entries of 4 tokens, in 21 layers, and to all of 128, in 20.

    64 heads of 128 of an indexer go through all entries of 4 tokens. The windows are full; nothing else grows.
    """
    skip_where_experts_ask_for_addresses()
    config = transformers.DeepseekV4Config(compress_ratios=[0, 0, *([4, 128] * 20), 4, 0])
    report: Any = llm(config, prompt=100, new=4, dtype="bf16")
    assert not any("lower bound for longer ones" in note for note in report.facts.notes)
    assert any("traced with a prompt of 255 tokens" in note for note in report.facts.notes)
    assert "43 of 43 layers: 128 tokens" in str(report)
    pair = 2 * 64 * 512
    for context in (1023, 1027, 4095, 131_071, 1_000_000):
        sparse, heavy = (context + 1) // 4 - 64, (context + 1) // 128 - 2  # more than after 255 tokens
        attended = min(512, (context + 1) // 4) - 64
        grown = 21 * (pair * attended + 64 * 128 * sparse) + 20 * pair * heavy
        assert report.cost(1, 1, context).macs - report.cost(1, 1, 255).macs == grown, context


def test_heads_that_differ_by_layer() -> None:
    """One layer attends to a window with 4 heads of 8, the other to all tokens with 2 of 16."""
    heads = {"num_key_value_heads": 4, "num_global_key_value_heads": 2, "head_dim": 8, "global_head_dim": 16}
    kinds = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64, "attention_k_eq_v": True}
    config = configuration("Gemma4TextConfig", **heads, **kinds, intermediate_size=64, hidden_size_per_layer_input=0)
    report: Any = llm(config, prompt=PROMPT, new=4, dtype="bf16")
    layers = {layer.window: (layer.bytes_per_token, layer.heads) for layer in report.cost.cache.parts}
    assert layers == {64: (2 * 4 * 8 * 2, 4), None: (2 * 2 * 16 * 2, 2)}


def test_weights_are_read_as_the_checkpoint_stores_them() -> None:
    """gpt-oss: 4 bits an element of the experts and 8 bits for 32 of them; the rest in bfloat16."""
    skip_where_experts_ask_for_addresses()
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    options = {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 32, "head_dim": 8}
    stored = {"quant_method": "mxfp4", "modules_to_not_convert": kept}
    plain = configuration("GptOssConfig", **options, num_key_value_heads=2)
    config = configuration("GptOssConfig", **options, num_key_value_heads=2, quantization_config=stored)
    report: Any = llm(config, prompt=PROMPT, new=4, dtype="bf16")
    experts = sum(part.elements for part in report.facts.weights if part.kind == "experts")
    assert experts == 2 * 4 * 3 * WIDTH * 32
    whole = llm(plain, prompt=PROMPT, new=4, dtype="bf16").cost.stored_weight_bytes  # type: ignore[union-attr]
    assert report.weights == "mxfp4"
    assert report.cost.stored_weight_bytes == whole - 2 * experts + experts // 2 + experts // 32
    asked: Any = llm(config, prompt=PROMPT, new=4, dtype="bf16", weights="bf16")
    assert asked.weights == "bfloat16"


def test_weights_of_unknown_bytes_are_refused_unless_a_format_is_given() -> None:
    config = configuration("LlamaConfig", intermediate_size=64, quantization_config={"quant_method": "aqlm"})
    with pytest.raises(InputError, match="stored by 'aqlm', whose bytes are not known here, for each matrix has"):
        llm(config, prompt=PROMPT, new=4)
    report: Any = llm(config, prompt=PROMPT, new=4, weights="bf16", dtype="bf16")
    assert report.weights == "bfloat16"


def test_the_file_of_modelopt_beside_a_configuration_is_read(tmp_path: Path) -> None:
    configuration("LlamaConfig", intermediate_size=64, dtype="bfloat16").save_pretrained(tmp_path)
    plain: Any = llm(str(tmp_path), prompt=PROMPT, new=4)
    inner = {"quant_algo": "FP8", "exclude_modules": ["lm_head", "model.layers.0*"]}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": inner}), encoding="utf-8")
    stored: Any = llm(str(tmp_path), prompt=PROMPT, new=4)
    one_layer = 4 * WIDTH * WIDTH + 3 * WIDTH * 64
    assert stored.weights == "fp8"
    assert plain.cost.stored_weight_bytes - stored.cost.stored_weight_bytes == one_layer
    for content, message in (("[1]", "holds no quantization"), ("{", "cannot be read")):
        (tmp_path / "hf_quant_config.json").write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            llm(str(tmp_path), prompt=PROMPT, new=4)


def test_a_decoder_is_not_taken_for_an_encoder_decoder() -> None:
    with pytest.raises(InputError, match="an encoder-decoder, and transformers does not list it as one of text"):
        llm(transformers.MusicgenConfig(), prompt=PROMPT, new=4)
    small = {"vocab_size": WORDS, "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    report: Any = llm(transformers.BartConfig(**small, **heads), prompt=PROMPT, new=4)
    assert report.facts.is_encoder_decoder, "the whole model, though transformers has its decoder alone too"


def test_the_prompt_of_whisper_is_sound() -> None:
    """openai/whisper-tiny, by hand: two convolutions, four layers of each kind, 1,500 positions of 30 seconds."""
    report: Any = llm(transformers.WhisperConfig(), dtype="fp32")
    d, f, sound = 384, 1536, 1500
    encoder = 4 * (sound * (4 * d * d + 2 * d * f) + 2 * sound * sound * d)
    decoder = 4 * (6 * d * d + 2 * d * f + 2 * d + 2 * sound * d) + 51865 * d
    crossed = 4 * sound * 2 * d * d
    convolutions = 2 * sound * 80 * 3 * d + sound * d * 3 * d
    assert report.facts.traced.prefill.macs == convolutions + encoder + crossed + decoder
    assert report.facts.traced.decode.macs == decoder + 4 * 2 * d, "one more key in each layer's own attention"
    assert report.facts.cache.contents[0].logical_bytes == 4 * 2 * (sound + 1) * d * 4
    assert (report.prompt, report.facts.sizes.longest_context) == (1500, 1948)
    # A step reads no weights of the encoder, nor of the projections of its states.
    read = report.cost.weight_bytes_read(1)
    assert read < 4 * (4 * (6 * d * d + 2 * d * f) + 51865 * d) + 10**6 < report.cost.stored_weight_bytes
    with pytest.raises(InputError, match=r"takes sound, in 1,500 positions .* leave out prompt \(prompt=, --prompt\)"):
        llm(transformers.WhisperConfig(), prompt=PROMPT, new=4)
    with pytest.raises(InputError, match="measure=True: WhisperForConditionalGeneration takes sound"):
        llm(transformers.WhisperForConditionalGeneration(transformers.WhisperConfig()), new=2, measure=True)


@pytest.mark.slow
def test_whisper_has_its_encoder_too() -> None:
    """Large-v3, "1550 M" parameters (https://github.com/openai/whisper): the decoder alone has 907 million of them."""
    sizes = {"d_model": 1280, "num_mel_bins": 128, "vocab_size": 51866}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 32, f"{side}_attention_heads": 20, f"{side}_ffn_dim": 5120}
    attention = 4 * 1280 * 1280 + 3 * 1280  # keys have no bias
    inner = 2 * 1280 * 5120 + 5120 + 1280
    encoder = 3 * 1280 * (128 + 1280) + 2 * 1280 + 1500 * 1280 + 32 * (attention + inner + 2 * 2560) + 2560
    decoder = (51866 + 448) * 1280 + 32 * (2 * attention + inner + 3 * 2560) + 2560
    report: Any = llm(transformers.WhisperConfig(**sizes), dtype="bf16")
    assert report.facts.parameters == encoder + decoder == 1_543_490_560
    assert decoder == 906_521_600


def test_an_encoder_is_read_with_the_prompt_alone() -> None:
    """One layer each of width 32 and 64: a step reads the decoder, and of its cross attention queries and output."""
    small = {"vocab_size": WORDS, "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    report: Any = llm(transformers.BartConfig(**small, **heads), prompt=PROMPT, new=4, dtype="fp32")
    first = sum(part.elements for part in report.facts.weights if part.kind == "matrix" and part.read_in == "first")
    encoder, crossed = 4 * WIDTH * WIDTH + 2 * WIDTH * 64, 2 * WIDTH * WIDTH
    assert first == encoder + crossed
    assert report.cost.weight_bytes_read(1, is_first=True) > report.cost.weight_bytes_read(1) + 4 * first


def test_layers_for_images_are_stored_and_not_read() -> None:
    text = {**COMMON, "intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 64}
    sight = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sight |= {"image_size": 28, "patch_size": 14}
    config = transformers.Gemma3Config(text_config=text, vision_config=sight, mm_tokens_per_image=4)
    report: Any = llm(config, prompt=PROMPT, new=4, dtype="fp32")
    unread = sum(part.bytes for part in report.facts.weights if part.read_in == "none")
    assert unread >= 4 * (4 * 16 * 16 + 2 * 16 * 32 + 3 * 14 * 14 * 16)
    assert report.cost.weight_bytes_read(10**6, is_first=True) == report.cost.stored_weight_bytes - unread
    (note,) = report.facts.notes_on_text
    assert "parameters of layers that text does not go through (model.vision_tower" in note


def test_devices_share_heads_and_hold_latents_whole() -> None:
    report: Any = llm(llama_4(), prompt=PROMPT, new=4, dtype="bf16")
    whole = report.cost.cache_bytes(PROMPT, 8)
    assert [report.cost.cache.count_bytes(PROMPT, 8, Layout(devices)) for devices in (1, 2, 4)] == [
        whole,
        whole // 2,
        whole // 2,
    ]
    latent: Any = llm(deepseek_32(), prompt=PROMPT, new=4, dtype="bf16")
    assert latent.cost.cache.count_bytes(PROMPT, 8, Layout(4)) == latent.cost.cache_bytes(PROMPT, 8)
    # The matrices that make latents of 16 + 4 and 24, and index keys of 8, are whole in two layers. So are norms
    # of latents, of these keys with a bias, before both parts and before the head; and 2 + 2 frequencies in float32.
    norms = 2 * (24 + 16 + 2 * 8 + 2 * WIDTH) + WIDTH
    repeated = (2 * (28 + 24) * WIDTH * 2 + norms * 2 + 2 * 2 * 4) * (1 - 1 / 4)
    assert max(latent.cost.engine_weights.list_stage_bytes(Layout(4))) == latent.cost.stored_weight_bytes / 4 + repeated


def test_devices_that_have_the_same_head_have_its_matrices() -> None:
    """Four devices share two heads of 8 of keys and values: a device has half of these matrices, a fourth of others.

    It has all norms of two layers and before the head, and 4 + 4 frequencies in float32.
    """
    config = configuration("LlamaConfig", intermediate_size=64, num_key_value_heads=2, tie_word_embeddings=False)
    cost: Any = llm(config, prompt=PROMPT, new=4, dtype="bf16").cost  # type: ignore[union-attr]
    keys_and_values = 2 * 2 * WIDTH * 2 * 8
    others = 5 * WIDTH * 2 + 2 * 4 * 4
    repeated = keys_and_values * 2 * (1 / 2 - 1 / 4) + others * (1 - 1 / 4)
    assert max(cost.engine_weights.list_stage_bytes(Layout(4))) == cost.stored_weight_bytes / 4 + repeated


def test_devices_share_the_heads_of_cross_attention() -> None:
    """Four heads on eight devices, one on each: of keys and values of 12 tokens, and of a block of 16 decoded ones."""
    small = {"vocab_size": WORDS, "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    report: Any = llm(transformers.BartConfig(**small, **heads), prompt=PROMPT, new=4, dtype="bf16")
    assert report.cost.cache.count_bytes(PROMPT, 1, Layout(8)) == 2 * (PROMPT + 16) * WIDTH * 2 / 4


def test_a_folder_has_the_dtype_of_its_configuration(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    content = {"model_type": "llama", "vocab_size": 20, "num_key_value_heads": 2, **sizes}
    before = torch.get_rng_state()
    for dtype in ("float32", "bfloat16"):
        (tmp_path / "config.json").write_text(json.dumps({**content, "dtype": dtype}), encoding="utf-8")
        loaded: Any = load_model(f"hf:{tmp_path}")
        assert {str(parameter.dtype) for parameter in loaded.model.parameters()} == {f"torch.{dtype}"}
        assert llm(f"hf:{tmp_path}", prompt=PROMPT, new=4).facts.dtype == dtype  # type: ignore[union-attr]
    assert torch.equal(before, torch.get_rng_state()), "the head that the loaded model lacks has random weights"
