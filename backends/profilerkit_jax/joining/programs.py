"""The program that XLA compiles of a model, as text: each layer in a scope whose name XLA keeps with its instructions.

Nothing is run. The same versions name the instructions of the same program alike, so that a profile's names are found
in it.
"""

from __future__ import annotations

from typing import Any

import jax

from profilerkit import ModelInputs

from ..model.arrays import is_array
from ..model.calls import bind_call, compile_function
from ..model.scope_names import Marks
from ..model.subject import Pass
from ..model.subjects import find_subject
from ..training.steps import make_step

__all__ = ["compile_program"]


def compile_program(model: Any, inputs: ModelInputs, training: bool) -> str:
    """Return the text of the program that XLA compiles of a pass or a training step; raises as a run does."""
    subject = find_subject(model)
    call = bind_call(subject, inputs, Pass(training, Marks()))

    def outputs(weights: Any, arrays: Any) -> list[Any]:
        return [leaf for leaf in jax.tree.leaves(call(weights, arrays)[0]) if is_array(leaf)]

    function = make_step(subject, call) if training else outputs
    return compile_function(function, subject, inputs).as_text() or ""
