"""How often loops run whose counters wrap or round: as often as TensorFlow runs them, for every dtype."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from slow_ones import slow_ones

from profilerkit import profile

_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "!=": operator.ne}

#: dtype, start, comparison, limit, step, and the rounds by hand; 0 for those that are only compared with a run.
LOOPS: dict[str, tuple[str, float, str, float, float, int]] = {
    # 100, 200, 44, 144, 244, 88, 188, 32, 132, 232, 76, 176, 20, 120, 220, 64, 164, 8, 108, 208, 52, 152, 252
    "uint8 wraps": ("uint8", 0, "<", 250, 100, 23),
    "uint8 does not wrap": ("uint8", 0, "<", 250, 50, 5),
    "int8 wraps": ("int8", 0, "<", 120, 100, 0),  # 100, -56, 44, -112 ...
    "uint16": ("uint16", 0, "<", 65000, 40000, 0),
    "int16": ("int16", 0, "<=", 32000, 30000, 0),
    "int32 wraps down": ("int32", -(2**31), "<", 0, -(2**30), 1),  # -2**31 - 2**30 is 2**30
    "uint32 wraps": ("uint32", 0, "<", 2**32 - 2**20, 2**31 + 2**20, 2047),
    "int64 beyond floats": ("int64", 2**53, "!=", 2**53 + 3, 1, 3),
    "uint64": ("uint64", 2**63, "<", 2**63 + 4, 2, 2),
    "uint8 counts down through 0": ("uint8", 10, "<", 20, 255, 11),  # 255 is -1: 10 to 0, then 255
    "not equal, past the end": ("uint8", 250, "!=", 4, 2, 5),  # 250, 252, 254, 0, 2
    "not equal, met": ("int32", 0, "!=", 6, 2, 3),
    "greater": ("int32", 10, ">", 0, -3, 4),
    "greater or equal": ("int32", 9, ">=", 0, -3, 4),
    "less or equal": ("int64", 0, "<=", 6, 2, 4),
    "never true": ("int32", 5, "<", 5, 1, 0),
    "float32": ("float32", 0, "<", 1, 0.1, 10),
    "float16": ("float16", 0, "<", 3, 0.3, 0),
    "bfloat16": ("bfloat16", 0, "<=", 2, 0.1, 0),
    "float64": ("float64", 0, "<", 0.3, 0.1, 3),  # 0.1 + 0.1 + 0.1 is a little more than 0.3
}


def _loop(dtype: str, start: float, comparison: str, limit: float, step: float) -> Callable[[Any], Any]:
    begin, end, added = (tf.constant(number, dtype) for number in (start, limit, step))

    def function(x: Any) -> Any:
        return tf.while_loop(
            lambda i, rounds, y: _COMPARISONS[comparison](i, end),
            lambda i, rounds, y: (i + added, rounds + 1, y @ tf.eye(4)),
            (begin, tf.constant(0), x),
        )

    return function


@pytest.mark.parametrize(
    "name", slow_ones(LOOPS, ["int16", "uint16", "uint64", "not equal, met", "greater", "bfloat16", "float16"])
)
def test_a_counter_has_the_arithmetic_of_its_dtype(name: str) -> None:
    dtype, start, comparison, limit, step, expected = LOOPS[name]
    function = tf.function(_loop(dtype, start, comparison, limit, step))
    x = tf.ones((1, 4))
    made = int(function(x)[1])  # TensorFlow's own run
    report = profile(function, x, metrics="macs")
    assert report["macs"] == made * 16
    assert report.status("macs").completeness.value == "complete"
    if expected:
        assert made == expected


def test_where_a_counter_ends_decides_the_next_loop() -> None:
    """A uint8 that ends at 252 after 23 rounds, and a second loop from there to 255: 3 rounds."""

    @tf.function  # type: ignore[untyped-decorator]
    def function(x: Any) -> Any:
        i = tf.constant(0, tf.uint8)
        i, x = tf.while_loop(lambda i, x: i < 250, lambda i, x: (i + 100, x @ tf.eye(4)), (i, x))
        return tf.while_loop(lambda i, x: i < 255, lambda i, x: (i + 1, x @ tf.eye(4)), (i, x))

    assert profile(function, tf.ones((1, 4)), metrics="macs")["macs"] == (23 + 3) * 16


def test_a_loop_without_an_end_is_not_complete() -> None:
    """A uint8 counts 0, 2, ... 254, 0 and never meets 1; nothing is run to find out."""

    @tf.function  # type: ignore[untyped-decorator]
    def function(x: Any) -> Any:
        i = tf.constant(0, tf.uint8)
        return tf.while_loop(lambda i, x: i != 1, lambda i, x: (i + 2, x @ tf.eye(4)), (i, x))

    report = profile(function, tf.ones((1, 4)), metrics="macs")
    assert report.status("macs").completeness.value != "complete"
