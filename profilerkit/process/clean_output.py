"""Standard output for results alone: what models, builders and plugins print meanwhile goes to standard error.

It is done for the file descriptor, so it holds for C and C++ libraries and for subprocesses too, not for ``print``
alone. Only the command line does it: `profilerkit.profile` leaves the caller's output where it is.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

__all__ = ["results", "results_alone", "terminal_columns"]


class _Streams:
    """Where results go while others print to standard error, and how wide the terminal there is."""

    results: TextIO | None = None
    columns: int | None = None
    separated: bool = False


_streams = _Streams()


def results() -> TextIO | None:
    """Return the stream for results; None where standard output is closed."""
    return _streams.results if _streams.separated else sys.stdout


def terminal_columns(otherwise: int) -> int:
    """Return the width of the terminal that results are shown in, a number where they go elsewhere."""
    if "COLUMNS" not in os.environ and _streams.separated:
        return _streams.columns or otherwise
    return shutil.get_terminal_size((otherwise, 24)).columns


@contextmanager
def results_alone(for_good: bool = False) -> Iterator[None]:
    """Send to standard error what is printed meanwhile, and let nothing but `results` lead to standard output.

    With ``for_good`` it stays so: for a process that is about to end, whose threads and exit handlers still print.
    """
    if _streams.separated:
        yield
        return
    stdout, stderr = sys.stdout, sys.stderr
    at_descriptor = _descriptor(stdout) == 1 or stdout is None
    saved = _moved() if at_descriptor else None
    _streams.results = _opened(saved, stdout) if at_descriptor else stdout
    _streams.columns = _columns(saved)
    _streams.separated = True
    if stderr is not None:
        sys.stdout = stderr
    try:
        yield
    finally:
        if not for_good:
            sys.stdout, _streams.separated = stdout, False
            _put_back(stdout, saved)
            _streams.results = None


def _descriptor(stream: TextIO | None) -> int | None:
    try:
        return stream.fileno() if stream is not None else None
    except (OSError, ValueError, AttributeError):  # a stand-in, as test runners and notebooks have
        return None


def _moved() -> int | None:
    """Have descriptor 1 lead where descriptor 2 does, and return one that leads where 1 did; None if it was closed."""
    if sys.stdout is not None:
        sys.stdout.flush()
    for standard in range(3):  # what is opened next takes the place of one that is closed
        try:
            os.fstat(standard)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, standard)
            if nowhere != standard:
                os.close(nowhere)
    saved = os.dup(1) if sys.stdout is not None else None
    os.dup2(2, 1)
    return saved


def _opened(saved: int | None, like: TextIO | None) -> TextIO | None:
    if saved is None or like is None:
        return None
    return os.fdopen(saved, "w", encoding=like.encoding, errors=like.errors)


def _columns(saved: int | None) -> int | None:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(saved).columns if saved is not None else None
    return None


def _put_back(stdout: TextIO | None, saved: int | None) -> None:
    if saved is None:
        return
    if stdout is not None:
        with suppress(OSError, ValueError):  # what was printed through another name of it
            stdout.flush()
    with suppress(Exception):  # what C code has printed and holds in a buffer; not everywhere is it found so
        ctypes.CDLL(None).fflush(None)
    os.dup2(saved, 1)
    if _streams.results is not None:
        with suppress(OSError):  # nobody reads any more
            _streams.results.close()
