"""The connection of this process to a cluster of Ray's, which is as before when the connection ends.

Ray changes the process that connects to it: variables, signal handlers, the hook for errors, and messages of the
cluster on standard output.
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
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from profilerkit.error_text import error_line
from profilerkit.errors import NotOfferedError

#: Parts of Ray are not annotated.
ray: Any = import_module("ray")

#: Seconds that a cluster may take to answer, and the processes of a cluster started here to end.
_PATIENCE = 10.0


class Connection:
    """A connection to the cluster at ``address``, or to a new cluster on this machine with ``workers`` CPUs.

    Without an address, the variable ``RAY_ADDRESS`` is used. A connection that the caller has made already is
    used and left open. Raises `NotOfferedError` if there is no cluster at the address.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        #: The actions of `close`, the last entry first.
        self._undo = ExitStack()
        if ray.is_initialized():
            return
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        options: dict[str, Any] = {"address": address}
        with ExitStack() as undo:
            if address == "local":
                folder = tempfile.mkdtemp(prefix="pk-ray-", dir="/tmp")  # short: Ray makes sockets in it
                options |= {"num_cpus": workers, "_temp_dir": folder}
                undo.callback(_remove, Path(folder))
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
        """End the connection, and the cluster if this connection started it, and restore this process."""
        self._undo.close()


def _require_answer(address: str) -> None:
    """Raise OSError for a host and a port at which nothing answers: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()


def _restore_process(undo: ExitStack) -> None:
    """Save the state that Ray changes here, and restore it at the end: variables, signal handlers, the error hook."""
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
    """Send Ray's messages about its nodes to standard error: standard output belongs to the results."""
    worker: Any = import_module("ray._private.worker")
    original = getattr(worker, "print_to_stdstream", None)
    if original is None:  # another version of Ray
        return

    def to_stderr(data: Any, *arguments: Any, **options: Any) -> None:
        original({**data, "is_err": True}, *arguments, **options)

    worker.print_to_stdstream = to_stderr
    undo.callback(setattr, worker, "print_to_stdstream", original)


def _remove(folder: Path) -> None:
    """Remove the files of a cluster that has ended; its processes may write logs for a moment still."""
    deadline = time.monotonic() + _PATIENCE
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)
