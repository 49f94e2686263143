"""How a function gets its arguments, and how a status gets its value.

A parameter of a function is filled by its name, from the first of these: the caller's argument; what every profiler
provides (``model``, ``data_splits``, ``backend``, ``profiler``); the value of the registered status key of that name,
which is computed first if needed; the parameter's default.

`Cache` decides which values are remembered, and how long they are valid. A value inherits the gaps of the statuses that
it was computed from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from inspect import Parameter
from typing import Any

from ..error_text import find_raising_line
from ..errors import (
    DependencyCycleError,
    IncompleteStatusError,
    MissingArgumentError,
    ModelFailedError,
    NotOfferedError,
    PlacementError,
    ProfilerKitError,
    WithoutValuesError,
)
from ..process.cached import cached_property
from ..process.containment import contained, describe_origin
from ..protocols import list_inapplicable
from ..trace.completeness import TracePart
from .cache import Cache
from .calls import Call, Calls
from .compared_runs import ComparedRuns
from .function import ProfilerFunction, describe
from .outcome import Completeness, Failure, Outcome, Unavailable
from .registry import Binding
from .requests import first_of_several
from .returned import make_inapplicable, read_outcomes
from .status import Metric, StatusKey

__all__ = ["Computation"]

#: What a function that is not called returns: each of its keys gets the backend's reason.
_INAPPLICABLE = Unavailable("does not apply to this model", is_applicable=False)


class Computation:
    """One request to a profiler: the caller's arguments, and the values that it computes.

    Args:
        cache: The values that the profiler remembers, as this request reads them and adds to them.
        calls: The profiler's calls under way, if a function makes this request.
    """

    def __init__(self, cache: Cache, calls: Calls) -> None:
        self.cache = cache
        self.registry = cache.registry
        self.provided = cache.provided
        self.arguments: dict[str, Any] = first_of_several(cache.request)
        self.calls = calls
        #: By the ``id`` of a function: its error, which each of its other keys raises too.
        self._failed: dict[int, Exception] = {}
        self._runs = ComparedRuns(cache.entries)

    def status(self, name: str) -> StatusKey:
        """Return the status of that name; compute it, and the statuses that it needs, if they are not remembered."""
        return self.calls.note_request(self._find_status(self.registry[name]))

    def _find_status(self, binding: Binding) -> StatusKey:
        loaded = self.cache.find_loaded(binding)
        if loaded is not None:
            return loaded
        function = binding.function
        if id(function) in self._failed:
            raise self._failed[id(function)]
        try:
            call = self.begin(binding)
            remembered = self.cache.find(call)
            return self.store(call, self._run(call)) if remembered is None else remembered.status
        except Exception as error:
            self._failed[id(function)] = error
            raise

    def run(self, bindings: Iterable[Binding], model_name: str, strict: bool) -> Iterator[str]:
        """Compute bindings in turn and yield the name of each that is done; a failure is kept unless ``strict``.

        A `PlacementError` is raised: there is no model, and nothing could be computed. With ``strict`` a value that is
        not complete raises `IncompleteStatusError`.
        """
        for binding in bindings:
            try:
                status = self.calls.note_request(self._find_status(binding))
                if strict:
                    self._require_complete(status, model_name)
            except Exception as error:
                if strict or isinstance(error, PlacementError):
                    raise
                self.fail(binding, error)
            yield binding.key.NAME

    def _require_complete(self, status: StatusKey, model_name: str) -> None:
        outcome = status.outcome
        if outcome.error is not None:
            raise outcome.error
        if self._runs.contradiction:
            raise IncompleteStatusError(f"{status.NAME} of {model_name}: {self._runs.contradiction}")
        if outcome.completeness is not Completeness.COMPLETE:
            reasons = "; ".join(outcome.missing)
            raise IncompleteStatusError(f"{status.NAME} of {model_name} is {outcome.completeness.value}: {reasons}")

    def begin(self, binding: Binding) -> Call:
        """Return the call of a binding's function, with every argument found: from the first source that has it."""
        call = Call(binding)
        with self.calls.inside(call):
            circle = self.calls.find_circle()
            if circle:
                raise DependencyCycleError(
                    f"these status keys need each other in a circle: {circle}; break it at one of them"
                )
            binding.function.check(self.arguments)
            for name, parameter in binding.contract.parameters.items():
                if name in self.arguments:
                    call.arguments[name] = self.arguments[name]
                elif name in self.provided:
                    call.arguments[name] = self.provided[name]
                elif (source := self.registry.find_source(parameter)) is not None:
                    status = call.statuses[name] = self._find_status(source)
                    call.arguments[name] = status.value
                elif parameter.default is not Parameter.empty:
                    call.arguments[name] = parameter.default
                else:
                    raise self._make_missing_error(name, binding.function)
        return call

    def _make_missing_error(self, name: str, function: ProfilerFunction) -> MissingArgumentError:
        """Return the error of a parameter that no source has an argument for."""
        likely = self.registry.find_like(name, function)
        return MissingArgumentError(
            f"{describe(function)} needs an argument {name!r} that nothing provides: pass it "
            f"(compute_status(..., {name}=...)), or register a function that computes the status key {name!r}"
            f"{f'; did you mean {likely!r}?' if likely else ''}"
        )

    def _run(self, call: Call) -> Any:
        """Return what the function of a call returns, or why it is not called."""
        binding, function = call.binding, call.binding.function
        if not self.applies(binding):
            return _INAPPLICABLE
        obstacle = _find_obstacle(call)
        if obstacle is not None:
            return obstacle
        named = nullcontext() if binding.plugin is None else contained(binding.plugin, describe(function))
        is_guarded = binding.contract.handles_model
        guard = self.provided["backend"].preserve(self.provided["model"]) if is_guarded else nullcontext()
        try:
            with self.calls.inside(call), named, guard:
                return function(**call.arguments)
        except (NotOfferedError, WithoutValuesError) as error:  # the backend cannot, or cannot with this model
            return Unavailable(str(error))

    def applies(self, binding: Binding) -> bool:
        """Return whether any key of a binding's function has a meaning for the model."""
        return not binding.contract.keys.keys() <= self._inapplicable.keys()

    @cached_property
    def _inapplicable(self) -> Mapping[str, str]:
        return list_inapplicable(self.provided["backend"], self.provided["model"])

    def store(self, call: Call, returned: Any, group: object | None = None) -> StatusKey:
        """Remember what a call has returned, for all the keys that its function still holds."""
        call = self._runs.renew_call(call)  # a run may have contradicted the trace since
        sources = (*call.statuses.values(), *call.requested)
        outcomes = read_outcomes(call, returned, self._inapplicable, sources)
        statuses = {
            bound.key.NAME: bound.key.with_outcome(outcomes[bound.key.NAME], sources)
            for bound in self.registry.list_siblings(call.binding)
        }
        self.cache.keep(call, statuses, group)
        self._runs.compare(outcomes)
        return self.cache.entries[call.binding.key.NAME].status

    def fail(self, binding: Binding, error: Exception) -> None:
        """Keep an error as the outcome of every key that the failing function holds."""
        outcome = replace(Outcome.of(Failure(error)), note=_describe_origin(error))
        for bound in self.registry.list_siblings(binding):
            reason = self._inapplicable.get(bound.key.NAME)
            limited = outcome if reason is None else make_inapplicable(reason)
            self.cache.keep_failure(bound, bound.key.with_outcome(limited))


