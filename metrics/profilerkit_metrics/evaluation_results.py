"""What an evaluation function returned, as the values of metrics: a number, or the entries of a dict of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from profilerkit import Failure, InputError, Measurement, Noted, Partial, Unavailable
from profilerkit.error_text import shown
from profilerkit.piping.outcome import is_number

__all__ = ["read_entry", "read_main"]


def read_main(returned: Any, key: str | None) -> Any:
    """Return the main metric: what the function returned; of a dict the entry of the key, or the only one.

    What cannot be read is a `Failure`.
    """
    if not isinstance(returned, Mapping):
        return _read_number(returned)
    if key is None and len(returned) == 1:
        return _read_number(*returned.values())
    return read_entry(returned, key)


def read_entry(returned: Any, key: str | None) -> Any:
    """Return an entry of a dict; a `Failure` if there is no dict, or no such entry."""
    if not isinstance(returned, Mapping):
        return Failure(
            TypeError(f"the evaluation function returned {shown(returned)}, no dict with the secondary metric {key!r}")
        )
    if key in returned:
        return _read_number(returned[key])
    entries = f"a dict with {', '.join(map(repr, returned))}" if returned else "an empty dict"
    wrong = "" if key is None else f", and none of them is {key!r}"
    return Failure(
        InputError(
            f"the evaluation function returned {entries}{wrong}; say which entry is the metric with "
            "ComputeEvalMetric(..., key=...)"
        )
    )


def _read_number(value: Any) -> Any:
    """Return a plain number for a tensor or array of one element; a `Failure` if it is no finite number."""
    if isinstance(value, (Measurement, Partial, Noted, Unavailable, Failure)):
        return value
    is_array = hasattr(value, "item") and getattr(value, "size", None) is not None
    plain = _read_element(value) if is_array else value
    if is_number(plain) and math.isfinite(float(plain)):
        return plain
    return Failure(
        InputError(
            f"the evaluation function returned {shown(value)}, which is no finite number; return one number, or a dict "
            "of numbers by name"
        )
    )


def _read_element(array: Any) -> Any:
    """Return the element of an array or tensor; None if it has several or none."""
    try:
        return array.item()
    except (TypeError, ValueError, RuntimeError):
        return None
