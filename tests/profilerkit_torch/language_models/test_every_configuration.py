"""Every configuration of transformers that generates text, small: right to the unit, or refused with the reason.

The oracles are a model with values that runs, whose cache is walked through and whose products torch counts, and for
families with a closed form the active work by hand. What comes of each stands in
``docs/language-model-conformance.rst``, which ``docs/make_conformance.py`` writes.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

transformers: Any = pytest.importorskip("transformers", minversion="5.23")

from followed_configurations import CACHED, NAMES, Verdict, follow, judge  # noqa: E402
from tiny_configurations import GROUPS, HEAD, HEADS, INNER, LAYERS, VOCABULARY, WIDTH, shrink_named  # noqa: E402

pytestmark = pytest.mark.slow

sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
make_conformance: Any = import_module("make_conformance")
ROWS = make_conformance.read_rows()


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_is_as_the_page_says(name: str) -> None:
    """What a model raised is compared without its words, which are those of a version of torch."""
    row, expected = make_conformance.make_row(name), ROWS[name]
    assert row[:-1] == expected[:-1]
    assert row.reason.partition(":")[0] == expected.reason.partition(":")[0]
    assert row.verdict != Verdict.WRONG


ENCODERS = [name for name, row in ROWS.items() if "it is an encoder," in row.reason]
#: Those whose code asks values of tensors as decoders, or whose default configuration is not whole.
NEVER = ("big_bird", "megatron-bert", "reformer", "rembert", "roformer", "xmod")


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_that_is_made_a_decoder_is_right_or_refused(name: str) -> None:
    outcome = judge(shrink_named(name, is_decoder=True))
    assert outcome.verdict == (Verdict.REFUSED if name in NEVER else Verdict.RIGHT), outcome.reason
    assert name not in NEVER or "cannot be followed" in outcome.reason or "cannot build" in outcome.reason


def test_the_page_has_every_configuration() -> None:
    assert tuple(ROWS) == NAMES
    assert make_conformance.write(list(ROWS.values())) in make_conformance.PAGE.read_text(encoding="utf-8")
    text = (make_conformance.DOCS / "language-models.rst").read_text(encoding="utf-8")
    assert f"For {len(TOKENS)} families the work of a step" in " ".join(text.split())


# By hand --------------------------------------------------------------------------------------------------------------

#: Multiply-accumulates of a pair of a query and a key in a layer.
PAIR = 2 * HEADS * HEAD


def count_projections(groups: int = GROUPS) -> int:
    """Return the work of queries, keys, values and the output of a token in a layer."""
    return WIDTH * (HEADS + 2 * groups) * HEAD + HEADS * HEAD * WIDTH


def count_experts(inner: int, shared: int = 0) -> int:
    """Return the work of a router of eight experts, of two of them, and of shared ones of so many features."""
    return WIDTH * 8 + 2 * 3 * WIDTH * inner + 3 * WIDTH * shared


#: Work of a token in a layer, by families: gated feed-forward parts, those of two matrices, and experts.
GATED = """
    bitnet cohere cohere2 cwm ernie4_5 exaone4 gemma gemma2 gemma3_text glm glm4 granite helium hunyuan_v1_dense
    internlm3 llama ministral ministral3 mistral olmo olmo2 olmo3 phi3 qwen2 qwen3 seed_oss smollm3 stablelm vaultgemma
"""
PLAIN = "apertus arcee jais2 nanochat nemotron phi starcoder2"
WITH_ALL_HEADS = "biogpt codegen gpt2 gpt_neox gptj opt persimmon xglm"
TOKENS = {
    **dict.fromkeys(GATED.split(), count_projections() + 3 * WIDTH * INNER),
    **dict.fromkeys(PLAIN.split(), count_projections() + 2 * WIDTH * INNER),
    **dict.fromkeys(WITH_ALL_HEADS.split(), count_projections(HEADS) + 2 * WIDTH * INNER),
    **dict.fromkeys(("bloom", "mpt"), count_projections(HEADS) + 2 * WIDTH * 4 * WIDTH),
    **dict.fromkeys(("falcon", "gpt_bigcode"), count_projections(1) + 2 * WIDTH * INNER),
    **dict.fromkeys(("flex_olmo", "gpt_oss", "mixtral", "olmoe", "phimoe"), count_projections() + count_experts(INNER)),
    "qwen3_moe": count_projections() + count_experts(32),
}


@pytest.mark.parametrize("name", TOKENS)
def test_a_step_is_the_active_work_by_hand(name: str) -> None:
    config = shrink_named(name)
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * LAYERS
    if getattr(config, "sliding_window", None) and not getattr(config, "layer_types", None):
        kinds = ["sliding_attention"] * LAYERS
    keys = [min(8, CACHED + 1) if kind == "sliding_attention" else CACHED + 1 for kind in kinds]
    step = follow(config).cost(1, 1, CACHED)
    assert step.macs == len(kinds) * TOKENS[name] + PAIR * sum(keys) + WIDTH * VOCABULARY


@pytest.mark.parametrize(
    ("name", "changes", "most"),
    [
        ("deepseek_v4", {}, 6),  # entries of four tokens
        # Of three blocks of four keys, two whole ones and the query's own key.
        (
            "minimax_m3_vl_text",
            {
                "num_hidden_layers": 2,
                "layer_types": ["full_attention", "minimax_m3_sparse"],
                "index_block_size": 4,
                "index_topk_blocks": 3,
            },
            2 * 4 + 1,
        ),
        ("qwen4_exp_text", {}, 8),
    ],
)
def test_an_engine_attends_to_what_an_indexer_chooses(name: str, changes: dict[str, Any], most: int) -> None:
    """One layer has an indexer, which goes through all keys or entries; the code attends to all as well."""
    cost = follow(shrink_named(name, **changes)).cost
    seen = (CACHED + 1) // 4 if name == "deepseek_v4" else CACHED + 1
    assert cost.as_written(1, 1, CACHED) - cost(1, 1, CACHED).macs == PAIR * (seen - most)


@pytest.mark.parametrize("name", ["deepseek_v3", "glm4_moe_lite"])
def test_absorbed_latents_by_hand(name: str) -> None:
    """Latents of 32 + 8 for keys of 16 + 8 and values of 16; queries through 48. A dense layer, and one of experts."""
    latent = WIDTH * 48 + 48 * HEADS * 24 + WIDTH * (32 + 8) + 32 * HEADS * (16 + 16) + HEADS * 16 * WIDTH
    token = 2 * latent + 3 * WIDTH * INNER + count_experts(32, shared=32)
    step = follow(shrink_named(name)).cost(1, 1, CACHED)
    assert step.macs == token + 2 * HEADS * (32 + 8 + 32) * (CACHED + 1) + WIDTH * VOCABULARY
