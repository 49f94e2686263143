"""The model as nested boxes: the whole model on the left, the innermost layers on the right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from profilerkit.arguments.checks import COLUMNS, DEPTH
from profilerkit.render.columns import Column
from profilerkit.trace.depths import find_deepest
from profilerkit.trace.layer_view import group_children

from .canvas import COLOURS, GREY, finish, format_count, new_figure, one_or_two, plain, require_column, require_layers

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison
    from profilerkit.results.report import Report

__all__ = ["icicle"]

#: Levels that are drawn where no depth is given: more would leave no room for names.
LEVELS = 8
#: Boxes of less than this share of the height are drawn together with their neighbours, as one.
THINNEST = 0.0025
#: Inches; the figure grows with the layers of its fullest level.
WIDTH, LOWEST, HIGHEST = 11.0, 7.0, 20.0
_CONTAINER, _GROUP = "#E4E4E4", "#C8C8C8"


class Box(NamedTuple):
    """A box from ``start`` to ``end`` of the height: a layer, or several thin neighbors (``row`` is None)."""

    row: Mapping[str, Any] | None
    level: int
    start: float
    end: float
    layers: int = 1


def icicle(result: Report | Comparison, by: str = "macs", depth: int | None = None) -> Any:
    """Return a figure of the layers as nested boxes, each as high as its share of a column of `Report.layerwise`.

    The column must include the layers inside: ``params``, ``macs``, ``forward_seconds`` and so on. The empty space to
    the right of a box is what the layer does itself. Layers that share weights can have more in total than the layer
    around them; their boxes are made smaller so that they fit.

    Two models stand beside each other; the height of each is the whole of its own column.

    Args:
        result: The report of one model, or a comparison of two.
        by: The name of the column.
        depth: The deepest level that is drawn; the model itself is level 0. None means 7, where names can still be
            read, and -1 the innermost layers.

    Raises:
        ValueError: a report has no layers or no such column, or the model's total in it is zero; or a comparison has
            more than two models.
        ImportError: matplotlib is missing.
    """
    by, depth = COLUMNS("by", by), DEPTH("depth", depth)
    reports = one_or_two(result, "icicle")
    pictures = [_picture(report, by, depth) for report in reports]
    column = Column.of(by)
    figure = _draw(pictures, by)
    wholes = " and ".join(column.show(picture.whole) for picture in pictures)
    deepest = min((picture.deepest for picture in pictures if picture.is_cut), default=None)
    notes = [
        f"The height of a box is its {column.in_a_sentence}, with the layers inside; the whole is {wholes}.",
        "" if deepest is None else f"Layers deeper than {deepest} are not drawn; give depth= for more.",
    ]
    return finish(figure, reports, f"{column.in_a_sentence} of the layers", notes)


class Picture(NamedTuple):
    """What is drawn of one model."""

    name: str
    boxes: Sequence[Box]
    inside: Mapping[str, Any]
    whole: float
    deepest: int

    @property
    def is_cut(self) -> bool:
        """Whether the model has layers that are too deep to be drawn."""
        return any(
            box.level == self.deepest and box.row is not None and box.row["path"] in self.inside for box in self.boxes
        )


def _picture(report: Report, by: str, depth: int | None) -> Picture:
    layers = require_layers(report)
    require_column(report, layers, by)
    root = layers[0]
    if not root[by] or root[by] < 0:
        raise ValueError(f"there is nothing to draw of {report.name}: the whole model has {by}={root[by]!r}")
    deepest = LEVELS - 1 if depth is None else depth if depth >= 0 else find_deepest(layers)
    inside = group_children(layers)
    return Picture(report.name, list(_boxes(root, inside, by, deepest)), inside, root[by], deepest)


def _boxes(
    root: Mapping[str, Any], inside: Mapping[str, Sequence[Mapping[str, Any]]], by: str, deepest: int
) -> Iterator[Box]:
    """Yield the boxes, outer before inner; without recursion, for models of any depth."""
    pending = [Box(root, 0, 0.0, 1.0)]
    while pending:
        box = pending.pop()
        yield box
        children = inside.get(box.row["path"], ()) if box.row is not None and box.level < deepest else ()
        if children and box.row is not None:
            values = [max(child[by] or 0.0, 0.0) for child in children]
            unit = (box.end - box.start) / max(box.row[by], sum(values))
            placed = _place_boxes(children, [value * unit for value in values], box.start, box.level + 1)
            pending += reversed(list(placed))


def _place_boxes(
    children: Sequence[Mapping[str, Any]], heights: Sequence[float], start: float, level: int
) -> Iterator[Box]:
    """Yield the boxes of the layers inside one: thin neighbors as one box, and none for those too thin to see."""
    thin, begun = 0, start
    for child, height in zip(children, heights, strict=True):
        if height < THINNEST:
            thin, start = thin + (height > 0), start + height
            continue
        if start - begun >= THINNEST:
            yield Box(None, level, begun, start, thin)
        yield Box(child, level, start, start + height)
        thin, begun, start = 0, start + height, start + height
    if start - begun >= THINNEST:
        yield Box(None, level, begun, start, thin)


def _draw(pictures: Sequence[Picture], by: str) -> Any:
    fullest = max(max(Counter(box.level for box in picture.boxes).values()) for picture in pictures)
    height = min(max(LOWEST, 1 + 0.18 * fullest), HIGHEST)
    width = WIDTH + (len(pictures) - 1) * 0.6 * WIDTH
    figure = new_figure(width, height)
    from matplotlib.patches import Patch

    axes = figure.subplots(1, len(pictures), squeeze=False)[0]
    colours = _colours(pictures)
    for axis, picture in zip(axes, pictures, strict=True):
        _draw_boxes(axis, picture, by, colours, (0.84 * width / len(pictures), height))
        if len(pictures) > 1:
            axis.set_title(plain(picture.name, 40), fontsize="medium", loc="left")
    legend = [Patch(facecolor=colour, label=plain(kind, 22)) for kind, colour in colours.items() if kind is not None]
    if any(
        box.row is not None and _find_type(box.row, picture.inside) not in colours
        for picture in pictures
        for box in picture.boxes
    ):
        legend.append(Patch(facecolor=GREY, label="other types"))
    figure.legend(handles=legend, loc="outside right upper", fontsize="small", frameon=False)
    return figure


def _draw_boxes(
    axis: Any, picture: Picture, by: str, colours: Mapping[str | None, str], room: tuple[float, float]
) -> None:
    """Draw the boxes of a model into axes of about that width and height, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import Rectangle

    levels = max(box.level for box in picture.boxes) + 1
    size = FontProperties(size="x-small").get_size_in_points()
    # Constrained layout leaves about this much of the figure to the boxes.
    wide, high = room[0] * 72 / levels, (room[1] - 1) * 72
    for box in picture.boxes:
        colour = _GROUP if box.row is None else colours.get(_find_type(box.row, picture.inside), GREY)
        look: Any = {"facecolor": colour, "edgecolor": "white", "linewidth": 0.6}
        axis.add_patch(Rectangle((box.level, box.start), 1, box.end - box.start, **look))
        if (box.end - box.start) * high >= 1.15 * size:
            text = _text(box, by, picture.whole, int(wide / (0.62 * size)))
            middle = (box.start + box.end) / 2
            axis.text(box.level + 0.02, middle, text, fontsize="x-small", va="center", color=_ink(colour), clip_on=True)
    axis.set_xlim(0, levels)
    axis.set_ylim(1, 0)
    axis.set_axis_off()


