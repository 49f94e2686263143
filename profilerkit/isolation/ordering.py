"""The order in which a separate process computes: what can do harm comes last, so that all else is known before."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from ..piping.function import JointFunction
from ..piping.intrinsic import Inputs, Trace
from ..piping.usable import PROVIDED

if TYPE_CHECKING:
    from ..piping.registry import Binding, Registry

__all__ = ["Risk", "find_risk", "group_by_function"]

#: Arguments that determine how a model is run: a function that takes one of them runs it, also on inputs of its own.
_RUN_OPTIONS = frozenset({"device", "num_iters", "mode"})


class Risk(IntEnum):
    """How likely it is that a model hangs or crashes while a key is computed; a higher one comes later."""

    #: The trace and the layers are enough.
    LEAST = 0
    #: The function uses the model, and does not run it.
    USES_MODEL = 1
    #: The function runs the model.
    RUNS_MODEL = 2


def find_risk(name: str, registry: Registry) -> Risk:
    """Return the risk of a key: that of its function, or of one that computes what the function needs."""
    return _find_risk(name, registry, frozenset())


def _find_risk(name: str, registry: Registry, above: frozenset[str]) -> Risk:
    """Return the risk of a key that the keys ``above`` need: one of these is not looked at again."""
    if name in (Inputs.NAME, Trace.NAME) or name in above or name not in registry:
        return Risk.LEAST
    function = registry[name].function
    parameters = function.parameters().keys()
    takes_options = isinstance(function, JointFunction) or not _RUN_OPTIONS.isdisjoint(parameters)
    if takes_options or registry.runs_the_model(name):
        return Risk.RUNS_MODEL
    own_risk = Risk.LEAST if parameters.isdisjoint(PROVIDED) else Risk.USES_MODEL
    return max([own_risk, *(_find_risk(needed, registry, above | {name}) for needed in parameters)])


def group_by_function(names: Sequence[str], registry: Registry) -> list[list[str]]:
    """Return the names of keys in the order in which they are computed, those of one function together.

    They are ordered by their risk. Of those that run the model, measurements that several models make in turn come
    first.
    """
    groups: dict[int, list[Binding]] = {}
    for binding in (registry[name] for name in names):
        groups.setdefault(id(binding.function), []).append(binding)

    def rank(group: Sequence[Binding]) -> tuple[Risk, bool]:
        first = group[0]
        return find_risk(first.key.NAME, registry), not isinstance(first.function, JointFunction)

    return [[binding.key.NAME for binding in group] for group in sorted(groups.values(), key=rank)]
