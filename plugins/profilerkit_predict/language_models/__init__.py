"""Language models: the cost of prefill, decode and the cache, and the times on a device. No framework is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from ..checkpoints.formats import WEIGHT_FORMATS, WeightFormat
    from .api import kv_bytes, kv_bytes_per_token, llm
    from .caching import CacheBytes
    from .comparison import LanguageModelComparison
    from .fitting import Fit, Memory
    from .formulas import count_expected_experts
    from .layout import Layout
    from .records import (
        CacheContents,
        CacheLayer,
        CacheTensor,
        ExecutionModel,
        GeneratedTokens,
        LatentAttention,
        ModelFacts,
        PassCounts,
        Term,
        WeightPart,
    )
    from .report import LanguageModelReport
    from .rewrites import REWRITES, Rewrite
    from .serving import Serving
    from .step_cost import Step, StepCost, StepTerm

__all__ = [
    "REWRITES",
    "WEIGHT_FORMATS",
    "CacheBytes",
    "CacheContents",
    "CacheLayer",
    "CacheTensor",
    "ExecutionModel",
    "Fit",
    "GeneratedTokens",
    "LanguageModelComparison",
    "LanguageModelReport",
    "LatentAttention",
    "Layout",
    "Memory",
    "ModelFacts",
    "PassCounts",
    "Rewrite",
    "Serving",
    "Step",
    "StepCost",
    "StepTerm",
    "Term",
    "WeightFormat",
    "WeightPart",
    "count_expected_experts",
    "kv_bytes",
    "kv_bytes_per_token",
    "llm",
]

_MODULES = module_of_each(
    {
        ".api": "kv_bytes kv_bytes_per_token llm",
        ".caching": "CacheBytes",
        ".comparison": "LanguageModelComparison",
        ".fitting": "Fit Memory",
        "..checkpoints.formats": "WEIGHT_FORMATS WeightFormat",
        ".formulas": "count_expected_experts",
        ".layout": "Layout",
        ".records": """
            CacheContents CacheLayer CacheTensor ExecutionModel GeneratedTokens LatentAttention ModelFacts PassCounts
            Term WeightPart
        """,
        ".report": "LanguageModelReport",
        ".rewrites": "REWRITES Rewrite",
        ".serving": "Serving",
        ".step_cost": "Step StepCost StepTerm",
    }
)

install_lazy_names(__name__, _MODULES)
