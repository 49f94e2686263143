"""The reason why a process ended early: its code for programs, and its words for people."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import NamedTuple

from ..count_text import list_some
from ..errors import FailureCode
from .limits import Limits, format_bytes
from .supervisor import Ending

__all__ = ["Fate", "Reason", "find_reason"]

_SIGNALS = {
    "SIGSEGV": "segmentation fault",
    "SIGBUS": "bus error",
    "SIGABRT": "abort",
    "SIGFPE": "floating-point exception",
    "SIGILL": "illegal instruction",
}
#: How many of the last lines of the process's standard error a reason quotes, and their most characters together.
_LINES, _LENGTH = 3, 400
#: The last characters of its standard error in which a process may say that it is out of memory.
_RECENT = 4000
#: How many of the metrics that were being computed are named.
_NAMED = 4
#: What faulthandler writes above the frames of a thread, the innermost first.
_STACK = re.compile(r"most recent call first\):\n((?:  File .*\n?)+)")
#: What faulthandler writes first.
_FAULTHANDLER = re.compile(
    r"^(?:Fatal Python error: |Current thread |Thread 0x|Stack \(most recent)", flags=re.MULTILINE
)
_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+) in (?P<name>\S+)')
_NOT_THE_MODEL = re.compile(r"[\\/](profilerkit[\\/]|profilerkit_\w+[\\/]|site-packages[\\/]|lib[\\/]python3)")
_OUT_OF_MEMORY = re.compile(r"MemoryError|bad_alloc|allocat|out of memory|cannot create.*map|\bOOM\b", re.IGNORECASE)
#: Lines of a stack, which hold names of files and code: ``modeling_bloom.py``, ``allocator.py``.
_STACK_LINE = re.compile(r"\s+File |    |Extension modules: ")


@dataclass(frozen=True)
class Fate:
    """The known facts about a process that ended early.

    ``code`` is TIMEOUT if the caller's time limit was reached, CHANNEL if the descriptor of the results was closed or
    written to (``detail`` says how), LOST if the supervisor itself was killed, and None otherwise.
    """

    ending: Ending | None
    limits: Limits
    code: FailureCode | None = None
    detail: str = ""
    stage: str = ""
    doing: tuple[str, ...] = ()
    stderr: str = ""


class Reason(NamedTuple):
    """Why there is no value: a code, a clause ("the process ended while starting"), and what the process wrote last."""

    code: FailureCode
    clause: str
    last_lines: str = ""

    def __str__(self) -> str:
        return f"{self.clause}; its standard error ends with: {self.last_lines}" if self.last_lines else self.clause


def find_reason(fate: Fate) -> Reason:
    """Return why a process ended, with the metric that was computed, and the place in the code where that is known."""
    clause = f"{_describe_cause(fate)} while {_describe_work(fate)}"
    where = _find_location(fate.stderr)
    if where:
        clause += f", in {where}"
    return Reason(_find_code(fate), clause, _quote_last_lines(fate.stderr))


def _find_code(fate: Fate) -> FailureCode:
    """Return the cause as a code, in the order of `_describe_cause`; a process refused memory is of MEMORY too."""
    ending = fate.ending or Ending()
    if fate.code is not FailureCode.TIMEOUT and ending.why in ("memory", "threads"):
        return FailureCode(ending.why)
    if fate.code is not None:
        return fate.code
    if _ran_out_of_memory(fate):
        return FailureCode.MEMORY
    return FailureCode.EXIT if ending.signal is None else FailureCode.SIGNAL


def _ran_out_of_memory(fate: Fate) -> bool:
    """Return whether a process that ended by itself says on its standard error that it was refused memory."""
    lines = [line for line in fate.stderr[-_RECENT:].splitlines() if not _STACK_LINE.match(line)]
    return fate.limits.memory is not None and any(map(_OUT_OF_MEMORY.search, lines))


def _describe_work(fate: Fate) -> str:
    """Return what the process did: some of the metrics that it computed, or its stage before any."""
    return f"computing {list_some(fate.doing, _NAMED)}" if fate.doing else fate.stage or "starting"


def _describe_cause(fate: Fate) -> str:
    """Return what ended the process: a limit of the caller or the supervisor, a broken channel, or the model itself."""
    ending, limits = fate.ending or Ending(), fate.limits
    if fate.code is FailureCode.TIMEOUT:
        return f"the process was ended at its time limit of {limits.timeout:g} s"
    if ending.why == "memory":
        return _describe_memory(ending, limits)
    if ending.why == "threads":
        seen = f", having {ending.threads:,}," if ending.threads else ""
        return f"the process was ended at its limit of {limits.max_threads:,} threads{seen}"
    if fate.code is FailureCode.CHANNEL:
        return f"the model closed the descriptor that results go through, or wrote to it ({fate.detail}),"
    if fate.code is FailureCode.LOST:
        return "the process that watches over the model was killed"
    return _describe_own_end(fate, ending)


def _describe_memory(ending: Ending, limits: Limits) -> str:
    limit = limits.memory or 0
    over = max(ending.peak_bytes - limit, 0)
    seen = f"holding {format_bytes(ending.peak_bytes)} ({format_bytes(over)} over it)"
    return f"the process was ended at its memory limit of {format_bytes(limit)}, {seen},"


def _describe_own_end(fate: Fate, ending: Ending) -> str:
    """Return how a process ended that nobody here has ended."""
    if ending.signal is not None:
        name = _name_signal(ending.signal)
        more = f" ({_SIGNALS[name]})" if name in _SIGNALS else ""
        if name == "SIGKILL":
            more = ", which was not sent from here: most often the system does that where memory runs out,"
        sentence = f"the process was ended by {name}{more}"
    elif ending.code is not None:
        sentence = f"the process left by itself with exit code {ending.code}"
    else:
        sentence = "the process ended"
    if _ran_out_of_memory(fate):
        return f"{sentence}, out of memory under its limit of {format_bytes(fate.limits.memory or 0)},"
    return sentence


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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
