"""A report with everything in it, and ways to spoil what its file says."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from profilerkit import Comparative, Comparison, Completeness, Report, profile
from profilerkit.results.report import StatusRecord
from profilerkit.results.saving import compute_checksum
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.times.layer_times import CallTime, LayerTime, LayerTimeTable
from profilerkit.times.operator_times import COLUMNS
from profilerkit.trace.table import Table

__all__ = ["change_at_random", "full_comparison", "full_report", "places", "reseal", "spoilt"]


def full_report(name: str = "Mine", macs: int = 100) -> Report:
    """Return a report of three layers with all that a report can hold."""
    model = FakeModel(
        [
            FakeLayer("first", params=10, macs=macs, flops=250, activation_bytes=64),
            FakeLayer("second", params=20, macs=200, flops=450, activation_bytes=32, trainable=False),
        ]
    )
    report = profile(model, FakeTensor((2, 3)), name=name, backend=FakeBackend(), num_iters=12, batch_size=(1, 2, 4))
    calls = (CallTime(0, 0, 1e-3, 1e-3), CallTime(1, 0, 2e-3, 2e-3))
    times = LayerTimeTable(
        [
            LayerTime("", "FakeModel", 1, (1e-4, 2e-4), None, "", 1e-6),
            LayerTime("first", "FakeLayer", 1, (1e-3, 2e-3), (2e-3, 1e-3), "", None, calls),
            LayerTime("second", "FakeLayer", 1, (1e-3, 3e-3), (2e-3, 3e-3), "the hooks", None),
        ]
    )
    row = ("mm", "first", "forward", 0, 2, 1e-3, 0.25, macs, 2 * macs, 2e5, "")
    operators = Table([dict(zip(COLUMNS, row, strict=True)), dict(zip(COLUMNS, row, strict=True))])
    further = {"layer_times": times, "operator_table": operators}
    records = {key: _record(key, value) for key, value in further.items()}
    return replace(
        report,
        statuses={**report.statuses, **records},
        notes=("a note",),
        data={"layerwise_data": report.layers, "layerwise_summary": "text", "further": ((1, 2), {"type": 3}, 0.5)},
    )


def _record(key: str, value: Any) -> StatusRecord:
    return StatusRecord(key, key, "What it is.", value, key, "", Comparative.NONE, Completeness.COMPLETE)


def full_comparison() -> Comparison:
    return Comparison(full_report("A"), (full_report("B", 150),))


def reseal(content: Any) -> bytes:
    """Return a file whose checksum fits: what is wrong in it must be found by itself."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return json.dumps({**rest, "checksum": compute_checksum(rest)}).encode()


def places(content: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each value is, those inside others too."""
    if place:
        yield place
    inside: Any = ()
    if isinstance(content, (dict, list)):
        inside = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in inside:
        if key not in ("checksum", "format", "schema"):
            yield from places(value, (*place, key))


NESTED: Any = []
for _ in range(300):
    NESTED = [NESTED]

#: What a value is replaced by. The long ones are as long as a name in a hostile file can well be.
HOSTILE: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "below zero": -1,
    "a million": 1_000_000,
    "beyond 64 bits": 10**30,
    "beyond all counts": 10**101,
    "beyond floats": 10**400,
    "half": 0.5,
    "largest float": 1.7e308,
    "nan": {"type": "float", "value": "nan"},
    "infinite": {"type": "float", "value": "-inf"},
    "no text": "",
    "a word": "first",
    "wide": "x" * 60_000,
    "deep path": "a." * 30_000 + "a",
    "lines": "\n" * 2_000,
    "unprintable": "\x00" * 2_000,
    "empty list": [],
    "empty mapping": {},
    "nested": NESTED,
    "many numbers": list(range(2_000)),
    "many texts": ["x"] * 2_000,
    "a tuple": {"type": "tuple", "items": [1, 2]},
    "a table": {"type": "table", "columns": ["path"], "rows": [["a"], ["a"]]},
    "layers": {"type": "layers", "columns": ["path", "type", "depth", "is_leaf"], "rows": [["", "Net", 0, True]]},
    "no such type": {"type": "tensor"},
}


def spoilt(content: Any, place: tuple[Any, ...], how: str) -> Any:
    """Return a copy with another value at a place: a hostile one, or what a container can be turned into."""
    twin = copy.deepcopy(content)
    holder = twin
    for key in place[:-1]:
        holder = holder[key]
    value, key = holder[place[-1]], place[-1]
    if how == "left out":
        del holder[key]
    elif how == "many times" and isinstance(holder, list):
        holder[key:key] = [value] * 500
    elif how == "turned round" and isinstance(value, (list, dict)):
        holder[key] = value[::-1] if isinstance(value, list) else dict(reversed(value.items()))
    elif how == "last left out" and isinstance(value, list) and value:
        value.pop()
    elif how in HOSTILE:
        holder[key] = HOSTILE[how]
    return twin


def change_at_random(content: bytes, chance: random.Random) -> bytes:
    """Return bytes that were cut, overwritten, doubled, torn at a block, emptied, or put together from two places."""
    start, length = chance.randrange(len(content)), chance.choice((1, 1, 1, 2, 8, 200, 512, 4096))
    other = chance.randrange(len(content))
    piece = bytes(chance.randrange(256) for _ in range(min(length, 200)))
    block = start // 512 * 512
    return chance.choice(
        (
            lambda: content[:start],
            lambda: content[:start] + piece + content[start + len(piece) :],
            lambda: content[:start] + bytes([content[start] ^ (1 << chance.randrange(8))]) + content[start + 1 :],
            lambda: content[:start] + content[start + length :],
            lambda: content[:start] + piece + content[start:],
            lambda: content[:start] + content[start : start + length] + content[start:],
            lambda: content[:block] + bytes(512) + content[block + 512 :],
            lambda: content[:block],
            lambda: content[:start] + content[other : other + length] + content[start + length :],
            lambda: content[start:] + content[:start],
            lambda: content + piece,
            lambda: b"",
        )
    )()
