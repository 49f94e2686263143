"""Interpreters that this process starts, and the fork server: one that has imported slow modules, and copies itself.

A fork server runs no model itself, and is kept until this process ends.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from ..errors import InputError
from ..process.locks import Lock
from .channel import MESSAGE, Channel, ChannelError, frame, open_ends
from .forkable import require_forkable
from .limits import Limits
from .supervisor import redirect, supervise

__all__ = ["main", "make_command", "request_copy", "start_server"]

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


def request_copy(preload: tuple[str, ...], request: dict[str, Any], descriptors: list[int]) -> None:
    """Have a fork server that has imported some modules fork a supervisor; raises `InputError` as `start_server` does.

    The requests of several threads go through one socket, one after the other.
    """
    with _servers_lock.block():
        try:
            _send_request(start_server(preload), request, descriptors)
        except OSError:  # it was ended meanwhile, so that another one is started
            _send_request(start_server(preload), request, descriptors)


def _send_request(server: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
    """Send a fork server a request and the descriptors that belong to it; close its socket where that fails.

    It is one byte, with the descriptors, and then a message with the rest.
    """
    content = frame(MESSAGE, json.dumps(request).encode())
    try:
        socket.send_fds(server, [b"+"], descriptors)
        server.sendall(content)
    except BaseException:  # an interrupt too: the server would take the next request for the rest of this one
        server.close()
        raise


def start_server(preload: tuple[str, ...]) -> socket.socket:
    """Return the socket of a fork server that has imported some modules; start it if it does not run yet.

    The socket is kept for later calls. Who fails to send by it closes it, and the next call starts another server.

    Raises `InputError` if one of the modules cannot be imported, or must not be forked.
    """
    with _servers_lock.block():
        server = _servers.get(preload)
        if server is None or server.fileno() < 0:
            server = _servers[preload] = _start_new_server(preload)
        return server


def _start_new_server(preload: tuple[str, ...]) -> socket.socket:
    client, served = socket.socketpair()
    open_ends.add(client)  # so that no forked child keeps it
    with served:
        process = subprocess.Popen(
            make_command("profilerkit.isolation.forkserver", served.fileno(), json.dumps(preload)),
            stdin=subprocess.DEVNULL,
            stdout=2,  # what modules print while they are imported is no output of the caller
            pass_fds=[served.fileno()],
            start_new_session=True,  # Ctrl-C interrupts the caller alone, which then ends the server
        )
    try:
        reply = Channel(client).receive()
    except ChannelError:
        reply = {"error": "it ended while it imported them"}
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
    _servers.clear()
    for process in _server_processes:
        process.returncode = 0  # not ours to wait for
    _server_processes.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_servers)


# The program of a fork server -----------------------------------------------------------------------------------------


#: What every profile needs, and is imported in any case.
_USUAL_MODULES = (
    "multiprocessing.spawn",
    "profilerkit.api",
    "profilerkit.isolation.child",
    "profilerkit.hooks.backends",
    "profilerkit.models.loaders",
    "profilerkit.hooks.offers",
    "profilerkit.results.building",
    "profilerkit.results.saving",
    "profilerkit_metrics.plugin",
)
#: The descriptors that come with a request: control, channel, job, output and errors, see `starting`.
_DESCRIPTORS = 5


def main() -> NoReturn:
    """Run as a program; its arguments are an inherited socket and the modules to import."""
    caller = socket.socket(fileno=int(sys.argv[1]))
    channel = Channel(caller)
    try:
        for name in (*_USUAL_MODULES, *json.loads(sys.argv[2])):
            import_module(name)
        load_plugins()
        require_forkable("the fork server")
    except BaseException as error:
        with suppress(OSError):  # the caller may have ended meanwhile
            channel.send(error=str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}")
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's, whose end ends this process too
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the supervisors
    try:
        channel.send(ready=True)
        while True:
            _serve_one(caller, channel)
    except (ChannelError, OSError, ValueError):  # the caller has ended
        os._exit(0)


def load_plugins() -> None:
    """Load the plugins, all that they declare, and the backends of the frameworks that are imported with their metrics.

    What is imported here no copy imports again.
    """
    from ..hooks.backends import backends, load
    from ..hooks.infos import LoaderInfo, RendererInfo
    from ..hooks.manager import list_infos
    from ..hooks.offers import default_functions, list_status_keys

    with suppress(Exception):  # whatever a plugin does wrong is said where it is used
        for kind in (LoaderInfo, RendererInfo):
            list_infos(kind)
        list_status_keys()
        for info in backends():
            plugin_package = info.load.__module__.partition(".")[0]  # is imported, whatever else is
            frameworks = {*info.frameworks, *info.preload} - {plugin_package}
            if any(name in sys.modules for name in frameworks):
                default_functions(load(info))


def _serve_one(caller: socket.socket, channel: Channel) -> None:
    """Wait for a request, as `_send_request` sends it, and fork a supervisor for it."""
    _, descriptors, _, _ = socket.recv_fds(caller, 1, _DESCRIPTORS)
    if len(descriptors) != _DESCRIPTORS:
        raise OSError("nobody is there any more")
    request = channel.receive()
    if os.fork() == 0:
        _become_supervisor(caller, request, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def _become_supervisor(caller: socket.socket, request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Continue, in the copy that was forked, as the supervisor of a model."""
    try:
        caller.close()
        os.setsid()
        os.environ.clear()
        os.environ.update(request["environ"])
        os.chdir(request["dir"])
        control, channel, job, output, errors = descriptors
        redirect(output, errors)
        limits = Limits(**request["limits"])
        supervise(socket.socket(fileno=control), socket.socket(fileno=channel), job, limits, request["parent"])
    finally:
        os._exit(70)  # only after an error: `supervise` ends the process itself
