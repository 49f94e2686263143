"""A figure that notebooks show by themselves. Imported only if matplotlib is installed."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as PlainFigure

#: Pixels drawn for each pixel that a notebook shows, so that text is sharp on every screen.
_SHARPNESS = 2


class Figure(PlainFigure):
    """A figure of matplotlib's that is not registered with pyplot; as the last line of a notebook's cell it is shown.

    IPython asks an object for its picture by `_repr_png_`. Matplotlib's own figures have none: they are shown once
    ``%matplotlib inline`` or pyplot registers them, and IPython then takes its own way for these figures too.
    """

    def __init__(self, width: float, height: float) -> None:
        """Make an empty figure; ``width`` and ``height`` are in inches."""
        super().__init__(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(self)

    def __iter__(self) -> Iterator[Any]:
        """Yield the figure and its axes, as pyplot's ``subplots`` returns them: ``fig, ax = report.plot(...)``.

        Several axes are a list.
        """
        yield self
        yield self.axes[0] if len(self.axes) == 1 else self.axes

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the picture, and the pixels of its size in a notebook."""
        target = BytesIO()
        self.savefig(target, format="png", dpi=_SHARPNESS * self.dpi)
        width, height = (round(self.dpi * inches) for inches in self.get_size_inches())
        return target.getvalue(), {"width": width, "height": height}
