"""The output of commands: the result on standard output, errors and warnings on standard error, and exit codes."""

from __future__ import annotations

import errno
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO

import click

from ..errors import ProfilerKitWarning
from ..foreign_text import on_terminal
from ..process.clean_output import discard, results, wants_color
from ..process.encoding import encodable

__all__ = ["INTERRUPTED", "MODEL_FAILED", "NOT_KEPT", "USAGE", "emit", "fail", "print_warnings_in_a_line", "say"]

#: Exit codes beside 0 (fine). The last is the code in shells for a program that was stopped with Ctrl-C.
NOT_KEPT, USAGE, MODEL_FAILED, INTERRUPTED = 1, 2, 3, 130


def emit(text: str = "", bold: bool = False, colored: bool = False) -> None:
    """Print a line, or several, of the result on standard output; only ``colored`` text has colors of its own."""
    stream = results()
    if stream is None:
        fail("standard output is closed, so the result cannot be printed; write it to a file, or use --quiet", USAGE)
    try:
        shown = encodable(on_terminal(text, colored), stream.encoding)
        click.echo(click.style(shown, bold=True) if bold else shown, file=stream, color=wants_color())
    except OSError as error:
        if error.errno == errno.EPIPE:  # who read the results has gone: `profilerkit list | head`
            discard(stream)
            sys.exit(0)
        fail(f"cannot write to standard output: {error.strerror or error}", USAGE, error)


def say(text: str) -> None:
    """Print one or several lines on standard error: an error, or progress."""
    click.echo(on_terminal(text), err=True)


def show_traceback(error: BaseException) -> None:
    """Print the traceback of an error on standard error if ``--traceback`` is given, and a command runs."""
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().params.get("traced"):
        say("".join(traceback.format_exception(error)).rstrip())


def fail(message: str, code: int, error: BaseException | None = None) -> NoReturn:
    """Print an error on standard error, with its traceback if ``--traceback`` is given, and leave with an exit code."""
    if error is not None:
        show_traceback(error)
    say(f"Error: {message}")
    sys.exit(code)


@contextmanager
def print_warnings_in_a_line() -> Iterator[None]:
    """Print our own warnings without a line of code: they are about a plugin or an argument."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, ProfilerKitWarning):
                say(f"Warning: {message}")
            else:
                others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
