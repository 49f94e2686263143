"""The multiply-accumulates of a real run's operators: they are compared with the static trace.

An eager run shows its operators one by one. A function that it calls is one call to TensorFlow: its graph is walked for
the shapes of that call. If any cost is unknown, the sums are unknown, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit.backend_kit.replaced_attributes import replace_attribute
from profilerkit.trace.observed_runs import ObservedRun

from ..compat.eager_runs import CALL_FLAT, FUNCTION_CLASS, shows_operators
from .control_flow import HANDLERS
from .eager_operators import MOST_READ, EagerCall, EagerOperators
from .folding import small_value
from .ownership import Ownership
from .program import ProgramInput
from .tensor_facts import static_shape
from .walk import Walk

__all__ = ["Observation", "sum_macs"]


class _FunctionCall(NamedTuple):
    """The graph of a function that was called, with the shapes of its arguments and the numbers in small ones."""

    graph: Any
    arguments: Sequence[ProgramInput]


class Observation(EagerOperators):
    """Sees each operator that this thread runs, and each function that it calls."""

    def __init__(self) -> None:
        super().__init__()
        self._root = Ownership().root
        #: The functions by the names by which TensorFlow's callback knows them.
        self._functions: dict[str, Any] = {}
        self._function_calls: list[_FunctionCall] = []

    def observe(self, call: Callable[[], Any]) -> None:
        """Run a call of the model, and see what it runs."""
        with _note_functions(self._functions), self.watch():
            outputs = call()
        self.note_results(outputs)

    def see(self, call: EagerCall) -> None:
        """Keep an operator, or the call of a function, which TensorFlow shows as an operator of the function's name."""
        function = self._functions.get(call.kind)
        if function is None:
            self.record(call, self._root)
        else:
            arguments = [ProgramInput(static_shape(x), small_value(x, MOST_READ)) for x in call.inputs]
            self._function_calls.append(_FunctionCall(function.graph, arguments))

    def report_run(self, name: str) -> ObservedRun:
        """Return the observed run under a name; call this once, after `observe`."""
        return ObservedRun(name, self._sum_macs())

    def _sum_macs(self) -> int | None:
        """Return the multiply-accumulates of all that ran; None if not all of them are known."""
        try:
            self.price_all()
            of_functions = list(map(_sum_macs_of_call, self._function_calls))
        except MemoryError:
            raise
        except Exception:  # any error of the user's formula: the trace has reported it
            return None
        if self.uncounted or self._departures.missing or None in of_functions or not shows_operators():
            return None
        return sum(op.macs for op in self.executed) + sum(macs for macs in of_functions if macs is not None)


def sum_macs(walk: Walk) -> int | None:
    """Return the multiply-accumulates of a walk: None if any are not counted, or depend on a choice of the run."""
    work = walk.work
    return None if work.count_missing() or work.choices else sum(op.macs for op in work.operators)


def _sum_macs_of_call(call: _FunctionCall) -> int | None:
    """Return the multiply-accumulates of the graph of a function that was called."""
    graph = call.graph
    if len(graph.inputs) != len(call.arguments):
        return None
    walk = Walk(Ownership(), HANDLERS)
    values = []
    for placeholder, argument in zip(graph.inputs, call.arguments, strict=True):
        value = walk.folding.new_value(argument.shape, placeholder.dtype.name, placeholder)
        value.constant = None if placeholder.dtype in (tf.resource, tf.variant) else argument.numbers
        values.append(value)
    walk.run(graph, values)
    return sum_macs(walk)


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
