"""Guards of hook implementations: each implementation is wrapped when it is registered, and pluggy calls the guard.

A guard labels the returned value with the plugin (an `Offer`). If the implementation raises, the guard warns, and the
hook call continues without it. An interruption is raised unchanged, with a note that names the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..error_text import shown
from .sources import Offer, PluginInfo, tolerate

if TYPE_CHECKING:
    from pluggy import HookImpl

__all__ = ["guard"]

_Wrapper: TypeAlias = "Generator[None, Any, Any]"

#: Hooks that return formulas by operator; the others return a list.
_MAPPINGS = frozenset({"profilerkit_op_costs"})
#: Hooks that notify plugins; the values that they return are not used.
_NOTIFYING = frozenset({"profilerkit_configure", "profilerkit_report_created"})


def guard(hook: str, implementation: HookImpl, plugin: PluginInfo) -> Callable[..., Any]:
    """Return the function that pluggy calls instead of the plugin's implementation; it is of the same kind."""
    guarded = _Implementation(hook, plugin, implementation.function, implementation.wrapper)
    return guarded.wrap if implementation.wrapper else guarded.call


class _Implementation:
    """One implementation of a hook, with the plugin that it is of."""

    def __init__(self, hook: str, plugin: PluginInfo, function: Callable[..., Any], is_wrapper: bool) -> None:
        self.hook, self.plugin, self.function = hook, plugin, function
        self.name = f"wrapper of hook {hook}" if is_wrapper else f"hook {hook}"
        self.left_out = "profilerkit goes on without it"
        if not (is_wrapper or hook in _NOTIFYING):
            self.left_out = "what it offers is left out"

    def call(self, *args: Any, **kwargs: Any) -> Offer[Any] | None:
        """Call an implementation that is not a wrapper; return its `Offer`, or None if it has none or raises."""
        with self._tolerate():
            result = self.function(*args, **kwargs)
            return None if result is None else self._label(result)
        return None

    def wrap(self, *args: Any, **kwargs: Any) -> _Wrapper:
        """Run a wrapper, which gets the results and returns others.

        An error of the wrapped implementations is thrown into the wrapper, which may return results instead. An
        interruption is raised again, whatever the wrapper returns.
        """
        wrapper = self._start(args, kwargs)
        results, raised = None, None
        try:
            results = yield
        except BaseException as error:
            raised = error
        if wrapper is not None:
            previous = results.copy() if isinstance(results, list) else results
            is_ended, changed = self._end(wrapper, results, raised)
            if is_ended and (raised is None or isinstance(raised, (Exception, SystemExit))):
                return changed
            results = previous
        if raised is not None:
            raise raised
        return results

    def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Wrapper | None:
        """Run a wrapper up to its ``yield`` and return it; if it raises or does not yield, warn and return None."""
        with self._tolerate():
            wrapper: _Wrapper = self.function(*args, **kwargs)
            try:
                next(wrapper)
            except StopIteration:
                raise RuntimeError("it did not yield") from None
            return wrapper
        return None

    def _end(self, wrapper: _Wrapper, results: Any, raised: BaseException | None) -> tuple[bool, Any]:
        """Return whether a wrapper finished, and the results that it returns; an error of its own becomes a warning."""
        with self._tolerate():
            try:
                wrapper.send(results) if raised is None else wrapper.throw(raised)
            except StopIteration as end:
                return True, self._label_all(end.value)
            except BaseException as error:
                if error is raised:  # not an error of the wrapper, which passed it on
                    return False, None
                raise
            wrapper.close()
            raise RuntimeError("it yielded twice")
        return False, None

    def _label(self, result: Any) -> Offer[Any]:
        """Return a checked result with its plugin; a result of another plugin that a wrapper passes on keeps its label.

        Raises `TypeError` if the result is not a list, or not a mapping to formulas.
        """
        offer = result if isinstance(result, Offer) else Offer(self.plugin, result)
        if self.hook in _NOTIFYING:
            return offer
        if self.hook not in _MAPPINGS:
            return replace(offer, item=tuple(offer.item or ()))
        from ..costs.registry import read_formulas  # slow to import, and needed for no command that lists something

        return replace(offer, item=read_formulas(offer.item))

    def _label_all(self, results: Any) -> Any:
        """Return the results that a wrapper returns, each labelled with its plugin."""
        if self.hook in _NOTIFYING:
            return results
        if not isinstance(results, list):
            raise TypeError(f"it made {shown(results)} of the results, which is no list of them")
        return [self._label(result) for result in results]

    def _tolerate(self) -> tolerate:
        return tolerate(self.plugin, self.name, f"{self.name} of plugin {self.plugin} raised ", f"; {self.left_out}")
