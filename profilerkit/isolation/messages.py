"""The messages of a child, checked strictly, because it runs the user's code."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import msgspec

from .. import errors
from ..errors import FailureCode, ModelFailedError, ProfilerKitWarning
from ..job import NoModelError
from ..process.user_lines import find_stack_level
from ..results.report import Report
from ..results.saving import parse, require_sealed
from ..times.sampling import Sampling
from .channel import ChannelError

__all__ = ["Plan", "Progress"]

#: The name of a report in errors.
_SOURCE = "what the process sent"
#: Errors that keep their type beside those of `profilerkit.errors`.
_OTHER_ERRORS: dict[str, type[Exception]] = {
    "NoModelError": NoModelError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}
_Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=20_000)]
_Names: TypeAlias = Annotated[list[_Text], msgspec.Meta(max_length=10_000)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]


class _Error(msgspec.Struct):
    type: _Text
    text: _Text
    failure: FailureCode = FailureCode.MODEL


class _Warning(msgspec.Struct):
    type: _Text
    text: _Text


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    """The part of `Sampling` that a child tells the caller, who decides how many samples there are."""

    num_iters: int | None
    warmup: int | None
    relative_precision: float
    max_seconds: float
    min_samples: int
    confidence: float

    def read(self) -> Sampling:
        """Return it as `Sampling`; raises `ChannelError` for a value that no plan has."""
        try:
            return Sampling(**msgspec.structs.asdict(self))
        except (TypeError, ValueError) as error:
            raise ChannelError(f"a plan for sampling: {error}") from error


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    """All that a child may say; each message says some of it. After turn, ready and sample it waits for an answer."""

    pid: Annotated[int, msgspec.Meta(gt=0)] | None = None
    stage: _Text | None = None
    pending: _Names | None = None
    doing: _Names | None = None
    turn: _Text | None = None
    ready: Plan | None = None
    sample: _Seconds | None = None
    done: bool | None = None
    error: _Error | None = None
    warning: _Warning | None = None
    report: msgspec.Raw = msgspec.Raw()


@dataclass
class Progress:
    """The progress of a job, as its process reported it. Data that is no message of a process raises `ChannelError`.

    Attributes:
        report: The report so far, with a record for each metric; see `read_report`.
        pending: The metrics that have no result yet.
        doing: The pending metrics that are being computed.
        pid: The number of the process, which is in its first message, before any code of the user's runs.
        stage: The work of the process before it computes anything.
        waiting: Whether it waits for the caller's answer; `answer` forgets what it waits for.
        turn: The function that runs the model next, if it waits for that.
        ready: The plan of a measurement, if it waits to be asked for the first sample.
        sample: The seconds of the last sample, if it waits to be asked for the next one.
        error: The error that it ended with, if it did; ``failure`` is the code of this error.
        done: Whether it has sent everything.
        quiet: Whether its warnings are not issued here; they are kept in ``warned`` in any case.
    """

    report: Report | None = None
    pending: list[str] = field(default_factory=list)
    doing: list[str] = field(default_factory=list)
    pid: int | None = None
    stage: str = "starting its process"
    waiting: bool = False
    turn: str | None = None
    ready: Sampling | None = None
    sample: float | None = None
    error: Exception | None = None
    failure: FailureCode = FailureCode.MODEL
    done: bool = False
    quiet: bool = False
    warned: list[str] = field(default_factory=list)
    _unread: bytes | None = None

    def take(self, line: bytes) -> None:
        """Process a message."""
        try:
            message = msgspec.json.decode(line, type=_Message)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ChannelError(f"a message is none of profilerkit: {error}") from error
        for name in ("stage", "pending", "doing", "turn", "sample", "done"):
            if (value := getattr(message, name)) is not None:
                setattr(self, name, value)
                self.waiting |= name in ("turn", "sample")
        self.pid = self.pid or message.pid
        if message.ready is not None:
            self.ready, self.waiting = message.ready.read(), True
        if message.error is not None:
            self.error, self.failure = _rebuild_error(message.error), message.error.failure
        if message.warning is not None:
            self._warn(message.warning)
        if bytes(message.report):
            self._take_report(bytes(message.report))

    def answer(self) -> None:
        """Note that the process gets the answer that it waits for."""
        self.waiting, self.turn, self.ready, self.sample = False, None, None, None

    def _take_report(self, content: bytes) -> None:
        try:
            require_sealed(content, _SOURCE)
        except errors.ReportFileError as error:
            raise ChannelError(str(error)) from error
        self._unread = content

    def read_report(self) -> None:
        """Read the latest report that was sent; it has all values of earlier reports."""
        if self._unread is None:
            return
        content, self._unread = self._unread, None
        try:
            report = parse(content, _SOURCE)
        except errors.ReportFileError as error:
            raise ChannelError(str(error)) from error
        if not isinstance(report, Report):
            raise ChannelError("what the process sent holds a comparison")
        self.report = report

    def _warn(self, warning: _Warning) -> None:
        """Issue a warning of the child's here, of the same type if it is known."""
        self.warned.append(warning.text)
        kind = _find_kind(warning.type)
        if kind is None or not issubclass(kind, ProfilerKitWarning):
            kind = ProfilerKitWarning
        if not self.quiet:
            warnings.warn(warning.text, kind, stacklevel=find_stack_level())


def _find_kind(name: str) -> type[Exception] | None:
    """Return the error or warning of that name; None for a name that is none of ours: the child may send any text."""
    kind = getattr(errors, name, None) if name in errors.__all__ else _OTHER_ERRORS.get(name)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None


def _rebuild_error(error: _Error) -> Exception:
    """Return the error in a child's message: of the same type if it is known here, else a `ModelFailedError`.

    It has the text alone, and not the attributes that a type may add to it.
    """
    kind = _find_kind(error.type)
    if kind is None or issubclass(kind, Warning):
        return ModelFailedError(f"{error.type}: {error.text}" if error.text else error.type)
    return kind.__new__(kind, error.text)
