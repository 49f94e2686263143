"""The program of a fork server: an interpreter that has imported slow modules, and copies itself for each model.

It runs no model itself. `profilerkit.isolation.interpreters` starts it, and sends it requests.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from ..errors import InputError
from .channel import Channel, ChannelError
from .forkable import require_forkable
from .limits import Limits
from .supervisor import redirect, supervise

__all__ = ["main"]

#: The modules that every profile needs, and that are always imported.
_USUAL_MODULES = (
    "multiprocessing.spawn",
    "profilerkit.api",
    "profilerkit.isolation.child",
    "profilerkit.hooks.backends",
    "profilerkit.models.loaders",
    "profilerkit.hooks.offers",
    "profilerkit.results.building",
    "profilerkit.results.saving",
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

    Modules that are imported here are not imported again by any copy.
    """
    from ..hooks.backends import load
    from ..hooks.infos import BackendInfo, LoaderInfo, RendererInfo
    from ..hooks.manager import list_infos
    from ..hooks.offers import default_functions, list_status_keys

    with suppress(Exception):  # whatever a plugin does wrong is said where it is used
        for kind in (LoaderInfo, RendererInfo):
            list_infos(kind)
        list_status_keys()
        for offer in list_infos(BackendInfo):
            info = offer.item
            plugin_package = info.load.__module__.partition(".")[0]  # is imported, whatever else is
            frameworks = {*info.frameworks, *info.preload} - {plugin_package}
            if any(name in sys.modules for name in frameworks):
                default_functions(load(offer))


def _serve_one(caller: socket.socket, channel: Channel) -> None:
    """Wait for a request, as `request_copy` sends it, and fork a supervisor for it."""
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
