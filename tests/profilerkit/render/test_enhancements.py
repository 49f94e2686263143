"""Enhancements in words, values rounded to what is known of them, and what stands out on a terminal."""

from dataclasses import replace

import pytest

from profilerkit import Comparative, Completeness, Measurement, Report
from profilerkit.piping.quantity import format_known
from profilerkit.render import render
from profilerkit.render.enhancements import write_enhancement
from profilerkit.render.values import choose_mark
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import StatusRecord
from profilerkit.trace.records import LayerTable

LESS, MORE, DIFFERENCE = Comparative.RECIPROCAL, Comparative.DIV, Comparative.DIFF


def compare_values(reference: object, other: object, comparative: Comparative, **facts: object) -> Comparison:
    def report(name: str, value: object) -> Report:
        state = {"completeness": Completeness.COMPLETE, "unit": "", **(facts if name == "Other" else {})}
        record = StatusRecord("key", "Key", "", value, str(value), comparative=comparative, **state)  # type: ignore[arg-type]
        return Report(name, "fake", "module.Model", {"key": record})

    return Comparison(report("Net", reference), (report("Other", other),))


@pytest.mark.parametrize(
    ("reference", "other", "comparative", "text", "mark"),
    [
        (8, 2, LESS, "4x less, better", "better"),
        (2, 100, LESS, "50x more, worse", "worse"),
        (2, 100, MORE, "50x more, better", "better"),
        (100, 25, MORE, "4x less, worse", "worse"),
        (7, 7, LESS, "the same", ""),
        (10_000, 10_001, LESS, "≈ the same", ""),  # 1.0001 is written as 1
        (10_000, 9_996, MORE, "≈ the same", ""),  # 1.0004
        (10_000, 10_006, LESS, "1.001x more, worse", "worse"),
        (5, 0, LESS, "down to 0, better", "better"),
        (0, 5, LESS, "up from 0, worse", "worse"),
        (90, 88, DIFFERENCE, "-2, worse", "worse"),
        (90, 92, DIFFERENCE, "+2, better", "better"),
        (90, 90, DIFFERENCE, "+0", ""),
        (100, 0, Comparative.DECREASE, "-100, better", "better"),
        (0, 3, Comparative.DECREASE, "+3, worse", "worse"),
        (3, 3, Comparative.DECREASE, "+0", ""),
        (88, 90, Comparative.CHANGE, "+2", ""),
        (0, -1, Comparative.CHANGE, "-1", ""),
        (-1, 2, LESS, "-", ""),
        (-2, -4, MORE, "-", ""),
        (1, 2, Comparative.NONE, "-", ""),
    ],
)
def test_a_ratio_is_above_1_and_says_which_way(
    reference: float, other: float, comparative: Comparative, text: str, mark: str
) -> None:
    assert write_enhancement(compare_values(reference, other, comparative), "key", 0) == (text, mark)


@pytest.mark.parametrize(
    ("reference", "other", "text", "mark"),
    [
        (8, 2, "≤ 4x less", ""),  # the other has at least 2: it may have 8
        (2, 8, "≥ 4x more, worse", "worse"),  # at least 8: at least 4 times as much
        (5, 0, "~ down to 0", ""),  # at least 0: it may have any number
        (0, 5, "up from 0, worse", "worse"),  # at least 5, and so more than 0
    ],
)
def test_a_bound_is_a_verdict_only_where_it_is_one(reference: int, other: int, text: str, mark: str) -> None:
    comparison = compare_values(reference, other, LESS, completeness=Completeness.PARTIAL, missing=("op",))
    assert write_enhancement(comparison, "key", 0) == (text, mark)


