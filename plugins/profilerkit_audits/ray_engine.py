"""The engine of a cluster: each case is a task of Ray's, which runs it in a process of our own, with our own limits.

Ray's ``memory=`` only decides where a task may start, and a task that Ray ends for lack of memory it would start again;
so the limits are those of `profilerkit.isolation`, on the node, and a task never fails for what a model does. Only a
task whose node was lost is tried again, a few times, by this module and not by Ray.

Ray changes the process that connects to it: variables, signal handlers, the hook for errors, and messages of the
cluster on standard output. All of this is as before when the connection ends.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    WorkerCrashedError,
)

from profilerkit.error_text import error_line
from profilerkit.errors import FailureCode, NotOfferedError

from .cases import Case
from .engine import Engine, EngineOptions, Outcome, without_run
from .machines import read_machine

__all__ = ["Connection", "RayEngine"]

#: Parts of Ray are not annotated.
ray: Any = import_module("ray")

#: How often a case is started again because its node was lost.
LOST_NODES = 3
#: How many cases wait at Ray's for each worker: enough that none is idle, and few enough that memory stays flat.
AHEAD = 2
#: Seconds between two looks at which nodes there are.
LOOKING = 2.0
#: The errors that say that a node was lost. If a worker alone has died, its node said so and is there.
_LOST = (NodeDiedError, ObjectLostError, LocalRayletDiedError)


@dataclass(frozen=True)
class _Task:
    """A case at Ray's, how many CPUs of a node it claims, and the number of nodes that were lost under it."""

    case: Case
    cpus: float
    lost_nodes: int = 0


class RayEngine(Engine):
    """Runs the cases on a cluster of Ray's: that at ``address``, or one on this machine that ends with the audit.

    A case that only counts takes one CPU of a node. One that measures times takes all CPUs of a node, so that nothing
    else of the audit runs there meanwhile. The rows have the machine that they were measured on.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._connection = Connection(options.address, options.workers)
        self._run = ray.remote(max_retries=0)(_run_on_node)  # once: each one is kept by the cluster

    @classmethod
    def location(cls, machine: str) -> str:
        """Return "ray": nobody knows beforehand on which machine a case will run."""
        return "ray"

    def run(self, cases: Iterable[Case]) -> Generator[Outcome, None, None]:
        """Run the cases, and yield each outcome when it comes back."""
        waiting = iter(cases)
        tasks: dict[Any, _Task] = {}
        try:
            yield from self._fill(waiting, tasks)
            while tasks:
                ready, _ = ray.wait(list(tasks), num_returns=1, timeout=LOOKING)
                for reference in ready:
                    outcome = self._collect(reference, tasks)
                    if outcome is not None:
                        yield outcome
                self._fit(tasks)
                yield from self._fill(waiting, tasks)
        finally:
            for reference in tasks:
                ray.cancel(reference, force=True)
            self._connection.close()

    def _fill(self, waiting: Iterator[Case], tasks: dict[Any, _Task]) -> Iterator[Outcome]:
        """Hand cases over to Ray, a few more than it can run at once."""
        most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while len(tasks) < most:
            case = next(waiting, None)
            if case is None:
                return
            problem = case.problem or _find_problem(case)
            if problem:
                yield without_run(case, read_machine(), case.failure or FailureCode.ENGINE, problem)
                continue
            self._submit(case, tasks)

    def _submit(self, case: Case, tasks: dict[Any, _Task], lost_nodes: int = 0) -> None:
        """Hand a case over to Ray; the cluster may have other nodes than when it was handed over before."""
        self.tell_start(case)
        task = _Task(case, _count_cpus(case), lost_nodes)
        on_gpu = {} if case.device == "cpu" else {"num_gpus": 1}
        run = self._run.options(num_cpus=task.cpus, **on_gpu)
        tasks[run.remote(case, self.options.repeats)] = task

    def _fit(self, tasks: dict[Any, _Task]) -> None:
        """Hand over again what waits for more CPUs than any node has any more, since a node was lost."""
        largest = max(_list_cpus(), default=0)
        for reference, task in list(tasks.items()):
            if 0 < largest < task.cpus:
                ray.cancel(reference, force=True)
                del tasks[reference]
                self._submit(task.case, tasks, task.lost_nodes)

    def _collect(self, reference: Any, tasks: dict[Any, _Task]) -> Outcome | None:
        """Return what came of a task; None if it is started again, since its node was lost."""
        task = tasks.pop(reference)
        case = task.case
        try:
            outcome: Outcome = ray.get(reference)
            return outcome
        except _LOST as error:
            lost_nodes = task.lost_nodes + 1
            if lost_nodes <= LOST_NODES:
                self._submit(case, tasks, lost_nodes)
                return None
            return _fail(case, FailureCode.ENGINE, f"its node of the cluster was lost {lost_nodes} times", error)
        except OutOfMemoryError as error:
            return _fail(case, FailureCode.MEMORY, "the cluster ended it, since its node had no memory left", error)
        except WorkerCrashedError as error:
            reason = "the worker of the cluster that watches over the model was killed"
            return _fail(case, FailureCode.LOST, reason, error)
        except RayError as error:
            return _fail(case, FailureCode.ENGINE, "the cluster could not run it", error)


def _fail(case: Case, code: FailureCode, reason: str, error: Exception) -> Outcome:
    """Return the outcome of a task that brought none; it is not tried again."""
    text = error_line(error)
    detail = text[-300:] if code is FailureCode.ENGINE else text[:300]
    return without_run(case, read_machine(), code, f"{reason}: {detail}")


def _count_cpus(case: Case) -> float:
    """Return how many CPUs a case claims: all of a node if it is timed on a CPU, and of the largest if they differ."""
    return max([1.0, *_list_cpus()]) if case.is_timed and case.device == "cpu" else 1


def _list_cpus() -> list[float]:
    return [float(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]


def _find_problem(case: Case) -> str:
    """Return why a case cannot run on this cluster, which would wait for a GPU for ever; empty if it can."""
    if case.device == "cpu" or any(node["Resources"].get("GPU") for node in ray.nodes() if node["Alive"]):
        return ""
    return f"device={case.device!r}: no node of the cluster has a GPU; add one, or leave the device out of the plan"


# On a node ------------------------------------------------------------------------------------------------------------


def _run_on_node(case: Case, repeats: int) -> Outcome:
    """Run a case on the node that Ray has chosen, by the engine of one machine."""
    from .local_engine import LocalEngine

    with _keep_threads():
        return next(LocalEngine(EngineOptions(workers=1, repeats=repeats)).run([case]))


@contextmanager
def _keep_threads() -> Iterator[None]:
    """Leave out the number of threads that Ray sets for a task, unless the node was started with one.

    A framework reads it once, when it is imported: that of the first task would hold for all later ones of a warm
    interpreter. Without it, models run on as many threads as without Ray.
    """
    name = "OMP_NUM_THREADS"
    try:
        environment = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:  # no Linux
        environment = [name.encode() + b"="]
    value = os.environ.get(name)
    if value is None or any(entry.startswith(name.encode() + b"=") for entry in environment):
        yield
        return
    del os.environ[name]
    try:
        yield
    finally:
        os.environ[name] = value


#: The longest folder in which Ray can make its sockets: their paths have at most 107 characters, and about 65 of those
#: are Ray's own.
_LONGEST = 40
#: Seconds that a cluster may take to answer, and the processes of an own one to end.
_PATIENCE = 10.0


class Connection:
    """A connection to the cluster at ``address``, or to a new one of this machine with ``workers`` CPUs.

    Without an address, that in the variable ``RAY_ADDRESS`` is used. A connection that the caller has made already is
    used and left open. Raises `NotOfferedError` if there is no cluster at the address.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        #: What `close` does, the last entry first.
        self._undo = ExitStack()
        if ray.is_initialized():
            return
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        options: dict[str, Any] = {"address": address}
        with ExitStack() as undo:
            if address == "local":
                folder = _make_socket_folder()
                options |= {"num_cpus": workers, "_temp_dir": None if folder is None else str(folder)}
                if folder is not None:
                    undo.callback(_remove, folder)
            _restore_process(undo)
            _send_messages_to_stderr(undo)
            undo.callback(ray.shutdown)
            try:
                _require_answer(address)
                ray.init(log_to_driver=False, include_dashboard=False, logging_level="warning", **options)
            except (OSError, ValueError, RuntimeError) as error:
                raise NotOfferedError(
                    f"the engine 'ray' cannot connect to a cluster at {address!r}: {error_line(error)}; give the "
                    "address that 'ray start --head' printed, or none for a cluster of this machine"
                ) from error
            self._undo = undo.pop_all()

    def close(self) -> None:
        """End the connection, and a cluster of its own, and set this process as it was."""
        self._undo.close()


