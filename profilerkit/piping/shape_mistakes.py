"""Mistakes in inputs that a model does not take: a shape with the batch, a shape in place of inputs, a wrong dtype."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..backend import Backend
from ..errors import ArgumentError, InputError, ModelFailedError
from ..input_shapes import InputShapes, TensorSpec, dtype_name, write_shapes
from ..inputs import ModelInputs
from ..protocols import fit_inputs
from .input_source import InputSource

__all__ = ["explain_inputs"]


def explain_inputs(
    error: Exception,
    source: InputSource | None,
    backend: Backend,
    model: Any,
    call: Callable[..., Any] | None,
) -> Exception:
    """Return an error of a model, or of its inputs, with the mistake in how these were given, if one is found.

    ``call`` is the function that is called in place of the model; None for the model itself.
    """
    kind = next((kind for kind in (InputError, ModelFailedError) if isinstance(error, kind)), None)
    if source is None or kind is None or isinstance(error, ArgumentError):
        return error
    hint = ""
    if source.shapes is not None:
        hint = _find_batch_in_shapes(source.shapes, backend, model, call)
    elif kind is ModelFailedError:
        hint = _describe_example(source.example, backend, model)
    if not hint:
        return error
    explained = kind(f"{error}; {hint}")
    explained.__cause__ = error.__cause__ or error
    return explained


def _find_batch_in_shapes(shapes: InputShapes, backend: Backend, model: Any, call: Callable[..., Any] | None) -> str:
    """Return how to give shapes that begin with the batch; empty if they do not, or the model fails with these too."""
    batch_sizes = {spec.shape[:1] for spec in (*shapes.positional, *shapes.named.values())}
    if len(batch_sizes) != 1 or batch_sizes == {()}:
        return ""
    ((batch_size,),) = batch_sizes

    def cut(spec: TensorSpec) -> TensorSpec:
        return replace(spec, shape=spec.shape[1:])

    samples = InputShapes(tuple(map(cut, shapes.positional)), {name: cut(spec) for name, spec in shapes.named.items()})
    try:
        inputs = fit_inputs(backend, model, InputSource(shapes=samples).build(backend, batch_size, model))
        takes_samples = backend.trace(model, inputs.given_to(call)).failure is None
    except MemoryError:
        raise
    except Exception:  # the error of the user's own shapes is the one to show
        return ""
    if not takes_samples:
        return ""
    return (
        f"input_shape={write_shapes(shapes)} is of one sample, and the batch is put in front of it; the model takes "
        f"input_shape={write_shapes(samples)}, batch_size={batch_size}"
    )


def _describe_example(example: Any, backend: Backend, model: Any) -> str:
    """Return what is unusual in example inputs: only whole numbers, or a dtype that no weight of the model has."""
    leaves = [*ModelInputs.of(example).leaves()]
    if leaves and all(type(leaf) is int for leaf in leaves):
        return f"the inputs are whole numbers; if they are a shape, give input_shape={tuple(leaves)}, without the batch"
    usual = backend.usual_dtype(model)
    dtypes = [dtype_name(leaf.dtype) for leaf in leaves if hasattr(leaf, "dtype")]
    other = next((dtype for dtype in dtypes if "float" in dtype and dtype != usual), None)
    return f"the inputs are of {other}; input_shape= in place of inputs makes inputs of {usual}" if other else ""
