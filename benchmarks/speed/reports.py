"""Reports of a model with ten thousand layers: each form of them, saved and loaded, in profiles of the model."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from trace_tools import STATIC, tiny_layers

from profilerkit import ProfilerKitError, Report, profile
from profilerkit.plugging.offers import list_renderers

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
    rows = [(f"static profile of {number:,} layers", *_write_seconds(spent, spent))]
    for form in sorted({offer.item.name for offer in list_renderers()}):
        try:
            seconds, text = _time_call(partial(report.to_text, form=form))
        except ProfilerKitError:  # of layer times, which a static profile does not have
            continue
        rows.append((f"``{form}``, {len(text) / 2**20:.2f} MiB", *_write_seconds(seconds, spent)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        rows.append(("saved as JSON", *_write_seconds(_time_call(partial(report.save, path))[0], spent)))
        rows.append(("loaded from JSON", *_write_seconds(_time_call(partial(Report.load, path))[0], spent)))
    return {"reports": Table(("what", "seconds", "in profiles"), tuple(rows), ("in profiles",))}


def _time_call(call: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds of the faster of two calls, and what the last one returned."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        value = call()
        times.append(time.perf_counter() - start)
    return min(times), value


def _write_seconds(seconds: float, unit: float) -> tuple[str, str]:
    return f"{seconds:.3f} s", f"{seconds / unit:.2f}"
