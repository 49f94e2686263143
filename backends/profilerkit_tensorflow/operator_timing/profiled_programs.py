"""Programs for a profiler session: which there are, and a call of one whose kernels are all recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs

from ..trace.program import Program, trace_program
from .node_owners import NodeOwners

__all__ = ["fresh_call", "has_gradient", "make_training_program"]


def has_gradient(program: Program) -> bool:
    """Return whether a gradient can be taken of any output of the model."""
    return any(tensor.dtype.is_floating for tensor in program.graph.outputs)


def make_training_program(model: Any, inputs: ModelInputs, forward: Program) -> tuple[Program, NodeOwners]:
    """Return the program of a training step, and the owners of its nodes; ``forward`` is that of the forward pass."""
    step = trace_program(model, inputs, training=True)
    forward_operators = len(forward.graph.get_operations()) - len(forward.graph.outputs)
    return step, NodeOwners(step, training=True, forward_operators=forward_operators)


def fresh_call(program: Program, inputs: ModelInputs, synchronized: bool) -> Callable[[], None]:
    """Return a call of a program, all of whose kernels TensorFlow's profiler will record."""
    tensors = [leaf for leaf in inputs.leaves() if tf.is_tensor(leaf)]
    # A new function knows no cheap kernels yet, which would not be recorded; a partial is no retracing to TensorFlow.
    function = tf.function(functools.partial(_call, program.concrete), autograph=False)

    def call() -> None:
        function(*tensors)
        if synchronized:
            tf.test.experimental.sync_devices()

    function.get_concrete_function(*tensors)
    return call


def _call(concrete: Any, *tensors: Any) -> Any:
    return concrete(*tensors)
