"""Log lines of frameworks: the command leaves them out of standard error, also those of an import.

TensorFlow's libraries write some when they are loaded, before they read ``TF_CPP_MIN_LOG_LEVEL``. While ``tensorflow``
is imported, another process reads what is written to the file descriptor and passes on all else: also the last words of
a library that ends this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..process.import_hooks import AroundImport

__all__ = ["keep_frameworks_quiet", "without_log_lines"]

#: Settings by which frameworks keep their log lines to themselves, read when they are imported; a user's own stay.
_SETTINGS = {"TF_CPP_MIN_LOG_LEVEL": "3"}

#: Passes standard input on, without log lines of the levels INFO and WARNING and the notices about these lines.
FILTER = r"""
import re, sys
noise = re.compile(rb"[IW]\d{4} \d\d:\d\d:\d+|WARNING: All log messages before absl::InitializeLog")
for line in sys.stdin.buffer:
    if not noise.match(line):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
"""
#: The most seconds to wait for the last line: a process that the import has started may keep the pipe open.
PATIENCE = 2.0


def keep_frameworks_quiet() -> None:
    """Keep the log lines of frameworks out of standard error, unless the user has another setting for them."""
    if all(os.environ.get(name, level) == level for name, level in _SETTINGS.items()):
        sys.meta_path.insert(0, AroundImport(("tensorflow",), without_log_lines))
    for name, level in _SETTINGS.items():
        os.environ.setdefault(name, level)


@contextmanager
def without_log_lines() -> Iterator[None]:
    """Leave out log lines that are written to descriptor 2 in the block; all else is passed on, in its order."""
    import subprocess  # slow to import, and needed only where TensorFlow is imported

    reading, writing = os.pipe()
    saved = os.dup(2)
    passing: subprocess.Popen[bytes] | None = None
    with suppress(OSError):  # no further process is allowed: the lines are no harm
        passing = subprocess.Popen([sys.executable, "-I", "-S", "-c", FILTER], stdin=reading, stdout=saved)
    os.close(reading)
    if passing is not None:
        os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        with suppress(AttributeError, ValueError, OSError):
            sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
        if passing is not None:
            with suppress(subprocess.TimeoutExpired):
                passing.wait(PATIENCE)
