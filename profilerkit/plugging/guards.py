"""Guards of hook implementations: each implementation is wrapped when it is registered, and pluggy calls the guard.

A guard labels the returned value with the plugin (an `Offer`). If the implementation raises, the guard warns, and the
hook call continues without it. `KeyboardInterrupt` is raised unchanged, with a note that names the plugin.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..costs.registry import read_formulas
from ..error_text import shown
from ..process.containment import contained, plugin_error_text
from .sources import Offer, PluginInfo, warn

if TYPE_CHECKING:
    from pluggy import HookImpl, Result

__all__ = ["guarded"]

_Wrapper: TypeAlias = "Generator[None, Any, Any]"


def _read_list(returned: Any) -> tuple[Any, ...]:
    return tuple(returned or ())


#: Hooks that return formulas by operator; the others return a list.
_MAPPINGS = frozenset({"profilerkit_op_costs"})
#: Hooks that notify plugins; the values that they return are not used.
_NOTIFYING = frozenset({"profilerkit_configure", "profilerkit_report_created"})


def guarded(hook: str, implementation: HookImpl, plugin: PluginInfo) -> Callable[..., Any]:
    """Return the function that pluggy calls instead of the plugin's implementation; it is of the same kind."""
    if implementation.wrapper:
        return _guarded_wrapper(_Guard(hook, plugin, implementation.function, is_wrapper=True))
    if implementation.hookwrapper:
        return _guarded_old_wrapper(_Guard(hook, plugin, implementation.function, is_wrapper=True))
    return _guarded_function(_Guard(hook, plugin, implementation.function))


class _Guard:
    """The common part of the guards: one implementation, its hook and its plugin."""

    def __init__(
        self, hook: str, plugin: PluginInfo, function: Callable[..., Any], *, is_wrapper: bool = False
    ) -> None:
        self.hook, self.plugin, self.function = hook, plugin, function
        self.is_wrapper = is_wrapper
        self.is_notification = hook in _NOTIFYING
        self.read: Callable[[Any], Any] = read_formulas if hook in _MAPPINGS else _read_list
        self.name = f"wrapper of hook {hook}" if is_wrapper else f"hook {hook}"

    def in_plugin(self) -> contained:
        """Return the context manager in which code of the plugin runs."""
        return contained(self.plugin, self.name)

    def warn(self, error: Exception) -> None:
        """Warn that the plugin raised, and that it is left out; that memory is short is not its fault, and raised."""
        if isinstance(error, MemoryError):
            raise error
        is_offering = not (self.is_wrapper or self.is_notification)
        left_out = "what it offers is left out" if is_offering else "profilerkit goes on without it"
        failure = f"{self.name} of plugin {self.plugin} raised {plugin_error_text(error)}"
        warn(f"{failure}; {left_out}; {self.plugin.workaround}")

    def labelled(self, result: Any) -> Offer[Any]:
        """Return a checked result with its plugin; a result of another plugin that a wrapper passes on keeps its label.

        Raises `TypeError` if the result is not a list, or not a mapping to formulas.
        """
        offer = result if isinstance(result, Offer) else Offer(self.plugin, result)
        return offer if self.is_notification else replace(offer, item=self.read(offer.item))

    def labelled_all(self, results: Any) -> Any:
        """Return the results that a wrapper returns, each labelled with its plugin."""
        if self.is_notification:
            return results
        if not isinstance(results, list):
            raise TypeError(f"it made {shown(results)} of the results, which is no list of them")
        return [self.labelled(result) for result in results]

    def started(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Wrapper | None:
        """Run a wrapper up to its ``yield`` and return it; if it raises or does not yield, warn and return None."""
        try:
            with self.in_plugin():
                wrapper: _Wrapper = self.function(*args, **kwargs)
                try:
                    next(wrapper)
                except StopIteration:
                    raise RuntimeError("it did not yield") from None
                return wrapper
        except Exception as error:  # an error of a plugin must not stop the others
            self.warn(error)
        return None

    def resumed(self, resume: Callable[[], object], wrapper: _Wrapper) -> Any:
        """Run a wrapper from its ``yield`` to its end and return what it returns; raise what it raises."""
        try:
            resume()
        except StopIteration as end:
            return end.value
        wrapper.close()
        raise RuntimeError("it yielded twice")


def _guarded_function(guard: _Guard) -> Callable[..., Any]:
    """Return the guard of an implementation that is not a wrapper: it returns an `Offer`, or None."""

    @functools.wraps(guard.function)
    def call(*args: Any, **kwargs: Any) -> Offer[Any] | None:
        try:
            with guard.in_plugin():
                result = guard.function(*args, **kwargs)
                return None if result is None else guard.labelled(result)
        except Exception as error:  # an error of a plugin must not stop the others
            guard.warn(error)
        return None

    return call


def _guarded_wrapper(guard: _Guard) -> Callable[..., Any]:
    """Return the guard of a wrapper of pluggy's new kind, which gets the results and returns others.

    An error of the wrapped implementations is thrown into the wrapper, which may return results instead. An
    interruption is raised again, whatever the wrapper returns.
    """

    @functools.wraps(guard.function)
    def wrap(*args: Any, **kwargs: Any) -> _Wrapper:
        wrapper = guard.started(args, kwargs)
        results, raised = None, None
        try:
            results = yield
        except BaseException as error:
            raised = error
        if wrapper is not None:
            previous = results.copy() if isinstance(results, list) else results
            is_ended, changed = _ended(guard, wrapper, results, raised)
            if is_ended and not isinstance(raised, (KeyboardInterrupt, GeneratorExit)):
                return changed
            results = previous
        if raised is not None:
            raise raised
        return results

    return wrap


def _ended(guard: _Guard, wrapper: _Wrapper, results: Any, raised: BaseException | None) -> tuple[bool, Any]:
    """Return whether a wrapper finished, and the results that it returns; an error of its own becomes a warning."""
    resume = functools.partial(wrapper.send, results) if raised is None else functools.partial(wrapper.throw, raised)
    try:
        with guard.in_plugin():
            try:
                changed = guard.resumed(resume, wrapper)
            except BaseException as error:
                if error is raised:  # not an error of the wrapper, which passed it on
                    return False, None
                raise
            return True, guard.labelled_all(changed)
    except Exception as error:  # an error of a plugin must not stop the others
        guard.warn(error)
    return False, None


def _guarded_old_wrapper(guard: _Guard) -> Callable[..., Any]:
    """Return the guard of a wrapper of pluggy's old kind, which gets a `pluggy.Result` and changes it in place."""

    @functools.wraps(guard.function)
    def wrap(*args: Any, **kwargs: Any) -> Generator[None, Result[Any], None]:
        wrapper = guard.started(args, kwargs)
        outcome = yield
        if wrapper is None:
            return
        raised = outcome.exception
        results = outcome.get_result() if raised is None else None
        previous = results.copy() if isinstance(results, list) else results
        try:
            with guard.in_plugin():
                guard.resumed(functools.partial(wrapper.send, outcome), wrapper)
                if outcome.exception is None:
                    outcome.force_result(guard.labelled_all(outcome.get_result()))
                elif outcome.exception is not raised:
                    raise outcome.exception
            is_ended = True
        except Exception as error:  # an error of a plugin must not stop the others
            guard.warn(error)
            is_ended = False
        if isinstance(raised, KeyboardInterrupt) or (raised is not None and not is_ended):
            outcome.force_exception(raised)
        elif not is_ended:
            outcome.force_result(previous)

    return wrap
