"""An operator that has run eagerly, as cost formulas get it: shapes, dtypes, attributes, and small tensors' numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from profilerkit.costs import Shape

from ..costs import OpCall, Shapes
from .values import Tensor, static_shape

__all__ = ["describe_tensor", "is_small", "make_call"]

#: Tensors with more elements are not read: they may have to be copied from a device.
_MOST_READ = 64


def describe_tensor(tensor: Any) -> Tensor:
    """Return number, shape and dtype of an eager tensor, which is known by its `id` while it is alive."""
    return Tensor(id(tensor), static_shape(tensor), tensor.dtype.name)


def make_call(kind: str, inputs: Sequence[Any], attributes: Any, outputs: Sequence[Any]) -> OpCall:
    """Return a call as formulas get it; the numbers in small tensors are read now, as the tensors are not kept."""
    values = [tensor.numpy() if is_small(tensor) else None for tensor in inputs]
    return OpCall(
        type=kind,
        inputs=Shapes([_find_known_shape(tensor) for tensor in inputs]),
        outputs=Shapes([_find_known_shape(tensor) for tensor in outputs]),
        input_dtypes=tuple(tensor.dtype.name for tensor in inputs),
        output_dtypes=tuple(tensor.dtype.name for tensor in outputs),
        attribute=_name_attributes(attributes).get,
        value=values.__getitem__,
    )


def _name_attributes(flat: Any) -> dict[str, Any]:
    """Return an eager operator's attributes by name, text as ``str``."""
    named = dict(zip(flat[::2], flat[1::2], strict=True)) if flat else {}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in named.items()}


def _find_known_shape(tensor: Any) -> Shape | None:
    """Return the shape of a tensor; None where a size is not known."""
    shape = static_shape(tensor)
    return None if shape is None or None in shape else Shape(size for size in shape if size is not None)


def is_small(tensor: Any) -> bool:
    """Return whether the numbers in a tensor may be read at each operator."""
    is_of_numbers = tensor.dtype not in (tf.resource, tf.variant, tf.string)
    return is_of_numbers and (tensor.shape.num_elements() or 0) <= _MOST_READ
