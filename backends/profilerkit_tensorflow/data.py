"""TensorFlow's batches: tensors, and the numpy arrays and torch tensors that become tensors."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit import DataLoader, ForwardPass, InputError, TensorSpec
from profilerkit.arguments.structures import map_leaves
from profilerkit.backend_kit import numpy_data

from .model.stored_variables import keras_variable_classes

__all__ = ["TFDataLoader", "TFForwardPass", "as_tensor", "is_tensor", "random_tensor", "with_batch_size"]


class TFForwardPass(ForwardPass):
    """Takes a batch apart into the model's inputs and the targets; numpy arrays and torch tensors become tensors.

    With the usual pattern ``(0, '_')`` a batch of three is Keras' ``(inputs, targets, sample_weight)``. The weights are
    left out: every sample counts the same, as for a metric that is given to Keras as ``metrics=``.
    """

    def extract_model_inputs(self, batch: Any) -> Any:
        """Return the inputs of the model for a batch."""
        return super().extract_model_inputs(map_leaves(self._drop_weights(batch), as_tensor))

    def extract_targets(self, batch: Any) -> Any:
        """Return the target of the model's output."""
        return map_leaves(super().extract_targets(self._drop_weights(batch)), as_tensor)

    def _drop_weights(self, batch: Any) -> Any:
        weighted = self.pattern == (0, "_") and isinstance(batch, (tuple, list)) and len(batch) == 3
        return tuple(batch[:2]) if weighted else batch


