"""What to give in place of a shape that the model does not take: looked for only where the model has failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..backend import Backend
from ..errors import ArgumentError, InputError, ModelFailedError
from ..input_shapes import TensorSpec, parse_input_shape, write_shapes
from ..inputs import ModelInputs
from ..protocols import fit_inputs

if TYPE_CHECKING:
    from .input_source import InputSource

__all__ = ["correct_error"]

_Failure = TypeVar("_Failure", bound=Exception)


def correct_error(
    error: _Failure,
    source: InputSource | None,
    backend: Backend,
    model: Any,
    function: Callable[..., Any] | None = None,
) -> _Failure | InputError:
    """Return an error of a model, or of its inputs, with what to give in place of a shape that it does not take.

    Nothing is looked for where no shape was given; the error is returned as it is then, and where nothing else works.
    """
    if source is None or not isinstance(error, (InputError, ModelFailedError)):
        return error
    message = _correction(source, backend, model, function)
    if message is None:
        return error
    better = InputError(f"{message}; as it is, {error}")
    better.__cause__ = error.__cause__ or error
    return better


def _correction(source: InputSource, backend: Backend, model: Any, function: Callable[..., Any] | None) -> str | None:
    """Return what to give in place of shapes that a model has failed with; None where nothing else is taken.

    Two mistakes are looked for: a shape that begins with the batch, where that of one sample is asked for, and a shape
    in the place of inputs. The model is traced with what was most likely meant, and that is proposed only where it
    works.
    """
    for message, shapes, batch_size in _proposals(source):
        proposed = replace(source, example=None, shapes=shapes)
        try:
            inputs = fit_inputs(backend, model, proposed.build(backend, batch_size, model))
            works = backend.trace(model, inputs.given_to(function)).failure is None
        except MemoryError:
            raise
        except Exception:  # whatever is wrong with it: it is no proposal
            works = False
        if works:
            return f"{message}; give {_call(shapes, batch_size)}"
    return None


_Shapes = tuple[tuple[TensorSpec, ...], dict[str, TensorSpec]]


def _proposals(source: InputSource) -> Iterator[tuple[str, _Shapes, int]]:
    """Yield what may have been meant: what is wrong with what was given, the shapes of one sample, the batch size."""
    if source.shapes is not None:
        split = _without_batch(source.shapes)
        if split is not None:
            yield (
                f"input_shape={write_shapes(*source.shapes)} begins with the batch, and is to be that of one sample",
                *split,
            )
        return
    sizes = _shape_among(source.example)
    if sizes is None:
        return
    message = f"inputs={tuple(sizes)!r} is a shape, and no inputs"
    try:
        whole: _Shapes = parse_input_shape(tuple(sizes))
    except ArgumentError:  # no shape after all
        return
    split = _without_batch(whole)
    if split is not None:
        yield message, *split
    yield message, whole, 1


def _shape_among(example: Any) -> Sequence[int] | None:
    """Return what is given as inputs where it can be a shape: whole numbers alone."""
    values = example.args if isinstance(example, ModelInputs) and not example.kwargs else example
    if not isinstance(values, (tuple, list)) or not values:
        return None
    return values if all(type(value) is int for value in values) else None


def _without_batch(shapes: _Shapes) -> tuple[_Shapes, int] | None:
    """Return shapes without their first number, and that number; None where they have none in common."""
    positional, named = shapes
    firsts = {spec.shape[0] if spec.shape else None for spec in (*positional, *named.values())}
    first = firsts.pop() if len(firsts) == 1 else None
    if first is None:
        return None
    samples = tuple(replace(spec, shape=spec.shape[1:]) for spec in positional)
    return (samples, {name: replace(spec, shape=spec.shape[1:]) for name, spec in named.items()}), first


def _call(shapes: _Shapes, batch_size: int) -> str:
    positional, named = shapes
    options = [f"--input-shape {_option(spec)}" for spec in positional]
    options += [f"--input-shape {name}={_option(spec)}" for name, spec in named.items()]
    beside, option = ("", "") if batch_size == 1 else (f", batch_size={batch_size}", f" --batch-size {batch_size}")
    return f"input_shape={write_shapes(*shapes)}{beside} (on the command line {' '.join(options)}{option})"


def _option(spec: TensorSpec) -> str:
    sizes = ",".join(map(str, spec.shape))
    return sizes if spec.dtype == "float32" else f"{sizes}:{spec.dtype}"
