"""Kinds of figures that plugins add."""

from typing import Any

import pytest
from plugin_fixtures import FAKE, make_offering, make_raising

from profilerkit import (
    ArgumentError,
    FigureInfo,
    NotOfferedError,
    PluginFailedError,
    RegistrationConflictError,
    Report,
    profile,
)
from profilerkit.testing import FakeModel
from profilerkit_pages.figures import kinds


def draw(report: Report, scale: int = 1) -> str:
    return f"{report.name} x {scale}"


@pytest.fixture
def report(install: Any, core: None) -> Report:
    install("fake", backends=make_offering(FAKE))
    return profile(FakeModel(), name="net")


def test_a_figure_of_a_package_is_drawn_like_ours(install: Any, report: Report) -> None:
    install("art", figures=make_offering(FigureInfo("sketch", lambda: draw, "a sketch")))
    reload_plugins()
    assert kinds()[-1] == "sketch"
    assert report.plot("sketch") == "net x 1"
    assert report.plot("sketch", scale=3) == "net x 3"
    with pytest.raises(ArgumentError, match="figure 'sketch' takes no option 'scal'; .*scale"):
        report.plot("sketch", scal=3)
    with pytest.raises(ArgumentError, match="no figure 'sketsch'; there are, nearest first: sketch, "):
        report.plot("sketsch")


def test_a_figure_that_cannot_be_used_says_why(install: Any, report: Report) -> None:
    number: Any = 3
    install(
        "art",
        figures=make_offering(FigureInfo("sketch", lambda: number), FigureInfo("oil", make_raising(KeyError("oil")))),
    )
    reload_plugins()
    with pytest.raises(NotOfferedError, match="figure 'sketch' of plugin 'art'.*: its load returned 3"):
        report.plot("sketch")
    with pytest.raises(NotOfferedError, match=r"figure 'oil' of plugin 'art'.* cannot be used \(KeyError: "):
        report.plot("oil")


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3)])
def test_a_figure_that_raises_names_its_plugin(install: Any, report: Report, error: BaseException) -> None:
    def fail(report: Report) -> None:
        raise error

    install("art", figures=make_offering(FigureInfo("sketch", lambda: fail)))
    reload_plugins()
    with pytest.raises(PluginFailedError, match=f"figure 'sketch' of plugin 'art' .* raised {type(error).__name__}"):
        report.plot("sketch")


def test_two_figures_of_one_name_are_an_error(install: Any, report: Report) -> None:
    install("art", figures=make_offering(FigureInfo("icicle", lambda: draw)))
    reload_plugins()
    with pytest.raises(RegistrationConflictError, match="two plugins offer figure 'icicle': "):
        report.plot("icicle")


def reload_plugins() -> None:
    from profilerkit.hooks import offers

    offers.forget()
