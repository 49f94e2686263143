"""Standard output for results alone: the output of models, builders and plugins goes to standard error.

The file descriptor is redirected, so the output of C and C++ libraries and of subprocesses is redirected too. Only the
command line does this: `profilerkit.profile` leaves the caller's output unchanged.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, TextIO

from .progress import is_terminal

__all__ = ["discard", "results", "results_alone", "standard_descriptors", "terminal_columns", "wants_color"]


class _Separation(NamedTuple):
    """Results apart from all other output, which goes to standard error.

    Attributes:
        results: The stream for results; None if standard output is closed.
        columns: The width of its terminal; None if it is none.
    """

    results: TextIO | None
    columns: int | None


#: The separation inside of `results_alone`; otherwise there is none. A list, since a block around it changes it.
_separations: list[_Separation] = []


def results() -> TextIO | None:
    """Return the stream for results; None if standard output is closed."""
    return _separations[-1].results if _separations else sys.stdout


def terminal_columns(default: int) -> int:
    """Return the width of the terminal that shows the results; ``default`` if they do not go to a terminal."""
    if "COLUMNS" not in os.environ and _separations:
        return _separations[-1].columns or default
    return shutil.get_terminal_size((default, 24)).columns


def wants_color() -> bool:
    """Return whether results go to a terminal that shows colors: not to a pipe, and not if ``NO_COLOR`` is set.

    See https://no-color.org. A terminal that calls itself "dumb" shows none either.
    """
    return is_terminal(results()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def results_alone(for_good: bool = False) -> Iterator[None]:
    """Redirect standard output to standard error inside the block; only the stream of `results` keeps its target.

    With ``for_good`` the redirection stays after the block: for a process that is about to end, whose threads and exit
    handlers may still print.
    """
    if _separations:
        yield
        return
    stdout, stderr = sys.stdout, sys.stderr
    stream, saved = stdout, None  # a stand-in for standard output stays where results go
    if stdout is None or _find_descriptor(stdout) == 1:
        saved = _redirect_descriptor()
        stream = None if saved is None else _open_stream(saved, stdout)
    _separations.append(_Separation(stream, _count_columns(saved)))
    if stderr is not None:
        sys.stdout = stderr
    try:
        yield
    finally:
        if not for_good:
            sys.stdout = stdout
            _separations.clear()
            if saved is not None:
                _restore_descriptor(stdout, stream, saved)


def _find_descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):  # a stand-in, as test runners and notebooks have
        return None


def _redirect_descriptor() -> int | None:
    """Redirect descriptor 1 to the target of 2; return a duplicate of the old descriptor 1, None if it was closed."""
    if sys.stdout is not None:
        sys.stdout.flush()
    _open_standard_descriptors()
    saved = os.dup(1) if sys.stdout is not None else None
    os.dup2(2, 1)
    return saved


def _open_standard_descriptors() -> list[int]:
    """Open the null device for standard descriptors that are closed; a file opened later would get their number."""
    opened: list[int] = []
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
        opened.append(descriptor)
    os.close(descriptor)
    return opened


@contextmanager
def standard_descriptors() -> Iterator[None]:
    """Have the descriptors 0 to 2 open in the block, so that no file that is opened there is taken for one of them."""
    opened = _open_standard_descriptors()
    try:
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)


def discard(stream: TextIO) -> None:
    """Discard the rest in the buffer of a stream, whose reader has gone."""
    os.dup2(os.open(os.devnull, os.O_RDWR), stream.fileno())


def _open_stream(descriptor: int, like: TextIO) -> TextIO:
    # With ``for_good`` nobody closes it, of which Python would warn if it owned the descriptor.
    return os.fdopen(descriptor, "w", encoding=like.encoding, errors=like.errors, closefd=False)


def _count_columns(saved: int | None) -> int | None:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(saved).columns if saved is not None else None
    return None


def _restore_descriptor(stdout: TextIO, stream: TextIO, saved: int) -> None:
    """Give descriptor 1 its old target, after the text printed meanwhile has left all buffers for descriptor 2."""
    with suppress(OSError, ValueError):  # output through another reference to the stream
        stdout.flush()
    with suppress(Exception):  # the buffer of the C library; not every system offers it this way
        ctypes.CDLL(None).fflush(None)
    os.dup2(saved, 1)
    with suppress(OSError):  # the reader has closed the pipe
        stream.close()
    os.close(saved)
