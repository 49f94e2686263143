"""Status keys, metrics and how they compare."""

import math
from typing import Any

import pytest

from profilerkit import (
    Comparative,
    Completeness,
    Failure,
    InputError,
    Measurement,
    Metric,
    Noted,
    NotOfferedError,
    Partial,
    Scale,
    StatusKey,
    Unavailable,
)
from profilerkit.piping.outcome import Outcome
from profilerkit.trace.observed_runs import Witnessed


class Size(Metric):
    """Bytes of something.

    A second paragraph that no table shows.
    """

    NAME = "some_size"
    UNIT = "B"
    SCALE = Scale.IEC
    COMPARATIVE = Comparative.RECIPROCAL


class Classic(Metric):
    """A metric as the deeplite document writes them: methods, static or not, that read ``self.value``."""

    NAME = "classic"

    @staticmethod
    def description() -> str:
        return "Said by a static method"

    @staticmethod
    def friendly_name() -> str:
        return "Classic Metric"

    def get_comparative(self) -> str:
        return "recip"

    def get_value(self) -> float:
        return float(self.value / 1e9)

    def get_units(self) -> str:
        return "GigaThings"


@pytest.mark.parametrize("text", ["diff", "DIFF", " Diff "])
def test_comparative_is_parsed_from_its_string(text: str) -> None:
    assert Comparative.parse(text) is Comparative.DIFF
    assert Comparative(text) is Comparative.DIFF


@pytest.mark.parametrize("text", ["recip", "RECIPROCAL"])
def test_reciprocal_has_a_short_spelling(text: str) -> None:
    assert Comparative.parse(text) is Comparative.RECIPROCAL


def test_an_unknown_comparative_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown comparative 'ratio'; use Comparative or one of 'diff', 'div'"):
        Comparative.parse("ratio")
    with pytest.raises(ValueError, match="3 is not a valid Comparative"):
        Comparative(3)


@pytest.mark.parametrize(
    ("comparative", "enhancement"),
    [
        (Comparative.DIFF, -6.0),  # 2 - 8: higher is better, and it is lower
        (Comparative.DIV, 0.25),  # 2 / 8
        (Comparative.RECIPROCAL, 4.0),  # 8 / 2: a quarter of the size is four times better
        (Comparative.DECREASE, 6.0),  # 8 - 2: lower is better, and it is lower
        (Comparative.CHANGE, None),  # it is not known which is better
        (Comparative.NONE, None),
    ],
)
def test_enhancement_of_two_over_eight(comparative: Comparative, enhancement: float | None) -> None:
    assert comparative.enhancement(reference=8, value=2) == enhancement


def test_enhancement_over_zero() -> None:
    assert Comparative.RECIPROCAL.enhancement(reference=5, value=0) == math.inf
    assert Comparative.RECIPROCAL.enhancement(reference=0, value=0) is None
    assert Comparative.DIV.enhancement(reference=0, value=3) == math.inf


@pytest.mark.parametrize("comparative", [Comparative.DIV, Comparative.RECIPROCAL])
@pytest.mark.parametrize(("reference", "value"), [(-2, -4), (-4, -2), (2, -1), (-1, 2), (0, -1), (-1, 0)])
def test_ratios_of_negative_values_say_nothing(comparative: Comparative, reference: float, value: float) -> None:
    """Of -2 and -4 the second is twice the first, and less; infinity is no improvement either."""
    assert comparative.enhancement(reference, value) is None
    assert comparative.verdict(comparative.enhancement(reference, value)) == ""


def test_a_computed_status_is_a_fresh_instance_that_cannot_be_set() -> None:
    template = Size()
    computed = template.with_outcome(Outcome.of(2048))
    assert (template.value, computed.value) == (None, 2048)
    assert template.is_computed is False
    assert computed.is_computed is True
    with pytest.raises(AttributeError):
        computed.value = 3  # type: ignore[misc]


def test_a_metric_needs_class_attributes_alone() -> None:
    size = Size().with_outcome(Outcome.of(2048))
    assert size.friendly_name() == "Some Size"
    assert size.description() == "Bytes of something."
    assert (size.get_value(), size.get_units()) == (2.0, "KiB")
    assert size.show() == "2 KiB"
    assert repr(size) == "Size(some_size=2048)"


