"""Every configuration of transformers that generates text, small: right to the unit, or refused with the reason.

The oracles are a model with values that runs, whose cache is walked through and whose products torch counts, and for
families with a closed form the active work by hand. What is refused, and why, and what is a lower bound stands in
``docs/language-models.rst``.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

transformers: Any = pytest.importorskip("transformers", minversion="5.23")

from real_language_models import RealModel  # noqa: E402
from tiny_configurations import GROUPS, HEAD, HEADS, INNER, LAYERS, VOCABULARY, WIDTH, shrink_named  # noqa: E402

from profilerkit import InputError, llm  # noqa: E402

pytestmark = pytest.mark.slow

CAUSAL = tuple(transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
SEQUENCES = tuple(transformers.models.auto.modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)
NAMES = tuple(dict.fromkeys((*CAUSAL, *SEQUENCES)))
#: Those whose parts cannot be small one by one.
BY_THEIR_TEXT = ("dots3_note",)
#: Below, at and above windows of 8 and chunks of 16, and far away.
LENGTHS = (5, 7, 8, 9, 16, 23, 33, 65)
PROMPT, CACHED = 12, 33
PAGE = Path(__file__).parents[3] / "docs" / "language-models.rst"


@cache
def read_table(label: str) -> dict[str, str]:
    """Return what the second column of a table of the page says of each configuration that is named in the first."""
    table = PAGE.read_text(encoding="utf-8").partition(f".. _{label}:\n")[2].partition("\n\n\n")[0]
    rows = re.findall(r"\* - (.+?)\n\s+- (.+?)(?=\n\s+\* - |\Z)", table, re.DOTALL)
    return {name: " ".join(reason.split()) for names, reason in rows for name in re.findall(r"``(.+?)``", names)}


def follow(config: Any) -> Any:
    """Return the report of a small configuration; of Whisper the prompt is as long as its encoder."""
    prompt = config.max_source_positions if config.model_type == "whisper" else PROMPT
    return llm(config, prompt=prompt, new=4, dtype="fp32")


def compare(report: Any, config: Any, is_lower_bound: bool = False) -> None:
    """Compare parameters, the cache at eight lengths, and the work of a step with those of a model that runs."""
    real, source = RealModel(config), report.prompt
    assert report.facts.parameters == real.parameters
    for tokens in LENGTHS:
        mine = sum(layer.logical_bytes(tokens) for layer in report.facts.cache.parts)
        assert mine == real.count_cache_bytes(tokens, source), tokens
    if report.facts.is_encoder_decoder:  # later steps count as the second, which the report says
        assert report.facts.traced.decode.macs == real.count_macs(1, 1, source)
        return
    step, expected = report.cost.as_written(1, 1, CACHED), real.count_macs(1, CACHED, source)
    if is_lower_bound:
        assert step < expected
        assert any("lower bound for longer ones" in note for note in report.facts.notes)
    else:
        assert step == expected
    if report.facts.work.latent is None and not report.facts.work.unrouted_macs:
        assert report.cost(1, 1, CACHED).macs == step


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_is_right_or_refused(name: str) -> None:
    if name in BY_THEIR_TEXT:
        pytest.skip("the sizes of its parts depend on each other; its text is compared")
    config = shrink_named(name)
    reason = read_table("refused-configurations").get(name)
    if reason is None:
        compare(follow(config), config, is_lower_bound=name in read_table("bounded-configurations"))
        return
    with pytest.raises(InputError) as caught:
        follow(config)
    assert reason in " ".join(str(caught.value).split())


ENCODERS = [name for name, reason in read_table("refused-configurations").items() if "it is an encoder," in reason]
#: Those whose code asks values of tensors as decoders, or whose default configuration is not whole.
NEVER = ("big_bird", "megatron-bert", "reformer", "rembert", "roformer", "xmod")


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_that_is_made_a_decoder_is_right_or_refused(name: str) -> None:
    config = shrink_named(name, is_decoder=True)
    if name in NEVER:
        with pytest.raises(InputError, match="cannot be followed|cannot build"):
            follow(config)
    else:
        compare(follow(config), config)


def test_the_page_says_how_many_there_are() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    refused, bounded = read_table("refused-configurations"), read_table("bounded-configurations")
    right = len(NAMES) - len(refused) - len(bounded) - len(BY_THEIR_TEXT)
    assert set(refused) | set(bounded) <= set(NAMES)
    assert f"{len(NAMES)} configurations: {right} are right to the unit, {len(bounded)} are lower bounds" in text
    assert f"{len(refused)} are refused with the reason" in text
    assert f"For {len(TOKENS)} families the work of a step" in text


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


@pytest.mark.parametrize("name", ["deepseek_v3", "glm4_moe_lite"])
def test_absorbed_latents_by_hand(name: str) -> None:
    """Latents of 32 + 8 for keys of 16 + 8 and values of 16; queries through 48. A dense layer, and one of experts."""
    latent = WIDTH * 48 + 48 * HEADS * 24 + WIDTH * (32 + 8) + 32 * HEADS * (16 + 16) + HEADS * 16 * WIDTH
    token = 2 * latent + 3 * WIDTH * INNER + count_experts(32, shared=32)
    step = follow(shrink_named(name)).cost(1, 1, CACHED)
    assert step.macs == token + 2 * HEADS * (32 + 8 + 32) * (CACHED + 1) + WIDTH * VOCABULARY
