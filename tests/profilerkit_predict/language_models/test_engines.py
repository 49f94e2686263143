"""The defaults of serving engines, as their documentation has them."""

from __future__ import annotations

import pytest

from profilerkit import ArgumentError
from profilerkit_predict.language_models.engines import ENGINES, find_engine


def test_defaults_are_those_of_the_documentation() -> None:
    """vLLM: DEFAULT_BLOCK_SIZE 16, gpu_memory_utilization 0.92. TensorRT-LLM: tokens_per_block 32."""
    assert (find_engine("vllm").block_size, find_engine("vLLM").reserve) == (16, 0.08)
    assert find_engine("tensorrt-llm").block_size == 32
    assert all(rule.source.startswith("https://") for rule in ENGINES.values())
    assert (find_engine(None).block_size, find_engine(None).reserve) == (16, 0.1)


@pytest.mark.parametrize("name", ["vlm", 3])
def test_an_unknown_engine_is_an_error(name: object) -> None:
    with pytest.raises(ArgumentError, match="is no engine whose defaults are known; there are, nearest first: "):
        find_engine(name)
