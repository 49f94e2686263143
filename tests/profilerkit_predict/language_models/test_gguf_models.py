"""Language models by the header of a GGUF file, without a framework: work, cache and weights worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf_models import F16, F32, Q4_K, WORDS, attention, feed_forward, matrix, write_model
from time_limits import run_python

from profilerkit import ArgumentError, InputError, kv_bytes, llm

WIDTH, INNER, HEADS, GROUPS, SIZE = 256, 512, 4, 2, 64
SIZES: dict[str, Any] = {"embedding_length": WIDTH, "context_length": 4096}
SIZES |= {"attention.head_count": HEADS, "attention.head_count_kv": GROUPS}
ATTENTION = 2 * WIDTH * HEADS * SIZE + 2 * WIDTH * GROUPS * SIZE
DENSE = ATTENTION + 3 * WIDTH * INNER
SHORT: dict[str, Any] = {"prompt": 10, "new": 4}


def layer() -> dict[str, Any]:
    return attention(WIDTH, HEADS, GROUPS, SIZE, Q4_K) | feed_forward(WIDTH, INNER, Q4_K)


def with_experts(count: int) -> dict[str, Any]:
    return attention(WIDTH, HEADS, GROUPS, SIZE, Q4_K) | feed_forward(WIDTH, INNER, Q4_K, experts=count)


class Model:
    """A file of a model, which is written first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, architecture: str, sizes: dict[str, Any], *layers: dict[str, Any], **tensors: Any) -> int:
        return write_model(self.path, architecture, SIZES | sizes, [*layers], **tensors)

    def read(self, **options: Any) -> Any:
        return llm(str(self.path), **options)

    def follow(self, architecture: str, sizes: dict[str, Any], *layers: dict[str, Any], **options: Any) -> Any:
        self.write(architecture, sizes, *layers)
        return self.read(**SHORT, **options)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(tmp_path / "small.gguf")


def test_a_model_of_two_layers(model: Model) -> None:
    size = model.write("llama", {}, layer(), layer())
    report = model.read(**SHORT, device="h100")
    step = report.cost(1, 1, 100)
    assert (report.name, report.weights) == ("small", "Q4_K")
    assert step.macs == 2 * DENSE + WIDTH * WORDS + 2 * 101 * 2 * HEADS * SIZE
    # 4.5 bits of each element of matrices, the head and a row of the table in float16, five norms in float32.
    assert step.weight_bytes == 2 * DENSE * 9 // 16 + 2 * WIDTH * WORDS + 2 * WIDTH + 5 * 4 * WIDTH
    assert step.cache_read_bytes == 100 * 2 * 2 * GROUPS * SIZE * 2
    assert report.cost.stored_weight_bytes == size
    assert report.facts.parameters == 2 * DENSE + 2 * WIDTH * WORDS + 5 * WIDTH
    assert report.facts.sizes.longest_context == 4096
    memory = report.fits[0].memory
    assert (memory.weights, memory.activations) == (size, None)
    assert "Passes as written" not in str(report)
    assert "a file does not tell the memory of activations" in " ".join(str(report).split())
    assert report.to_dict()["as_written"]["prefill"] is None
    assert "<html" in report.to_html()


def test_batches_stand_from_the_smallest_to_the_largest(model: Model) -> None:
    """The answers and figures name the first row the smallest batch, and the last one the largest."""
    report = model.follow("llama", {}, layer(), device="h100", batch=(8, 1, 8))
    assert [row.batch for row in report.serving] == [row.batch for row in report.fits] == [1, 8]
    assert report.plot("cache_memory").axes[0].get_legend_handles_labels()[1][0].endswith(", batch 8")


def test_a_comparison_has_the_notes_of_each_report(model: Model) -> None:
    """A note that all have stands once, and one of some reports after their titles."""
    drafting = {"draft_tokens": 2, "acceptance": 0.5}
    text = " ".join(str(model.follow("llama", {}, layer(), device=("h100", "rtx-3090"), **drafting)).split())
    assert text.count("- a file does not tell the memory of activations") == 1
    assert "- what drafts them is counted nowhere" in text
    assert "- small, Q4_K, rtx-3090: no peak of rtx-3090 is known for int8" in text


def test_experts_are_read_as_far_as_tokens_are_sent_to_them(model: Model) -> None:
    shared = {f"ffn_{name}_shexp.weight": matrix(WIDTH, WIDTH, Q4_K) for name in ("gate", "up", "down")}
    sizes = {"expert_count": 8, "expert_used_count": 2}
    step = model.follow("qwen3moe", sizes, with_experts(8) | shared).cost(1, 1, 0)
    token = ATTENTION + 2 * 3 * WIDTH * INNER + 3 * WIDTH * WIDTH
    assert step.macs == token + WIDTH * 8 + WIDTH * WORDS + 2 * HEADS * SIZE
    quantized, router, norms = token * 9 // 16, 4 * WIDTH * 8, 3 * 4 * WIDTH
    assert step.weight_bytes == quantized + router + norms + 2 * WIDTH * WORDS + 2 * WIDTH


