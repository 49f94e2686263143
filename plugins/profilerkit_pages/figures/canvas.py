"""The tools of all figures: an empty figure, colors, text that is drawn literally, axes in readable units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from profilerkit.count_text import format_count
from profilerkit.foreign_text import visible
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.results.report import Report

#: Okabe and Ito's, which people who see few colours can tell apart: https://jfly.uni-koeln.de/color/
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
#: The colour of all parts without another colour.
GREY = "#999999"


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure that is not registered with pyplot; ``width`` and ``height`` are in inches."""
    try:
        from .shown import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib; install profilerkit[plot]") from error
    return Figure(width, height)


def finish(figure: Any, reports: Sequence[Report], what: str, notes: Iterable[str] = ()) -> Any:
    """Return a figure with a title above it and notes below it, all drawn literally: no text goes to TeX.

    If there is one report, the title has the name of its model; several models are named inside the figure.
    """
    from matplotlib.text import Text

    room = int(8 * figure.get_figwidth())
    name = f"{plain(reports[0].name, max(room - len(what), 16))}: " if len(reports) == 1 else ""
    title = f"{name}{plain(what, room)}"
    figure.suptitle(title if name else f"{title[:1].upper()}{title[1:]}", x=0.01, ha="left", fontsize="large")
    caption = "\n".join(plain(note, 160) for note in notes if note)
    if caption:
        figure.supxlabel(caption, x=0.01, ha="left", fontsize="x-small")
    for text in figure.findobj(Text):
        text.set_usetex(False)
    return figure


def legend_above(axis: Any) -> None:
    """Put the legend in one line above the axes, so that it covers nothing."""
    position = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    axis.legend(ncols=8, fontsize="small", frameon=False, **position)


def find_end(start: float, highest: float, largest: float) -> float:
    """Return the end of an axis: the largest value, or less if the largest would leave the others no space.

    ``highest`` is the highest value that has to be seen; beyond it there is as much space as before it.

    >>> find_end(0, 15, 20), find_end(0, 15, 8000)
    (20, 30)
    """
    return min(largest, highest + (highest - start))


def name_beyond(axis: Any, number: int, thing: str, largest: str) -> None:
    """Write at the right end of an axis how many things lie beyond it, if any do."""
    if number:
        text = f"{format_count(number, thing)} beyond, up to {largest}"
        axis.text(0.99, 0.5, text, transform=axis.transAxes, ha="right", va="center", fontsize="small")


def plain(text: str, longest: int = 44) -> str:
    r"""Return a text so that matplotlib draws it literally: in one line, without formulas.

    If it is longer than ``longest`` characters, its middle is left out.

    >>> plain("a $x$\n")
    'a \\$x\\$\\n'
    >>> plain("encoder.layers.11.attention", 11)
    'enc…tention'
    """
    shown = visible(text)
    if len(shown) > longest:
        start = (longest - 1) // 3
        shown = f"{shown[:start]}…{shown[start + 1 - longest :]}"
    return shown.replace("$", r"\$")


def unit_for(largest: float, unit: str, scale: Scale) -> tuple[float, str]:
    """Return the value of one displayed unit in base units, and that unit, for an axis up to ``largest``."""
    quantity = scale_value(largest, unit, scale)
    return quantity.factor, quantity.unit


def title_axis(title: str, unit: str) -> str:
    """Return the title of an axis, with its unit in parentheses."""
    return f"{title} ({unit})" if unit else title


def title_bars(axis: Any, title: str, unit: str) -> None:
    """Write the label of horizontal bars below their axis, and leave out the lines around it that say nothing."""
    axis.set_xlabel(title_axis(f"{title[:1].upper()}{title[1:]}", unit), fontsize="small")
    axis.tick_params(axis="x", labelsize="small")
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right"]].set_visible(False)


def name_bars(axis: Any, names: Sequence[str]) -> None:
    """Write the names of horizontal bars beside them, the first one at the top."""
    axis.set_yticks(range(len(names)), [plain(name) for name in names], fontsize="small")
    axis.set_ylim(len(names) - 0.4, -0.6)
