"""Checks of ``make gpu``: functions that say what is wrong on a device, each one line of the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

#: Returns what is wrong on a device, or an empty text; the first line of its docstring is the name of the check.
Check = Callable[[str], str]


def check_result(step: str, name: str, is_so: bool, note: object = "") -> Result:
    """Return the line of what must be so."""
    return Result(step, name, "check", float(is_so), 1.0, "it must be so", "", 0.0, str(note)[:600])


def error_result(step: str, name: str, metric: str, error: Exception) -> Result:
    """Print what went wrong with one network, and return its line: it is not to cost the others."""
    note = f"{type(error).__name__}: {error}"
    print(f"{name}: {note}", flush=True)
    return Result(step, name, metric, 0.0, 1.0, "no error", "", 0.0, note[:500])


def run_checks(
    step: str, where: Where, anywhere: Sequence[Check], on_gpu: Sequence[Check]
) -> Iterator[Result | Skipped]:
    """Run checks one after the other, and yield the line of each; on a CPU those for a GPU are left out."""
    for check in (*anywhere, *on_gpu):
        name, began = (check.__doc__ or "").strip().rstrip("."), time.monotonic()
        if check in on_gpu and where.is_small:
            yield Skipped(step, name, "only a GPU has that")
            continue
        try:
            wrong = check(where.device)
        except Exception as error:  # one check is not to cost the others
            wrong = f"{type(error).__name__}: {error}"
        print(f"{name}: {wrong or 'yes'} ({time.monotonic() - began:.1f} s)", flush=True)
        yield check_result(step, name, not wrong, wrong)
