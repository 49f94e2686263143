"""A language model as plain numbers, small enough to work out by hand, and a device for it."""

from __future__ import annotations

from typing import Any

from profilerkit.devices import DeviceInfo, Figure
from profilerkit_predict.language_models import CacheLayer, ExecutionModel, ModelFacts, PassCounts, Term, WeightPart

__all__ = ["DEVICE", "toy_facts"]

#: A tera of FLOP/s in bfloat16 and two in float8, a giga of bytes per second, a million bytes.
DEVICE = DeviceInfo(
    "toy",
    dense_peaks={"bfloat16": Figure(1e12, "a test"), "float8": Figure(2e12, "a test")},
    figures={"memory_bandwidth": Figure(1e9, "a test"), "memory_size": Figure(1e6, "a test")},
)


def toy_facts(**changes: Any) -> ModelFacts:
    """Return a model of 1,000 matrix elements, 100 of the head, and a table of 50 rows of 4.

    Each token adds 8 bytes to the cache; a pair of a query and a key takes 6 multiply-accumulates.
    """
    counts = PassCounts("prefill", 1, 16, 0, 16 * 1000 + 100 + 6 * 256, 0, 0, 0, 1600, 3)
    values: dict[str, Any] = {
        "name": "Toy",
        "execution": ExecutionModel("as written", "a test 1.0", "sdpa"),
        "parameters": 1300,
        "weights": (
            WeightPart("matrix", 1000, 2000, "bfloat16"),
            WeightPart("head", 100, 200, "bfloat16"),
            WeightPart("embedding", 200, 400, "bfloat16", 4),
        ),
        "dtype": "bfloat16",
        "vocabulary": 50,
        "longest_context": 4096,
        "traced_prompt": 16,
        "prefill": counts,
        "decode": PassCounts("decode", 1, 1, 16, 1000 + 100 + 6 * 17, 0, 0, 0, 100, 3),
        "terms": (Term("token", 1000), Term("last", 100), Term("pair", 6)),
        "cache": (),
        "cache_layers": (CacheLayer("layers.0", 8),),
    }
    return ModelFacts(**{**values, **changes})
