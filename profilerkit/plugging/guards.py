"""Implementations of hooks, guarded when they are registered: pluggy calls the guards like any implementation.

A guard labels what the implementation returns with its plugin, an `Offer`, and makes a warning of what it raises: the
implementation is left out and the call goes on. `KeyboardInterrupt` goes through, with a note that names the plugin.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..costs.registry import read_formulas
from ..error_text import shown
from ..process.containment import contained, said_of
from .sources import Offer, PluginInfo, warn

if TYPE_CHECKING:
    from pluggy import HookImpl, Result

__all__ = ["guarded"]

_Wrapper: TypeAlias = "Generator[None, Any, Any]"


def _read_list(returned: Any) -> tuple[Any, ...]:
    return tuple(returned or ())


#: Hooks that return formulas by operator; what the others offer is a list.
_MAPPINGS = frozenset({"profilerkit_op_costs"})
#: Hooks that are called to tell plugins of something; what they return is not used.
_TELLING = frozenset({"profilerkit_configure", "profilerkit_report_created"})


def guarded(hook: str, implementation: HookImpl, plugin: PluginInfo) -> Callable[..., Any]:
    """Return the function that pluggy is to call in place of a plugin's own; it is of the same kind."""
    if implementation.wrapper:
        return _guarded_wrapper(_Guard(hook, plugin, implementation.function, is_wrapper=True))
    if implementation.hookwrapper:
        return _guarded_old_wrapper(_Guard(hook, plugin, implementation.function, is_wrapper=True))
    return _guarded_function(_Guard(hook, plugin, implementation.function))


class _Guard:
    """What the guards have in common: one implementation, its hook and its plugin."""

    def __init__(
        self, hook: str, plugin: PluginInfo, function: Callable[..., Any], *, is_wrapper: bool = False
    ) -> None:
        self.hook, self.plugin, self.function = hook, plugin, function
        self.is_wrapper = is_wrapper
        self.is_telling = hook in _TELLING
        self.read: Callable[[Any], Any] = read_formulas if hook in _MAPPINGS else _read_list
        self.name = f"wrapper of hook {hook}" if is_wrapper else f"hook {hook}"

    def in_plugin(self) -> contained:
        """Return the block that code of the plugin runs in."""
        return contained(self.plugin, self.name)

    def warn(self, error: Exception) -> None:
        """Warn of what the plugin raised, and that it is left out."""
        is_offering = not (self.is_wrapper or self.is_telling)
        left_out = "what it offers is left out" if is_offering else "profilerkit goes on without it"
        warn(f"{self.name} of plugin {self.plugin} raised {said_of(error)}; {left_out}; {self.plugin.way_out}")

    def labelled(self, result: Any) -> Offer[Any]:
        """Return a result with its plugin, after reading it; what a wrapper left of another plugin's stays that one's.

        Raises whatever reading it raises: `TypeError` for what is no list, or no mapping to formulas.
        """
        offer = result if isinstance(result, Offer) else Offer(self.plugin, result)
        return offer if self.is_telling else replace(offer, item=self.read(offer.item))

    def labelled_all(self, results: Any) -> Any:
        """Return the results that a wrapper makes of those of the implementations."""
        if self.is_telling:
            return results
        if not isinstance(results, list):
            raise TypeError(f"it made {shown(results)} of the results, which is no list of them")
        return [self.labelled(result) for result in results]

    def started(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Wrapper | None:
        """Run a wrapper up to its ``yield``; return None, after a warning, if it does not come that far."""
        try:
            with self.in_plugin():
                wrapper: _Wrapper = self.function(*args, **kwargs)
                try:
                    next(wrapper)
                except StopIteration:
                    raise RuntimeError("it did not yield") from None
                return wrapper
        except Exception as error:  # whatever a plugin does wrong, the others go on
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
    """Return the guard of an implementation that is no wrapper: it returns an `Offer`, or None."""

    @functools.wraps(guard.function)
    def call(*args: Any, **kwargs: Any) -> Offer[Any] | None:
        try:
            with guard.in_plugin():
                result = guard.function(*args, **kwargs)
                return None if result is None else guard.labelled(result)
        except Exception as error:  # whatever a plugin does wrong, the others go on
            guard.warn(error)
        return None

    return call


def _guarded_wrapper(guard: _Guard) -> Callable[..., Any]:
    """Return the guard of a wrapper of pluggy's new kind: one that gets the results and returns others.

    What was raised within is thrown into the wrapper, which may return results all the same; an interruption goes on
    whatever it does.
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
    """Return whether a wrapper came to its end, and the results it makes; raise nothing that it raises itself."""
    resume = functools.partial(wrapper.send, results) if raised is None else functools.partial(wrapper.throw, raised)
    try:
        with guard.in_plugin():
            try:
                changed = guard.resumed(resume, wrapper)
            except BaseException as error:
                if error is raised:  # it is not the wrapper's, which has let it through
                    return False, None
                raise
            return True, guard.labelled_all(changed)
    except Exception as error:  # whatever a plugin does wrong, the others go on
        guard.warn(error)
    return False, None


def _guarded_old_wrapper(guard: _Guard) -> Callable[..., Any]:
    """Return the guard of a wrapper of pluggy's old kind: one that gets a `pluggy.Result` and changes it in place."""

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
        except Exception as error:  # whatever a plugin does wrong, the others go on
            guard.warn(error)
            is_ended = False
        if isinstance(raised, KeyboardInterrupt) or (raised is not None and not is_ended):
            outcome.force_exception(raised)
        elif not is_ended:
            outcome.force_result(previous)

    return wrap
