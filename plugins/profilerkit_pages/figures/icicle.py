"""The model as nested boxes: the whole model on the left, the innermost layers on the right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from profilerkit.arguments.checks import COLUMNS, DEPTH
from profilerkit.count_text import format_count
from profilerkit.render.values import Column
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report
from profilerkit.trace.layer_paths import find_deepest
from profilerkit.trace.layer_view import group_children

from .canvas import COLOURS, GREY, finish, new_figure, plain
from .reading import explain_column, one_or_two, require_column, require_layers

#: Inches: the width of the figure of one model, the width that another model adds; and the share of it for boxes.
_WIDTH, _WIDTH_OF_ANOTHER, _SHARE_OF_BOXES = 11.0, 6.6, 0.84
#: Inches: the least and the greatest height of the figure, and the height that each layer of its fullest level adds.
_LOWEST, _HIGHEST, _HEIGHT_OF_LAYER = 7.0, 20.0, 0.18
#: Inches of the height for the title and the notes.
_HEIGHT_OF_TEXTS = 1
_POINTS_OF_INCH = 72
#: How wide a character is on average, and how high a line, by the size of the font.
_CHARACTER, _LINE = 0.62, 1.15
#: The colours of layers with others inside, and of groups of thin layers.
_CONTAINER, _GROUP = "#E4E4E4", "#C8C8C8"
#: The one of the colours on which white is easier to read than black (relative luminance of WCAG 2).
_DARK = COLOURS[0]
#: Levels that are drawn without a given depth: more would leave no room for names.
_LEVELS = 8
#: Boxes of less than this share of the height are drawn together with their neighbours, as one.
_THINNEST = 0.0025

_Row = Mapping[str, Any]


def icicle(result: Report | Comparison, by: str = "macs", depth: int | None = None) -> Any:
    """Return a figure of the layers as nested boxes, each as high as its share of a column of `Report.layerwise`.

    The column must include the layers inside: ``params``, ``macs``, ``forward_seconds`` and so on. The empty space to
    the right of a box is the layer's own work. Layers that share weights can have more in total than the layer around
    them; their boxes are made smaller so that they fit.

    Two models stand beside each other; the height of each is the whole of its own column.

    Args:
        result: The report of one model, or a comparison of two.
        by: The name of the column.
        depth: The deepest level that is drawn; the model itself is level 0. None means 7, because deeper names are
            hard to read, and -1 the innermost layers.

    Raises:
        ValueError: a report has no layers or no such column, it is an ``own_`` column, or the model's total in it is
            zero; or a comparison has more than two models.
        ImportError: matplotlib is missing.
    """
    by, depth = COLUMNS("by", by), DEPTH("depth", depth)
    reports = one_or_two(result, "icicle")
    pictures = [_arrange(report, by, depth) for report in reports]
    column = Column.of(by)
    wholes = " and ".join(column.show(picture.whole) for picture in pictures)
    deepest = min((picture.deepest for picture in pictures if picture.is_cut), default=None)
    notes = [
        f"The height of a box is its {column.in_a_sentence}, with the layers inside; the whole is {wholes}.",
        "" if deepest is None else f"Layers deeper than {deepest} are not drawn; give depth= for more.",
        *explain_column(reports, by),
    ]
    return finish(_draw(pictures), reports, f"{column.in_a_sentence} of the layers", notes)


# Boxes ----------------------------------------------------------------------------------------------------------------


class _Box(NamedTuple):
    """A box in the picture of a model: a layer, or several thin neighbors that are drawn as one (``row`` is None)."""

    row: _Row | None
    #: How deep it is, from 0 for the whole model: the place from left to right.
    level: int
    #: Where it begins and ends, from 0 at the top of the picture to 1.
    start: float
    end: float
    has_inside: bool = False
    layers: int = 1


class _Picture(NamedTuple):
    """The boxes of one model, by a column whose value for the whole model is ``whole``."""

    name: str
    boxes: Sequence[_Box]
    by: str
    whole: float
    deepest: int

    @property
    def is_cut(self) -> bool:
        """Whether the model has layers that are too deep to be drawn."""
        return any(box.level == self.deepest and box.has_inside for box in self.boxes)

    def list_types(self) -> Iterator[tuple[str, float]]:
        """Yield the type and the height of each innermost layer."""
        innermost = (box for box in self.boxes if not box.has_inside)
        return ((str(box.row["type"]), box.end - box.start) for box in innermost if box.row is not None)


def _arrange(report: Report, by: str, depth: int | None) -> _Picture:
    """Return the boxes of a report; raises `ValueError` if there is nothing to draw."""
    if by.startswith("own_"):
        raise ValueError(f"icicle draws layers inside each other, and {by!r} leaves out those inside; give {by[4:]!r}")
    layers = require_layers(report)
    require_column(report, layers, by)
    root = layers[0]
    if not root[by] or root[by] < 0:
        raise ValueError(f"there is nothing to draw of {report.name}: the whole model has {by}={root[by]!r}")
    deepest = _LEVELS - 1 if depth is None else depth
    if deepest < 0:
        deepest = find_deepest(layers)
    return _Picture(report.name, list(_list_boxes(root, group_children(layers), by, deepest)), by, root[by], deepest)


def _list_boxes(root: _Row, inside: Mapping[str, Sequence[_Row]], by: str, deepest: int) -> Iterator[_Box]:
    """Yield the boxes, outer before inner; without recursion, for models of any depth."""
    pending = [_Box(root, 0, 0.0, 1.0, root["path"] in inside)]
    while pending:
        box = pending.pop()
        yield box
        if box.row is None or not box.has_inside or box.level >= deepest:
            continue
        children = inside[box.row["path"]]
        values = [max(child[by] or 0.0, 0.0) for child in children]
        # Layers that share weights can have more in total than the layer around them, and still fit into it.
        unit = (box.end - box.start) / max(box.row[by], sum(values))
        heights = [value * unit for value in values]
        pending += reversed(list(_place_children(children, heights, box, inside)))  # the uppermost is taken next


def _place_children(
    children: Sequence[_Row], heights: Sequence[float], around: _Box, inside: Mapping[str, Sequence[_Row]]
) -> Iterator[_Box]:
    """Yield the boxes of the layers inside a layer: thin neighbors as one box; no box if it is too thin to see."""
    level, end = around.level + 1, around.start
    group_start, thin = end, 0  # the thin layers since the last box: where they begin, and how many there are
    for child, height in zip(children, heights, strict=True):
        if height < _THINNEST:
            end += height
            thin += 1 if height else 0
            continue
        if end - group_start >= _THINNEST:
            yield _Box(None, level, group_start, end, layers=thin)
        yield _Box(child, level, end, end + height, child["path"] in inside)
        group_start = end = end + height
        thin = 0
    if end - group_start >= _THINNEST:
        yield _Box(None, level, group_start, end, layers=thin)


# Drawing --------------------------------------------------------------------------------------------------------------


def _draw(pictures: Sequence[_Picture]) -> Any:
    """Return a figure of the pictures beside each other, with a legend of the types of innermost layers."""
    fullest = max(max(Counter(box.level for box in picture.boxes).values()) for picture in pictures)
    height = min(max(_LOWEST, _HEIGHT_OF_TEXTS + _HEIGHT_OF_LAYER * fullest), _HIGHEST)
    width = _WIDTH + (len(pictures) - 1) * _WIDTH_OF_ANOTHER
    figure = new_figure(width, height)
    axes = figure.subplots(1, len(pictures), squeeze=False)[0]
    colours = _choose_colours(pictures)
    for axis, picture in zip(axes, pictures, strict=True):
        _draw_boxes(axis, picture, colours, (_SHARE_OF_BOXES * width / len(pictures), height - _HEIGHT_OF_TEXTS))
        if len(pictures) > 1:
            axis.set_title(plain(picture.name, 40), fontsize="medium", loc="left")
    _draw_legend(figure, pictures, colours)
    return figure


def _draw_boxes(axis: Any, picture: _Picture, colours: Mapping[str, str], room: tuple[float, float]) -> None:
    """Draw the boxes of a model into axes of about that width and height, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import Rectangle

    levels = max(box.level for box in picture.boxes) + 1
    font_size = FontProperties(size="x-small").get_size_in_points()
    width, height = (_POINTS_OF_INCH * inches for inches in room)
    most_characters = int(width / levels / (_CHARACTER * font_size))
    for box in picture.boxes:
        colour, box_height = _find_colour(box, colours), box.end - box.start
        corner = (box.level, box.start)
        axis.add_patch(Rectangle(corner, 1, box_height, facecolor=colour, edgecolor="white", linewidth=0.6))
        if box_height * height >= _LINE * font_size:
            text, ink = _write_text(box, picture, most_characters), "white" if colour == _DARK else "black"
            look = {"fontsize": "x-small", "va": "center", "color": ink, "clip_on": True}
            axis.text(box.level + 0.02, (box.start + box.end) / 2, text, **look)
    axis.set_xlim(0, levels)
    axis.set_ylim(1, 0)
    axis.set_axis_off()


