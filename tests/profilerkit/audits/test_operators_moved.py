"""Which operators account for a difference: by hand, on tables of three operators."""

from __future__ import annotations

import pytest

from profilerkit.audits.changes import compare_operators, sum_operators
from profilerkit_numpy.layers import Sequential, dense

SIDES = ("a.rotary", "b.rotary")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"bmm": (1, 16)}, {"bmm": (1, 16)}, ""),
        ({"bmm": (1, 16)}, {"bmm": (1, 24)}, ""),  # the layer's difference says the same
        ({"bmm": (1, 16)}, {"bmm": (2, 32)}, "bmm +16 (1 -> 2 calls)"),
        (
            {"bmm": (1, 16), "cos": (1, 4)},
            {"mul": (1, 8), "cos": (1, 4)},
            "bmm -16 (no longer called), mul +8 (not called before)",
        ),
        (
            dict.fromkeys("abcde", (1, 5)),
            {name: (1, count) for name, count in zip("abcde", (1, 2, 3, 4, 6), strict=True)},
            "a -4, b -3, c -2, d -1, and 1 more operators",
        ),
    ],
)
def test_operators_that_moved(
    before: dict[str, tuple[int, float]], after: dict[str, tuple[int, float]], expected: str
) -> None:
    """Layers are matched by their paths in either report; operators of other layers are not looked at."""
    mine = {(SIDES[0], name): value for name, value in before.items()} | {("other", "exp"): (1, 9)}
    theirs = {(SIDES[1], name): value for name, value in after.items()}
    assert compare_operators(mine, theirs, SIDES) == expected


def test_the_operators_of_a_report() -> None:
    """A layer of 4 x 8 for one sample: 32 MACs in one call."""
    from profilerkit import profile

    report = profile(Sequential(dense(4, 8)), input_shape=(4,), metrics=["macs"])
    sums = sum_operators(report, "macs")
    assert [value for value in sums.values() if value[1]] == [(1, 32)]
    assert {layer for layer, _ in sums} <= {row["path"] for row in report.layers or ()}
