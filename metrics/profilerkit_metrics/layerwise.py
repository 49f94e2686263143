"""The model layer by layer, as data and as text."""

from __future__ import annotations

from typing import Any

from profilerkit import ProfilerFunction, StatusKey
from profilerkit.render import layer_text
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

__all__ = ["ComputeLayerwiseSummary", "LayerwiseData", "LayerwiseSummary", "layerwise"]


class LayerwiseData(StatusKey):
    """The per-layer table as data: a `LayerTable`, with ``top(k, by=...)`` and ``to_pandas()``."""

    NAME = "layerwise_data"
    DERIVED_FROM = TracePart.LAYERS


class LayerwiseSummary(StatusKey):
    """The per-layer table as text, written when it is first asked for."""

    NAME = "layerwise_summary"
    DERIVED_FROM = TracePart.LAYERS
    _text: str | None = None

    @property
    def value(self) -> str | None:
        """The table as text; None where there is none."""
        table = self.outcome.value
        if table is not None and self._text is None:
            self._text = layer_text(table)
        return self._text


class ComputeLayerwiseSummary(ProfilerFunction):
    """Computes the per-layer table."""

    KEYS = (LayerwiseSummary, LayerwiseData)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return the table as text and as data."""
        return layerwise(trace)


def layerwise(trace: ModelTrace) -> dict[str, Any]:
    """Return the per-layer table by the names of both its forms."""
    return {LayerwiseSummary.NAME: trace.table, LayerwiseData.NAME: trace.table}
