"""Several models that are measured together, before each is computed on its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from ..process.containment import contained
from ..process.contents import list_contents
from .cache import Resolved
from .computation import Computation
from .function import JointFunction, describe
from .registry import Binding
from .returned import read_outcomes

__all__ = ["measure_jointly"]


def measure_jointly(computations: Sequence[Computation], names: Collection[str]) -> None:
    """Measure together what of ``names`` all of the computations have a `JointFunction` of the same class for.

    The functions must have equal attributes too, because that of the first computation measures all models. Remembered
    values of an earlier measurement of the same models with the same arguments are kept. If a model fails, nothing is
    measured here: each computation then measures its own model, and keeps the failure.
    """
    done: set[str] = set()
    for binding in computations[0].registry:
        function, name = binding.function, binding.key.NAME
        if not isinstance(function, JointFunction) or name in done or name not in names:
            continue
        if all(_has_same(computation, name, function) for computation in computations):
            _measure(computations, name, function)
            done |= {key.NAME for key in binding.contract.keys}


def _has_same(computation: Computation, name: str, function: JointFunction) -> bool:
    if name not in computation.registry:
        return False
    binding = computation.registry[name]
    other = binding.function
    is_same = type(other) is type(function) and list_contents(vars(other)) == list_contents(vars(function))
    return is_same and computation.applies(binding)


class _Participant(NamedTuple):
    """One model of a joint measurement: its computation, its own function for the key, and the arguments of that."""

    computation: Computation
    binding: Binding
    arguments: Resolved

    @classmethod
    def resolve(cls, computation: Computation, name: str) -> _Participant:
        """Resolve the arguments of the function that computes a key."""
        binding = computation.registry[name]
        return cls(computation, binding, computation.resolve(binding))

    def find_group(self) -> object | None:
        """Return the object that the remembered value shares with those measured together with it; None without one."""
        remembered = self.computation.cache.find(self.binding, self.arguments)
        return None if remembered is None else remembered.group


def _measure(computations: Sequence[Computation], name: str, function: JointFunction) -> None:
    try:
        participants = [_Participant.resolve(computation, name) for computation in computations]
        groups = [participant.find_group() for participant in participants]
        if groups[0] is not None and all(group is groups[0] for group in groups):
            return  # they were measured together before
        with ExitStack() as stack:
            for computation, binding, arguments in participants:
                stack.enter_context(computation.note_requests(binding, arguments))
            stack.enter_context(contained(participants[0].binding.plugin, describe(function)))
            returned = function.measure_together([participant.arguments.values for participant in participants])
    except Exception:  # said again, and kept, when the failing model is measured alone
        _measure_without_failing(computations, name, function)
        return
    group = object()
    for (computation, binding, arguments), value in zip(participants, returned, strict=True):
        outcomes = read_outcomes(binding, value, arguments.list_traces())
        computation.store(binding, outcomes, arguments, group)


def _measure_without_failing(computations: Sequence[Computation], name: str, function: JointFunction) -> None:
    """Measure the models together that do not fail: each is tried alone first."""
    if len(computations) < 3:
        return
    fine = [computation for computation in computations if _is_measurable(computation, name)]
    if 1 < len(fine) < len(computations):
        _measure(fine, name, function)


def _is_measurable(computation: Computation, name: str) -> bool:
    try:
        return computation.status(name).outcome.error is None
    except Exception:
        return False
