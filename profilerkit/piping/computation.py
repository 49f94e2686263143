"""How a function gets its arguments, and how a status comes to its value.

For each parameter of a function, by name and in this order: what the caller passed; what every profiler has
(``model``, ``data_splits``, ``backend``, ``profiler``); a registered status key of that name, computed first if need
be, of which the function gets the value; the parameter's default.

A value is remembered with the arguments it was computed from. What a value inherits from the statuses it was computed
from is said on it too: made of a lower bound, it is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from inspect import Parameter
from typing import Any

from ..errors import (
    DependencyCycleError,
    IncompleteStatusError,
    InputError,
    MissingArgumentError,
    ModelFailedError,
    NotOfferedError,
    WithoutValuesError,
)
from ..process.cached import cached_property
from ..process.containment import contained, describe_origin, find_offering_plugin
from ..protocols import list_inapplicable, take_fingerprint
from ..trace.completeness import find_gaps
from ..trace.records import ModelTrace
from .cross_check import contradict_trace, find_contradiction
from .function import ProfilerFunction, describe
from .gaps import inherit_gaps
from .intrinsic import Trace
from .outcome import Completeness, Failure, Outcome, Unavailable
from .registry import Binding, Registry
from .remembered import Remembered, Resolved
from .requests import first_of_several
from .returned import read_outcomes
from .status import Metric, StatusKey
from .usable import PROVIDED

__all__ = ["Computation", "Remembered"]

#: The outcome of a function that is not called; each of its keys gets the backend's reason when it is stored.
_INAPPLICABLE = Unavailable("does not apply to this model", is_applicable=False)

#: In place of a fingerprint, where one is asked for only once: equal to no fingerprint that a later request takes.
_NOT_READ = object()


class Computation:
    """One request to a profiler: the caller's arguments, and what was computed in it."""

    def __init__(
        self,
        registry: Registry,
        provided: Mapping[str, Any],
        memory: dict[str, Remembered],
        arguments: Mapping[str, Any],
        recompute: bool = False,
        path: list[str] | None = None,
        once: bool = False,
    ) -> None:
        self.registry = registry
        self.provided = provided
        self.memory = memory
        self.arguments: dict[str, Any] = first_of_several(arguments)
        self.recompute = recompute
        #: Whether nobody asks for a value again after this request: then nothing is noted of what it was computed from.
        self.once = once
        #: What is being computed right now, in requests that a function makes of its own profiler too.
        self._path: list[str] = [] if path is None else path
        self._fingerprints: dict[bool, object] = {}
        self._fresh: set[int] = set()
        #: The functions whose arguments and model were found to be what they were.
        self._unchanged: set[int] = set()
        self._failed: dict[int, Exception] = {}
        #: What a run has done that the trace has otherwise, in words; see `profilerkit.trace.cross_check`.
        self.contradiction: str = ""
        #: Statuses that a contradiction has made incomplete, by their ``id``, each with the one in its place.
        self._superseded: dict[int, tuple[StatusKey, StatusKey]] = {}

    def status(self, name: str) -> StatusKey:
        """Return the computed status of that name, computing it and what it needs where need be."""
        binding = self.registry[name]
        remembered = self.memory.get(name)
        if remembered and self._is_loaded(remembered, binding):
            return remembered.status
        resolved = self.resolve(binding)
        remembered = self.recall(binding, resolved)
        return remembered.status if remembered else self._compute(binding, resolved)

    def run(self, bindings: Iterable[Binding], model_name: str, strict: bool) -> Iterator[str]:
        """Compute bindings in turn and yield the name of each that is done; a failure is kept unless ``strict``.

        With ``strict`` a value that is not complete raises `IncompleteStatusError`.
        """
        for binding in bindings:
            name = binding.key.NAME
            try:
                status = self.status(name)
                if strict:
                    self._require_complete(status, model_name)
            except Exception as error:
                if strict:
                    raise
                self.fail(binding, error)
            yield name

    def _require_complete(self, status: StatusKey, model_name: str) -> None:
        outcome = status.outcome
        if outcome.error is not None:
            raise outcome.error
        if self.contradiction:
            raise IncompleteStatusError(f"{status.NAME} of {model_name}: {self.contradiction}")
        if outcome.completeness is not Completeness.COMPLETE:
            reasons = "; ".join(outcome.missing)
            raise IncompleteStatusError(f"{status.NAME} of {model_name} is {outcome.completeness.value}: {reasons}")

    def recall(self, binding: Binding, resolved: Resolved) -> Remembered | None:
        """Return what is remembered for a binding of these arguments, and make it the last one of its function."""
        entry = self._valid_entry(binding, resolved)
        if entry is not None and entry is not self.memory[binding.key.NAME]:
            for bound in self.registry:
                if bound.function is binding.function and (valid := self._valid_entry(bound, resolved)) is not None:
                    name = bound.key.NAME
                    self.memory[name] = valid.before(other for other in self._entries(name) if other is not valid)
        return entry

    def _valid_entry(self, binding: Binding, resolved: Resolved) -> Remembered | None:
        entries = self._entries(binding.key.NAME)
        return next((entry for entry in entries if self._still_holds(entry, binding, resolved)), None)

    def _entries(self, name: str) -> tuple[Remembered, ...]:
        """Return what is remembered of a key, the last one first."""
        last = self.memory.get(name)
        return () if last is None else (last, *last.earlier)

    def resolve(self, binding: Binding) -> Resolved:
        """Find every argument of a binding's function."""
        earlier = self._failed.get(id(binding.function))
        if earlier is not None:
            raise earlier
        name = binding.key.NAME
        if name in self._path:
            circle = " -> ".join([*self._path[self._path.index(name) :], name])
            raise DependencyCycleError(
                f"these status keys need each other in a circle: {circle}; break it at one of them"
            )
        self._path.append(name)
        try:
            binding.function.check(self.arguments)
            return self._resolve(binding.function)
        except Exception as error:
            self._failed[id(binding.function)] = error
            raise
        finally:
            self._path.pop()

    def _resolve(self, function: ProfilerFunction) -> Resolved:
        values: dict[str, Any] = {}
        statuses: dict[str, StatusKey] = {}
        for name, parameter in function.parameters().items():
            if name in self.arguments:
                values[name] = self.arguments[name]
            elif name in PROVIDED:
                values[name] = self.provided[name]
            elif (binding := self.registry.find_source(parameter)) is not None:
                statuses[name] = self.status(binding.key.NAME)
                values[name] = statuses[name].value
            elif parameter.default is not Parameter.empty:
                values[name] = parameter.default
            else:
                likely = self.registry.find_like(name, function)
                raise MissingArgumentError(
                    f"{describe(function)} needs an argument {name!r} that nothing provides: pass it "
                    f"(compute_status(..., {name}=...)), or register a function that computes the status key {name!r}"
                    f"{f'; did you mean {likely!r}?' if likely else ''}"
                )
        return Resolved(values, statuses)

    def _is_loaded(self, remembered: Remembered, binding: Binding) -> bool:
        """Return whether a value was loaded for the function that has the key, and no argument asks for another one."""
        if remembered.arguments is not None or remembered.function is not binding.function:
            return False
        asks_anew = self.recompute or not self.registry.list_own_arguments(binding.function).isdisjoint(self.arguments)
        return not asks_anew

    def _still_holds(self, remembered: Remembered, binding: Binding, resolved: Resolved) -> bool:
        """Return whether a value was computed from these arguments, and nothing has changed since."""
        if remembered.function is not binding.function or remembered.arguments is None:
            return False
        is_fresh = id(binding.function) in self._fresh
        has_failed = remembered.status.outcome.completeness is Completeness.FAILED
        if not is_fresh and (self.recompute or has_failed):
            return False
        if not _are_same(resolved.sources, remembered.arguments):
            return False
        return is_fresh or self._is_unchanged(remembered, binding.function, resolved)

    def _is_unchanged(self, remembered: Remembered, function: ProfilerFunction, resolved: Resolved) -> bool:
        """Say whether the model, the arguments and the function are what they were when a value was computed."""
        if id(function) in self._unchanged:
            return True
        try:
            unchanged = (remembered.fingerprint, remembered.contents) == self._describe_state(function, resolved)
        except MemoryError:
            raise
        except Exception:  # something among them cannot be compared
            return False
        if unchanged:
            self._unchanged.add(id(function))
        return bool(unchanged)

    def _compute(self, binding: Binding, resolved: Resolved) -> StatusKey:
        function = binding.function
        try:
            returned = self._find_obstacle(function, resolved)
            if returned is None:
                returned = self._invoke(binding, resolved)
            outcomes = read_outcomes(function, binding.key, returned, resolved.trace)
        except Exception as error:
            error = self._explain(error)
            self._failed[id(function)] = error
            raise error
        return self.store(binding, outcomes, resolved)

    def _find_obstacle(self, function: ProfilerFunction, resolved: Resolved) -> Any:
        """Return the outcome of a function that is not called, since it has no meaning here or lacks what it needs."""
        if not self.applies(function):
            return _INAPPLICABLE
        return _find_block(resolved.statuses) or _find_failure(resolved.trace, function)

    def _explain(self, error: Exception) -> Exception:
        """Return what the trace says of a shape that the model does not take, in place of what the model raised."""
        if not isinstance(error, ModelFailedError) or Trace.NAME not in self.registry or Trace.NAME in self._path:
            return error
        try:
            failure = self.status(Trace.NAME).value.failure
        except MemoryError:
            raise
        except Exception:  # whatever keeps it from being traced
            return error
        return failure if isinstance(failure, InputError) else error

    def _invoke(self, binding: Binding, resolved: Resolved) -> Any:
        function = binding.function
        plugin = find_offering_plugin(function)
        self._path.append(binding.key.NAME)
        try:
            with nullcontext() if plugin is None else contained(plugin, describe(function)):
                if function.ONLY_THROUGH_BACKEND or resolved.values.keys().isdisjoint(PROVIDED):
                    return function.invoke(resolved.values)
                with self.provided["backend"].preserve(self.provided["model"]):
                    return function.invoke(resolved.values)
        except (NotOfferedError, WithoutValuesError) as error:  # the backend cannot, or cannot with this model
            return Unavailable(str(error))
        finally:
            self._path.pop()

    def applies(self, function: ProfilerFunction) -> bool:
        """Say whether any key of a function has a meaning for the model."""
        return any(key.NAME not in self._inapplicable for key in function.list_keys())

    @cached_property
    def _inapplicable(self) -> Mapping[str, str]:
        return list_inapplicable(self.provided["backend"], self.provided["model"])

    def _limit_to_model(self, name: str, outcome: Outcome) -> Outcome:
        """Return the outcome of a key; unavailable, with the backend's reason, where it does not apply to the model."""
        reason = self._inapplicable.get(name)
        if reason is None:
            return outcome
        return Outcome.of(Unavailable(f"does not apply to this model: {reason}", is_applicable=False))

    def _describe_state(self, function: ProfilerFunction, resolved: Resolved) -> tuple[object, object]:
        """Return the model's fingerprint, and what the arguments of a function and its own attributes hold.

        The fingerprint is of the values of the parameters too where a function may look at them. One that uses the
        model through the backend alone counts and times, whatever the values are.
        """
        if self.once:
            return _NOT_READ, _NOT_READ
        values = not (function.ONLY_THROUGH_BACKEND or function.parameters().keys().isdisjoint(PROVIDED))
        if values not in self._fingerprints:
            self._fingerprints[values] = take_fingerprint(self.provided["backend"], self.provided["model"], values)
        return self._fingerprints[values], resolved.contents(function)

    def store(
        self, binding: Binding, outcomes: Mapping[str, Outcome], resolved: Resolved, group: object | None = None
    ) -> StatusKey:
        """Remember the outcomes of a binding's function for all the keys it still holds."""
        self._fresh.add(id(binding.function))
        resolved = self._renew(resolved)
        noted, arguments = self._describe_state(binding.function, resolved), resolved.sources
        sources = tuple(resolved.statuses.values())
        for name, outcome in outcomes.items():
            current = self.registry[name] if name in self.registry else None
            if current is None or current.function is not binding.function:
                continue
            status = current.key.with_outcome(inherit_gaps(self._limit_to_model(name, outcome), sources), sources)
            now = Remembered(status, binding.function, arguments, group, *noted)
            self.memory[name] = now.before(entry for entry in self._entries(name) if entry.function is binding.function)
        self._cross_check(outcomes)
        return self.memory[binding.key.NAME].status

    def _cross_check(self, outcomes: Mapping[str, Outcome]) -> None:
        """Compare what was seen of runs with the trace, where one of the two is new."""
        if Trace.NAME not in outcomes and not any(outcome.runs for outcome in outcomes.values()):
            return
        before = {id(value.status): value.status for value in self.memory.values()}
        difference = find_contradiction(self.memory, [name for name in outcomes if name in self.memory])
        if difference:
            self.contradiction = difference
            instead = contradict_trace(self.memory, difference)
            self._superseded.update({number: (before[number], status) for number, status in instead.items()})

    def _renew(self, resolved: Resolved) -> Resolved:
        """Return the arguments with the statuses that were made incomplete since they were found."""
        if not self._superseded:
            return resolved
        statuses = dict(resolved.statuses)
        for name, status in resolved.statuses.items():
            while id(status) in self._superseded:
                status = self._superseded[id(status)][1]
            statuses[name] = status
        values = {name: statuses[name].value if name in statuses else value for name, value in resolved.values.items()}
        return Resolved(values, statuses)

    def fail(self, binding: Binding, error: Exception) -> None:
        """Keep an error as the outcome of every key that the failing function holds."""
        for bound in self.registry:
            if bound.function is binding.function:
                outcome = replace(Outcome.of(Failure(error)), note=describe_origin(error))
                status = bound.key.with_outcome(self._limit_to_model(bound.key.NAME, outcome))
                self.memory[bound.key.NAME] = Remembered(status, bound.function, {})


