"""The defaults of serving engines: blocks of the cache, storage of windows, and memory that is left free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, by_likeness


@dataclass(frozen=True, slots=True)
class WindowPool:
    """How an engine divides its memory between layers with a window and layers without, before requests come."""

    #: The tokens of a layer with a window, as a share of the tokens of a layer without a window.
    share: float
    #: The models that have these pools. Each layer of other models keeps all tokens.
    architectures: frozenset[str]


@dataclass(frozen=True, slots=True)
class LatentLayout:
    """How an engine stores latents that an indexer chooses, in a cache of 8 bits."""

    #: How many elements of a latent, one byte each, share a scale.
    group: int
    scale_bytes: int
    #: The bytes of an element of the part with the position.
    rope_bytes: int

    def count_bytes(self, rank: int, rope: int) -> int:
        """Return the bytes of a token in one layer.

        >>> LatentLayout(128, 4, 2).count_bytes(512, 64)
        656
        """
        return rank + math.ceil(rank / self.group) * self.scale_bytes + rope * self.rope_bytes

    def count_index_bytes(self, elements: int) -> int:
        """Return the bytes of an indexer's keys of so many elements, one byte each with scales.

        >>> LatentLayout(128, 4, 2).count_index_bytes(128)
        132
        """
        return elements + math.ceil(elements / self.group) * self.scale_bytes


@dataclass(frozen=True, slots=True)
class EngineRule:
    """The defaults of an engine.

    Attributes:
        name: Its name; None for no particular engine.
        block_size: Tokens of a block of the cache.
        reserve: The share of a device's memory that it leaves free; None if that depends on the device.
        sources: The addresses from which these values were read.
        window_spare_blocks: How many blocks a window needs beyond its tokens, because it can begin inside a block.
        window_pool: Pools that are divided beforehand; None if blocks outside of a window are freed.
        sparse_latents: The format of latents that an indexer selects; None for one byte an element.
    """

    name: str | None
    block_size: int
    reserve: float | None
    sources: tuple[str, ...] = ()
    window_spare_blocks: int = 0
    window_pool: WindowPool | None = None
    sparse_latents: LatentLayout | None = None

    @property
    def usual_reserve(self) -> float:
        """The reserve if none is given: a tenth where the engine's own depends on the device."""
        return 0.1 if self.reserve is None else self.reserve


#: The engine if no engine is named: it keeps the least that any engine has to keep.
ANY_ENGINE = EngineRule(None, 16, 0.1)

#: 656 bytes of latents of 512 and 64 elements; 132 of an indexer's keys of 128.
_DEEPSEEK = LatentLayout(128, 4, 2)
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
            sparse_latents=_DEEPSEEK,
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
            window_pool=WindowPool(
                0.8,  # --swa-full-tokens-ratio
                frozenset(
                    {
                        "Gemma4ForCausalLM",
                        "Gemma4ForConditionalGeneration",
                        "GptOssForCausalLM",
                        "Llama4ForConditionalGeneration",
                        "MiMoV2FlashForCausalLM",
                        "Step3p5ForCausalLM",
                    }
                ),
            ),
            sparse_latents=_DEEPSEEK,  # calculate_mla_kv_cache_dim, except for kernels of TensorRT-LLM and HIP
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
