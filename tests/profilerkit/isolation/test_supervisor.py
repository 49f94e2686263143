"""The supervisor and the fork server, with this process in their place: what they see, what they end, what they say."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from time_limits import run_python

from profilerkit import InputError
from profilerkit.isolation import forkserver, interpreters, processes, supervisor
from profilerkit.isolation.channel import Channel, ChannelError
from profilerkit.isolation.limits import Limits
from profilerkit.isolation.supervisor import Ending, Supervisor, limit_resources

pytestmark = pytest.mark.skipif(not processes.LINUX, reason="only Linux has all of it")


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Ending]]:
    """Run a supervisor here over a child that does something; what this process started before is none of its."""
    before = set(processes.descendants(os.getpid()))
    everyone, os_close = processes.descendants, os.close
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD)}
    monkeypatch.setattr(processes, "descendants", lambda pid: [item for item in everyone(pid) if item not in before])
    monkeypatch.setattr(os, "close", lambda descriptor: None if descriptor < 3 else os_close(descriptor))
    ends = socket.socketpair()
    ends[1].settimeout(60)

    def supervise(child: Callable[[], object], limits: Limits | None = None, **more: Any) -> Ending:
        watcher = Supervisor(ends[0], limits or Limits(), more.get("caller", os.getppid()))
        said = more.get("said")
        if said is not None:
            threading.Timer(0.3, lambda: Channel(ends[1]).send(**said)).start()
        watcher.run(child, [])  # type: ignore[arg-type]
        with pytest.raises(ProcessLookupError):
            os.kill(watcher.child, 0)
        return Ending(**Channel(ends[1]).receive())

    yield supervise
    processes._prctl(processes._SET_CHILD_SUBREAPER, 0)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for end in ends:
        end.close()


Supervise = Callable[..., Ending]


def for_ever() -> None:
    while True:
        time.sleep(60)


def test_an_end_by_itself_is_said_as_it_was(supervised: Supervise) -> None:
    assert supervised(lambda: os._exit(7)) == Ending(code=7)


def test_a_signal_is_said(supervised: Supervise) -> None:
    ending = supervised(lambda: os.kill(os.getpid(), signal.SIGSEGV))
    assert (ending.code, ending.signal, ending.why) == (None, signal.SIGSEGV, None)


def test_a_child_that_comes_back_does_not_go_on_as_its_supervisor(supervised: Supervise) -> None:
    assert supervised(lambda: None).code == 70


def test_the_word_of_the_caller_ends_it_after_it_has_said_where_it_is(supervised: Supervise, tmp_path: Path) -> None:
    note = tmp_path / "note"
    before = signal.signal(signal.SIGUSR2, lambda *_: note.write_text("here"))  # which the child has from its start
    try:
        ending = supervised(for_ever, said={"end": True, "dump": True})
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert (ending.signal, ending.why) == (signal.SIGKILL, "asked")
    assert note.read_text() == "here"


def test_the_end_of_the_caller_ends_it(supervised: Supervise) -> None:
    caller = subprocess.Popen(["sleep", "0.3"])
    ending = supervised(for_ever, caller=caller.pid)
    assert (ending.signal, ending.why) == (signal.SIGKILL, "asked")
    caller.returncode = 0  # the supervisor reaps what ends, as it should


def test_memory_beyond_the_limit_ends_it(supervised: Supervise) -> None:
    def child() -> None:
        kept = bytearray(b"x") * (80 * 2**20)
        for_ever()
        del kept

    ending = supervised(child, Limits(memory=40 * 2**20))
    assert (ending.signal, ending.why) == (signal.SIGKILL, "memory")
    assert ending.peak_bytes > 40 * 2**20


def test_memory_that_processes_share_counts_once(supervised: Supervise) -> None:
    def child() -> None:
        kept = bytearray(b"x") * (40 * 2**20)
        for _ in range(3):
            if os.fork() == 0:
                for_ever()
        time.sleep(2)  # in which it is looked at, on a busy machine too
        os._exit(len(kept) & 1)

    ending = supervised(child, Limits(memory=80 * 2**20))
    assert (ending.why, ending.code) == (None, 0)
    assert 40 * 2**20 <= ending.peak_bytes < 80 * 2**20


def test_threads_beyond_the_limit_end_it(supervised: Supervise) -> None:
    def child() -> None:
        for _ in range(20):
            threading.Thread(target=for_ever, daemon=True).start()
        for_ever()

    ending = supervised(child, Limits(max_threads=10))
    assert ending.why == "threads"
    assert 10 < ending.threads <= 21, "it may be seen while it starts them"


def test_what_a_process_asks_for_beyond_its_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "setrlimit", kept.__setitem__)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(processes, "data_bytes", lambda: 1000)
    limit_resources(Limits(memory=100 * 2**20))
    expected = 1000 + 110 * 2**20 + 2**29 + 4 * 2**26
    assert kept == {resource.RLIMIT_CORE: (1, resource.RLIM_INFINITY), resource.RLIMIT_DATA: (expected, expected)}
    kept.clear()
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, 0))
    limit_resources(Limits())
    assert kept == {resource.RLIMIT_CORE: (0, 0)}, "no dump stays no dump, and no memory is limited"


def test_data_are_counted_as_the_system_counts_them() -> None:
    before = processes.data_bytes()
    kept = bytearray(64 * 2**20)
    assert processes.data_bytes() - before >= 0.9 * len(kept)


class Left(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def closed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the sockets that a program of its own leaves open, since its end closes them."""
    made: list[socket.socket] = []

    class Kept(socket.socket):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            made.append(self)

    monkeypatch.setattr(socket, "socket", Kept)
    yield
    for end in made:
        end.close()


