"""Inputs and weights for the walks over graphs of TensorFlow: one product, so that each run of it counts as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from small import by_shapes, cost, ones

from profilerkit import ModelTrace
from profilerkit_tensorflow.trace.program import trace_program
from profilerkit_tensorflow.trace.program_trace import trace_of_program
from profilerkit_tensorflow.untouched.preservation import preserve

__all__ = ["ONE", "Function", "W", "X", "macs", "walk_graph"]

Function = Callable[..., Any]

#: One product of these is 2 * 3 * 3 multiply-accumulates.
X, W = ones(2, 3), ones(3, 3)
ONE = 2 * 3 * 3


def macs(function: Function, *args: Any) -> int:
    return cost(function, *(args or (X,)))[0]


def walk_graph(function: Function, *args: Any) -> ModelTrace:
    """Return the trace of the graph alone, which no eager run completes, for inputs whose numbers decide nothing."""
    with preserve(function):
        return trace_of_program(trace_program(function, by_shapes(*args)))
