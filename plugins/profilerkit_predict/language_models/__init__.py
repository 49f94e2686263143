"""Language models: the cost of prefill, decode and the cache, and the times on a device. No framework is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from ..checkpoints.formats import WEIGHT_FORMATS, WeightFormat, WeightKind
    from .api import kv_bytes, kv_bytes_per_token, llm
    from .caching import CacheBytes
    from .comparison import LanguageModelComparison
    from .fitting import Fit, Memory
    from .formulas import count_expected_experts
    from .layout import Layout
    from .records import (
        CacheContents,
        CacheGrowth,
        CacheLayer,
        CacheTensor,
        ExecutionModel,
        GeneratedTokens,
        LatentAttention,
        Law,
        ModelFacts,
        ModelSizes,
        PassCounts,
        ReadIn,
        Routing,
        Term,
        TracedPasses,
        WeightPart,
        Work,
    )
    from .report import LanguageModelReport
    from .rewrites import REWRITES, Rewrite
    from .serving import Serving
    from .step_cost import Resource, Step, StepCost, StepTerm

__all__ = [
    "REWRITES",
    "WEIGHT_FORMATS",
    "CacheBytes",
    "CacheContents",
    "CacheGrowth",
    "CacheLayer",
    "CacheTensor",
    "ExecutionModel",
    "Fit",
    "GeneratedTokens",
    "LanguageModelComparison",
    "LanguageModelReport",
    "LatentAttention",
    "Law",
    "Layout",
    "Memory",
    "ModelFacts",
    "ModelSizes",
    "PassCounts",
    "ReadIn",
    "Resource",
    "Rewrite",
    "Routing",
    "Serving",
    "Step",
    "StepCost",
    "StepTerm",
    "Term",
    "TracedPasses",
    "WeightFormat",
    "WeightKind",
    "WeightPart",
    "Work",
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
        "..checkpoints.formats": "WEIGHT_FORMATS WeightFormat WeightKind",
        ".formulas": "count_expected_experts",
        ".layout": "Layout",
        ".records": """
            CacheContents CacheGrowth CacheLayer CacheTensor ExecutionModel GeneratedTokens LatentAttention Law
            ModelFacts ModelSizes PassCounts ReadIn Routing Term TracedPasses WeightPart Work
        """,
        ".report": "LanguageModelReport",
        ".rewrites": "REWRITES Rewrite",
        ".serving": "Serving",
        ".step_cost": "Resource Step StepCost StepTerm",
    }
)

install_lazy_names(__name__, _MODULES)
