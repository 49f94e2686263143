"""Models whose variables a distribution strategy mirrors: one replica of them is counted and run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from ..compat.variables import require_whole
from .kinds import is_function, name_own_weights
from .stored_variables import find_stored_variable
from .weights import list_weights

__all__ = ["as_one_replica", "describe_replicas", "find_strategy"]


def find_strategy(layers: Iterable[tuple[str, Any]]) -> Any:
    """Return the distribution strategy that has made copies of the variables of layers, one for a replica, or None.

    A function has the variables that it names, closes over, or captured when it was traced.
    """
    for variable in _list_variables(layers):
        stored = find_stored_variable(variable)
        strategy = getattr(stored, "distribute_strategy", None)
        if strategy is not None and hasattr(stored, "values"):  # a copy for each of its replicas here
            require_whole(stored)
            return strategy
    return None


def _list_variables(layers: Iterable[tuple[str, Any]]) -> Iterator[Any]:
    for _, layer in layers:
        if is_function(layer):
            yield from list_weights(layer)
        yield from (variable for _, variable in name_own_weights(layer))


def as_one_replica(strategy: Any) -> AbstractContextManager[Any]:
    """Return a context in which a model runs like the strategy's first replica; without a strategy it does nothing.

    Outside of it, a variable that is aggregated when it is read, such as a moving mean, is read on every device.
    """
    in_replica = strategy is not None and not tf.distribute.in_cross_replica_context()
    if strategy is None or (in_replica and tf.distribute.get_strategy() is strategy):
        return nullcontext()
    context: AbstractContextManager[Any] = tf.distribute.ReplicaContext(strategy, replica_id_in_sync_group=0)
    return context


def describe_replicas(strategy: Any) -> Iterator[str]:
    """Yield a note for a strategy with several replicas."""
    if strategy is not None and strategy.num_replicas_in_sync > 1:
        yield (
            f"{type(strategy).__name__} has {strategy.num_replicas_in_sync} replicas of the model, each with all of "
            "its weights: one of them is counted"
        )
