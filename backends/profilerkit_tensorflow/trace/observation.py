"""What the operators of a real run multiply and add: it is compared with the static trace.

An eager run shows its operators one by one. A function that it calls is one call to TensorFlow: its graph is walked for
the shapes of that call. What is unknown of either leaves the sums unknown, and nothing is compared then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from profilerkit.trace.cross_check import ObservedRun

from ..compat import CALL_FLAT, FUNCTION_CLASS, shows_operators
from ..costs.registry import COSTS
from .departures import Departures
from .eager_operators import EagerOperators, is_small, watch_operators
from .layers import LayerCalls
from .ownership import Owner, Ownership
from .questions import replace_attribute
from .values import Executed, static_shape
from .walk import Walk

__all__ = ["Observation", "Work", "operator_macs", "sum_work"]

#: Multiply-accumulates and floating-point operations; None where not all of them are known.
Work = tuple[int, int] | None


class Observation(EagerOperators):
    """While `watch` is active, keeps each operator that this thread runs, and each function that it calls.

    With ``calls``, which have to follow the layers meanwhile, the formulas of layers count for these.
    """

    def __init__(self, calls: LayerCalls | None = None) -> None:
        super().__init__()
        self._calls = calls
        self._root = Ownership().root
        #: The functions by the names by which TensorFlow's callback knows them.
        self._functions: dict[str, Any] = {}
        #: The graph of each function that was called, with the shapes of its arguments and the values of small ones.
        self._function_calls: list[tuple[Any, list[tuple[Any, Any]]]] = []
        self._departures = Departures(lambda: self._owner.path)

    @property
    def _owner(self) -> Owner:
        return self._root if self._calls is None else self._calls.owner

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Keep what runs inside."""
        with _note_functions(self._functions), self._departures.watch(), watch_operators(self._record_operator):
            yield

    def _record_operator(
        self, op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        """Keep an operator, or the call of a function, which TensorFlow shows as an operator of the function's name."""
        if graph is not None:  # an operator that is added to a graph, and does not run now
            return
        kind = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        function = self._functions.get(kind)
        if function is None:
            self.record(kind, list(inputs), attrs, list(outputs), self._owner)
        else:
            arguments = [(static_shape(tensor), tensor.numpy() if is_small(tensor) else None) for tensor in inputs]
            self._function_calls.append((function.graph, arguments))

    def compute_work(self) -> Work:
        """Return what was done; to be called once, after `watch`."""
        try:
            self.price_all()
            works = [_walk_function(graph, arguments) for graph, arguments in self._function_calls]
        except MemoryError:
            raise
        except Exception:  # whatever a formula of the user's raises here: the trace has said it
            return None
        if self.uncounted or self._departures.missing or None in works or not shows_operators():
            return None
        parts = [_add_up(self.executed), *(work for work in works if work is not None)]
        return sum(macs for macs, _ in parts), sum(flops for _, flops in parts)

    def report_run(self, name: str) -> ObservedRun:
        """Return what was seen, as the run of that name."""
        work = self.compute_work()
        return ObservedRun(name, None if work is None else work[0])


def operator_macs(executed: Iterable[Executed]) -> int | None:
    """Return the multiply-accumulates of all operators; None where formulas of the user's stand for whole layers."""
    if any(hasattr(key, "layer") for key in COSTS.list_added()):
        return None
    return sum(op.macs for op in executed)


def sum_work(walk: Walk) -> Work:
    """Return the work of a walk: None where something is not counted, or depends on what the graph does not tell."""
    return None if walk.uncounted or walk.choices else _add_up(walk.executed)


def _add_up(executed: Iterable[Executed]) -> tuple[int, int]:
    works = [(op.macs, op.flops) for op in executed]
    return sum(macs for macs, _ in works), sum(flops for _, flops in works)


def _walk_function(graph: Any, arguments: Sequence[tuple[Any, Any]]) -> Work:
    """Return the work of a function's graph for arguments of these shapes and, where they are small, values."""
    if len(graph.inputs) != len(arguments):
        return None
    walk = Walk(Ownership())
    values = []
    for placeholder, (shape, constant) in zip(graph.inputs, arguments, strict=True):
        value = walk.folding.new_value(shape, placeholder.dtype.name, placeholder)
        value.constant = None if placeholder.dtype in (tf.resource, tf.variant) else constant
        values.append(value)
    try:
        walk.run(graph, values)
        return sum_work(walk)
    finally:
        walk.folding.release()


@contextmanager
def _note_functions(functions: dict[str, Any]) -> Iterator[None]:
    """Note the functions that are called, by the names that TensorFlow has for them."""
    original = getattr(FUNCTION_CLASS, CALL_FLAT, None)
    if original is None:  # a function is then an operator that nobody knows, so that the work is not known
        yield
        return

    def call_flat(self: Any, *args: Any) -> Any:
        if tf.executing_eagerly():
            functions[self.name.decode()] = self
        return original(self, *args)

    with replace_attribute(FUNCTION_CLASS, CALL_FLAT, call_flat):
        yield
