"""Sliding windows of transformers' models: attended MACs, as written and of an engine, by sums over the queries."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_language_models import skip_where_experts_ask_for_addresses

from profilerkit import ModelInputs, llm, profile

transformers = pytest.importorskip("transformers")

LAYERS, HIDDEN, HEADS, KV, HEAD, VOCABULARY = 6, 64, 4, 2, 16, 96
BATCH, PROMPT, WINDOW = 2, 100, 24
SIZES = {
    "hidden_size": HIDDEN,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "head_dim": HEAD,
    "num_hidden_layers": LAYERS,
    "sliding_window": WINDOW,
}
#: How many of the six layers have the window: each of Mistral's, five of six of Gemma's, every other of gpt_oss.
CONFIGURATIONS = {
    "mistral": ("MistralConfig", {}, 6),
    "gemma": ("Gemma3TextConfig", {}, 5),
    "gpt_oss": ("GptOssConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}, 3),
}


def configuration(kind: str) -> tuple[Any, int]:
    name, more, windowed = CONFIGURATIONS[kind]
    return getattr(transformers, name)(**SIZES, **more), windowed


def count_attended(queries: range, window: int | None) -> int:
    """Return the pairs of the queries at these positions: each sees itself and those before it, a window the last."""
    return sum(min(position + 1, window or position + 1) for position in queries)


def pairs(windowed: int, queries: range) -> int:
    """Return the MACs of the pairs of one sequence: a product for the score, and one for the value, in each head."""
    in_layers = windowed * count_attended(queries, WINDOW) + (LAYERS - windowed) * count_attended(queries, None)
    return 2 * HEADS * HEAD * in_layers


def of_token(kind: str) -> int:
    """Return the MACs of a token without attention and head: projections, and a gated feed-forward part or experts."""
    projections = HIDDEN * HEADS * HEAD * 2 + 2 * HIDDEN * KV * HEAD
    feed_forward = 3 * HIDDEN * 48
    return LAYERS * (projections + (HIDDEN * 4 + 2 * feed_forward if kind == "gpt_oss" else feed_forward))


@pytest.mark.parametrize("kind", ["mistral", "gemma"])
def test_attended_macs_of_the_models_own_code(kind: str) -> None:
    config, windowed = configuration(kind)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    tokens = torch.ones(BATCH, PROMPT, dtype=torch.long)
    report = profile(model, ModelInputs(input_ids=tokens, use_cache=False), metrics=["macs", "attended_macs"])
    full = BATCH * LAYERS * 2 * HEADS * HEAD * PROMPT**2
    rest = BATCH * PROMPT * (of_token(kind) + HIDDEN * VOCABULARY)
    rotary = report["macs"] - full - rest
    assert rotary in (0, BATCH * PROMPT * HEAD // 2, PROMPT * HEAD // 2, PROMPT * HEAD)  # older versions multiply
    assert report["attended_macs"] == rotary + rest + BATCH * pairs(windowed, range(PROMPT))
    note = report.status("attended_macs").note
    assert f"attention of {windowed} operators under masks of known values, such as windows: what they leave" in note


@pytest.mark.parametrize("prompt", [PROMPT, WINDOW])  # every token of the second attends to as many keys
@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_an_engine_counts_what_is_attended(kind: str, prompt: int) -> None:
    if kind == "gpt_oss":
        skip_where_experts_ask_for_addresses()
    config, windowed = configuration(kind)
    report: Any = llm(config, prompt=prompt, new=4, batch=BATCH)
    head = HIDDEN * VOCABULARY
    rotary = report.cost(1, 1, 0).macs - of_token(kind) - head - pairs(windowed, range(1))
    assert rotary in (0, HEAD // 2, HEAD)
    for new, cached in ((PROMPT, 0), (1, PROMPT), (1, 10), (30, 10), (30, 50)):
        expected = new * (of_token(kind) + rotary) + head + pairs(windowed, range(cached, cached + new))
        assert report.cost(BATCH, new, cached).macs == BATCH * expected
    assert "attention of the engine counts as attended: causal, and inside the window" in report.to_text()
