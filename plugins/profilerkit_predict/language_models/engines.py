"""What serving engines do by default: the tokens of a block of the cache, and the memory that they leave free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, by_likeness

__all__ = ["ENGINES", "EngineRule", "find_engine"]


@dataclass(frozen=True, slots=True)
class EngineRule:
    """The defaults of an engine.

    Attributes:
        name: Its name; empty for none in particular.
        block_size: Tokens of a block of the cache.
        reserve: The share of a device's memory that it leaves free.
        source: The address that both were read from.
    """

    name: str
    block_size: int
    reserve: float
    source: str


#: The engines by name.
ENGINES: Mapping[str, EngineRule] = {
    rule.name: rule
    for rule in (
        # gpu_memory_utilization = 0.92
        EngineRule("vllm", 16, 0.08, "https://docs.vllm.ai/en/stable/api/vllm/config/cache/"),
        # free_gpu_memory_fraction = 0.9, of the memory that weights leave: a tenth of all is more than it leaves free
        EngineRule(
            "tensorrt-llm", 32, 0.1, "https://nvidia.github.io/TensorRT-LLM/llm-api/reference/KvCacheConfig.html"
        ),
    )
}
_ANY = EngineRule("", 16, 0.1, "")


def find_engine(name: Any) -> EngineRule:
    """Return the rule of an engine, for None the usual one; raises `ArgumentError` for an unknown one."""
    if name is None:
        return _ANY
    rule = ENGINES.get(name.lower()) if isinstance(name, str) else None
    if rule is None:
        raise ArgumentError(
            f"engine={shown(name)} is no engine whose defaults are known; there are, nearest first: "
            f"{', '.join(by_likeness(str(name), ENGINES))}; otherwise give block_size (--block-size) and reserve "
            "(--reserve)"
        )
    return rule