def _require_answer(address: str) -> None:
    """Raise OSError for a host and a port at which nothing answers: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()


def _restore_process(undo: ExitStack) -> None:
    """Have what Ray changes in this process set as it is now: variables, signal handlers, the hook for errors."""
    variables, hook, has_tracebacks = dict(os.environ), sys.excepthook, faulthandler.is_enabled()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for name in set(os.environ) - set(variables):
            del os.environ[name]
        os.environ.update(variables)
        if not has_tracebacks:
            faulthandler.disable()
        sys.excepthook = hook
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                if handler is not None and signal.getsignal(number) is not handler:
                    signal.signal(number, handler)

    undo.callback(restore)


def _send_messages_to_stderr(undo: ExitStack) -> None:
    """Have what Ray says about its nodes go to standard error: standard output belongs to the results."""
    worker: Any = import_module("ray._private.worker")
    original = getattr(worker, "print_to_stdstream", None)
    if original is None:  # another version of Ray
        return

    def to_stderr(data: Any, *arguments: Any, **options: Any) -> None:
        original({**data, "is_err": True}, *arguments, **options)

    worker.print_to_stdstream = to_stderr
    undo.callback(setattr, worker, "print_to_stdstream", original)


def _make_socket_folder() -> Path | None:
    """Return a new folder for the files of a cluster; None if paths would be too long, so that Ray chooses one."""
    folder = Path(tempfile.mkdtemp(prefix="pk-ray-"))
    if len(str(folder)) <= _LONGEST:
        return folder
    folder.rmdir()
    return None


def _remove(folder: Path) -> None:
    """Remove the files of a cluster that has ended; its processes may write logs for a moment still."""
    deadline = time.monotonic() + _PATIENCE
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)
