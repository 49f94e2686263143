"""Figures in a notebook: IPython asks them for their picture, without a magic line before."""

from __future__ import annotations

import pickle
import re
import struct
from typing import Any

import pytest
from drawn_figures import REPORT

from profilerkit import ArgumentError
from profilerkit_pages import figures
from profilerkit_pages.figures import latency

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("kind", figures.kinds())
def test_a_figure_is_a_picture_twice_as_sharp_as_it_is_large(kind: str) -> None:
    figure = REPORT.plot(kind)
    picture, size = figure._repr_png_()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    inches = figure.get_size_inches()
    assert size == {"width": round(inches[0] * figure.dpi), "height": round(inches[1] * figure.dpi)}
    assert (width, height) == pytest.approx((2 * size["width"], 2 * size["height"]), abs=2)


def test_a_figure_and_its_axes_are_unpacked_as_those_of_pyplot() -> None:
    figure, axis = latency(REPORT)
    assert figure.axes == [axis]
    figure, axes = REPORT.plot("layer_bars", by=("macs", "forward_seconds"))
    assert axes == figure.axes
    assert len(axes) == 2


def test_a_figure_of_a_size() -> None:
    assert list(REPORT.plot("icicle", figsize=(12, 3)).get_size_inches()) == [12, 3]
    for wrong in ((12,), "large", (0, 3)):
        with pytest.raises(ArgumentError, match="figsize=.*: give the width and the height in inches, such as"):
            REPORT.plot("icicle", figsize=wrong)


@pytest.mark.parametrize(
    ("option", "instead"),
    [("output_path", "report.plot(...).savefig(path)"), ("time_flag", "by='forward_seconds'"), ("ax", "fig, ax =")],
)
def test_options_of_other_profilers_say_what_to_use(option: str, instead: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(instead)):
        REPORT.plot("icicle", **{option: "x"})


def test_ipython_shows_a_figure() -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    shown, _ = formatters.DisplayFormatter().format(latency(REPORT))
    assert "image/png" in shown


def test_a_figure_is_one_of_matplotlib_that_can_be_pickled() -> None:
    from matplotlib.figure import Figure

    figure: Any = pickle.loads(pickle.dumps(latency(REPORT)))
    assert figure._repr_png_()[0][:4] == b"\x89PNG"
    assert isinstance(figure, Figure)
