"""Shapes and dtypes of inputs without their values, and the text in which users give them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .arguments.checks import MOST, ONE_BATCH_SIZE
from .arguments.structures import require_shallow
from .error_text import shown
from .errors import ArgumentError

__all__ = [
    "DEFAULT_DTYPE",
    "InputShapes",
    "TensorSpec",
    "dtype_name",
    "parse_input_shape",
    "shapes_of_text",
    "write_shapes",
]

#: The dtype of an input of which only a shape is given.
DEFAULT_DTYPE = "float32"
#: A shape as people write it otherwise: ``3x224x224``, ``(1, 3, 224, 224)``, ``3 224 224``.
_OTHER_SPELLING = re.compile(r"[\s(\[]*\d+([\s,;xX*]+\d+)*[\s,)\]]*")


@dataclass(frozen=True)
class TensorSpec:
    """One input without its values: the shape of one sample (no batch dimension) and the dtype's name.

    ``has_usual_dtype``: a shape was given alone, for the usual dtype of a model; equality and repr leave it out.
    """

    shape: tuple[int, ...]
    dtype: str = DEFAULT_DTYPE
    has_usual_dtype: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _is_shape(self.shape):
            raise ArgumentError(f"shape={shown(self.shape)}: give positive integers: (3, 224, 224)")
        object.__setattr__(self, "shape", _read_sizes(self.shape))
        invalid = [size for size in self.shape if not 1 <= size <= MOST]
        if invalid or math.prod(self.shape) > MOST**2:
            raise ArgumentError(
                f"input shape {shown(self.shape)} has {shown(invalid or self.shape)}; give positive integers, without "
                "the batch size, of a size that fits a memory"
            )
        if not isinstance(self.dtype, str):
            raise ArgumentError(f"dtype={shown(self.dtype)}: give the name of a dtype, such as 'int64'")


class InputShapes(NamedTuple):
    """The inputs by position, and the inputs by name; one of the two is empty."""

    positional: tuple[TensorSpec, ...]
    named: dict[str, TensorSpec]


def parse_input_shape(value: Any) -> InputShapes:
    """Read ``input_shape``.

    ``(3, 224, 224)`` is one input; ``[(3, 224, 224), ((128,), "int64")]`` are several, with a dtype where it is not
    float32; ``{"ids": ((128,), "int64")}`` are keyword inputs.

    >>> parse_input_shape([(3, 8), ((128,), "int64")]).positional[1]
    TensorSpec(shape=(128,), dtype='int64')

    ``()`` is one input whose samples are single numbers. Raises `ArgumentError` for a value that is no shape.
    """
    require_shallow("input_shape", value)
    if isinstance(value, (list, Mapping)) and not value:
        raise ArgumentError(
            f"input_shape={value!r} has no input; give inputs=() for a model that takes none, or input_shape=() for "
            "one input whose sample is a single number"
        )
    if isinstance(value, Mapping):
        return InputShapes((), {str(name): _read_spec(item) for name, item in value.items()})
    is_one = isinstance(value, (TensorSpec, str)) or _is_shape(value) or _is_shape_and_dtype(value)
    if is_one or not isinstance(value, Sequence):
        return InputShapes((_read_spec(value),), {})
    return InputShapes(tuple(_read_spec(item) for item in value), {})


def _read_spec(value: Any) -> TensorSpec:
    """Return one input from a user's value for it; raises `ArgumentError` for a value that is no shape."""
    if isinstance(value, TensorSpec):
        return value
    if _is_shape_and_dtype(value):
        shape, dtype = value
        return TensorSpec(_read_sizes(shape), dtype_name(dtype))
    if _is_shape(value):
        return TensorSpec(_read_sizes(value), has_usual_dtype=True)
    raise ArgumentError(
        f"input_shape={shown(value)} cannot be read as a shape; give (3, 224, 224), ((128,), 'int64'), a list of those "
        "for several positional inputs, or a mapping of those for keyword inputs"
    )


def _is_shape(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(_is_size(size) for size in value)


def _is_size(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_shape_and_dtype(value: Any) -> bool:
    """Return whether a value is a pair such as ``((128,), "int64")``, and not two shapes."""
    if not (isinstance(value, tuple) and len(value) == 2):
        return False
    shape, dtype = value
    if not _is_shape(shape) or _is_shape(dtype):
        return False
    return isinstance(dtype, (str, type)) or "dtype" in type(dtype).__name__.lower()


def _read_sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(operator.index, shape))


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of TensorFlow, numpy (also of a scalar class) or torch (``torch.int64``)."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return str(name or dtype).rpartition(".")[2]


# Shapes as text -------------------------------------------------------------------------------------------------------


def write_shapes(shapes: InputShapes) -> str:
    """Return shapes as text that can be given as ``input_shape``; a shape with the usual dtype stands alone.

    >>> write_shapes(parse_input_shape([(3, 8), ((128,), "int64")]))
    "[(3, 8), ((128,), 'int64')]"
    """

    def write(spec: TensorSpec) -> str:
        return repr(spec.shape) if spec.has_usual_dtype else f"({spec.shape!r}, {spec.dtype!r})"

    if shapes.named:
        return "{" + ", ".join(f"{name!r}: {write(spec)}" for name, spec in shapes.named.items()) + "}"
    texts = [write(spec) for spec in shapes.positional]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def shapes_of_text(texts: Iterable[str]) -> Any:
    """Return the argument ``input_shape`` for texts of the command line and of plans; None without any.

    There is one text for each input, of one sample: ``3,224,224``, or with a name and dtype ``ids=128:int64``.

    >>> shapes_of_text(["3,32,32"]), shapes_of_text(["ids=128:int64", "mask=128"])
    ([(3, 32, 32)], {'ids': ((128,), 'int64'), 'mask': (128,)})

    A text without a dtype is a shape alone, so that a model takes it in its usual dtype.
    Raises `ArgumentError` for a text that is no shape, and if only some of the inputs have names.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        name, _, shape_and_dtype = text.rpartition("=")
        sizes, _, dtype = shape_and_dtype.partition(":")
        try:
            one_number = sizes.strip() == "()"
            shape = () if one_number else tuple(ONE_BATCH_SIZE("batch_size", int(size)) for size in sizes.split(","))
        except ValueError:
            raise ArgumentError(f"{shown(text)} is no shape; {_suggest_shape(text)}") from None
        if "=" in name:
            raise ArgumentError(f"{shown(text)} has several names; give each input as a text of its own")
        spec = (shape, dtype.strip()) if dtype.strip() else shape
        name = name.strip()
        if name in named:
            raise ArgumentError(f"the input {name!r} is given twice; give it once")
        if name:
            named[name] = spec
        else:
            positional.append(spec)
    if positional and named:
        raise ArgumentError("name all inputs or none of them")
    return named or positional or None


def _suggest_shape(text: str) -> str:
    """Return the advice for a text: its sizes, if it is a shape in another spelling; else an example."""
    sizes = re.findall(r"\d+", text)
    if any(int(size) > MOST for size in sizes):
        return f"a size is at most {MOST:,}"
    is_shape = _OTHER_SPELLING.fullmatch(text) and "0" not in sizes
    if not is_shape:
        return "give 3,224,224 (of one sample), with a name and dtype ids=128:int64, and () for a single number"
    without_batch = f", or {','.join(sizes[1:])} if the first is the batch" if len(sizes) > 3 else ""
    return f"give {','.join(sizes)} (of one sample){without_batch}"
