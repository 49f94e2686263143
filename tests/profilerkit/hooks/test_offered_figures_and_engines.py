"""Kinds of figures, and engines of audits, that plugins add."""

from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest
from plugin_fixtures import FAKE, make_offering, make_raising

from profilerkit import (
    ArgumentError,
    FigureInfo,
    NotOfferedError,
    PluginFailedError,
    Report,
    profile,
)
from profilerkit.testing import FakeModel
from profilerkit_audits import Engine, EngineInfo
from profilerkit_audits.engine import find_engine
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


def test_a_figure_takes_the_options_that_its_function_takes_by_any_name(install: Any, report: Report) -> None:
    def draw_freely(report: Report, scale: int = 1, **options: Any) -> str:
        return f"{scale} {options}"

    install("art", figures=make_offering(FigureInfo("sketch", lambda: draw_freely)))
    reload_plugins()
    assert report.plot("sketch", scale=3, color="red", options=1) == "3 {'color': 'red', 'options': 1}"


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


def reload_plugins() -> None:
    from profilerkit.hooks import offers

    offers.forget()


class Nothing(Engine):
    def run(self, cases: Iterable[Any]) -> Generator[Any, None, None]:
        yield from ()


def test_an_engine_of_a_package_is_found_like_ours(install: Any, core: None) -> None:
    install("slow", engines=make_offering(EngineInfo("nothing", lambda: Nothing)))
    assert find_engine("nothing") is Nothing


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (
            make_raising(ImportError("No module named 'slurm'")),
            "^the engine 'mine' cannot be used: No module named 'slurm'; install it with: pip install 'my-slurm'$",
        ),
        (
            make_raising(KeyError("slurm")),
            r"^engine 'mine' of plugin 'slow'.* cannot be used \(KeyError: 'slurm'\); to do",
        ),
        (make_raising(SystemExit(3)), r"^engine 'mine' of plugin 'slow'.* cannot be used \(SystemExit: 3\); to do"),
        (lambda: 3, "^engine 'mine' of plugin 'slow'.*: its load returned 3, which is no engine; to do without it"),
        (lambda: str, "^engine 'mine' of plugin 'slow'.*: its load returned .*str.*, which is no engine; to do"),
    ],
)
def test_an_engine_that_cannot_be_used_says_why(
    load: Callable[[], Any], message: str, install: Any, core: None
) -> None:
    install("slow", engines=make_offering(EngineInfo("mine", load, requirement="my-slurm")))
    with pytest.raises(NotOfferedError, match=message):
        find_engine("mine")
