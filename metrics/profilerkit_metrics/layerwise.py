"""The model layer by layer, as data and as text."""

from __future__ import annotations

from typing import Any, ClassVar

from profilerkit import ProfilerFunction, StatusKey
from profilerkit.piping.function import Keys
from profilerkit.render import layer_text
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

__all__ = ["ComputeLayerwiseSummary", "LayerwiseData", "LayerwiseSummary", "layerwise"]


class LayerwiseData(StatusKey):
    """The per-layer table as data: a `LayerTable`, with ``top(k, by=...)`` and ``to_pandas()``.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["layerwise_data"])["layerwise_data"][0]["macs"]
    16
    """

    NAME: str = "layerwise_data"
    DERIVED_FROM: TracePart | None = TracePart.LAYERS
    FORMULA: str = "the static counts of each layer, with and without the layers inside it"
    OMISSIONS: str = "nothing: work outside of all layers is in the row of the model itself"
    SOURCE: str = "profilerkit's own definition"


class LayerwiseSummary(StatusKey):
    """The per-layer table as text, written when it is first read.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> "Linear" in profile(nn.Linear(8, 2), input_shape=(8,), metrics=["layerwise_summary"])["layerwise_summary"]
    True
    """

    NAME: str = "layerwise_summary"
    DERIVED_FROM: TracePart | None = TracePart.LAYERS
    FORMULA: str = "layerwise_data as text"
    OMISSIONS: str = "the other columns of layerwise_data"
    SOURCE: str = "profilerkit's own definition"
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

    KEYS: ClassVar[Keys] = (LayerwiseSummary, LayerwiseData)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return the table as text and as data."""
        return layerwise(trace)


def layerwise(trace: ModelTrace) -> dict[str, Any]:
    """Return the per-layer table by the names of both its forms."""
    return {LayerwiseSummary.NAME: trace.table, LayerwiseData.NAME: trace.table}
