"""Expectations of a check: each function fails the running test with a message, or returns an error."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["catch_error", "expect", "expect_equal"]


def expect(condition: object, message: str) -> None:
    """Fail the test with a message if the condition is false."""
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(message)


def expect_equal(actual: object, expected: object, what: str) -> None:
    """Fail the test if the actual value differs from the expected one."""
    __tracebackhide__ = True
    expect(actual == expected, f"{what}: found {actual!r}, expected {expected!r}")


def catch_error(call: Callable[[], object]) -> Exception | None:
    """Return the exception that a call raises; None if it raises none."""
    try:
        call()
    except Exception as error:
        return error
    return None
