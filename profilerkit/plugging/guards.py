"""Guards of hook implementations: pluggy calls a guard in place of each function with which a plugin implements a hook.

A guard labels the returned value with the plugin (an `Offer`). If the function raises, the guard warns, and the hook
call continues without it. An interruption is raised unchanged, with a note that names the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..error_text import shown
from .sources import Offer, PluginInfo, tolerate

if TYPE_CHECKING:
    from pluggy import HookImpl

__all__ = ["GuardedFunction", "guard"]

_Generator: TypeAlias = "Generator[None, list[Any], list[Any]]"

#: The hook that returns formulas by operator; the others return a list.
_FORMULAS = "profilerkit_op_costs"
#: Hooks that notify plugins; the values that they return are not used.
_NOTIFYING = frozenset({"profilerkit_configure", "profilerkit_report_created"})


def guard(hook: str, implementation: HookImpl, plugin: PluginInfo) -> Callable[..., Any]:
    """Return the function that pluggy calls instead of the plugin's implementation; it is of the same kind."""
    if implementation.wrapper:
        return _GuardedWrapper(hook, plugin, implementation.function).wrap
    return GuardedFunction(hook, plugin, implementation.function).call


@dataclass(frozen=True)
class _Guard:
    """The guard of a function with which a plugin implements or wraps a hook."""

    hook: str
    plugin: PluginInfo
    function: Callable[..., Any]

    def _label(self, result: Any) -> Offer[Any]:
        """Return a checked result with its plugin; a result of another plugin that a wrapper passes on keeps its label.

        Raises `TypeError` if the result is not a list, or not a mapping to formulas.
        """
        offer = result if isinstance(result, Offer) else Offer(self.plugin, result)
        if self.hook in _NOTIFYING:
            return offer
        if self.hook != _FORMULAS:
            return replace(offer, item=tuple(offer.item or ()))
        from ..costs.registry import read_formulas  # slow to import, and needed for no command that lists something

        return replace(offer, item=read_formulas(offer.item))

    def _warn_of_error(self, what: str, consequence: str) -> tolerate:
        """Return the context of a call of the function: an error ends the ``with`` block, and becomes a warning."""
        return tolerate(self.plugin, what, f"{what} of plugin {self.plugin} raised ", f"; {consequence}")


class GuardedFunction(_Guard):
    """A function that returns what its plugin offers, or that is notified."""

    def call(self, *args: Any, **kwargs: Any) -> Offer[Any] | None:
        """Call the function; return its `Offer`, or None if it returns None or raises."""
        is_notified = self.hook in _NOTIFYING
        consequence = "profilerkit goes on without it" if is_notified else "what it offers is left out"
        with self._warn_of_error(f"hook {self.hook}", consequence):
            result = self.function(*args, **kwargs)
            return None if result is None else self._label(result)
        return None


class _GuardedWrapper(_Guard):
    """A generator function around the call of a hook: it yields once, gets the results of the call, returns others."""

    def wrap(self, *args: Any, **kwargs: Any) -> _Generator:
        """Run the plugin's wrapper; pluggy calls the hook at the ``yield``.

        An error of the hook call is thrown into the wrapper, which may return results instead, but cannot stop an
        interruption. If the wrapper fails, the call ends as it would have without it.
        """
        wrapper = self._start(args, kwargs)
        try:
            results = yield
        except BaseException as error:
            changed = None if wrapper is None else self._finish(wrapper, partial(wrapper.throw, error), error)
            if changed is None or not isinstance(error, Exception):
                raise
            return changed
        # The wrapper gets a copy, because it may change the list and fail afterwards.
        changed = None if wrapper is None else self._finish(wrapper, partial(wrapper.send, results.copy()))
        return results if changed is None else changed

    def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Generator | None:
        """Run a wrapper up to its ``yield`` and return it; None, after a warning, if it raises or does not yield."""
        with self._tolerate():
            wrapper: _Generator = self.function(*args, **kwargs)
            try:
                next(wrapper)
            except StopIteration:
                raise RuntimeError("it did not yield") from None
            return wrapper
        return None

    def _finish(
        self, wrapper: _Generator, resume: Callable[[], object], thrown: BaseException | None = None
    ) -> list[Any] | None:
        """Run a wrapper from its ``yield`` to its end, and return its results.

        Returns None if it fails, after a warning, and if it passes on the error that was ``thrown`` into it.
        """
        with self._tolerate():
            try:
                resume()
            except StopIteration as end:
                return self._label_all(end.value)
            except BaseException as error:
                if error is thrown:
                    return None
                raise
            wrapper.close()
            raise RuntimeError("it yielded twice")
        return None

    def _label_all(self, results: Any) -> list[Any]:
        """Return the results that a wrapper returns, each labelled with its plugin."""
        if self.hook in _NOTIFYING:
            return []  # nobody uses them
        if not isinstance(results, list):
            raise TypeError(f"it made {shown(results)} of the results, which is no list of them")
        return [self._label(result) for result in results]

    def _tolerate(self) -> tolerate:
        return self._warn_of_error(f"wrapper of hook {self.hook}", "profilerkit goes on without it")