def test_experts_of_several_types_are_one_layer(model: Model) -> None:
    """Four experts with biases, of which a token is sent to one; two replicas exchange the features of a token each."""
    sizes = {"expert_count": 4, "expert_used_count": 1}
    others = {"ffn_down_exps.weight": matrix(INNER, WIDTH, F16, 4), "ffn_up_exps.bias": ((INNER, 4), *F32)}
    cost = model.follow("gpt-oss", sizes, with_experts(4) | others, device="h100", parallel="dp2").cost
    assert {term.name: term.amount for term in cost(2, 1, 0).terms}["all-gather"] == 2 * 2 * WIDTH
    experts = 2 * WIDTH * INNER * 9 // 16 + 2 * WIDTH * INNER + 4 * INNER
    rest = ATTENTION * 9 // 16 + 4 * WIDTH * 4 + 3 * 4 * WIDTH + 2 * WIDTH * WORDS + 2 * WIDTH
    assert cost(1, 1, 0).weight_bytes == experts + rest
    token = ATTENTION + WIDTH * 4 + 3 * WIDTH * INNER  # biases are added, and multiply nothing
    assert cost(1, 1, 0).macs == token + WIDTH * WORDS + 2 * HEADS * SIZE


def test_experts_without_a_number_are_refused(model: Model) -> None:
    """How many a token is sent to is not known: their work would be left out without a word."""
    with pytest.raises(InputError, match="cannot be followed: it has experts, and no llama.expert_count"):
        model.follow("llama", {}, with_experts(8))


@pytest.mark.parametrize(
    ("architecture", "options", "windows"),
    [
        ("gemma3", {}, [64, 64, 64, 64, 64, None]),
        ("gemma2", {}, [64, None] * 3),
        ("gpt-oss", {}, [64, None] * 3),
        ("gemma2", {"attention.sliding_window": None}, [4096, None] * 3),  # the default of llama.cpp
        ("gemma3", {"attention.sliding_window": None}, [None] * 6),
        ("gemma3", {"attention.sliding_window_pattern": 3}, [64, 64, None] * 2),
        ("gemma3", {"attention.sliding_window_pattern": 1}, [None] * 6),
        ("gemma3", {"attention.sliding_window_pattern": 0}, [64] * 6),
        ("afmoe", {}, [64, 64, 64, None, 64, 64]),
        ("plamo3", {}, [64] * 6),
        ("phi3", {}, [None] * 6),  # llama.cpp does not use it there
        ("llama4", {"attention.sliding_window": 0}, [None] * 6),
        ("exaone4", {}, [None] * 6),  # nor here: it does for 64 layers alone
        (
            "other",
            {"attention.sliding_window_pattern": [True, False, False, True, True, False]},
            [64, None, None, 64, 64, None],
        ),
    ],
)
def test_windows_of_layers(model: Model, architecture: str, options: dict[str, Any], windows: list[int | None]) -> None:
    sizes = {"attention.sliding_window": 64, **options}
    sizes = {key: value for key, value in sizes.items() if value is not None}
    model.write(architecture, sizes, *(layer() for _ in range(6)), is_tied=True)
    report = model.read(**SHORT)
    assert [part.window for part in report.facts.cache.parts] == windows
    entries = sum(1000 if window is None else min(1000, window - 1) for window in windows)
    assert report.cost(1, 1, 1000).cache_read_bytes == entries * 2 * 2 * GROUPS * SIZE
    pairs = sum(1001 if window is None else min(1001, window) for window in windows)
    assert report.cost(1, 1, 1000).macs == 6 * DENSE + WIDTH * WORDS + pairs * 2 * HEADS * SIZE


def test_llama_4_attends_in_chunks_of_llama_cpp(model: Model) -> None:
    """Three layers of four see the 8 tokens of the second chunk of 8,192 and themselves, the fourth all 8,200."""
    model.write("llama4", {"context_length": 16384}, *(layer() for _ in range(4)), is_tied=True)
    report = model.read(**SHORT)
    assert [part.window for part in report.facts.cache.parts] == [8192, 8192, 8192, None]
    step = report.cost(1, 1, 8200)
    assert step.cache_read_bytes == (3 * 8 + 8200) * 2 * 2 * GROUPS * SIZE
    assert step.macs == 4 * DENSE + WIDTH * WORDS + (3 * 9 + 8201) * 2 * HEADS * SIZE


