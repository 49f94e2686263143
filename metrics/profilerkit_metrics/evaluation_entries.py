"""What an evaluation function returned: one number, or a dict with an entry for each metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from profilerkit import Failure, InputError, Measurement, Noted, Partial, Unavailable
from profilerkit.error_text import shown
from profilerkit.piping.outcome import is_number

__all__ = ["read_or_fail"]


def read_or_fail(returned: Any, key: str | None, *, is_secondary: bool = False) -> Any:
    """Return the entry of a key, and without a key the only one; a `Failure`, as other entries may be fine."""
    try:
        return _read_entry(returned, key, is_secondary)
    except (InputError, TypeError) as error:
        return Failure(error)


def _read_entry(returned: Any, key: str | None, is_secondary: bool) -> Any:
    if not isinstance(returned, Mapping):
        if is_secondary:
            raise TypeError(
                f"the evaluation function returned {shown(returned)}, no dict with the secondary metric {key!r}"
            )
        return _read_number(returned)
    if key is None and len(returned) == 1:
        return _read_number(*returned.values())
    if key in returned:
        return _read_number(returned[key])
    entries = f"a dict with {', '.join(map(repr, returned))}" if returned else "an empty dict"
    wrong = "" if key is None else f", and none of them is {key!r}"
    raise InputError(
        f"the evaluation function returned {entries}{wrong}; say which entry is the metric with "
        "ComputeEvalMetric(..., key=...)"
    )


def _read_number(value: Any) -> Any:
    """Return a plain number for a tensor or array of one element; raises `InputError` for what is no finite number."""
    if isinstance(value, (Measurement, Partial, Noted, Unavailable, Failure)):
        return value
    is_array = hasattr(value, "item") and getattr(value, "size", None) is not None
    plain = _read_element(value) if is_array else value
    if is_number(plain) and math.isfinite(float(plain)):
        return plain
    raise InputError(
        f"the evaluation function returned {shown(value)}, which is no finite number; return one number, or a dict of "
        "numbers by name"
    )


def _read_element(array: Any) -> Any:
    """Return the element of an array or tensor; None if it has several or none."""
    try:
        return array.item()
    except (TypeError, ValueError, RuntimeError):
        return None