def test_a_measured_ratio_has_its_interval_the_same_way_round() -> None:
    slow, fast = Measurement((4.0,) * 10, session=1), Measurement((2.0,) * 10, session=1)
    assert write_enhancement(compare_values(fast, slow, LESS), "key", 0) == ("2x more, worse [2, 2]", "worse")
    assert write_enhancement(compare_values(slow, fast, LESS), "key", 0) == ("2x less, better [2, 2]", "better")
    varied = Measurement((3.0, 4.0) * 5 + (4.0,), session=1)
    base = Measurement((2.0,) * 11, session=1)
    assert write_enhancement(compare_values(base, varied, LESS), "key", 0)[0] == "2x more, worse [1.5, 2]"


def test_no_verdict_without_a_difference_or_with_few_samples() -> None:
    one, two = Measurement((1.0, 2.0) * 5, session=1), Measurement((2.0, 1.0) * 5, session=1)
    assert write_enhancement(compare_values(one, two, LESS), "key", 0) == ("≈ the same", "")
    few, other = Measurement((1.0, 1.0), session=1), Measurement((2.0, 2.0), session=1)
    assert write_enhancement(compare_values(few, other, LESS), "key", 0) == ("2x more [2 to 2]", "")
    single, exact = Measurement((2.0,)), 1.0
    assert write_enhancement(compare_values(Measurement((1.0,)), single, LESS), "key", 0)[0] == "2x more [1 sample]"
    assert write_enhancement(compare_values(exact, single, LESS), "key", 0) == ("2x more [1 sample]", "")


@pytest.mark.parametrize(
    ("reference", "other", "verdict"),
    [
        (Measurement((1.0, 2.0) * 5), Measurement((1.0, 2.2) * 5), ""),  # both medians lie in both intervals
        (Measurement((-1.0,)), Measurement((2.0,)), ""),  # one sample shows nothing
        (Measurement((1.0, 2.0) * 5), 1.75, ""),
        (Measurement((-1.0,) * 10), Measurement((2.0,) * 10), "worse"),
        (2.0, Measurement((-1.0,) * 10), "better"),
    ],
)
def test_a_difference_of_measurements_has_a_verdict_where_their_intervals_are_apart(
    reference: object, other: object, verdict: str
) -> None:
    comparison = compare_values(reference, other, Comparative.DECREASE)
    assert write_enhancement(comparison, "key", 0).verdict == verdict


def test_a_metric_of_the_third_model_alone_is_compared_with_none() -> None:
    pair = compare_values(8, 2, LESS)
    third = replace(pair.others[0], statuses={"own": replace(pair.others[0].status("key"), key="own")})
    comparison = Comparison(pair.reference, (pair.others[0], third))
    assert [comparison.enhancement("own", index) for index in (0, 1)] == [None, None]
    assert [write_enhancement(comparison, "own", index).text for index in (0, 1)] == ["-", "-"]
    assert "not measured" in render(comparison)


@pytest.mark.parametrize(
    ("measured", "mark"),
    [
        (Measurement((1.0,)), ""),
        (Measurement((1.0,), precision=0.02), "noisy"),  # more was requested
        (Measurement((1.0, 1.5)), "noisy"),
        (Measurement((1.0,) * 10), ""),
    ],
)
def test_one_sample_is_not_called_noisy_unless_more_was_requested(measured: Measurement, mark: str) -> None:
    assert choose_mark(compare_values(measured, measured, LESS).reference.status("key")) == mark


@pytest.mark.parametrize(
    ("number", "uncertainty", "text"),
    [
        (816.94, 15.6, "817"),
        (1137.0, 21.0, "1140"),
        (1.513, 0.77, "1.5"),
        (12.345, 0.03, "12.35"),
        (2.6531, 0.00001, "2.653"),
        (0.5, 3.0, "0.5"),
        (2.0, 0.0, "2"),
        (0.0, 1.0, "0"),
        (123456.0, float("inf"), "123,456"),
    ],
)
def test_a_number_has_the_digits_that_are_known(number: float, uncertainty: float, text: str) -> None:
    assert format_known(number, uncertainty) == text


def one(value: object, completeness: Completeness = Completeness.COMPLETE) -> Report:
    record = StatusRecord("key", "Key", "", value, "1 s [1, 1]", "s", LESS, completeness, missing=("why",))
    return Report("Net", "fake", "module.Model", {"key": record})


