"""Guards of hook implementations: pluggy calls a guard in place of each function with which a plugin implements a hook.

A guard labels the returned value with the plugin (an `Offer`). If the function raises, the guard warns, and the hook
call continues without it. An interruption is raised unchanged, with a note that names the plugin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .sources import Offer, PluginInfo, tolerate

__all__ = ["GuardedFunction"]

#: The hook that returns formulas by operator; the others return a list.
_FORMULAS = "profilerkit_op_costs"
#: Hooks that notify plugins; the values that they return are not used.
_NOTIFYING = frozenset({"profilerkit_configure", "profilerkit_report_created"})


@dataclass(frozen=True)
class GuardedFunction:
    """The guard of a function with which a plugin implements a hook."""

    hook: str
    plugin: PluginInfo
    function: Callable[..., Any]

    def call(self, *args: Any, **kwargs: Any) -> Offer[Any] | None:
        """Call the function; return its `Offer`, or None if it returns None or raises."""
        is_notified = self.hook in _NOTIFYING
        consequence = "profilerkit goes on without it" if is_notified else "what it offers is left out"
        failure = f"hook {self.hook} of plugin {self.plugin} raised "
        with tolerate(self.plugin, f"hook {self.hook}", failure, f"; {consequence}"):
            result = self.function(*args, **kwargs)
            return None if result is None else Offer(self.plugin, result if is_notified else self._read(result))
        return None

    def _read(self, result: Any) -> Any:
        """Return what the function offers; raises `TypeError` for what is no list, or no mapping to formulas."""
        if self.hook != _FORMULAS:
            return tuple(result)
        from ..costs.registry import read_formulas  # slow to import, and needed for no command that lists something

        return read_formulas(result)
