"""The messages of a child, checked strictly, because the child runs the user's code."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import errors
from ..errors import FailureCode, ModelFailedError, ProfilerKitWarning, UnknownStatusError
from ..results.report import Report
from ..results.saving import parse, require_sealed
from ..times.sampling import Sampling
from .channel import REPORT, ChannelError, decode
from .job import NoModelError
from .turns import read_plan

__all__ = ["Progress"]

#: What errors call a report.
_SOURCE = "what the process sent"
_MOST_TEXT, _MOST_NAMES = 20_000, 10_000
#: Errors that keep their type beside those of `profilerkit.errors`.
_OTHER_ERRORS: dict[str, type[Exception]] = {
    "NoModelError": NoModelError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}


@dataclass
class Progress:
    """The progress of a job, as its process reported it.

    ``report`` is what `read_report` has read, with a record for each metric. ``pending`` are the metrics
    that have no result yet, and ``doing`` those of them that are being computed. ``joint`` are the measurements that a
    process makes in turn with others. ``waiting`` says that it waits for its turn to compute ``turn``; with a plan in
    ``ready`` it waits for the request of a sample. The process's warnings are kept in ``warned``, and issued here too
    unless ``quiet``. Data that is no such message raises `ChannelError`.
    """

    report: Report | None = None
    pending: list[str] = field(default_factory=list)
    doing: list[str] = field(default_factory=list)
    stage: str = "starting its process"
    joint: list[str] = field(default_factory=list)
    turn: str | None = None
    waiting: bool = False
    ready: Sampling | None = None
    times_ready: int = 0
    sample: float | None = None
    error: Exception | None = None
    failure: FailureCode = FailureCode.MODEL
    done: bool = False
    quiet: bool = False
    warned: list[str] = field(default_factory=list)
    _content: bytes | None = None

    def take(self, kind: bytes, content: bytes) -> None:
        """Process a message."""
        if kind == REPORT:
            self._take_report(content)
            return
        for name, value in decode(content).items():
            take = _TAKES.get(name)
            if take is None:
                raise ChannelError(f"a message says {name!r:.40}")
            take(self, value)

    def _take_report(self, content: bytes) -> None:
        try:
            require_sealed(content, _SOURCE)
        except errors.ReportFileError as error:
            raise ChannelError(str(error)) from error
        self._content = content

    def read_report(self) -> None:
        """Read the latest report that was sent; each one has all that those before it have."""
        if self._content is None:
            return
        content, self._content = self._content, None
        try:
            report = parse(content, _SOURCE)
        except errors.ReportFileError as error:
            raise ChannelError(str(error)) from error
        if not isinstance(report, Report):
            raise ChannelError("what the process sent holds a comparison")
        self.report = report

    def _take_sample(self, value: Any) -> None:
        if type(value) not in (int, float) or not 0 <= value < 1e9:
            raise ChannelError(f"a sample is {value!r:.40}")
        self.sample = float(value)

    def _take_turn(self, value: Any) -> None:
        self.turn = None if value is None else _text(value)
        self.waiting, self.ready = True, None

    def _take_ready(self, value: Any) -> None:
        self.ready = read_plan(value)
        self.times_ready += 1

    def _take_error(self, value: Any) -> None:
        self.error = _rebuild_error(value)
        code = _text(value.get("failure", FailureCode.MODEL))
        if code not in set(FailureCode):
            raise ChannelError(f"the code of a failure is {code!r:.40}")
        self.failure = FailureCode(code)

    def _take_done(self, value: Any) -> None:
        self.done, self.doing = True, []


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ChannelError(f"a text is {value!r:.40}")
    return value[:_MOST_TEXT]


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > _MOST_NAMES:
        raise ChannelError(f"a list of names is {value!r:.40}")
    return [_text(item) for item in value]


def _require_mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ChannelError(f"a mapping is {value!r:.40}")
    return value


def _rebuild_error(value: Any) -> Exception:
    """Return the error in a child's message: of the same type if it is known here, else a `ModelFailedError`."""
    message = _require_mapping(value)
    name, text = _text(message.get("type")), _text(message.get("text"))
    if name == "UnknownStatusError":
        return UnknownStatusError(
            _text(message.get("name")), _texts(message.get("known")), owner=_text(message.get("owner"))
        )
    kind = _OTHER_ERRORS.get(name) or (getattr(errors, name, None) if name in errors.__all__ else None)
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, Warning):
        return kind(text)
    return ModelFailedError(f"{name}: {text}" if text else name)


def _warn(progress: Progress, value: Any) -> None:
    message = _require_mapping(value)
    name, text = _text(message.get("type")), _text(message.get("text"))
    kind = getattr(errors, name, None) if name in errors.__all__ else None
    progress.warned.append(text)
    if progress.quiet:
        return
    is_warning = isinstance(kind, type) and issubclass(kind, ProfilerKitWarning)
    warnings.warn(text, kind if is_warning and kind is not None else ProfilerKitWarning, stacklevel=2)


_TAKES: dict[str, Callable[[Progress, Any], None]] = {
    "stage": lambda progress, value: setattr(progress, "stage", _text(value)),
    "pending": lambda progress, value: setattr(progress, "pending", _texts(value)),
    "doing": lambda progress, value: setattr(progress, "doing", _texts(value)),
    "plan": lambda progress, value: setattr(progress, "joint", _texts(value)),
    "error": Progress._take_error,
    "sample": Progress._take_sample,
    "turn": Progress._take_turn,
    "ready": Progress._take_ready,
    "warning": _warn,
    "done": Progress._take_done,
}
