"""Reports of a model with ten thousand layers: each form of them, saved and loaded.

The unit is nothing of ours: what Python's own parser takes for the file.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from trace_tools import STATIC, tiny_layers

from profilerkit import ProfilerKitError, Report, profile
from profilerkit.hooks.renderers import list_forms

from .options import Options
from .tables import Table

__all__ = ["measure"]

T = TypeVar("T")

LAYERS, QUICK_LAYERS = 10_000, 200


def measure(options: Options) -> dict[str, Table]:
    """Return the table of forms."""
    number = QUICK_LAYERS if options.quick else LAYERS
    model, x = tiny_layers(number // 2).eval(), torch.randn(1, 8)
    profile(tiny_layers(1), x, metrics=STATIC)  # what is imported at the first call
    spent, report = _time_call(lambda: profile(model, x, metrics=STATIC))
    seconds = {f"static profile of {number:,} layers": spent}
    for form in sorted(list_forms()):
        try:
            spent, text = _time_call(partial(report.to_text, form=form))
        except ProfilerKitError:  # of layer times, which a static profile does not have
            continue
        seconds[f"``{form}``, {len(text) / 2**20:.2f} MiB"] = spent
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        seconds["saved as JSON"] = _time_call(partial(report.save, path))[0]
        seconds["loaded from JSON"] = _time_call(partial(Report.load, path))[0]
        text = path.read_text(encoding="utf-8")
        unit = seconds["the file, read by Python's json"] = _time_call(partial(json.loads, text))[0]
    rows = tuple((what, f"{spent:.3f} s", f"{spent / unit:.2f}") for what, spent in seconds.items())
    return {"reports": Table(("what", "seconds", "in readings"), rows, ("in readings",))}


def _time_call(call: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds of the faster of two calls, and what the last one returned."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        value = call()
        times.append(time.perf_counter() - start)
    return min(times), value