class TFDataLoader(DataLoader):
    """Wraps a batched ``tf.data.Dataset``, a ``keras.utils.PyDataset``, or any iterable of batches.

    The batches of other iterables may hold numpy arrays or torch tensors: a list of batches, a torch ``DataLoader``.
    Raises `InputError` for a data set of single samples, and for one pair of arrays that is not cut into batches.
    """

    def __init__(self, native: Iterable[Any], forward_pass: ForwardPass | None = None) -> None:
        super().__init__(native, forward_pass or TFForwardPass(model_input_pattern=(0, "_")))
        if isinstance(native, tuple) and len(native) > 1 and all(_is_array(part) or is_tensor(part) for part in native):
            raise InputError(
                "a tuple of arrays is a whole data set, not an iterable of batches; give "
                "tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(32)"
            )
        if isinstance(native, tf.data.Dataset) and not _is_customized(self.forward_pass):
            _require_batches(native)

    def __iter__(self) -> Iterator[Any]:
        native: Any = self.native_dl
        if hasattr(native, "__iter__"):
            return super().__iter__()
        return (native[index] for index in range(len(self)))  # indexing need not raise IndexError at the end

    def __len__(self) -> int:
        """Return the number of batches; raises TypeError if it is not known or infinite."""
        native: Any = self.native_dl
        if isinstance(native, tf.data.Dataset):
            count = int(native.cardinality())
        else:
            count = native.num_batches if hasattr(native, "num_batches") else len(native)
        if count is None or count == tf.data.INFINITE_CARDINALITY:
            raise TypeError("the data set has no end and therefore no length; give dataset.take(n), of n batches")
        if count == tf.data.UNKNOWN_CARDINALITY:
            raise TypeError(
                "the length of the data set is not known; declare it with "
                "dataset.apply(tf.data.experimental.assert_cardinality(n))"
            )
        return int(count)

    @property
    def endless(self) -> bool:
        """Whether the native loader declares that its batches never end, as ``dataset.repeat()`` does."""
        native: Any = self.native_dl
        if isinstance(native, tf.data.Dataset):
            return bool(native.cardinality() == tf.data.INFINITE_CARDINALITY)
        return getattr(native, "num_batches", 0) is None

    @property
    def batch_size(self) -> int | None:
        """The batch size that the native loader declares; None without it, for example with a smaller last batch."""
        if not isinstance(self.native_dl, tf.data.Dataset):
            return super().batch_size
        lengths = {shape[0] for shape in _list_shapes(self.native_dl) if shape.rank}
        return lengths.pop() if len(lengths) == 1 else None


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor (also a ragged or sparse one) or a variable."""
    return isinstance(value, keras_variable_classes()) or bool(tf.is_tensor(value))


def as_tensor(value: Any) -> Any:
    """Return a tensor of the same dtype for a numpy array or a torch tensor; other values unchanged.

    A float64 array stays float64: Keras casts it to the dtype of the model's computation, a plain function does not.
    """
    if not _is_array(value):
        return value
    return tf.convert_to_tensor(numpy_data.as_tensor(value))


def random_tensor(spec: TensorSpec, batch_size: int) -> tf.Tensor:
    """Return normal values of variance 1 for floats, zeros for integers (valid for an embedding of any size).

    Booleans are False, strings empty. The values are the same each time, and no random state is touched.
    """
    dtype = _dtype_named(spec.dtype)
    shape = (batch_size, *spec.shape)
    if dtype.is_complex:
        parts = tf.random.stateless_normal((2, *shape), seed=(0, 0), dtype=dtype.real_dtype)
        half = tf.constant(0.5, dtype.real_dtype)
        return tf.complex(parts[0] * tf.sqrt(half), parts[1] * tf.sqrt(half))
    if dtype.is_floating:
        working = dtype if dtype.size > 1 else tf.float32  # the generator has no 8-bit floats
        return tf.cast(tf.random.stateless_normal(shape, seed=(0, 0), dtype=working), dtype)
    return tf.zeros(shape, dtype)


def with_batch_size(tensor: Any, batch_size: int) -> Any:
    """Return the tensor with its first dimension cut, or repeated, to ``batch_size``; ragged and sparse ones too."""
    if isinstance(tensor, (tf.Variable, *keras_variable_classes())):
        tensor = tf.convert_to_tensor(tensor)
    length = int(tensor.shape[0])
    if length == 0:
        raise InputError("an input has an empty batch, which cannot be repeated to a batch size")
    copies = [tensor] * math.ceil(batch_size / length)
    if isinstance(tensor, tf.SparseTensor):
        sizes = [batch_size, *tensor.shape[1:]]
        return tf.sparse.slice(tf.sparse.concat(0, copies), [0] * len(sizes), sizes)
    repeated = tf.concat(copies, 0) if len(copies) > 1 else tensor
    return repeated[:batch_size]


def _dtype_named(name: str) -> tf.DType:
    try:
        dtype = tf.as_dtype(name)
        usable = dtype not in (tf.resource, tf.variant) and not name.endswith("_ref")
    except TypeError:
        usable = False
    if not usable:
        raise InputError(f"TensorFlow has no dtype {name!r}; use a name such as 'float32', 'int64' or 'bool'")
    return dtype


def _is_array(value: Any) -> bool:
    """Return whether a value is a numpy array or a torch tensor; torch is not imported for it."""
    return isinstance(value, (np.ndarray, getattr(sys.modules.get("torch"), "Tensor", np.ndarray)))


def _is_customized(forward_pass: ForwardPass) -> bool:
    stock = (ForwardPass.extract_model_inputs, TFForwardPass.extract_model_inputs)
    return type(forward_pass).extract_model_inputs not in stock


def _list_shapes(dataset: tf.data.Dataset) -> list[tf.TensorShape]:
    """Return the static shape of each tensor in an element of the data set."""
    specs: Sequence[Any] = tf.nest.flatten(dataset.element_spec)
    return [spec.shape for spec in specs if isinstance(getattr(spec, "shape", None), tf.TensorShape)]


def _require_batches(dataset: tf.data.Dataset) -> None:
    """Raise `InputError` if the elements cannot be batches: their tensors share no first dimension."""
    shapes = [shape for shape in _list_shapes(dataset) if shape.rank is not None]
    lengths = {shape[0] for shape in shapes if shape.rank and shape[0] is not None}
    if len(lengths) > 1 or any(shape.rank == 0 for shape in shapes):
        listed = ", ".join(str(shape) for shape in shapes)
        raise InputError(
            f"the data set gives single samples, not batches: its tensors have the shapes {listed}; give "
            "dataset.batch(32), or a ForwardPass of your own that takes its elements apart"
        )
