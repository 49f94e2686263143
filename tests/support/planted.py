"""Models that misbehave, each in its own way, for processes of their own: never load one of them anywhere else.

All have 4 x 8 + 8 + 8 x 2 + 2 = 58 parameters. They behave in the trace and misbehave when they are timed, so that the
32 + 16 = 48 multiply-accumulates are there by then; those of `at_once` misbehave in the trace.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profilerkit import LoadedModel
from profilerkit_numpy.layers import Layer, Sequential, activation, dense

PARAMS, MACS = 58, 48
LONG = 600.0


def fine() -> LoadedModel:
    return LoadedModel(Sequential(dense(4, 8), activation(), dense(8, 2)), input_shape=(4,))


def at_once(act: Callable[[], object]) -> LoadedModel:
    def forward(x: Any) -> Any:
        act()
        return x

    return LoadedModel(Sequential(dense(4, 8), Layer("Trap", forward), dense(8, 2)), input_shape=(4,), name="Planted")


def when_timed(act: Callable[[], object]) -> LoadedModel:
    calls: list[int] = []

    def act_later() -> None:
        calls.append(1)
        if len(calls) > 1:
            act()

    return at_once(act_later)


def for_ever() -> None:
    while True:
        pass


def endless_loop() -> LoadedModel:
    return when_timed(for_ever)


def endless_trace() -> LoadedModel:
    return at_once(for_ever)


def endless_building() -> LoadedModel:
    for_ever()
    raise AssertionError


def deaf_loop() -> LoadedModel:
    """Ignore every signal that can be ignored."""

    def act() -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        for_ever()

    return when_timed(act)


def stopped() -> LoadedModel:
    return when_timed(lambda: os.kill(os.getpid(), signal.SIGSTOP))


def segfault() -> LoadedModel:
    return when_timed(lambda: ctypes.string_at(0))


def aborts() -> LoadedModel:
    def act() -> None:
        sys.stderr.write("the last thing that it said\n")
        sys.stderr.flush()
        os.abort()

    return when_timed(act)


def leaves() -> LoadedModel:
    return when_timed(lambda: os._exit(7))


def leaves_in_order() -> LoadedModel:
    return when_timed(lambda: sys.exit(3))


def leaves_with_code_0() -> LoadedModel:
    return when_timed(lambda: os._exit(0))


def allocates_100_gb_at_once() -> LoadedModel:
    import numpy as np

    return when_timed(lambda: np.ones(100 * 10**9, np.uint8))


def allocates_100_gb() -> LoadedModel:
    kept: list[bytearray] = []

    def act() -> None:
        while len(kept) < 100_000:
            kept.append(bytearray(b"x") * 10**6)

    return when_timed(act)


def allocates_in_many_processes() -> LoadedModel:
    """Each of the processes stays below the limit, together they do not."""

    def act() -> None:
        for _ in range(6):
            if os.fork() == 0:
                kept = bytearray(b"x") * (64 * 2**20)
                time.sleep(LONG)
                os._exit(len(kept) & 1)
        time.sleep(LONG)

    return when_timed(act)


def flood_on_stdout() -> LoadedModel:
    done: list[int] = []

    def act() -> None:
        while len(done) < int(os.environ["PLANTED_MIB"]):
            done.append(os.write(1, b"f" * 2**20))

    return when_timed(act)


def flood_on_stderr_and_crash() -> LoadedModel:
    def act() -> None:
        for number in range(20_000):
            os.write(2, b"line %d of what goes wrong\n" % number)
        os._exit(9)

    return when_timed(act)


def bomb_of_threads() -> LoadedModel:
    def act() -> None:
        threading.stack_size(64 * 1024)
        for _ in range(3000):
            threading.Thread(target=time.sleep, args=(LONG,), daemon=True).start()
        time.sleep(LONG)

    return when_timed(act)


def bomb_of_processes() -> LoadedModel:
    def act() -> None:
        for _ in range(150):
            if os.fork() == 0:
                time.sleep(LONG)
                os._exit(0)
        time.sleep(LONG)

    return when_timed(act)


def left_behind() -> LoadedModel:
    """Start processes in sessions of their own, one of them twice forked; write down who they are, and go on."""
    started: list[int] = []

    def act() -> None:
        if started:
            return
        started.append(1)
        notes = Path(os.environ["PLANTED_PIDS"])
        sleeping = subprocess.Popen(["sleep", str(LONG)], start_new_session=True, stdout=subprocess.DEVNULL)
        with notes.open("a") as file:
            file.write(f"{sleeping.pid}\n")
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                with notes.open("a") as file:
                    file.write(f"{os.getpid()}\n")
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(LONG)
            os._exit(0)
        while len(notes.read_text().splitlines()) < 2:
            time.sleep(0.01)

    return when_timed(act)


def left_behind_and_hangs() -> LoadedModel:
    inner = left_behind().model

    def act() -> None:
        inner.layers[1].forward(0)
        inner.layers[1].forward(0)
        for_ever()

    return when_timed(act)


def kills_its_watcher() -> LoadedModel:
    def act() -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        for_ever()

    return when_timed(act)


def deletes_its_file() -> LoadedModel:
    Path(__file__).unlink()
    return fine()


def closes_descriptors() -> LoadedModel:
    def act() -> None:
        os.closerange(3, 4096)
        for_ever()

    return when_timed(act)


def writes_into_descriptors() -> LoadedModel:
    def act() -> None:
        for descriptor in range(3, 4096):
            try:
                os.write(descriptor, b"what a model prints")
            except OSError:
                continue
        for_ever()

    return when_timed(act)


def forges_a_report() -> LoadedModel:
    """Write what looks like a message, and is none."""
    from profilerkit.isolation.channel import write_line

    def act() -> None:
        for descriptor in range(3, 4096):
            try:
                os.write(descriptor, write_line({"report": {"format": "profilerkit report", "macs": 1}}))
            except OSError:
                continue
        for_ever()

    return when_timed(act)


def comes_back_twice() -> LoadedModel:
    """Fork and return in both processes: the copy must not say the results a second time."""
    forked: list[int] = []

    def act() -> None:
        if not forked:
            forked.append(os.fork())

    return when_timed(act)


def prints() -> LoadedModel:
    sys.stdout.write("built and printed\n")
    return fine()


def raises() -> LoadedModel:
    nothing: dict[str, int] = {}
    return when_timed(lambda: nothing["half-way"])


def cannot_be_built() -> LoadedModel:
    raise KeyError("no such thing")


def needs_100_gb_to_be_built() -> LoadedModel:
    import numpy as np

    return LoadedModel(np.ones(100_000_000_000, np.uint8))


def slow(factor: int = 1) -> LoadedModel:
    import numpy as np

    weights = np.ones((200, 200))
    return at_once(lambda: [weights @ weights for _ in range(2 * factor)])


def twice_as_slow() -> LoadedModel:
    return slow(2)
