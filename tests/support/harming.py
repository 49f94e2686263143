"""Calls that are broken off at every place, and what they leave behind: ``python harming.py torch static sigint 100``.

A subject (`harming_torch`, ...) has calls and a `look` at everything that must come back. Ways of breaking off:

- ``sigint``, ``several`` (three within a moment), ``main`` (`_thread.interrupt_main`), ``alarm`` (another signal's
  handler raises an error of its own) and ``async`` (another thread raises it in this one), at random moments;
- ``KeyboardInterrupt`` and ``MemoryError`` are raised where a line of ours is about to run, each in turn.
"""

from __future__ import annotations

import _thread
import ctypes
import gc
import importlib
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

__all__ = ["RANDOM_WAYS", "Found", "Subject", "broken_off_at_lines", "broken_off_at_random"]

ROOT = Path(__file__).parents[2]
_OURS = tuple(str(ROOT / folder) for folder in ("profilerkit/", "backends/", "metrics/"))


class Subject(Protocol):
    """A model of a backend."""

    #: By name what is called; it returns the numbers that must be right.
    calls: dict[str, Callable[[], Any]]

    def look(self) -> dict[str, Any]:
        """Return the facts of the model and of the process that must come back."""
        ...


@dataclass
class Found:
    """What came of calls that were broken off."""

    tried: int = 0
    finished: int = 0
    harm: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        return [*self.harm, *self.lost, *self.wrong]


class Refused(BaseException):
    """Raised by the handler of another signal."""


class _Count:
    """The user's handler, which counts its calls; it raises while the call runs."""

    def __init__(self) -> None:
        self.calls = 0
        self.raises = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.calls += 1
        if self.raises:
            raise Refused if number == signal.SIGALRM else KeyboardInterrupt


def made(name: str) -> Any:
    """Return a new subject of a backend: "torch", or "torch_large" for one with 150 modules."""
    backend, _, size = name.partition("_")
    return getattr(importlib.import_module(f"harming_{backend}"), f"made_{size}" if size else "made")()


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {str(before.get(name))[:120]} -> {str(after.get(name))[:120]}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


class _Broken:
    """One call after the other is broken off; a subject that was harmed is replaced."""

    def __init__(self, backend: str, call: str) -> None:
        self.backend, self.call = backend, call
        self.found = Found()
        self._renew()
        self.expected = self.subject.calls[call]()
        began = time.perf_counter()
        for _ in range(3):
            assert self.subject.calls[call]() == self.expected
        self.seconds = (time.perf_counter() - began) / 3
        self.before = self.subject.look()

    def _renew(self) -> None:
        self.subject: Subject = made(self.backend)
        self.before = self.subject.look()

    def judge(self, what: str, outcome: Any, error: BaseException | None) -> None:
        """Compare what there is with what there was."""
        self.found.tried += 1
        if error is None:
            self.found.finished += 1
            if outcome != self.expected:
                self.found.wrong.append(f"{what}: {outcome} for {self.expected}")
        place = _place(error)
        error = None
        differences = _differences(self.before, self.subject.look())
        if differences:
            self.found.harm.append(f"{what} ({place}): {'; '.join(differences[:4])}")
            self._renew()


def _place(error: BaseException | None) -> str:
    if error is None:
        return "finished"
    steps = [f"{Path(step.filename).name}:{step.lineno}" for step in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__} at {' '.join(steps[-3:])}"


# At random moments ----------------------------------------------------------------------------------------------------


def _send_sigint() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _send_several() -> None:
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.0003)


def _send_alarm() -> None:
    os.kill(os.getpid(), signal.SIGALRM)


def _raise_async() -> None:
    thread = ctypes.c_ulong(threading.main_thread().ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(KeyboardInterrupt))


RANDOM_WAYS: dict[str, Callable[[], None]] = {
    "sigint": _send_sigint,
    "several": _send_several,
    "main": _thread.interrupt_main,
    "alarm": _send_alarm,
    "async": _raise_async,
}


