"""What the operators of a real run multiply and add: it is compared with the static trace.

An eager run shows its operators one by one. A function that it calls is one call to TensorFlow: its graph is walked for
the shapes of that call. What is unknown of either leaves the sums unknown, and nothing is compared then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit.backend_kit.replaced_attributes import replace_attribute
from profilerkit.trace.cross_check import ObservedRun

from ..compat.eager_runs import CALL_FLAT, FUNCTION_CLASS, shows_operators
from .control_flow import HANDLERS
from .departures import Departures
from .eager_calls import is_small
from .eager_operators import EagerOperators, watch_operators
from .layers import LayerCalls
from .ownership import Owner, Ownership
from .program import ProgramInput
from .tensor_facts import static_shape
from .values import Executed
from .walk import Walk

__all__ = ["Observation", "SummedWork", "sum_work"]


class SummedWork(NamedTuple):
    """The work of several operators."""

    macs: int
    flops: int


class _FunctionCall(NamedTuple):
    """The graph of a function that was called, with the shapes of its arguments and the numbers in small ones."""

    graph: Any
    arguments: Sequence[ProgramInput]


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
        self._function_calls: list[_FunctionCall] = []
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
            self._function_calls.append(_FunctionCall(function.graph, list(map(_describe_argument, inputs))))

    def compute_work(self) -> SummedWork | None:
        """Return what was done, None where not all of it is known; to be called once, after `watch`."""
        try:
            self.price_all()
            works = [_walk_function(call) for call in self._function_calls]
        except MemoryError:
            raise
        except Exception:  # whatever a formula of the user's raises here: the trace has said it
            return None
        if self.uncounted or self._departures.missing or None in works or not shows_operators():
            return None
        parts = [_add_up(self.executed), *(work for work in works if work is not None)]
        return SummedWork(sum(part.macs for part in parts), sum(part.flops for part in parts))

    def report_run(self, name: str) -> ObservedRun:
        """Return what was seen, as the run of that name."""
        work = self.compute_work()
        return ObservedRun(name, None if work is None else work.macs)


def sum_work(walk: Walk) -> SummedWork | None:
    """Return the work of a walk: None where something is not counted, or depends on what the graph does not tell."""
    work = walk.work
    return None if work.count_missing() or work.choices else _add_up(work.executed)


def _add_up(executed: Iterable[Executed]) -> SummedWork:
    operators = list(executed)
    return SummedWork(sum(op.macs for op in operators), sum(op.flops for op in operators))


def _describe_argument(tensor: Any) -> ProgramInput:
    return ProgramInput(static_shape(tensor), tensor.numpy() if is_small(tensor) else None)


def _walk_function(call: _FunctionCall) -> SummedWork | None:
    """Return the work of the graph of a function that was called."""
    graph = call.graph
    if len(graph.inputs) != len(call.arguments):
        return None
    with Walk(Ownership(), HANDLERS) as walk:
        values = []
        for placeholder, argument in zip(graph.inputs, call.arguments, strict=True):
            value = walk.folding.new_value(argument.shape, placeholder.dtype.name, placeholder)
            value.constant = None if placeholder.dtype in (tf.resource, tf.variant) else argument.numbers
            values.append(value)
        walk.run(graph, values)
        return sum_work(walk)


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
