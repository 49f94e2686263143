"""The parts of a model that cost most as a grid: a row for each part, with its share of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..results.report import Report
from ..trace.bounds import Sign
from ..trace.layer_view import PEAK
from ..trace.records import LayerTable
from .cost_parts import choose_column, divide
from .grids import Grid, GridColumn, make_grid
from .part_contents import Part
from .values import Column, share_text, write_count, write_row_value, write_signed_count

__all__ = ["Costs", "make_cost_grid"]

#: How many parts a model is divided into.
_PARTS = 8
#: The columns that a narrow terminal leaves out, in this order.
_LEAST_NEEDED = ("Output", "", "MACs", "Params", "Most of it")
#: Equal layers whose slowest takes more than this many times as long as the fastest are not told by one share.
_FAR_APART = 2
#: The width of the bar of a part that is the whole model, in characters; each is drawn in eighths.
_BAR_WIDTH = 10
_EIGHTHS: tuple[str, ...] = ("", *"▏▎▍▌▋▊▉")


def make_cost_grid(report: Report) -> Grid | None:
    """Return the parts of the model that cost most, with all columns; None if the model is not divided."""
    layers = report.layerwise
    by = choose_column(layers)
    costs = Costs.divide(layers, by) if by else None
    return costs.draw() if costs and costs.model.inside else None


@dataclass(frozen=True)
class Costs:
    """A model divided into the parts that cost most.

    Attributes:
        by: The column whose sums are the cost.
        whole: The cost of the whole model.
        model: The model, with its parts inside.
    """

    by: str
    whole: float
    model: Part

    @classmethod
    def divide(cls, layers: LayerTable, by: str) -> Costs:
        """Divide a model whose layers these are, the model itself first."""
        return cls(by, layers[0][by], divide(layers, by, _PARTS))

    def draw(self) -> Grid:
        """Return a grid of the parts, with all columns that have any value."""
        depths, parts = zip(*self.model.walk(), strict=True)
        around = [self.model.label if depth == 0 else "" for depth in depths]
        columns = [
            GridColumn("Layer", list(map(_write_label, parts, around))),
            GridColumn("Type", list(map(_write_type, parts))),
            GridColumn("Output", list(map(_write_shape, parts))),
            GridColumn("Params", [_write_count(part, "params") for part in parts], is_number=True),
            GridColumn("MACs", [_write_count(part, "macs") for part in parts], is_number=True),
            *self._list_costs(parts),
            GridColumn("Share", list(map(self._write_share, parts)), is_number=True),
            GridColumn("", list(map(self._draw_bar, parts))),
            GridColumn("Most of it", list(map(_find_most, parts))),
        ]
        filled = [column for column in columns if not {"-", ""}.issuperset(column.cells)]
        is_bounded = any(f"{self.by}_low" in row for row in self.model.rows)
        title = f"Where it goes, by {Column.of(self.by).in_a_sentence}{', of what is counted' if is_bounded else ''}"
        return make_grid(title, filled, depths, kind="costs", least_needed=_LEAST_NEEDED)

    def _list_costs(self, parts: Sequence[Part]) -> list[GridColumn]:
        """Return the column of times or bytes at the peak; none for counts, which have a column already."""
        if not self.by.endswith(("_seconds", PEAK)):
            return []
        cost = Column.of(self.by)
        cells = [cost.show(part.sum(self.by)) or "-" for part in parts]
        return [GridColumn(cost.title.removesuffix(" time"), cells, is_number=True)]

    def _write_share(self, part: Part) -> str:
        """Return the share of a part; for equal layers the share of each, or a range if their times are far apart.

        Layers without a value, such as layers that did not run while others were timed, have no share; nor have layers
        of a branch that is not counted, whose work is "≤ 128".
        """
        shares = sorted(value / self.whole for value in part.list_values(self.by))
        number = len(shares)
        if number == 0 or (not any(shares) and any(sign for sign, _ in _read_values(part, self.by))):
            return "-"
        if part.kind not in ("layers", "own") or number == 1:
            return share_text(sum(shares))
        if shares[-1] > _FAR_APART * shares[0]:
            return f"{share_text(shares[0]).removesuffix(' %')} to {share_text(shares[-1])}"
        return f"{number} x {share_text(sum(shares) / number)}"

    def _draw_bar(self, part: Part) -> str:
        cost = part.sum(self.by) or 0
        full, eighths = divmod(round(cost / self.whole * _BAR_WIDTH * 8), 8)
        return "█" * full + _EIGHTHS[eighths]


def _write_label(part: Part, around: str) -> str:
    """Return the name of a part, with the path of the layer around it; and its number of layers if no type has it."""
    if part.kind == "own":
        return "(itself)"
    if part.kind == "others":
        return f"{len(part.rows)} others"
    label = f"{around}.{part.label}" if around else part.label
    return label if part.kind == "layers" or _write_type(part) else f"{label} ({len(part.rows)} layers)"


def _write_type(part: Part) -> str:
    """Return the type of layers that all have the same one, with their number: "3 x Conv2d"; else nothing."""
    types = {str(row["type"]) for row in part.rows}
    if part.kind not in ("layers", "block") or len(types) > 1:
        return ""
    name = types.pop()
    return f"{len(part.rows)} x {name}" if len(part.rows) > 1 else name


def _write_shape(part: Part) -> str:
    """Return the shape of the first output of the last layer: of equal layers any will do, a block ends with it."""
    shapes = part.rows[-1].get("output_shapes")
    return str(list(shapes[0])) if part.kind in ("layers", "block") and shapes else ""


def _write_count(part: Part, column: str) -> str:
    """Return the sum of a column with the sign before it: a lower and an upper bound add up to an estimate.

    Where only some layers have a value, as before the first call makes the weights, the sum is a lower bound.
    """
    signs_and_values = _read_values(part, column)
    signs = {sign for sign, _ in signs_and_values} - {Sign.EXACT}
    values = [value for _, value in signs_and_values if value is not None]
    if len(values) < len(part.rows):
        signs.add(Sign.LOWER)
    sign = Sign.BETWEEN if len(signs) > 1 else next(iter(signs), Sign.EXACT)
    return write_signed_count(sign, sum(values)) if values else write_count(None)


def _read_values(part: Part, column: str) -> list[tuple[Sign, float | None]]:
    """Return the value of each layer of a part, with the sign before it."""
    name = f"own_{column}" if part.kind == "own" else column
    return [write_row_value(row, name) for row in part.rows]


def _find_most(part: Part) -> str:
    """Return the purpose of most of a part's bytes at the peak: the name of the largest of the other columns of bytes.

    The name is empty for a part without bytes at the peak.
    """
    if not part.sum(PEAK):
        return ""
    names = [name for name in part.rows[0] if name.endswith("_bytes") and not name.startswith("own_") and name != PEAK]
    most = max(names, key=lambda name: part.sum(name) or 0, default="")
    return most.removesuffix("_bytes").replace("_", " ")
