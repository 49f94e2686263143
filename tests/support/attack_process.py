"""The state of the process that attacks look at and put back, whatever the framework: Python's own and numpy's."""

from __future__ import annotations

import gc
import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["PROCESS", "SURROUNDINGS", "Facts", "Same", "put_back"]

Facts = dict[str, Any]


class Same:
    """Something that is equal to itself alone; it is kept alive, so that nothing else gets its address."""

    def __init__(self, value: Any, said: Any = None) -> None:
        self.value, self.said = value, said

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value and self.said == other.said

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        said = f" {self.said}" if self.said is not None else ""
        return f"<{type(self.value).__name__} {id(self.value):#x}{said}>"


def _list_loggers() -> dict[str, logging.Logger]:
    known = logging.root.manager.loggerDict.items()
    return {"root": logging.root, **{name: logger for name, logger in known if isinstance(logger, logging.Logger)}}


#: What profilerkit promises to leave as it was, even where the model itself does not.
PROCESS: dict[str, Callable[[], Any]] = {
    "python random state": lambda: hash(random.getstate()),
    "numpy random state": lambda: repr(np.random.get_state(legacy=False)),
}
#: What a model may change for reasons of its own: a difference counts where its plain call makes none.
SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "switch interval": sys.getswitchinterval,
    "recursion limit": sys.getrecursionlimit,
    "garbage collector": lambda: (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
    "profile function": lambda: (Same(sys.getprofile()), Same(threading.getprofile())),
    "trace function": lambda: (Same(sys.gettrace()), Same(threading.gettrace())),
    "warnings filters": lambda: (list(warnings.filters), Same(warnings.showwarning)),
    "environment": lambda: dict(os.environ),
    "working folder": os.getcwd,
    "sys.path": lambda: list(sys.path),
    "import hooks": lambda: ([Same(part) for part in sys.meta_path], [Same(name) for name in sys.path_hooks]),
    "standard streams": lambda: [Same(getattr(sys, name)) for name in ("stdin", "stdout", "stderr")],
    "exception hooks": lambda: [Same(sys.excepthook), Same(threading.excepthook), Same(sys.unraisablehook)],
    "log levels": lambda: {
        name: (logger.level, logger.disabled, len(logger.handlers))
        for name, logger in _list_loggers().items()
        if logger.level or logger.disabled or logger.handlers  # others come into being by their names
    },
    "signal handlers": lambda: {number: signal.getsignal(number) for number in signal.valid_signals()},
    "timers": lambda: [signal.getitimer(which)[1] for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)],
    # Python's stand-ins for threads of a framework's own are no threads that anybody started.
    "threads": lambda: sorted(item.name for item in threading.enumerate() if not item.name.startswith("Dummy-")),
    "umask": lambda: next(
        line for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if "Umask" in line
    ),
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "numpy's errors": np.geterr,
}


@contextmanager
def put_back() -> Iterator[None]:
    """Put the process back after a case, whatever the model, the fault or the library have made of it."""
    environment, folder, path = dict(os.environ), os.getcwd(), list(sys.path)  # noqa: PTH109
    signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
    levels = {logger: (logger.level, logger.disabled) for logger in _list_loggers().values()}
    random_state, numpy_state = random.getstate(), np.random.get_state()
    limit, tracer, profiler, collects = sys.getrecursionlimit(), sys.gettrace(), sys.getprofile(), gc.isenabled()
    thread_hook, hook = threading.excepthook, sys.excepthook
    mask = os.umask(0)
    os.umask(mask)
    with warnings.catch_warnings(), np.errstate():
        try:
            yield
        finally:
            random.setstate(random_state)
            np.random.set_state(numpy_state)
            for number, handler in signals.items():
                if signal.getsignal(number) is not handler and handler is not None:
                    signal.signal(number, handler)
            for logger, (level, disabled) in levels.items():
                logger.setLevel(level)
                logger.disabled = disabled
            if dict(os.environ) != environment:
                os.environ.clear()
                os.environ.update(environment)
            os.chdir(folder)
            os.umask(mask)
            sys.path[:] = path
            sys.setrecursionlimit(limit)
            sys.settrace(tracer)
            sys.setprofile(profiler)
            threading.excepthook, sys.excepthook = thread_hook, hook
            (gc.enable if collects else gc.disable)()
