"""What was meant by inputs that a model does not take: a shape that has the batch in it, or a shape for inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ..backend import Backend
from ..errors import ArgumentError, InputError, ModelFailedError
from ..input_shapes import InputShapes, TensorSpec, dtype_name, parse_input_shape, write_shapes
from ..inputs import ModelInputs
from ..protocols import fit_inputs
from .input_source import InputSource

__all__ = ["correct_error"]

_Failure = TypeVar("_Failure", bound=Exception)


class _Proposal(NamedTuple):
    """What the user may have meant.

    Attributes:
        mistake: What is wrong with the arguments as they are: the beginning of a message.
        shapes: The shapes of one sample.
        batch_size: The number of samples.
    """

    mistake: str
    shapes: InputShapes
    batch_size: int


def correct_error(
    error: _Failure,
    source: InputSource | None,
    backend: Backend,
    model: Any,
    function: Callable[..., Any] | None = None,
) -> _Failure | InputError:
    """Return an error of a model or of its inputs, with a correction of the shape that the model does not take.

    Two mistakes are known: a shape that begins with the batch, where the shape of one sample is expected, and a shape
    in place of inputs. Each correction is tried: the whole model is traced with it. If no shape was given, or if no
    correction works, the error itself is returned. If the inputs have another floating-point dtype than the weights,
    the error of a model names both dtypes.
    """
    if source is None or isinstance(error, ArgumentError) or not isinstance(error, (InputError, ModelFailedError)):
        return error
    for proposal in _list_proposals(source):
        if _is_taken(proposal, backend, model, function):
            better = InputError(f"{proposal.mistake}; give {_write_arguments(proposal)}; as it is, {error}")
            better.__cause__ = error.__cause__ or error
            return better
    if source.shapes is not None or isinstance(error, InputError):  # which names the dtypes itself
        return error
    return _name_dtypes(error, source.example, backend, model)


def _name_dtypes(error: _Failure, example: Any, backend: Backend, model: Any) -> _Failure | InputError:
    """Return an error that names the dtypes, if the inputs have another floating-point dtype than the model takes."""
    usual = backend.usual_dtype(model)
    dtypes = [dtype_name(leaf.dtype) for leaf in ModelInputs.of(example).leaves() if hasattr(leaf, "dtype")]
    other = next((dtype for dtype in dtypes if "float" in dtype and dtype != usual), None)
    if other is None:
        return error
    named = InputError(f"{error} The inputs are of {other}; input_shape= in place of inputs makes inputs of {usual}")
    named.__cause__ = error.__cause__ or error
    return named


def _is_taken(proposal: _Proposal, backend: Backend, model: Any, function: Callable[..., Any] | None) -> bool:
    """Return whether the model can be traced with inputs of the proposed shapes."""
    try:
        inputs = InputSource(shapes=proposal.shapes).build(backend, proposal.batch_size, model)
        fitted = fit_inputs(backend, model, inputs)
        return backend.trace(model, fitted.given_to(function)).failure is None
    except MemoryError:
        raise
    except Exception:  # whatever is wrong with it: it is no proposal
        return False


def _list_proposals(source: InputSource) -> Iterator[_Proposal]:
    """Yield what may have been meant, the likeliest first."""
    if source.shapes is not None:
        argument = f"input_shape={write_shapes(source.shapes)}"
        yield from _remove_batch(source.shapes, f"{argument} begins with the batch, and is to be that of one sample")
        return
    sizes = _read_whole_numbers(source.example)
    if sizes is None:
        return
    try:
        shapes = parse_input_shape(sizes)
    except ArgumentError:  # no shape after all
        return
    mistake = f"inputs={sizes!r} is a shape, and no inputs"
    yield from _remove_batch(shapes, mistake)
    yield _Proposal(mistake, shapes, batch_size=1)


def _read_whole_numbers(example: Any) -> tuple[int, ...] | None:
    """Return the numbers of inputs that are nothing but whole numbers, as a shape is; None for all other inputs."""
    values = example.args if isinstance(example, ModelInputs) and not example.kwargs else example
    if not isinstance(values, (tuple, list)) or not values:
        return None
    return tuple(values) if all(type(value) is int for value in values) else None


def _remove_batch(shapes: InputShapes, mistake: str) -> Iterator[_Proposal]:
    """Yield the shapes without their first size as the batch; nothing unless all of them begin with the same size."""
    sizes = {spec.shape[0] if spec.shape else None for spec in (*shapes.positional, *shapes.named.values())}
    batch_size = sizes.pop() if len(sizes) == 1 else None
    if batch_size is not None:
        positional = tuple(map(_remove_first_size, shapes.positional))
        named = {name: _remove_first_size(spec) for name, spec in shapes.named.items()}
        yield _Proposal(mistake, InputShapes(positional, named), batch_size)


def _remove_first_size(spec: TensorSpec) -> TensorSpec:
    return replace(spec, shape=spec.shape[1:])


def _write_arguments(proposal: _Proposal) -> str:
    """Return what to give, in Python and on the command line."""
    shapes = proposal.shapes
    arguments = f"input_shape={write_shapes(shapes)}"
    options = [f"--input-shape {_write_option(spec)}" for spec in shapes.positional]
    options += [f"--input-shape {name}={_write_option(spec)}" for name, spec in shapes.named.items()]
    if proposal.batch_size != 1:
        arguments += f", batch_size={proposal.batch_size}"
        options.append(f"--batch-size {proposal.batch_size}")
    return f"{arguments} (on the command line {' '.join(options)})"


def _write_option(spec: TensorSpec) -> str:
    sizes = ",".join(map(str, spec.shape))
    return sizes if spec.dtype == "float32" else f"{sizes}:{spec.dtype}"