def broken_off_at_random(backend: str, call: str, way: str, times: int, seed: int = 0) -> Found:
    """Break a call off at random moments."""
    numbers = random.Random(seed)
    sys.setswitchinterval(0.00001)
    broken = _Broken(backend, call)
    found, count = broken.found, _Count()
    previous = [(number, signal.signal(number, count.handle)) for number in (signal.SIGINT, signal.SIGALRM)]
    broken.before = broken.subject.look()
    try:
        for index in range(times):
            count.calls, during, outcome, raised = 0, 0, None, None
            moment = numbers.uniform(0, 1.15 * broken.seconds)
            begun = threading.Event()
            sender = threading.Thread(target=_send_later, args=(begun, moment, way))
            sender.start()
            late = False
            try:
                count.raises = True
                begun.set()
                try:
                    outcome = broken.subject.calls[call]()
                    during = count.calls
                except (KeyboardInterrupt, Refused) as error:
                    raised = error
                count.raises = False
            except (KeyboardInterrupt, Refused):  # it came after the call
                count.raises, late = False, True
            late |= _settle(sender, count, way)
            what = f"{call} {way} {index}"
            if late and outcome is None:  # between the call and this
                outcome = broken.expected
            if raised is None and not late and during:
                found.lost.append(f"{what}: {during} of {count.calls} interrupts while it ran, and it finished")
            if way in ("sigint", "main", "alarm") and count.calls != 1:
                found.lost.append(f"{what}: the handler was called {count.calls} times for one signal")
            broken.judge(what, outcome, raised)
            raised = None
    finally:
        for number, handler in previous:
            signal.signal(number, handler)
    return found


def _settle(sender: threading.Thread, count: _Count, way: str) -> bool:
    """Wait until what was sent has come; return whether it was raised here."""
    deadline, is_raised = time.monotonic() + 20, False
    while True:
        try:
            sender.join()
            while way != "async" and not count.calls and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.005)
            return is_raised
        except KeyboardInterrupt:
            is_raised = True


def _send_later(begun: threading.Event, moment: float, way: str) -> None:
    begun.wait()
    time.sleep(moment)
    RANDOM_WAYS[way]()


# At each line ---------------------------------------------------------------------------------------------------------


class _AtLine:
    """Raises an error where a line is about to run for the n-th time; without one it only counts lines."""

    def __init__(self, place: tuple[str, str, int] | None = None, occurrence: int = 1, error: Any = None) -> None:
        self.place, self.occurrence, self.error = place, occurrence, error
        self.counts: dict[tuple[str, str, int], int] = {}
        self.is_done = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.is_done:
            return None
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            return None
        if self.place is not None and (code.co_filename, code.co_qualname) != self.place[:2]:
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "line" or self.is_done:
            return self._line
        place = frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno
        count = self.counts[place] = self.counts.get(place, 0) + 1
        if place == self.place and count == self.occurrence:
            self.is_done = True
            raise self.error
        return self._line


def _places(broken: _Broken, files: str) -> Iterator[tuple[tuple[str, str, int], int]]:
    counting = _AtLine()
    sys.settrace(counting)
    broken.subject.calls[broken.call]()
    sys.settrace(None)
    for place, count in counting.counts.items():
        if any(part in place[0] for part in files.split(",")):
            yield from ((place, occurrence) for occurrence in sorted({1, count}))


def broken_off_at_lines(
    backend: str, call: str, error: str = "KeyboardInterrupt", files: str = "", share: float = 1.0, seed: int = 0
) -> Found:
    """Raise an error at each line of ours that the call runs, the first time and the last, or at a share of them."""
    numbers = random.Random(seed)
    broken = _Broken(backend, call)
    kinds: dict[str, Any] = {"KeyboardInterrupt": KeyboardInterrupt, "MemoryError": MemoryError}
    for place, occurrence in list(_places(broken, files)):
        if numbers.random() >= share:
            continue
        planted = kinds[error]("planted")
        tracing = _AtLine(place, occurrence, planted)
        outcome, raised = None, None
        what = f"{call} {place[0].removeprefix(str(ROOT) + '/')}:{place[2]} time {occurrence}"
        try:
            sys.settrace(tracing)
            outcome = broken.subject.calls[call]()
        except BaseException as failure:
            raised = failure
        finally:
            sys.settrace(None)
        if raised is None and tracing.is_done and error == "KeyboardInterrupt":
            broken.found.lost.append(f"{what}: raised, and the call finished")
        broken.judge(what, outcome, raised)
        raised = planted = None
        tracing.error = None
    gc.collect()
    broken.judge(f"{call}: all that was kept is gone", broken.expected, None)
    return broken.found


def main(arguments: list[str]) -> None:
    backend, call, way, *rest = arguments
    if way in ("KeyboardInterrupt", "MemoryError"):
        share, files = float(rest[0]) if rest else 1.0, rest[1] if len(rest) > 1 else ""
        found = broken_off_at_lines(backend, call, way, files, share)
    else:
        found = broken_off_at_random(backend, call, way, int(rest[0]), int(rest[1]) if len(rest) > 1 else 0)
    answer = {"tried": found.tried, "finished": found.finished}
    answer |= {name: len(getattr(found, name)) for name in ("harm", "lost", "wrong")}
    sys.stdout.write(json.dumps({**answer, "problems": found.problems[:40]}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
