"""The measured times of layers and operators for speedscope, which draws them as flame graphs.

The schema of the format is https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..foreign_text import visible
from ..results.comparison import Comparison
from ..results.report import Report
from .time_stacks import Frame, stack_frames

__all__ = ["render"]


def render(result: Report | Comparison) -> str:
    """Return JSON with a profile for each track of each model: layers and operators, forward and backward.

    Every frame is a sample of its own seconds (the median over the passes), so that a flame graph shows sums with the
    layers inside. A report without times of layers or operators has no profiles.
    """
    indexes: dict[str, int] = {}
    profiles = []
    for report in result.reports:
        for track, frames in stack_frames(report).items():
            profiles.append(_make_profile(visible(f"{report.name}: {track}"), frames, indexes))
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "profilerkit",
            "name": visible(" and ".join(report.name for report in result.reports)),
            "activeProfileIndex": 0,
            "shared": {"frames": [{"name": name} for name in indexes]},
            "profiles": profiles,
        }
    )


def _make_profile(name: str, frames: Sequence[Frame], indexes: dict[str, int]) -> dict[str, Any]:
    samples, weights = [], []
    for stack, seconds in _list_stacks(frames):
        samples.append([indexes.setdefault(frame, len(indexes)) for frame in stack])
        weights.append(seconds)
    return {
        "type": "sampled",
        "name": name,
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }


def _list_stacks(outermost: Sequence[Frame]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the names of each frame and the frames around it, with its own seconds; any depth of nesting is allowed."""
    waiting: list[tuple[tuple[str, ...], Frame]] = [((), frame) for frame in reversed(outermost)]
    while waiting:
        around, frame = waiting.pop()
        stack = (*around, frame.name)
        yield stack, frame.own_seconds
        waiting += [(stack, inner) for inner in reversed(frame.inside)]
