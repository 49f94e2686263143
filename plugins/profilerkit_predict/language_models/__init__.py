"""Language models: the cost of prefill, decode and the cache, and the times on a device. No framework is imported."""

from __future__ import annotations

from .api import kv_bytes, kv_bytes_per_token, llm
from .engine.adapters import Adapters
from .engine.engines import EngineRule
from .engine.fitting import Fit
from .engine.layout import Layout
from .engine.queueing import Arrivals, Burst
from .engine.serving import Serving
from .engine.speculation import Speculation
from .engine.step import Step, StepTerm
from .engine.step_cost import StepCost
from .engine.weights import count_expected_experts
from .facts.model_cache import CacheBytes
from .facts.records import GeneratedTokens
from .report.report import LanguageModelComparison, LanguageModelReport

__all__ = [
    "Adapters",
    "Arrivals",
    "Burst",
    "CacheBytes",
    "EngineRule",
    "Fit",
    "GeneratedTokens",
    "LanguageModelComparison",
    "LanguageModelReport",
    "Layout",
    "Serving",
    "Speculation",
    "Step",
    "StepCost",
    "StepTerm",
    "count_expected_experts",
    "kv_bytes",
    "kv_bytes_per_token",
    "llm",
]