@pytest.fixture
def leaving(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise Left

    monkeypatch.setattr(os, "_exit", leave)
    return codes


def test_a_supervisor_that_breaks_says_so(
    leaving: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(descriptor: int, mode: str) -> None:
        raise OSError("no more files")

    monkeypatch.setattr(os, "fdopen", broken)
    monkeypatch.setattr("gc.disable", lambda: None)
    with pytest.raises(Left):
        supervisor.supervise(50, 51, 52)
    assert capsys.readouterr().err == (
        "profilerkit: the supervisor of an isolated model raised OSError('no more files')\n"
    )


# The fork server ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("closed_at_the_end")
def test_the_server_says_what_it_cannot_import(leaving: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = socket.socketpair()
    monkeypatch.setattr(sys, "argv", ["-c", str(mine.detach()), '["no_such_module"]'])
    with theirs, pytest.raises(Left):
        forkserver.main()
    assert leaving == [1]


@pytest.mark.usefixtures("closed_at_the_end")
def test_the_server_ends_with_who_asked(leaving: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "require_forkable", lambda: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD)}
    mine, theirs = socket.socketpair()
    monkeypatch.setattr(sys, "argv", ["-c", str(mine.detach()), "[]"])
    theirs.shutdown(socket.SHUT_WR)
    try:
        with theirs, pytest.raises(Left):
            forkserver.main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert leaving == [0]


def test_the_server_imports_what_each_model_would() -> None:
    """Of the backend whose modules it was told to import; else each copy imports the metrics for itself."""
    code = (
        "import sys, profilerkit_numpy.backend\n"
        "from profilerkit.isolation.forkserver import load_plugins\n"
        "load_plugins()\n"
        "assert {'profilerkit_metrics.static', 'profilerkit.models.python_loaders'} <= sys.modules.keys()\n"
        "assert 'torch' not in sys.modules\n"
    )
    run_python(code)


def test_a_request_makes_a_supervisor_of_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[Any] = []
    mine, theirs = socket.socketpair()
    monkeypatch.setattr(os, "fork", lambda: 4321)
    monkeypatch.setattr(forkserver, "_become_supervisor", lambda *arguments: begun.append(arguments[1]))
    files = [os.open(tmp_path, os.O_RDONLY) for _ in range(5)]
    with mine, theirs:
        socket.send_fds(theirs, [b"+"], files)
        forkserver._serve_one(mine)
        assert begun == []
        monkeypatch.setattr(os, "fork", lambda: 0)
        for _ in range(2):  # the next request may be there already
            socket.send_fds(theirs, [b"+"], files)
        for number in (1, 2):
            forkserver._serve_one(mine)
            assert [len(descriptors) for descriptors in begun] == [5] * number
        theirs.sendall(b"+")
        with pytest.raises(OSError, match="nobody is there any more"):
            forkserver._serve_one(mine)
    for file in files:
        os.close(file)


def test_a_hopeless_server_is_an_error_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: Channel) -> dict[str, Any]:
        raise ChannelError("the other end is closed")

    monkeypatch.setattr(Channel, "receive", gone)
    with pytest.raises(InputError, match="could not be started: it ended while it imported them"):
        interpreters._start_new_server(("json",))


@pytest.mark.parametrize("error", [OSError(12, "Cannot allocate memory"), KeyboardInterrupt()])
def test_a_server_that_cannot_be_started_leaves_no_open_socket(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise error

    pair = socket.socketpair()
    monkeypatch.setattr(socket, "socketpair", lambda: pair)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(type(error)):
        interpreters.request_copy(("json",), [])
    assert [end.fileno() for end in pair] == [-1, -1]
