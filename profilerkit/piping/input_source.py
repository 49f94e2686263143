"""Where the inputs of a model come from, and how many samples they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from ..arguments.structures import require_shallow
from ..backend import Backend
from ..backend_kit.failures import require_answer
from ..errors import ArgumentError, FailureCode, InputError, ModelFailedError, classify
from ..input_shapes import DEFAULT_DTYPE, InputShapes, TensorSpec, parse_input_shape, write_shapes
from ..inputs import ModelInputs, NoInputs
from ..protocols import fit_inputs
from ..trace.records import ModelTrace

__all__ = ["InputSource", "find_batch_size", "makes_inputs", "resize"]


def makes_inputs(value: Any) -> bool:
    """Return whether a value makes inputs from a batch size; other objects that can be called are inputs.

    A graph of a graph library can be called, and so can a layer: nothing but its type tells what a value is for.
    """
    return isinstance(value, (FunctionType, BuiltinFunctionType, MethodType, partial, type))


@dataclass(frozen=True)
class InputSource:
    """Where inputs come from, as the user gave it: example inputs, a callable of the batch size, or shapes alone."""

    example: Any = None
    shapes: InputShapes | None = None

    @classmethod
    def of(cls, inputs: Any, input_shape: Any) -> InputSource | None:
        """Read the two ways to give inputs; None where neither is used."""
        if inputs is not None and input_shape is not None:
            raise ArgumentError("both inputs and input_shape were given; give one of them")
        if input_shape is not None:
            return cls(shapes=parse_input_shape(input_shape))
        require_shallow("inputs", inputs)
        return None if inputs is None else cls(example=inputs)

    def build(self, backend: Backend, batch_size: int | None, model: Any = None) -> ModelInputs:
        """Return inputs of the batch size; of the example's own, or 1 for shapes, where it is None.

        An example is fitted to the model before it is resized: what is no tensor at all has no batch to resize.
        """
        if self.shapes is not None:
            return _make_random_inputs(self.shapes, backend, batch_size or 1, model)
        if makes_inputs(self.example):
            with backend.preserve(model):  # code of the user's may touch it
                return ModelInputs.of(self.example(batch_size or 1)).map(backend.as_tensor)
        inputs = ModelInputs.of(self.example).map(backend.as_tensor)
        return inputs if batch_size is None else resize(fit_inputs(backend, model, inputs), backend, batch_size, model)

    def explain(self, error: Exception) -> Exception:
        """Return an error of the model or its inputs, with what a shape means where one is given or may be meant."""
        if isinstance(error, ArgumentError) or not isinstance(error, (InputError, ModelFailedError)):
            return error
        leaves = [] if self.shapes is not None else [*ModelInputs.of(self.example).leaves()]
        if self.shapes is not None:
            hint = f"input_shape={write_shapes(self.shapes)} is of one sample: the batch is put in front of it"
        elif leaves and all(type(leaf) is int for leaf in leaves):
            hint = f"if these numbers are the shape of one sample, give input_shape={tuple(leaves)}"
        else:
            return error
        kind = InputError if isinstance(error, InputError) else ModelFailedError
        explained = kind(f"{error}; {hint}")
        explained.__cause__ = error.__cause__ or error
        return explained


def _make_random_inputs(shapes: InputShapes, backend: Backend, batch_size: int, model: Any) -> ModelInputs:
    """Return inputs of these shapes; a shape that was given without a dtype has the dtype that the model takes."""
    usual_dtype = DEFAULT_DTYPE if model is None else backend.usual_dtype(model)

    def make_tensor(spec: TensorSpec) -> Any:
        if spec.has_usual_dtype:
            spec = replace(spec, dtype=usual_dtype)
        with _explain_no_memory(batch_size, spec.shape):
            return backend.random_tensor(spec, batch_size)

    named = {name: make_tensor(spec) for name, spec in shapes.named.items()}
    inputs = ModelInputs(*map(make_tensor, shapes.positional), **named)
    inputs.are_random = True
    return inputs


@contextmanager
def _explain_no_memory(batch_size: int, shape: Sequence[int]) -> Iterator[None]:
    """Raise `ArgumentError` if a batch of inputs does not fit in memory; ``shape`` is the shape of one sample."""
    try:
        yield
    except Exception as error:  # each framework has an error of its own
        if classify(error) is FailureCode.MEMORY:
            raise ArgumentError(
                f"there is no memory for a batch of {batch_size:,} inputs of shape {tuple(shape)}; give a smaller "
                "batch_size"
            ) from error
        raise


# Batch sizes ----------------------------------------------------------------------------------------------------------


def resize(inputs: ModelInputs, backend: Backend, batch_size: int, model: Any) -> ModelInputs:
    """Return the inputs with the batch dimension of every tensor cut or repeated to ``batch_size``.

    The batch dimension is the first one, which all tensors that have dimensions must then share in length. Raises
    `InputError` if they do not, or if the model takes the inputs as another number of samples.
    """
    samples = None if model is None else backend.count_samples(model, inputs)
    lengths = {int(leaf.shape[0]) for leaf in inputs.leaves() if _has_batch(leaf, backend)}
    if samples == batch_size or (samples is None and lengths == {batch_size}):
        return inputs
    if samples is not None and lengths != {samples}:
        raise _make_batch_error(batch_size, samples)
    if len(lengths) != 1:
        sizes = ", ".join(map(str, sorted(lengths))) or "no tensors at all"
        raise InputError(
            f"cannot make a batch of {batch_size} from these inputs: their first dimensions are {sizes}, not one batch "
            "size; give inputs of that batch size, or a callable that builds them from it"
        )
    resized = inputs.map(lambda leaf: _cut_or_repeat(leaf, batch_size, backend))
    if samples is not None and backend.count_samples(model, resized) != batch_size:
        raise _make_batch_error(batch_size, samples)
    return resized


def _has_batch(leaf: Any, backend: Backend) -> bool:
    return backend.is_tensor(leaf) and len(leaf.shape) > 0


def _cut_or_repeat(leaf: Any, batch_size: int, backend: Backend) -> Any:
    """Return a tensor with another length of its first dimension; a value without dimensions unchanged."""
    if not _has_batch(leaf, backend):
        return leaf
    with _explain_no_memory(batch_size, leaf.shape[1:]):
        return backend.with_batch_size(leaf, batch_size)


def _make_batch_error(batch_size: int, samples: int | None) -> InputError:
    batch = "one sample without a batch dimension, or a batch of 1" if samples == 1 else f"a batch of {samples}"
    return InputError(
        f"cannot make a batch of {batch_size} from these inputs: the model takes them as {batch}, not along the first "
        "dimension; give inputs of that batch size, or a callable that builds them from it"
    )


def find_batch_size(
    inputs: ModelInputs | NoInputs, backend: Backend, model: Any = None, trace: ModelTrace | None = None
) -> int | None:
    """Return the number of samples in the inputs: as the model's layers say, else the first dimension that all share.

    None if they share none. ``trace`` is the trace with these inputs, if there is one.
    """
    if isinstance(inputs, NoInputs):
        return None
    samples = None if model is None else backend.count_samples(model, inputs, trace)
    if samples is not None:
        return int(require_answer(backend.name, "count_samples", samples, Integral))
    lengths = {_read_length(leaf) for leaf in inputs.leaves() if backend.is_tensor(leaf)} - {None}
    return lengths.pop() if len(lengths) == 1 else None


def _read_length(tensor: Any) -> int | None:
    """Return the length of a tensor's first dimension; None if it has none, or several lengths."""
    try:
        length = tensor.shape[0] if len(tensor.shape) else None
        return None if length is None else int(length)  # a variable of TensorFlow may have one that changes
    except RuntimeError:  # torch's nested tensors have no shape where their samples have several
        return None
