"""Why a separate process ended early, as a code and in words."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import NamedTuple

from ..count_text import list_some
from ..errors import FailureCode
from ..piping.quantity import format_bytes
from .limits import Limits
from .supervisor import Ending

__all__ = ["Cause", "Reason", "find_reason"]

_SIGNALS = {
    "SIGSEGV": "segmentation fault",
    "SIGBUS": "bus error",
    "SIGABRT": "abort",
    "SIGFPE": "floating-point exception",
    "SIGILL": "illegal instruction",
}
#: How many of the metrics that were being computed are named.
_NAMED = 4


class Cause(NamedTuple):
    """Why the caller has ended a process, or could not wait for its end.

    Attributes:
        code: TIMEOUT if the time limit was reached, CHANNEL if the model wrote to the descriptor of the results, LOST
            if the supervisor itself was killed.
        detail: What was written.
    """

    code: FailureCode
    detail: str = ""


class Reason(NamedTuple):
    """Why there is no value: a code, a clause ("the process ended while starting"), and the process's last lines."""

    code: FailureCode
    clause: str
    last_lines: str = ""

    def __str__(self) -> str:
        return f"{self.clause}; its standard error ends with: {self.last_lines}" if self.last_lines else self.clause


def find_reason(
    ending: Ending | None,
    limits: Limits,
    *,
    cause: Cause | None = None,
    stage: str = "",
    doing: Sequence[str] = (),
    stderr: str = "",
) -> Reason:
    """Return why a process ended early, with its last work, and the place in the code if it is known.

    Args:
        ending: How it ended; None if its supervisor could not say.
        limits: Its limits.
        cause: Why the caller has ended it; None if the caller has not.
        stage: Its work before it computed anything.
        doing: The metrics that it was computing.
        stderr: Its output on standard error.
    """
    ending = ending or Ending()
    failure, end = _describe_end(ending, limits, cause)
    work = f"computing {list_some(doing, _NAMED)}" if doing else stage or "starting"
    where = _find_location(stderr)
    clause = f"{end} while {work}{f', in {where}' if where else ''}"
    return Reason(failure, clause, _quote_last_lines(stderr))


def _describe_end(ending: Ending, limits: Limits, cause: Cause | None) -> tuple[FailureCode, str]:
    """Return why and how a process ended, as a code and in words.

    The reason is a limit of the caller or of the supervisor, a broken channel, or the model itself.
    """
    code, detail = (None, "") if cause is None else cause
    if code is FailureCode.TIMEOUT:
        return code, f"the process was ended at its time limit of {limits.timeout:g} s"
    if ending.why == "memory":
        return FailureCode.MEMORY, _describe_memory(ending, limits)
    if ending.why == "threads":
        seen = f", having {ending.threads:,}," if ending.threads else ""
        return FailureCode.THREADS, f"the process was ended at its limit of {limits.max_threads:,} threads{seen}"
    if code is FailureCode.CHANNEL:
        return code, f"the model wrote to the descriptor that results go through ({detail}),"
    if code is FailureCode.LOST:
        return code, "the process that watches over the model was killed"
    return FailureCode.EXIT if ending.signal is None else FailureCode.SIGNAL, _describe_own_end(ending)


def _describe_memory(ending: Ending, limits: Limits) -> str:
    limit = limits.memory or 0
    over = max(ending.peak_bytes - limit, 0)
    seen = f"holding {format_bytes(ending.peak_bytes)} ({format_bytes(over)} over it)"
    return f"the process was ended at its memory limit of {format_bytes(limit)}, {seen},"


def _describe_own_end(ending: Ending) -> str:
    """Return how a process ended that nobody here has ended."""
    if ending.signal is None:
        return (
            "the process ended" if ending.code is None else f"the process left by itself with exit code {ending.code}"
        )
    name = _name_signal(ending.signal)
    if name == "SIGKILL":
        more = ", which was not sent from here: most often the system does that where memory runs out,"
    else:
        more = f" ({_SIGNALS[name]})" if name in _SIGNALS else ""
    return f"the process was ended by {name}{more}"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# The standard error of the process ------------------------------------------------------------------------------------


#: How many of the last lines of the process's standard error a reason quotes, and their most characters together.
_LINES, _LENGTH = 3, 400
#: The line of faulthandler above the frames of a thread, and these frames, the innermost first.
_STACK = re.compile(r"most recent call first\):\n((?:  File .*\n?)+)")
#: The beginning of the output of faulthandler.
_FAULTHANDLER = re.compile(
    r"^(?:Fatal Python error: |Current thread |Thread 0x|Stack \(most recent)", flags=re.MULTILINE
)
_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+) in (?P<name>\S+)')
_NOT_THE_MODEL = re.compile(r"[\\/](profilerkit[\\/]|profilerkit_\w+[\\/]|site-packages[\\/]|lib[\\/]python3)")


def _find_location(stderr: str) -> str:
    """Return the innermost place in the code that faulthandler wrote last: in the user's own code, if it has any."""
    stacks = _STACK.findall(stderr)
    frames = list(_FRAME.finditer(stacks[-1])) if stacks else []
    if not frames:
        return ""
    model_frames = [frame for frame in frames if not _NOT_THE_MODEL.search(frame["file"])]
    innermost = (model_frames or frames)[0]
    return f"{innermost['name']} ({innermost['file']}:{innermost['line']})"


def _quote_last_lines(stderr: str) -> str:
    """Return the last lines that the process wrote before faulthandler wrote its own."""
    written = _FAULTHANDLER.split(stderr, maxsplit=1)[0]
    lines = [line.strip() for line in written.splitlines() if line.strip()][-_LINES:]
    text = " | ".join(lines)
    return text if len(text) <= _LENGTH else f"...{text[-_LENGTH:]}"
