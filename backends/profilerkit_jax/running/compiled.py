"""XLA's own numbers of the compiled program: beside the counts of the jaxpr, and never mixed with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from profilerkit import ModelInputs

from ..model.calls import bind_call, compile_function, make_forward
from ..model.subject import Pass
from ..model.subjects import find_subject

__all__ = ["CompiledAnalysis", "compiled_analysis"]


@dataclass(frozen=True)
class CompiledAnalysis:
    """XLA's own numbers of a compiled forward pass; None if XLA does not tell.

    XLA counts the program after its rewrites, and by other rules: a loop is counted once however often it runs, a
    convolution without the padding, an exponential as a transcendental and not as a FLOP.

    Attributes:
        flops: Floating-point operations, by `cost_analysis`.
        transcendentals: Exponentials, logarithms and other such functions, which are not among the FLOPs.
        bytes_accessed: Bytes that all operators read and write.
        argument_bytes: Bytes of weights and inputs, by `memory_analysis`.
        output_bytes: Bytes of the outputs.
        temporary_bytes: The most bytes that are alive at once beside arguments and outputs.
        code_bytes: Bytes of the program itself.
    """

    flops: float | None = None
    transcendentals: float | None = None
    bytes_accessed: float | None = None
    argument_bytes: int | None = None
    output_bytes: int | None = None
    temporary_bytes: int | None = None
    code_bytes: int | None = None


def compiled_analysis(model: Any, *inputs: Any, **keywords: Any) -> CompiledAnalysis:
    """Compile one forward pass and return XLA's analysis of it; shapes are enough, and nothing is run.

    Raises `ModelFailedError` if the model cannot be traced or compiled.

    >>> import jax.numpy as jnp
    >>> analysis = compiled_analysis(lambda x: x @ x, jnp.ones((8, 8)))
    >>> analysis.flops, analysis.output_bytes
    (1024.0, 256)
    """
    subject = find_subject(model)
    model_inputs = ModelInputs(*inputs, **keywords)
    forward = make_forward(bind_call(subject, model_inputs, Pass()))
    compiled = compile_function(forward, subject, model_inputs)
    costs: Any = compiled.cost_analysis() or {}
    costs = costs[0] if isinstance(costs, (list, tuple)) else costs  # JAX promises no form of it
    memory = compiled.memory_analysis()

    def size(name: str) -> int | None:
        return None if memory is None else int(getattr(memory, f"{name}_size_in_bytes"))

    def number(name: str) -> float | None:
        value = costs.get(name)
        return None if value is None or value < 0 else value  # -1 where XLA for a GPU does not know

    return CompiledAnalysis(
        number("flops"),
        number("transcendentals"),
        number("bytes accessed"),
        size("argument"),
        size("output"),
        size("temp"),
        size("generated_code"),
    )