def test_exaone_of_64_layers_has_windows(model: Model) -> None:
    report = model.follow("exaone4", {}, *(layer() for _ in range(64)))
    assert [part.window for part in report.facts.cache.parts] == [4096, 4096, 4096, None] * 16


@pytest.mark.parametrize("has_whole", [False, True])
def test_latent_attention(model: Model, has_whole: bool) -> None:
    """A file may have the matrix that expands latents beside its two halves: it is stored, and no pass reads it."""
    rank, rope, nope, value = 128, 32, 64, 64
    sizes = {"attention.kv_lora_rank": rank, "rope.dimension_count": rope, "attention.head_count_kv": 1}
    sizes |= {"attention.key_length": rank + rope, "attention.value_length": rank}
    sizes |= {"attention.key_length_mla": nope + rope, "attention.value_length_mla": value}
    matrices = {
        "attn_q.weight": matrix(WIDTH, HEADS * (nope + rope), F16),
        "attn_kv_a_mqa.weight": matrix(WIDTH, rank + rope, F16),
        "attn_k_b.weight": matrix(nope, rank, F16, HEADS),
        "attn_v_b.weight": matrix(rank, value, F16, HEADS),
        "attn_output.weight": matrix(HEADS * value, WIDTH, F16),
    }
    whole = {"attn_kv_b.weight": matrix(rank, HEADS * (nope + value), F16)} if has_whole else {}
    size = model.write("deepseek2", sizes, matrices | whole | feed_forward(WIDTH, INNER, F16))
    cost = model.read(**SHORT).cost
    assert cost.cache_bytes(1600) == 1600 * (rank + rope) * 2
    token = (
        WIDTH * HEADS * (nope + rope) + WIDTH * (rank + rope) + HEADS * rank * (nope + value) + HEADS * value * WIDTH
    )
    absorbed = HEADS * (rank + rope + rank) * 101
    assert cost(1, 1, 100).macs == token + 3 * WIDTH * INNER + absorbed + WIDTH * WORDS
    norms = 4 * 2 * WIDTH
    assert cost(1, 1, 100).weight_bytes == 2 * (token + 3 * WIDTH * INNER + WIDTH * WORDS + WIDTH) + norms
    assert cost.stored_weight_bytes == size
    assert "attn_kv_b" not in {shape.name for shape in cost.facts.matrices} or not has_whole


def test_a_token_has_a_row_of_each_table(model: Model) -> None:
    """The table of words and that of 64 positions are of one type: a step of 40 tokens reads 40 rows of both."""
    positions: dict[str, Any] = {"position_embd.weight": matrix(WIDTH, 64, F16)}
    model.write("gpt2", {}, layer(), **positions)
    cost = model.read(**SHORT).cost
    of_layer = DENSE * 9 // 16 + 3 * 4 * WIDTH
    assert cost(1, 40, 0).weight_bytes == of_layer + 2 * WIDTH * WORDS + 2 * 40 * 2 * WIDTH


@pytest.mark.parametrize(("sizes", "count"), [({}, 2), ({"use_parallel_residual": True}, 1)])
def test_a_layer_whose_parts_run_side_by_side_has_one_sum(model: Model, sizes: dict[str, Any], count: int) -> None:
    """As of GPT-NeoX, which has a norm for each part all the same."""
    terms = model.follow("gptneox", sizes, layer(), device="h100", devices=2).cost(1, 1, 0).terms
    assert {term.name: term.amount for term in terms}["all-reduce"] == count * 2 * WIDTH


def test_layers_that_predict_several_tokens_are_left_out(model: Model) -> None:
    extra = layer() | {"nextn.eh_proj.weight": matrix(2 * WIDTH, WIDTH, Q4_K)}
    report = model.follow("glm4moe", {"nextn_predict_layers": 1}, layer(), extra)
    assert report.cost(1, 1, 0).macs == DENSE + WIDTH * WORDS + 2 * HEADS * SIZE
    assert any("of layers that predict further tokens are left out" in note for note in report.facts.notes)
    with pytest.raises(InputError, match=r"predict further tokens \(1\), but the work of the layer that they are like"):
        model.read(**SHORT, draft="mtp", draft_tokens=2, acceptance=0.5)


