"""The rules of serving engines for the cache: the size of blocks, windows, latents, and memory that is left free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, by_likeness


@dataclass(frozen=True, slots=True)
class EngineRule:
    """The defaults and rules of an engine.

    Attributes:
        name: Its name; None for no particular engine.
        block_size: Tokens of a block of the cache.
        reserve: The share of a device's memory that it leaves free; None if that depends on the device.
        sources: The addresses from which these values were read.
        window_spare_blocks: How many blocks a window needs beyond its tokens, because it can begin inside a block.
        scaled_latents: How many elements of 8 bits share a scale of 4 bytes in the keys of an indexer, and in the
            latents that it chooses if the cache is in fp8; None if no scales are stored.
        window_shares: The tokens of a layer with a window, as a share of those of a layer without one, by architecture,
            for an engine that divides memory between both beforehand; other models keep all tokens there. None if
            blocks outside of a window are freed.
    """

    name: str | None
    block_size: int
    reserve: float | None
    sources: tuple[str, ...] = ()
    window_spare_blocks: int = 0
    scaled_latents: int | None = None
    window_shares: Mapping[str, float] | None = None

    @property
    def usual_reserve(self) -> float:
        """The reserve if none is given: a tenth where the engine's own depends on the device."""
        return 0.1 if self.reserve is None else self.reserve


def count_scaled_bytes(elements: int, group: int) -> int:
    """Return the bytes of elements of one byte each, of which so many share a scale of 4 bytes.

    >>> count_scaled_bytes(512, 128)
    528
    """
    return elements + 4 * math.ceil(elements / group)


#: The engine if no engine is named: it keeps the least that any engine has to keep.
ANY_ENGINE = EngineRule(None, 16, 0.1)
_SGLANG = "https://github.com/sgl-project/sglang/blob/main"

#: The engines by name.
ENGINES: Mapping[str, EngineRule] = {
    str(rule.name): rule
    for rule in (
        EngineRule(
            "vllm",
            16,
            0.08,  # gpu_memory_utilization = 0.92
            (
                "https://docs.vllm.ai/en/stable/api/vllm/config/cache/",
                "https://github.com/vllm-project/vllm/blob/main/vllm/v1/kv_cache_interface.py",
                "https://github.com/vllm-project/vllm/blob/main/vllm/model_executor/models/deepseek_v2.py",
            ),
            window_spare_blocks=1,  # SlidingWindowSpec.max_memory_usage_bytes
            scaled_latents=128,
        ),
        EngineRule(
            "sglang",
            1,
            None,
            (
                f"{_SGLANG}/docs/advanced_features/server_arguments.md",
                f"{_SGLANG}/python/sglang/srt/configs/model_config.py",
                f"{_SGLANG}/python/sglang/srt/mem_cache/kv_cache_configurator.py",
            ),
            scaled_latents=128,  # calculate_mla_kv_cache_dim, except for kernels of TensorRT-LLM and HIP
            window_shares=dict.fromkeys(
                (
                    "Gemma4ForCausalLM",
                    "Gemma4ForConditionalGeneration",
                    "GptOssForCausalLM",
                    "Llama4ForConditionalGeneration",
                    "MiMoV2FlashForCausalLM",
                    "Step3p5ForCausalLM",
                ),
                0.8,  # --swa-full-tokens-ratio
            ),
        ),
        EngineRule(
            "tensorrt-llm",
            32,
            0.1,  # free_gpu_memory_fraction = 0.9 of memory without weights: less than 0.1 of all memory stays free
            (
                "https://nvidia.github.io/TensorRT-LLM/llm-api/reference/KvCacheConfig.html",
                "https://github.com/NVIDIA/TensorRT-LLM/blob/main/docs/source/features/kvcache.md",
            ),
            window_spare_blocks=1,  # blocks that leave the window are freed whole
        ),
    )
}


def find_engine(name: Any) -> EngineRule:
    """Return the rule of an engine, for None the usual one; raises `ArgumentError` for an unknown one."""
    if name is None:
        return ANY_ENGINE
    rule = ENGINES.get(name.lower()) if isinstance(name, str) else None
    if rule is None:
        raise ArgumentError(
            f"engine={shown(name)} is no engine whose rules are known; there are, nearest first: "
            f"{', '.join(by_likeness(str(name), ENGINES))}; otherwise give block_size (--block-size) and reserve "
            "(--reserve)"
        )
    return rule
