"""A language model as plain numbers, small enough to work out by hand, and a device for it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from profilerkit.devices import DeviceInfo, Figure
from profilerkit_predict.checkpoints.formats import WeightKind
from profilerkit_predict.language_models.facts.model_cache import CacheGrowth, CacheLayer
from profilerkit_predict.language_models.facts.records import (
    ExecutionModel,
    ModelFacts,
    ModelSizes,
    PassCounts,
    Routing,
    TracedPasses,
    WeightPart,
)
from profilerkit_predict.language_models.facts.work import Law, Term, Work

__all__ = ["DEVICE", "EXPERTS", "toy_facts"]

#: A tera of FLOP/s in bfloat16 and two in float8, a giga of bytes per second, a million bytes.
DEVICE = DeviceInfo(
    "toy",
    dense_peaks={"bfloat16": Figure(1e12, "a test"), "float8": Figure(2e12, "a test")},
    figures={"memory_bandwidth": Figure(1e9, "a test"), "memory_size": Figure(1e6, "a test")},
)


#: Eight experts of a thousand elements each, of which a token is sent to two.
EXPERTS = WeightPart(WeightKind.EXPERTS, 8000, 16000, "bfloat16", routing=Routing(8, 2))


def toy_facts(**changes: Any) -> ModelFacts:
    """Return a model of 1,000 matrix elements, 100 of the head, and a table of 50 rows of 4.

    Each token adds 8 bytes to the cache; a pair of a query and a key takes 6 multiply-accumulates. ``changes`` are
    other fields, also of its sizes, work, cache and passes.
    """
    groups: dict[str, Any] = {
        "sizes": ModelSizes(4096),
        "work": Work((Term(Law.TOKEN, 1000), Term(Law.LAST, 100), Term(Law.PAIR, 6))),
        "cache": CacheGrowth((CacheLayer("layers.0", 8),)),
        "traced": TracedPasses(
            PassCounts(1, 16, 0, 16 * 1000 + 100 + 6 * 256, 0, 0, 0, 1600, 3),
            PassCounts(1, 1, 16, 1000 + 100 + 6 * 17, 0, 0, 0, 100, 3),
        ),
    }
    for name, group in groups.items():
        own = {field.name for field in fields(group)} & changes.keys()
        groups[name] = replace(group, **{field: changes.pop(field) for field in own})
    values: dict[str, Any] = {
        "name": "Toy",
        "execution": ExecutionModel("as written", "a test 1.0", "sdpa"),
        "parameters": 1300,
        "weights": (
            WeightPart(WeightKind.MATRIX, 1000, 2000, "bfloat16"),
            WeightPart(WeightKind.HEAD, 100, 200, "bfloat16"),
            WeightPart(WeightKind.EMBEDDING, 200, 400, "bfloat16", 4),
        ),
        "dtype": "bfloat16",
    }
    return ModelFacts(**{**values, **groups, **changes})
