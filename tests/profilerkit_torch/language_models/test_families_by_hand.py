"""Passes and caches of further families of language models, by formulas that read no configuration's code.

A layer has h * (q + 2 k) * d multiply-accumulates for the queries, keys and values of a token, q * d * h for the
output, two or three times h * i for the feed-forward part, and 2 * q * d for each pair of query and key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tiny_language_models import skip_where_experts_ask_for_addresses

from profilerkit import kv_bytes_per_token, llm

transformers = pytest.importorskip("transformers")
LAYERS, WIDTH, WORDS, PROMPT = 2, 32, 50, 12


@dataclass(frozen=True)
class Family:
    """A configuration of two layers of width 32 and 50 words, and its sizes."""

    kind: str
    options: dict[str, Any]
    queries: int = 4
    groups: int = 4
    size: int = 8
    inner: int = 64
    matrices: int = 3
    besides: int = 0
    windows: tuple[int | None, ...] = (None, None)
    cached_heads: int = 0

    @property
    def configuration(self) -> Any:
        return getattr(transformers, self.kind)(**self.options)

    def macs(self, new: int, cached: int) -> int:
        """Of one sequence in an engine: causal pairs inside of windows, the head for the last token."""
        projections = WIDTH * (self.queries + 2 * self.groups) * self.size + self.queries * self.size * WIDTH
        token = projections + self.matrices * WIDTH * self.inner + self.besides
        pairs = [min(cached + k, window or PROMPT**2) for window in self.windows for k in range(1, new + 1)]
        return LAYERS * new * token + 2 * self.queries * self.size * sum(pairs) + WIDTH * WORDS


COMMON = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 4}
LIKE_LLAMA = {**COMMON, "intermediate_size": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
GROUPED = {**LIKE_LLAMA, "num_key_value_heads": 2}
LIKE_GPT = {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 4, "bos_token_id": 0, "eos_token_id": 1}
FALCON = {**COMMON, "bos_token_id": 0, "eos_token_id": 1, "ffn_hidden_size": 64}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}

FAMILIES = [
    Family("Phi3Config", GROUPED, groups=2),
    Family("StableLmConfig", {**LIKE_LLAMA, "num_key_value_heads": 4}),
    Family("OlmoConfig", {**LIKE_LLAMA, "num_key_value_heads": 4}),
    Family("CohereConfig", GROUPED, groups=2),
    Family("GraniteConfig", GROUPED, groups=2),
    Family("Starcoder2Config", {**GROUPED, "sliding_window": None}, groups=2, matrices=2),
    # Its configuration has is_decoder=False, as those of encoders.
    Family("GPTNeoXConfig", LIKE_LLAMA, matrices=2),
    Family("GPTBigCodeConfig", {**LIKE_GPT, "n_inner": 64}, groups=1, matrices=2),
    Family("FalconConfig", {**FALCON, "multi_query": True}, groups=1, matrices=2),
    # It repeats its two groups for all four heads before it caches them; an engine keeps two.
    Family(
        "FalconConfig",
        {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2},
        groups=2,
        matrices=2,
        cached_heads=4,
    ),
    # Two of six experts of 3 * 32 * 16, a router of 32 * 6, a shared expert of 3 * 32 * 24 and its gate of 32.
    Family(
        "Qwen2MoeConfig",
        {**LIKE_LLAMA, "num_key_value_heads": 4, **EXPERTS, "shared_expert_intermediate_size": 24},
        inner=0,
        besides=2 * 3 * WIDTH * 16 + WIDTH * 6 + 3 * WIDTH * 24 + WIDTH,
    ),
    # Every second layer attends to five tokens.
    Family(
        "Gemma2Config",
        {**GROUPED, "head_dim": 16, "sliding_window": 5},
        groups=2,
        size=16,
        windows=(5, None),
    ),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: f"{family.kind}-{family.groups}")
def test_passes_and_caches_by_hand(family: Family) -> None:
    if "Moe" in family.kind:
        skip_where_experts_ask_for_addresses()
    report: Any = llm(family.configuration, prompt=PROMPT, new=4, dtype="bf16")
    assert report.cost(1, PROMPT, 0).macs == family.macs(PROMPT, 0)
    assert report.cost(3, 1, PROMPT).macs == 3 * family.macs(1, PROMPT)
    assert report.cost(2, 4, 5).macs == 2 * family.macs(4, 5)
    growing = sum(window is None or window > PROMPT + 1 for window in family.windows)
    heads = family.cached_heads or family.groups
    assert kv_bytes_per_token(family.configuration, PROMPT, dtype="bf16") == growing * 2 * heads * family.size * 2
    # Blocks of 16 tokens hold the prompt; a window of five keeps four tokens, in one block too.
    assert report.cost.cache_bytes(PROMPT) == LAYERS * 16 * 2 * family.groups * family.size * 2
