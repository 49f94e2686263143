"""The result of one static pass: operators, layers, and the tables made of them. Its types are public."""

from __future__ import annotations

from .layer_table import LayerTable
from .observed_runs import ObservedRun
from .records import (
    LayerCall,
    LayerRecord,
    MemoryTimeline,
    ModelTrace,
    OpRecord,
    RankShare,
    TensorInfo,
    WeightRecord,
)
from .table import Table

__all__ = [
    "LayerCall",
    "LayerRecord",
    "LayerTable",
    "MemoryTimeline",
    "ModelTrace",
    "ObservedRun",
    "OpRecord",
    "RankShare",
    "Table",
    "TensorInfo",
    "WeightRecord",
]
