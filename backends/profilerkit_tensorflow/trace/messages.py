"""What is said of a model that raised, and of inputs that no Keras model can take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from profilerkit import InputError, ModelFailedError, ModelInputs
from profilerkit.backend_kit.failures import failure_of
from profilerkit.backend_kit.keras_layers import declared_shapes, is_keras, is_legacy_keras, own_variables
from profilerkit.errors import BackendFailedError

from ..model.kinds import is_function
from ..model.variables import _Parts as Parts
from .layers import named_layers

__all__ = ["failed", "only_in_graphs", "require_tensors", "unmade_weights"]

_WAYS = (
    "the ways are inputs=x (arrays or tensors, with the batch dimension), input_shape=(8, 8, 3) (of one sample), or "
    "data_splits={'train': dataset}"
)
#: What TensorFlow says of a symbolic tensor that Python code asks for its value: of a model that must run eagerly.
_NO_VALUE = ("ymbolic", "in a graph", "as a Python bool")


def failed(model: Any, error: Exception, inputs: ModelInputs) -> ModelFailedError | BackendFailedError:
    """Return what is said of a pass that raised: of the model, or of this package where the error was its own.

    Of a model that declares the rank of its inputs, that is said where these have another.
    """
    hints = list(_wrong_ranks(model, inputs))[:1]
    return failure_of(error, inputs, "tensorflow", __package__, *hints)


def only_in_graphs(error: BaseException | None) -> bool:
    """Say whether an error only tells that code cannot be traced, not what is wrong with the model."""
    return isinstance(error, NotImplementedError) or any(part in str(error) for part in _NO_VALUE)


def require_tensors(model: Any, inputs: ModelInputs) -> None:
    """Raise `InputError` for inputs that no Keras model can take, and say in which way they should be given.

    Such are symbolic tensors, types of tensors, data sets and iterators, and numbers where no tensor is beside them.
    """
    if not (is_keras(model) or is_legacy_keras(model)):
        return
    leaves = list(inputs.leaves())
    for leaf in leaves:
        said = _refused(leaf)
        if said is not None:
            raise InputError(f"inputs={_brief(leaf)} {said}; {_WAYS}")
    if not leaves or not all(isinstance(leaf, (bool, int, float, complex)) for leaf in leaves):
        return
    if all(type(leaf) is int for leaf in inputs.args) and not inputs.kwargs:
        raise InputError(
            f"inputs={inputs.args!r} are numbers, not tensors; if this is a shape, give it as input_shape=, without "
            f"the batch dimension; {_WAYS}"
        )
    raise InputError(
        f"inputs of {len(leaves)} Python numbers are no tensors; give a numpy array, np.asarray(x); {_WAYS}"
    )


def unmade_weights(model: Any) -> str:
    """Say which Keras layers of a model have no weights yet, since its first call makes them; empty where none."""
    inside = {id(layer): layer for outer in _keras_layers(model) for layer in outer._flatten_layers()}
    names = [layer.name for layer in inside.values() if _lacks_weights(layer)]
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"the weights of {shown}, which the first call makes: give inputs or input_shape"


def _keras_layers(model: Any) -> list[Any]:
    """Return the Keras layers that a model leads to: itself, those inside a module, those that a function names."""
    if is_keras(model) or is_legacy_keras(model):
        return [model]
    if is_function(model):
        return Parts(model).layers
    return [layer for _, layer in named_layers(model) if is_keras(layer) or is_legacy_keras(layer)]


def _lacks_weights(layer: Any) -> bool:
    """Say whether a layer will make weights in a ``build`` that has not run."""
    if layer.built or any(True for _ in own_variables(layer)):
        return False
    bases = [base for base in type(layer).__mro__ if base.__name__ in ("Layer", "Model", "Sequential", "Functional")]
    shipped = [base for base in bases if base.__module__.partition(".")[0] in ("keras", "tf_keras")]
    return all(type(layer).build is not getattr(base, "build", None) for base in shipped)


def _refused(leaf: Any) -> str | None:
    """Return what is wrong with an input that is no value at all; None where nothing is."""
    if type(leaf).__name__ == "KerasTensor" and type(leaf).__module__.partition(".")[0] in ("keras", "tf_keras"):
        return f"is a symbolic tensor without values; give input_shape={_sample_shape(leaf)}"
    if isinstance(leaf, tf.TypeSpec):
        return f"is the type of a tensor, without values; give input_shape={_sample_shape(leaf)}"
    if isinstance(leaf, tf.data.Dataset):
        return "is a data set, not one batch; give it as data_splits={'train': dataset}"
    if hasattr(leaf, "__next__"):
        return "is an iterator, not one batch; give data_splits={'train': loader}, of a loader that can be read twice"
    return None


def _sample_shape(symbolic: Any) -> str:
    shape = getattr(symbolic, "shape", None)
    return "..." if shape is None or getattr(shape, "rank", 0) is None else repr(tuple(shape)[1:])


def _brief(leaf: Any) -> str:
    return f"<{type(leaf).__name__}>"


def _wrong_ranks(model: Any, inputs: ModelInputs) -> Iterator[str]:
    """Yield what an input lacks, or has too much, that is of another rank by one than the model declares."""
    declared = declared_shapes(model) if is_keras(model) or is_legacy_keras(model) else []
    if len(declared) != len(inputs.args) or inputs.function is not None:
        return
    for leaf, shape in zip(inputs.args, declared, strict=True):
        if not tf.is_tensor(leaf) or leaf.shape.rank is None:
            continue
        excess = leaf.shape.rank - len(shape)
        if abs(excess) == 1:
            wrong = "the batch dimension is missing" if excess < 0 else "there is one dimension too many"
            yield f"it takes {shape}, and got {tuple(leaf.shape)}: {wrong}"
