"""Reports whose checksum fits and whose content was made up: refused by name, or drawn in every form like any other."""

from __future__ import annotations

import copy
import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from attack_sampling import WHOLE, sample
from hostile import HOSTILE, full_comparison, full_report, places, reseal, spoilt

from profilerkit import Comparison, Report, ReportFileError
from profilerkit.builtin import profilerkit_renderers
from profilerkit.render import render
from profilerkit.results.saving import parse, to_json
from profilerkit.trace.layer_paths import count_depth
from profilerkit_pages.figures import kinds as figure_kinds

FORMS = sorted(info.name for info in profilerkit_renderers() if info.is_text)
WAYS = [*HOSTILE, "left out", "many times", "turned round", "last left out"]
#: A page has its scripts; LaTeX writes some letters in twenty; a table that goes on below itself has its lines again.
MOST_OVER, MOST_TIMES = 200_000, 60


@contextmanager
def end_after(seconds: int) -> Iterator[None]:
    """Raise where something seems to go on for ever: what is asked here is that it ends, not how soon."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(*arguments: object) -> None:
        raise AssertionError(f"it has not ended after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def require_sane(content: bytes, figures: bool = False) -> bool:
    """Read a file and draw what it holds in every form; say whether it was read."""
    try:
        result = parse(content, "it.json")
    except ReportFileError as error:
        assert len(str(error)) < 1000
        return False
    most = MOST_OVER + MOST_TIMES * len(content)
    for form in FORMS:
        for options in ({}, {"details": True, "changes": True}, {"top": 2, "depth": 1})[: 3 if WHOLE else 2]:
            assert len(render(result, form, **options)) < most, (form, options)
    if figures:
        for kind in figure_kinds():
            try:
                result.plot(kind)
            except ValueError as error:  # a report without what is to be drawn
                assert str(error)
    return True


CONTENTS = {"report": json.loads(to_json(full_report())), "comparison": json.loads(to_json(full_comparison()))}
CASES = {kind: [(place, way) for place in places(content) for way in WAYS] for kind, content in CONTENTS.items()}
#: The reports in a comparison are read and drawn as a report is: one in so many of their places is spoilt there too.
INSIDE = 8
CASES["comparison"] = [
    (place, way)
    for index, (place, way) in enumerate(CASES["comparison"])
    if place[0] != "reports" or index % INSIDE == 0
]
PARTS = 8 if WHOLE else 1


def test_what_is_spoilt_here_is_drawn_as_it_is() -> None:
    assert require_sane(reseal(CONTENTS["report"]), figures=True)
    assert require_sane(reseal(CONTENTS["comparison"]))
    assert len(CASES["report"]) > 20_000


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["report", "comparison"])
def test_a_hostile_report_is_refused_or_drawn(kind: str, part: int) -> None:
    """One value of the file is another one, its checksum fits: each place with each way that values are spoilt."""
    taken = sample(CASES[kind], 120 if kind == "report" else 30)[part::PARTS]
    read = 0
    for place, way in taken:
        try:
            with end_after(120):
                read += require_sane(reseal(spoilt(CONTENTS[kind], place, way)))
        except Exception as error:
            raise AssertionError(f"{way} at {place}: {type(error).__name__}: {error}") from error
    assert 0 < read < len(taken)


def with_rows(paths: list[str], kinds: list[str]) -> bytes:
    """Return a report of these layers."""
    content = copy.deepcopy(CONTENTS["report"])
    layers = content["layers"]
    place = {column: layers["columns"].index(column) for column in ("path", "type", "depth")}
    first = layers["rows"][0]
    layers["rows"] = []
    for path, kind in zip(paths, kinds, strict=True):
        row = list(first)
        row[place["path"]], row[place["type"]], row[place["depth"]] = path, kind, count_depth(path)
        layers["rows"].append(row)
    content["statuses"] = [status for status in content["statuses"] if status["key"] != "layer_times"]
    content["data"] = {}
    return reseal(content)


DEEP = [".".join("a" * depth) for depth in range(600)]
MANY = 5_000 if WHOLE else 1_000
LARGE: dict[str, tuple[list[str], list[str]]] = {
    "a long name": (["", *map(str, range(MANY)), "x" * 50_000], ["Net"] * (MANY + 2)),
    "a long type": (["", *map(str, range(MANY))], ["Net"] * MANY + ["x" * 50_000]),
    "nested deeply": (DEEP, ["Net"] * 600),
    "very many inside one": (["", *map(str, range(MANY))], ["Net", *("AB"[place % 3 == 0] for place in range(MANY))]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_reports_take_no_more_than_their_size(name: str) -> None:
    """One that is wide must not widen each of its lines, one that is deep not be searched from every layer up."""
    with end_after(300):
        assert require_sane(with_rows(*LARGE[name]))


def test_two_models_of_very_many_layers_are_aligned() -> None:
    """To look for the best order of 4,000 layers among 4,000 takes minutes."""
    count = 4_000
    kinds = ["Net", *("AB"[number % 3 == 0] for number in range(count))]
    reports = [
        parse(with_rows(["", *(f"{letter}{number}" for number in range(count))], order), "it")
        for letter, order in (("x", kinds), ("y", ["Net", *kinds[:0:-1]]))
    ]
    first, second = reports
    assert isinstance(first, Report)
    assert isinstance(second, Report)
    with end_after(300):
        changes = Counter(row["change"] for row in Comparison(first, (second,)).layers())
    assert changes == {"same": count + 1}, "as many of each type are in both"


@pytest.mark.skipif(not WHOLE, reason="figures take their time; make attack draws them")
def test_figures_of_hostile_reports() -> None:
    for place, way in CASES["report"][::40]:
        try:
            with end_after(120):
                require_sane(reseal(spoilt(CONTENTS["report"], place, way)), figures=True)
        except Exception as error:
            raise AssertionError(f"{way} at {place}: {type(error).__name__}: {error}") from error
