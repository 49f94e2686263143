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
from pathlib import Path
from typing import NoReturn

from ..errors import InputError
from .channel import Channel
from .supervisor import supervise

__all__ = ["load_plugins", "main", "require_forkable"]

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
#: Frameworks that forbid a fork once imported: their threads and locks do not come along, and the copy waits for them.
_NEVER_FORKED = {"tensorflow": "TensorFlow", "jax": "JAX"}


def main() -> NoReturn:
    """Run as a program; its arguments are an inherited socket and the modules to import."""
    caller = socket.socket(fileno=int(sys.argv[1]))
    channel = Channel(caller)
    try:
        for name in (*_USUAL_MODULES, *json.loads(sys.argv[2])):
            import_module(name)
        load_plugins()
        require_forkable()
    except BaseException as error:
        with suppress(OSError):  # the caller may have ended meanwhile
            channel.send(error=str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}")
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's, whose end ends this process too
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the supervisors
    try:
        channel.send(ready=True)
        while True:
            _serve_one(caller)
    except OSError:  # the caller has ended
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


def require_forkable() -> None:
    """Raise `InputError` if this process has imported or uses a library that does not survive a fork."""
    for module, name in _NEVER_FORKED.items():
        if module in sys.modules:
            raise InputError(
                f"it has imported {name}, which must not be forked: the copy may wait for its threads for ever; use "
                "start_method='spawn'"
            )
    if _uses_gpu():
        raise InputError("it uses a GPU, which must not be forked; use start_method='spawn'")


def _uses_gpu() -> bool:
    """Return whether this process has a GPU open, whatever library has opened it."""
    try:
        return any(map(_is_gpu, Path("/proc/self/fd").iterdir()))
    except OSError:  # no Linux
        return False


def _is_gpu(link: Path) -> bool:
    try:
        return str(link.readlink()).startswith(("/dev/nvidia", "/dev/kfd", "/dev/dxg"))
    except OSError:  # it was closed meanwhile
        return False


def _serve_one(caller: socket.socket) -> None:
    """Wait for a request, as `request_copy` sends it, and fork a supervisor for it."""
    _, descriptors, _, _ = socket.recv_fds(caller, 1, _DESCRIPTORS)
    if len(descriptors) != _DESCRIPTORS:
        raise OSError("nobody is there any more")
    if os.fork() == 0:
        _become_supervisor(caller, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def _become_supervisor(caller: socket.socket, descriptors: list[int]) -> NoReturn:
    """Continue, in the copy that was forked, as the supervisor of a model."""
    try:
        caller.close()
        os.setsid()
        control, channel, job, output, errors = descriptors
        _redirect(output, errors)
        supervise(control, channel, job)
    finally:
        os._exit(70)  # only after an error: `supervise` ends the process itself


def _redirect(output: int, errors: int) -> None:
    """Have this process, and processes that it starts, read nothing and write to other descriptors."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, output, errors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = open(number, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)  # noqa: SIM115
        setattr(sys, name, stream)
