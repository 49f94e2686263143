"""Language models: the cost of prefill, decode and the cache, and the times on a device. No framework is imported."""

from __future__ import annotations

from .adapters import Adapters
from .api import kv_bytes, kv_bytes_per_token, llm
from .bursts import Burst
from .comparison import LanguageModelComparison
from .engines import EngineRule
from .fitting import Fit
from .formulas import count_expected_experts
from .layout import Layout
from .model_cache import CacheBytes
from .queueing import Arrivals
from .records import GeneratedTokens
from .report import LanguageModelReport
from .serving import Serving
from .speculation import Speculation
from .step_cost import StepCost
from .steps import Piece, Step, StepTerm

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
    "Piece",
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