def _find_block(statuses: Mapping[str, StatusKey]) -> Outcome | None:
    """Return the outcome of a function that needs a value which is not to be had."""
    for name, status in statuses.items():
        outcome = status.outcome
        if outcome.completeness is Completeness.FAILED:
            raise outcome.error or ModelFailedError(f"{name} failed: {'; '.join(outcome.missing)}")
        if outcome.completeness is Completeness.UNAVAILABLE:
            reason = "; ".join(outcome.missing)
            if isinstance(status, Metric):  # a trace is nothing that people ask for
                reason = f"needs {name}, which is unavailable: {reason}"
            return Outcome(None, Completeness.UNAVAILABLE, (reason,))
    return None


def _find_failure(trace: ModelTrace | None, function: ProfilerFunction) -> Outcome | None:
    """Return the failure of a function all of whose keys follow from what a trace has not got."""
    outcome = None
    for key in function.list_keys():
        error = find_gaps(trace, key.DERIVED_FROM).error if trace and key.DERIVED_FROM else None
        if error is None:
            return None
        outcome = Outcome.of(Failure(error))
    return outcome


def _are_same(arguments: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    """Return whether arguments are the earlier ones; what every profiler provides is told by its identity."""
    if arguments.keys() != earlier.keys():
        return False
    return all(
        value is earlier[name] if name in PROVIDED else _is_same(value, earlier[name])
        for name, value in arguments.items()
    )


def _is_same(value: Any, other: Any) -> bool:
    if value is other:
        return True
    if type(value) is not type(other) or isinstance(value, StatusKey):
        return False
    try:
        return bool(value == other)
    except MemoryError:
        raise
    except Exception:  # tensors and arrays compare element by element; two objects then count as different
        return False
