"""Every hook of profilerkit on one page.

A plugin is a module, named by an entry point of the group ``profilerkit``, with functions marked
`profilerkit.hookimpl`. What profilerkit itself offers comes through the same hooks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from .backend import Backend, BackendInfo
    from .function import ProfilerFunction

hookspec = pluggy.HookspecMarker("profilerkit")
hookimpl = pluggy.HookimplMarker("profilerkit")


@hookspec
def profilerkit_backends() -> Iterable[BackendInfo]:
    """Name the backends this plugin offers, without importing their frameworks."""
    raise NotImplementedError


@hookspec
def profilerkit_profiler_functions(backend: Backend) -> Iterable[ProfilerFunction]:
    """Return the functions that a profiler of this backend should have by default."""
    raise NotImplementedError