def _find_type(row: Mapping[str, Any], inside: Mapping[str, Any]) -> str | None:
    """Return the type of an innermost layer; None for one with layers inside."""
    return None if row["path"] in inside else row["type"]


def _colours(pictures: Sequence[Picture]) -> dict[str | None, str]:
    """Return a color for each type of innermost layer that takes the most space, and one for all outer layers."""
    room: Counter[str | None] = Counter()
    for picture in pictures:
        for box in picture.boxes:
            if box.row is not None and box.row["path"] not in picture.inside:
                room[box.row["type"]] += box.end - box.start  # type: ignore[assignment]
    ranked = [kind for kind, _ in room.most_common(len(COLOURS))]
    return {None: _CONTAINER, **dict(zip(ranked, COLOURS, strict=False))}


def _text(box: Box, by: str, whole: float, room: int) -> str:
    """Return the text that fits into a box: a layer's own name, its type and its share, or the name alone."""
    if box.row is None:
        return plain(format_count(box.layers, "layer"), room) if box.layers > 1 else ""
    name, kind = box.row["path"].rpartition(".")[2], box.row["type"]
    share = f"  {100 * box.row[by] / whole:.3g} %" if box.level else ""
    details = [f"{name}: {kind}{share}", f"{name}{share}"] if name else [kind]
    return plain(next((text for text in details if len(text) <= room), name or kind), room)


def _ink(colour: str) -> str:
    """Return black or white, whichever is easier to read on a colour (relative luminance of WCAG 2)."""
    red, green, blue = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    luminance = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "black" if luminance > 0.179 else "white"