def test_a_metric_written_as_methods() -> None:
    metric = Classic().with_outcome(Outcome.of(2_500_000_000))
    assert metric.show() == "2.5 GigaThings"
    assert (metric.friendly_name(), metric.description()) == ("Classic Metric", "Said by a static method")
    assert metric.value == 2_500_000_000, "what is compared stays in base units"


def test_a_measurement_is_shown_as_median_with_interval() -> None:
    class Time(Metric):
        NAME = "time"
        UNIT = "s"
        SCALE = Scale.TIME

    samples = tuple(milliseconds / 1000 for milliseconds in (1, 2, 3, 4, 5, 6))
    shown = Time().with_outcome(Outcome.of(Measurement(samples))).show()
    assert shown == "4 ms [1, 6]", "the last digit that is known: the interval is wide"


class Array:
    """Like an array of several elements: it has __float__, which raises."""

    def __float__(self) -> float:
        raise TypeError("only size-1 arrays can be converted")

    def __str__(self) -> str:
        return "array of two"


@pytest.mark.parametrize("value", ["text", [1, 2], Array(), 10**400])
def test_a_value_that_is_no_number_is_shown_as_it_is(value: Any) -> None:
    assert Size().with_outcome(Outcome.of(value)).show().startswith(str(value))


def test_a_metric_without_value_shows_nothing() -> None:
    assert Size().show() == ""
    assert Size().get_units() == "B"


@pytest.mark.parametrize(
    ("returned", "completeness", "missing"),
    [
        (3, Completeness.COMPLETE, ()),
        (0, Completeness.COMPLETE, ()),
        (Partial(3, ("my::op (2 calls)",)), Completeness.PARTIAL, ("my::op (2 calls)",)),
        (Unavailable("no counter here"), Completeness.UNAVAILABLE, ("no counter here",)),
        (None, Completeness.UNAVAILABLE, ("the function returned nothing",)),
        (Partial(3, "abc"), Completeness.PARTIAL, ("abc",)),  # type: ignore[arg-type]
        (Failure(InputError("no data")), Completeness.FAILED, ("no data",)),
        (Failure(RuntimeError("boom")), Completeness.FAILED, ("RuntimeError: boom",)),
        (Failure(RuntimeError()), Completeness.FAILED, ("RuntimeError",)),
        (Failure(NotOfferedError("not this release")), Completeness.UNAVAILABLE, ("not this release",)),
    ],
)
def test_what_a_function_returns_becomes_an_outcome(
    returned: Any, completeness: Completeness, missing: tuple[str, ...]
) -> None:
    outcome = Outcome.of(returned)
    assert (outcome.completeness, outcome.missing) == (completeness, missing)
    assert Outcome.of(outcome) is outcome


@pytest.mark.parametrize(
    ("returned", "note", "missing"),
    [
        (Noted(Noted(5, "a"), "b"), "a; b", ()),
        (Noted(Partial(5, ("x",)), "a"), "a", ("x",)),
        (Partial(Noted(5, "a"), ("x",)), "a", ("x",)),
        (Partial(Partial(5, ("x",)), ("y",)), "", ("y", "x")),
        (Witnessed(Noted(5, "a"), ()), "a", ()),
        (Partial(5, ()), "", ()),
    ],
)
def test_what_is_said_twice_of_a_value_is_kept(returned: Any, note: str, missing: tuple[str, ...]) -> None:
    outcome = Outcome.of(returned)
    assert (outcome.value, outcome.note, outcome.missing) == (5, note, missing)
    is_partial = isinstance(returned, Partial) or bool(missing)
    assert outcome.completeness is (Completeness.PARTIAL if is_partial else Completeness.COMPLETE)


def test_a_template_says_that_it_is_not_computed() -> None:
    assert StatusKey().outcome.missing == ("not computed",)


def test_a_friendly_name_is_a_class_attribute_or_the_name_in_title_case() -> None:
    class Named(Metric):
        NAME = "some_macs"
        FRIENDLY_NAME = "A few MACs"

    class Plain(Metric):
        NAME = "some_macs"

    assert (Named().friendly_name(), Plain().friendly_name()) == ("A few MACs", "Some MACs")