def _choose_colours(pictures: Sequence[_Picture]) -> dict[str, str]:
    """Return a color for each type of innermost layer that takes the most space."""
    space: defaultdict[str, float] = defaultdict(float)
    for picture in pictures:
        for kind, height in picture.list_types():
            space[kind] += height
    return dict(zip(sorted(space, key=space.__getitem__, reverse=True), COLOURS, strict=False))


def _find_colour(box: _Box, colours: Mapping[str, str]) -> str:
    if box.row is None:
        return _GROUP
    return _CONTAINER if box.has_inside else colours.get(str(box.row["type"]), GREY)


def _draw_legend(figure: Any, pictures: Sequence[_Picture], colours: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, label=plain(kind, 22)) for kind, colour in colours.items()]
    if any(kind not in colours for picture in pictures for kind, _ in picture.list_types()):
        handles.append(Patch(facecolor=GREY, label="other types"))
    figure.legend(handles=handles, loc="outside right upper", fontsize="small", frameon=False)


def _write_text(box: _Box, picture: _Picture, most: int) -> str:
    """Return the text that fits into a box: a layer's own name, its type and its share, or the name alone."""
    if box.row is None:
        return plain(format_count(box.layers, "layer"), most) if box.layers > 1 else ""
    name, kind = box.row["path"].rpartition(".")[2], box.row["type"]
    share = f"  {100 * box.row[picture.by] / picture.whole:.3g} %" if box.level else ""
    choices = [f"{name}: {kind}{share}", f"{name}{share}"] if name else [kind]
    return plain(next((text for text in choices if len(text) <= most), name or kind), most)