@pytest.mark.parametrize(
    ("architecture", "changes", "tensors", "message"),
    [
        ("mamba", {}, {"ssm_in.weight": matrix(WIDTH, WIDTH, F16)}, "its tensor 'blk.0.ssm_in.weight' is no part of"),
        ("bert", {"attention.causal": False}, {}, "holds no model that generates text: its architecture is 'bert'"),
        ("llama", {"attention.head_count": 8}, {}, "a tensor 'blk.0.attn_k.weight' of"),
        (
            "llama",
            {"attention.head_count_kv": [2, 0]},
            {},
            "no llama.attention.head_count_kv of layer|without attention",
        ),
        ("llama", {"attention.sliding_window": 64}, {}, "which layers have it is not known here"),
        # Its first layer of four attends to all tokens, and an integer does not say so.
        (
            "smallthinker",
            {"attention.sliding_window": 64, "attention.sliding_window_pattern": 4},
            {},
            "which layers have it is not known here",
        ),
        ("llama", {"expert_count": 4, "expert_used_count": 9}, with_experts(4), "9 of 4 experts for a token"),
    ],
)
def test_what_cannot_be_followed_says_why(
    model: Model, architecture: str, changes: dict[str, Any], tensors: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        model.follow(architecture, changes, layer() | tensors, layer())


def test_options_that_a_file_does_not_have(model: Model) -> None:
    model.write("llama", {}, layer())
    assert model.read(dtype="fp32").cost.cache_bytes(16) == 2 * model.read().cost.cache_bytes(16)
    assert model.read().prompt == 2048
    with pytest.raises(ArgumentError, match="dtype='int8': give float16, bfloat16, float32"):
        model.read(dtype="int8")
    small = model.read(cache_dtype="fp8", device="h100")
    assert 2 * small.cost.cache_bytes(16) == model.read().cost.cache_bytes(16)
    assert "Q4_K, activations float16, cache fp8" in str(small)
    rows = {line[:16]: line for line in str(small).splitlines()}
    assert rows["cache of a token"].endswith(f" {2 * GROUPS * SIZE} B")  # a byte for each key and value of one layer
    assert small.to_dict()["engine"]["cache_dtype"] == "fp8"
    with pytest.raises(
        ArgumentError, match="cache_dtype='fp9' is no format of the cache; there are, nearest first: fp8"
    ):
        model.read(cache_dtype="fp9")
    drafted = model.read(draft_tokens=3, acceptance=0.5, device="h100")
    assert drafted.to_dict()["engine"]["speculation"]["tokens_per_step"] == 1.875
    assert "and makes 1.88 tokens on average" in " ".join(str(drafted).split())
    with pytest.raises(ArgumentError, match="measure=True: small is a file, not a model that can run"):
        model.read(measure=True)
    with pytest.raises(InputError, match=r"llm\(file\).cost.cache_bytes\(context, batch\)"):
        kv_bytes(model.path, 16)


def test_a_peak_that_is_not_known_is_said(model: Model) -> None:
    model.write("llama", {}, layer())
    message = "no peak of {} is known for int8, in which an engine may multiply these weights"
    assert message.format("rtx-3090") in " ".join(str(model.read(device="rtx-3090")).split())
    assert message.format("h100-sxm") not in " ".join(str(model.read(device="h100")).split())
    assert model.read(device="h100").cost.peak_dtype == "int8"


@pytest.mark.parametrize("form", [(39, 32, 17), (40, 64, 36)], ids=["MXFP4", "NVFP4"])
def test_blocks_of_small_floats_are_multiplied_as_llama_cpp_does(model: Model, form: tuple[int, int, int]) -> None:
    """In 4-bit floats on Blackwell, in 8-bit integers on devices before it, at the peaks that NVIDIA names."""
    model.write("llama", {}, attention(WIDTH, HEADS, GROUPS, SIZE, form) | feed_forward(WIDTH, INNER, form))
    for device, dtype, peak in (("a100-80", "int8", 624e12), ("rtx-4090", "int8", 660.6e12), ("b200", "float4", 9e15)):
        cost = model.read(device=device).cost
        assert cost.device is not None
        assert (cost.peak_dtype, cost.device.peak(cost.peak_dtype)) == (dtype, peak)
    # Of this one no peak for int8 is published: none is missing, as that for float4 is greater.
    assert "no peak of rtx-5090" not in str(model.read(device="rtx-5090"))
    assert "is known for float4, in which an engine may" in " ".join(str(model.read(device="a100-80")).split())


def test_no_framework_is_imported(model: Model) -> None:
    model.write("llama", {}, layer())
    code = (
        "import sys, profilerkit; profilerkit.llm(sys.argv[1], device='h100');"
        "print(sorted({'torch', 'tensorflow', 'jax', 'transformers', 'numpy'} & sys.modules.keys()))"
    )
    done = run_python(code, str(model.path))
    assert done.stdout.strip() == "[]"
