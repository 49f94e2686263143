"""The columns of the layer table that metrics are divided among layers by, each with its unit."""

from __future__ import annotations

from typing import NamedTuple

from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.results.report import Report

__all__ = ["LAYER_COLUMNS", "LayerColumn"]


class LayerColumn(NamedTuple):
    """A column of numbers in a table of layers.

    Attributes:
        name: The name of the column.
        unit: The base unit of its numbers: "B", "s", "MACs"; empty for a number without one.
        scale: The prefixes that the unit is shown with.
    """

    name: str
    unit: str
    scale: Scale

    def is_in(self, report: Report) -> bool:
        """Return whether the layers of a report have this column; a report may have no layers at all."""
        return report.layers is not None and self.name in report.layers.columns

    def write(self, amount: float) -> str:
        """Return an amount in base units as text: 1500 MACs are "1.5 kMACs"."""
        return str(scale_value(amount, self.unit, self.scale))


_PARAMS = LayerColumn("params", "", Scale.SI)
#: The column of each metric that layers have a part of, by its key, and by the name of the column. A metric has the
#: column that counts the same thing: frozen layers have parameters, but no trainable ones, and the bytes of a quantized
#: layer are not in proportion to its parameters.
LAYER_COLUMNS = {
    "params": _PARAMS,
    "total_params": _PARAMS,
    "trainable_params": LayerColumn("trainable_params", "", Scale.SI),
    "model_size": LayerColumn("weight_bytes", "B", Scale.IEC),
    "macs": LayerColumn("macs", "MACs", Scale.SI),
    "flops": LayerColumn("flops", "FLOPs", Scale.SI),
}
