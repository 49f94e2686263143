"""Language models: the cost of prefill, decode and the cache, and the times on a device. No framework is imported."""

from __future__ import annotations

from ..checkpoints.formats import WEIGHT_FORMATS, WeightFormat, WeightKind
from .adapters import Adapters
from .api import kv_bytes, kv_bytes_per_token, llm
from .comparison import LanguageModelComparison
from .engines import EngineRule
from .fitting import Fit, Memory
from .formulas import REWRITES, Rewrite, count_expected_experts
from .layout import Layout
from .model_cache import CacheBytes
from .queueing import Arrivals, Burst
from .records import (
    CacheContents,
    CacheGrowth,
    CacheLayer,
    CacheTensor,
    ExecutionModel,
    GeneratedTokens,
    InputEncoder,
    InputKind,
    LatentAttention,
    Law,
    MatrixShape,
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
from .serving import Serving
from .speculation import Speculation
from .step_cost import EncodedInputs, StepCost
from .steps import Piece, Resource, Step, StepTerm

__all__ = [
    "REWRITES",
    "WEIGHT_FORMATS",
    "Adapters",
    "Arrivals",
    "Burst",
    "CacheBytes",
    "CacheContents",
    "CacheGrowth",
    "CacheLayer",
    "CacheTensor",
    "EncodedInputs",
    "EngineRule",
    "ExecutionModel",
    "Fit",
    "GeneratedTokens",
    "InputEncoder",
    "InputKind",
    "LanguageModelComparison",
    "LanguageModelReport",
    "LatentAttention",
    "Law",
    "Layout",
    "MatrixShape",
    "Memory",
    "ModelFacts",
    "ModelSizes",
    "PassCounts",
    "Piece",
    "ReadIn",
    "Resource",
    "Rewrite",
    "Routing",
    "Serving",
    "Speculation",
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
