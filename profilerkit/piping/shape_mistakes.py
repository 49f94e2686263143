"""Mistakes in inputs that a model does not take: a shape with the batch, a shape in place of inputs, a wrong dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..backend import Backend
from ..errors import ArgumentError, InputError, ModelFailedError
from ..input_shapes import InputShapes, TensorSpec, dtype_name, write_shapes
from ..inputs import ModelInputs
from ..protocols import fit_inputs
from .input_source import InputSource

__all__ = ["explain_inputs"]

#: The most elements of inputs that are made only to try a shape.
_MOST_ELEMENTS = 2**24


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
        leaves = [*ModelInputs.of(source.example).leaves()]
        hint = _find_shape_in_inputs(leaves, backend, model, call) or _find_other_dtype(leaves, backend, model)
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
    if not _takes(samples, batch_size, backend, model, call):
        return ""
    return (
        f"input_shape={write_shapes(shapes)} is of one sample, and the batch is put in front of it; the model takes "
        f"input_shape={write_shapes(samples)}, batch_size={batch_size}"
    )


def _find_shape_in_inputs(leaves: Sequence[Any], backend: Backend, model: Any, call: Callable[..., Any] | None) -> str:
    """Return how to give inputs that are the sizes of a shape, with or without the batch; empty if they are none."""
    are_sizes = bool(leaves) and all(type(leaf) is int and leaf > 0 for leaf in leaves)
    if not are_sizes or math.prod(leaves) > _MOST_ELEMENTS:
        return ""
    for sizes, batch in ((leaves[1:], f", batch_size={leaves[0]}"), (leaves, "")):
        shapes = InputShapes((TensorSpec(tuple(sizes), has_usual_dtype=True),), {})
        if _takes(shapes, 1, backend, model, call):
            return f"the inputs are whole numbers; if they are a shape, give input_shape={write_shapes(shapes)}{batch}"
    return ""


def _takes(shapes: InputShapes, batch_size: int, backend: Backend, model: Any, call: Callable[..., Any] | None) -> bool:
    """Return whether the model can be traced with inputs of these shapes."""
    try:
        inputs = fit_inputs(backend, model, InputSource(shapes=shapes).build(backend, batch_size, model))
        return backend.trace(model, inputs.given_to(call)).failure is None
    except MemoryError:
        raise
    except Exception:  # the error of the user's own inputs is the one to show
        return False


def _find_other_dtype(leaves: Iterable[Any], backend: Backend, model: Any) -> str:
    """Return the floating-point dtype of inputs that no weight of the model has; empty if there is none."""
    usual = backend.usual_dtype(model)
    dtypes = [dtype_name(leaf.dtype) for leaf in leaves if hasattr(leaf, "dtype")]
    other = next((dtype for dtype in dtypes if "float" in dtype and dtype != usual), None)
    return f"the inputs are of {other}; input_shape= in place of inputs makes inputs of {usual}" if other else ""
