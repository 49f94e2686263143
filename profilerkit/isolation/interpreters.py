"""Interpreters that this process starts: fresh ones, and fork servers, which are kept until this process ends."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ..errors import InputError
from ..process.locks import Lock
from .channel import Channel, ChannelError

__all__ = ["make_command", "request_copy", "start_server"]

#: Run by a new interpreter. The last argument holds the folders of ``sys.path``: it is taken away before ``main`` reads
#: its own.
_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from {0} import main; main()"

#: The socket that leads to each fork server, by the modules that it has imported.
_servers: dict[tuple[str, ...], socket.socket] = {}
_server_processes: list[subprocess.Popen[bytes]] = []
_servers_lock = Lock()


def make_command(main: str, *arguments: object) -> list[str]:
    """Return the command line of an interpreter that calls the function ``main`` of a module, with these arguments.

    It has the options of this interpreter, such as ``-O``, ``-W`` and ``-X``, and finds modules in the same folders.
    """
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    path = json.dumps([str(Path(folder).absolute()) for folder in sys.path])
    return [sys.executable, *flags, "-c", _BOOT.format(main), *map(str, arguments), path]


def request_copy(preload: tuple[str, ...], descriptors: list[int]) -> None:
    """Have a fork server that has imported some modules fork a supervisor, which gets the descriptors.

    Raises `InputError` as `start_server` does.
    """
    with _servers_lock.block():
        server = start_server(preload)
        try:
            socket.send_fds(server, [b"+"], descriptors)
        except OSError:  # it was ended meanwhile, so that another one is started
            _servers.pop(preload).close()
            socket.send_fds(start_server(preload), [b"+"], descriptors)


def start_server(preload: tuple[str, ...]) -> socket.socket:
    """Return the socket of a fork server that has imported some modules; start it if it does not run yet.

    Raises `InputError` if one of the modules cannot be imported, or must not be forked.
    """
    with _servers_lock.block():
        if preload not in _servers:
            _servers[preload] = _start_new_server(preload)
        return _servers[preload]


def _start_new_server(preload: tuple[str, ...]) -> socket.socket:
    client, served = socket.socketpair()
    try:
        with served:
            process = subprocess.Popen(
                make_command("profilerkit.isolation.forkserver", served.fileno(), json.dumps(preload)),
                stdin=subprocess.DEVNULL,
                stdout=2,  # text that modules print while they are imported is no output of the caller
                pass_fds=[served.fileno()],
                start_new_session=True,  # Ctrl-C interrupts the caller alone, which then ends the server
            )
        reply = Channel(client).receive()
    except ChannelError:
        reply = {"error": "it ended while it imported them"}
    except BaseException:  # the system starts no process, or an interrupt came: a server ends when its socket is closed
        client.close()
        raise
    if "error" in reply:
        client.close()
        process.wait()  # it ends by itself
        raise InputError(f"the fork server for preload={preload!r} could not be started: {reply['error']}")
    _server_processes.append(process)
    return client


@atexit.register
def _end_servers() -> None:
    """End the fork servers with this process: they end when their socket is closed."""
    for server in _servers.values():
        server.close()
    for process in _server_processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)


def _forget_servers() -> None:
    """Leave the fork servers to the process that this one was forked from."""
    for server in _servers.values():
        server.close()
    _servers.clear()
    for process in _server_processes:
        process.returncode = 0  # not ours to wait for
    _server_processes.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_servers)