def _describe_origin(error: Exception) -> str:
    """Return where an error was raised: the plugin, or the line of code; nothing for errors of profilerkit itself."""
    line = find_raising_line(error)
    is_ours = isinstance(error, ProfilerKitError) or f" of {__name__.partition('.')[0]}." in line
    return describe_origin(error) or ("" if is_ours or not line else f"raised at {line}")


def _find_obstacle(call: Call) -> Outcome | None:
    """Return the outcome of a call that needs a value which is not to be had, or a trace that failed.

    A failed trace still has its weights, for the keys that are derived from these.
    """
    for name, status in call.statuses.items():
        outcome = status.outcome
        if outcome.completeness is Completeness.FAILED:
            return Outcome.of(
                Failure(outcome.error or ModelFailedError(f"{name} failed: {'; '.join(outcome.missing)}"))
            )
        if outcome.completeness is Completeness.UNAVAILABLE:
            reason = "; ".join(outcome.missing)
            if isinstance(status, Metric):  # a trace is nothing that people ask for
                reason = f"needs {name}, which is unavailable: {reason}"
            return Outcome(None, Completeness.UNAVAILABLE, (reason,))
    failure = next((trace.failure for trace in call.traces if trace.failure is not None), None)
    if failure is None or any(key.DERIVED_FROM is TracePart.WEIGHTS for key in call.binding.contract.keys.values()):
        return None
    return Outcome.of(Failure(failure))