RED, YELLOW, GREEN = "\x1b[1;31m", "\x1b[33m", "\x1b[32m"


def test_what_stands_out_on_a_terminal() -> None:
    noisy = Measurement((1.0, 2.0, 3.0), precision=0.02)
    assert RED in render(one(None, Completeness.FAILED), color=True)
    assert YELLOW in render(one(3, Completeness.PARTIAL), color=True)
    assert YELLOW in render(one(noisy), color=True)
    assert GREEN in render(compare_values(8, 2, LESS), color=True)
    assert RED in render(compare_values(2, 8, LESS), color=True)
    plain = render(one(3), color=True)
    assert not any(color in plain for color in (RED, YELLOW, GREEN))


def test_text_is_plain_unless_color_is_requested() -> None:
    for result in (one(None, Completeness.FAILED), compare_values(8, 2, LESS)):
        assert "\x1b" not in str(result)
        assert "\x1b" not in render(result)
        assert "\x1b" not in render(result, "markdown", color=True)


def test_a_notebook_gets_the_text_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook rich shows what it prints there, and leaves the stream that it was given empty."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *shown: pytest.fail("shown instead of written"))
    report = one(3)
    assert "Net  (fake)" in str(report)
    assert "Net  (fake)" in render(report, color=True)
    assert "LayerTable, 1 row" in str(LayerTable([{"path": "", "type": "Net", "macs": 1}]))


def test_a_note_says_what_to_do_about_noise() -> None:
    noisy = Measurement((1.0, 2.0, 3.0), precision=0.02)
    assert "Noisy times: measure longer, such as max_seconds=30" in " ".join(str(one(noisy)).split())
    assert "more certain" not in str(one(Measurement((1.0,) * 9, precision=0.02)))


def test_a_report_beside_itself_was_measured_once() -> None:
    time = Measurement((1.0, 2.0) * 10, session=1)
    text = str(compare_values(time, time, LESS))
    assert "the same" in text
    assert "Other: the times are those of Net, not measured again." in text
    assert "in turn" not in text


@pytest.mark.parametrize(("other", "text"), [(1010, "1.01x more"), (1000, "the same"), (1030, "1.03x more, worse")])
def test_little_is_no_verdict_between_frameworks(other: int, text: str) -> None:
    """Keras has the moving statistics of a normalization among its parameters, torch has not."""
    comparison = compare_values(1000, other, LESS)
    foreign = Comparison(comparison.reference, (replace(comparison.others[0], backend="another"),))
    assert write_enhancement(foreign, "key", 0)[0] == text
    assert ("neither better nor worse" in render(foreign, "table")) == (other == 1010)
    assert write_enhancement(compare_values(1000, 1010, LESS), "key", 0) == ("1.01x more, worse", "worse")


def test_the_times_that_are_compared_are_described_whichever_comes_first() -> None:
    """One model has no execution time, as where its run failed, or the same one: its other times are told of."""

    def report(name: str, *values: object) -> Report:
        def record(key: str, value: object) -> StatusRecord:
            state = Completeness.FAILED if value is None else Completeness.COMPLETE
            return StatusRecord(key, key.title(), "", value, str(value), "", comparative=LESS, completeness=state)

        return Report(name, "fake", "m.M", {key: record(key, value) for key, value in zip("ab", values, strict=True)})

    first, second = Measurement((1.0, 1.1) * 20, session=1), Measurement((2.0, 2.2) * 20, session=1)
    alike = Measurement((1.1, 1.0) * 20, session=1)  # half of its ratios are 1.1, the others 1 / 1.1
    for lacking in (None, first):
        text = str(Comparison(report("Net", first, first), (report("Other", lacking, second),)))
        assert "Times are medians, measured in turn" in text
    text = str(Comparison(report("Net", first, first), (report("Other", second, alike),)))
    assert "≈ marks a ratio whose interval holds 1" in text
