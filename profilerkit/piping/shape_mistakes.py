"""Mistakes in inputs that a model does not take: a shape with the batch, a shape in place of inputs, a wrong dtype."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..backend import Backend
from ..errors import ArgumentError, InputError, ModelFailedError
from ..input_shapes import DEFAULT_DTYPE, InputShapes, dtype_name, write_shapes
from ..inputs import ModelInputs
from .input_source import InputSource

__all__ = ["explain_inputs"]


def explain_inputs(error: Exception, source: InputSource | None, backend: Backend, model: Any) -> Exception:
    """Return an error of a model, or of its inputs, with how these were given, which is often the mistake."""
    kind = next((kind for kind in (InputError, ModelFailedError) if isinstance(error, kind)), None)
    if source is None or kind is None or isinstance(error, ArgumentError):
        return error
    hint = ""
    if source.shapes is not None:
        hint = _describe_shapes(source.shapes)
    elif kind is ModelFailedError:
        hint = _describe_example(source.example, backend, model)
    if not hint:
        return error
    explained = kind(f"{error}; {hint}")
    explained.__cause__ = error.__cause__ or error
    return explained


def _describe_shapes(shapes: InputShapes) -> str:
    """Return what a shape means, and the call for a shape that begins with the batch."""
    hint = f"input_shape={write_shapes(shapes)} is of one sample, and the batch is put in front of it"
    if len(shapes.positional) != 1 or len(shapes.positional[0].shape) < 2:
        return hint
    (spec,) = shapes.positional
    batch_size, *sample = spec.shape
    written = write_shapes(InputShapes((replace(spec, shape=tuple(sample)),), {}))
    option = ",".join(map(str, sample)) + ("" if spec.dtype == DEFAULT_DTYPE else f":{spec.dtype}")
    return (
        f"{hint}; if it begins with the batch, give input_shape={written}, batch_size={batch_size} "
        f"(on the command line --input-shape {option} --batch-size {batch_size})"
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
