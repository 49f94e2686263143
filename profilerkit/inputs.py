"""The inputs of a model call, from whatever form the user's data has.

Inputs are given in one of four ways: example inputs, shapes alone, a callable that builds inputs from a batch size, or
data splits whose batches a `ForwardPass` divides into inputs and targets.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .arguments.checks import FLAG, MOST, Check, instance, to_call
from .arguments.structures import map_leaves, require_shallow
from .error_text import shown
from .errors import ArgumentError, InputError
from .process.progress import track
from .process.restoring import interruptible
from .unfinished import require_finished

__all__ = [
    "LOADER",
    "TARGET_KEYS",
    "TRANSFORM",
    "DataLoader",
    "ForwardPass",
    "ModelInputPattern",
    "ModelInputs",
    "NoInputs",
    "TensorSpec",
    "dtype_name",
    "parse_input_shape",
    "wrap_splits",
    "write_shapes",
]

#: Entries of a mapping batch that are targets, not inputs of the model.
TARGET_KEYS = ("label", "labels", "target", "targets", "y")


class ModelInputs:
    """The arguments of one model call: ``ModelInputs(x, mask=m)`` is ``model(x, mask=m)``.

    >>> ModelInputs.of((1, 2)).args, ModelInputs.of({"mask": 3}).kwargs
    ((1, 2), {'mask': 3})
    """

    __slots__ = ("are_random", "args", "function", "kwargs", "note")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args: tuple[Any, ...] = args
        self.kwargs: dict[str, Any] = kwargs
        #: Called with the model and the arguments instead of the model itself; see `given_to`.
        self.function: Callable[..., Any] | None = None
        #: How the inputs were made, for a report.
        self.note: str = ""
        #: Whether profilerkit has made up their values, so that these decide nothing.
        self.are_random: bool = False

    def given_to(self, function: Callable[..., Any] | None) -> ModelInputs:
        """Return the same arguments for a function of the model: ``lambda model, x: model.generate(x)``."""
        return ModelInputs(*self.args, **self.kwargs)._take_from(self, function)

    def _take_from(self, other: ModelInputs, function: Callable[..., Any] | None) -> ModelInputs:
        self.function, self.note, self.are_random = function, other.note, other.are_random
        return self

    @interruptible
    def run(self, model: Any) -> Any:
        """Call the model, or the function of `given_to`; raises `InputError` for an output still to be computed."""
        call = model if self.function is None else partial(self.function, model)
        return require_finished(call(*self.args, **self.kwargs))

    def own_call(self) -> ModelInputs:
        """Return the inputs for a backend without ``call=``; raises `InputError` if it was given."""
        if self.function is not None:
            raise InputError("call= was given, but only the model's own call can be followed here; leave it out")
        return self

    @classmethod
    def of(cls, value: Any) -> ModelInputs:
        """Read inputs: a tuple or list has positional inputs, a mapping keyword inputs; any other is one input."""
        if isinstance(value, ModelInputs):
            return value
        if isinstance(value, NoInputs):
            raise value.error
        if isinstance(value, Mapping):
            invalid = [key for key in value if not isinstance(key, str)]
            if invalid:
                raise InputError(
                    f"a mapping of inputs gives keyword arguments by name, but has the keys {invalid!r}; to pass a "
                    "mapping as one positional input, use ModelInputs(mapping)"
                )
            return cls(**value)
        if isinstance(value, (tuple, list)):
            return cls(*value)
        return cls(value)

    def map(self, function: Callable[[Any], Any]) -> ModelInputs:
        """Return inputs of the same structure with ``function`` applied to every leaf."""
        args, kwargs = map_leaves((self.args, self.kwargs), function)
        return ModelInputs(*args, **kwargs)._take_from(self, self.function)

    def leaves(self) -> Iterator[Any]:
        """Yield every leaf of the structure: positional inputs first, then keyword ones."""
        leaves: list[Any] = []

        def collect(leaf: Any) -> Any:
            leaves.append(leaf)
            return leaf

        self.map(collect)
        return iter(leaves)

    def __repr__(self) -> str:
        parts = [_brief(arg) for arg in self.args]
        parts += [f"{name}={_brief(value)}" for name, value in self.kwargs.items()]
        call = f"ModelInputs({', '.join(parts)})"
        if self.function is None:
            return call
        return f"{call} given to {getattr(self.function, '__name__', type(self.function).__name__)}"


@dataclass(frozen=True)
class NoInputs:
    """Stands for inputs that are not available: `ModelInputs.of` raises its ``error``."""

    error: Exception


def _brief(value: Any) -> str:
    try:
        shape = getattr(value, "shape", None)
    except RuntimeError:  # a nested tensor has several shapes
        return type(value).__name__
    if shape is not None:
        return f"{type(value).__name__}{tuple(shape)}"
    text = shown(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


@dataclass(frozen=True)
class TensorSpec:
    """One input without its values: the shape of one sample (no batch dimension) and the dtype's name."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if not _is_shape(self.shape):
            raise ArgumentError(f"shape={shown(self.shape)}: give positive integers: (3, 224, 224)")
        object.__setattr__(self, "shape", _sizes(self.shape))
        invalid = [size for size in self.shape if not 1 <= size <= MOST]
        if invalid or math.prod(self.shape) > MOST**2:
            raise ArgumentError(
                f"input shape {shown(self.shape)} has {shown(invalid or self.shape)}; give positive integers, without "
                "the batch size, of a size that fits a memory"
            )
        if not isinstance(self.dtype, str):
            raise ArgumentError(f"dtype={shown(self.dtype)}: give the name of a dtype, such as 'int64'")


def parse_input_shape(value: Any) -> tuple[tuple[TensorSpec, ...], dict[str, TensorSpec]]:
    """Read ``input_shape``: positional and keyword specs.

    ``(3, 224, 224)`` is one input; ``[(3, 224, 224), ((128,), "int64")]`` are several, with a dtype where it is not
    float32; ``{"ids": ((128,), "int64")}`` are keyword inputs.

    >>> parse_input_shape([(3, 8), ((128,), "int64")])[0][1]
    TensorSpec(shape=(128,), dtype='int64')
    """
    require_shallow("input_shape", value)
    if isinstance(value, Mapping):
        return (), {str(name): _spec(item) for name, item in value.items()}
    if isinstance(value, TensorSpec) or _is_shape(value) or _is_shape_and_dtype(value):
        return (_spec(value),), {}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_spec(item) for item in value), {}
    return (_spec(value),), {}


def write_shapes(positional: Sequence[TensorSpec], named: Mapping[str, TensorSpec]) -> str:
    """Return specs as text that can be given as ``input_shape``; positional ones, or named ones.

    >>> write_shapes([TensorSpec((3, 8)), TensorSpec((128,), "int64")], {})
    "[(3, 8), ((128,), 'int64')]"
    """

    def write(spec: TensorSpec) -> str:
        return repr(spec.shape) if spec.dtype == "float32" else f"({spec.shape!r}, {spec.dtype!r})"

    if named:
        return "{" + ", ".join(f"{name!r}: {write(spec)}" for name, spec in named.items()) + "}"
    return write(positional[0]) if len(positional) == 1 else f"[{', '.join(map(write, positional))}]"


def _is_shape(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(_is_size(size) for size in value)


def _is_size(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_shape_and_dtype(value: Any) -> bool:
    if not (isinstance(value, tuple) and len(value) == 2 and _is_shape(value[0])):
        return False
    if isinstance(value[1], str):
        return True
    return not _is_shape(value[1]) and (isinstance(value[1], type) or "dtype" in type(value[1]).__name__.lower())


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(operator.index, shape))


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of TensorFlow, numpy (also of a scalar class) or torch (``torch.int64``)."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return str(name or dtype).rpartition(".")[2]


def _spec(value: Any) -> TensorSpec:
    if isinstance(value, TensorSpec):
        return value
    if _is_shape_and_dtype(value):
        return TensorSpec(_sizes(value[0]), dtype_name(value[1]))
    if _is_shape(value):
        return TensorSpec(_sizes(value))
    raise ArgumentError(
        f"input_shape={shown(value)} cannot be read as a shape; give (3, 224, 224), ((128,), 'int64'), a list of those "
        "for several positional inputs, or a mapping of those for keyword inputs"
    )


class ModelInputPattern(tuple[Any, ...]):
    """Which elements of a batch go into the model: ``(0, '_')`` is the first of two, the usual (inputs, targets).

    An integer is the index of the element among the model's positional inputs; ``'_'`` leaves the element out. Other
    strings name the entries of a mapping batch that are passed as keyword inputs: ``("input_ids", "attention_mask")``.
    """

    def __new__(cls, elements: Iterable[Any]) -> ModelInputPattern:
        """Check the elements: distinct integers from zero and '_', or names."""
        if isinstance(elements, (str, bytes, Mapping, type)) or not isinstance(elements, Iterable):
            raise ArgumentError(f"model_input_pattern={shown(elements)}: give {_PATTERNS}")
        pattern = super().__new__(cls, elements)
        if pattern.names:
            if any(not isinstance(element, str) for element in pattern):
                raise _wrong_pattern(pattern, "use integers and '_' for tuple batches, or names for mappings")
            return pattern
        indices = [element for element in pattern if not (isinstance(element, str) and element == "_")]
        if any(isinstance(index, bool) or not isinstance(index, int) or index < 0 for index in indices):
            raise _wrong_pattern(pattern, "elements must be integers from zero, '_' placeholders, or names")
        if not indices or len(set(indices)) < len(indices):
            raise _wrong_pattern(pattern, "give each input of the model its own index, and at least one index")
        return pattern

    @property
    def names(self) -> list[str]:
        """The names of keyword inputs; empty for a pattern of indices."""
        return [element for element in self if isinstance(element, str) and element != "_"]

    def rearrange(self, batch: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the model inputs of a batch in order, and the elements that are left out.

        A batch may also hold the inputs alone. Raises `InputError` for a batch of any other length than the pattern's.
        """
        indices = [element for element in self if element != "_"]
        pattern = tuple(indices) if len(batch) == len(indices) else tuple(self)
        if len(batch) != len(pattern):
            raise InputError(
                f"a batch of the loader has {len(batch)} elements, the model input pattern {tuple(self)!r} has "
                f"{len(self)}; give ForwardPass(model_input_pattern=...) one element for each"
            )
        inputs = sorted((index, position) for position, index in enumerate(pattern) if index != "_")
        return tuple(batch[position] for _, position in inputs), tuple(
            element for index, element in zip(pattern, batch, strict=True) if index == "_"
        )


#: What a pattern may be, after "give".
_PATTERNS = "indices such as (0, '_'), or the names of entries such as ('input_ids', 'attention_mask')"


def _wrong_pattern(pattern: ModelInputPattern, why: str) -> ArgumentError:
    return ArgumentError(f"model_input_pattern={shown(tuple(pattern))}: {why}")


class ForwardPass:
    """Divides a batch into the model's inputs and the targets.

    For data that no pattern describes, subclass it and override `extract_model_inputs` (and `extract_targets`, if
    evaluation needs them), which may return anything that `ModelInputs.of` reads. With
    ``expecting_common_inputs=False`` inputs are not cut or repeated to a batch size; then override
    `create_random_model_inputs`.
    """

    def __init__(self, model_input_pattern: Iterable[Any] | None = None, expecting_common_inputs: bool = True) -> None:
        overridden = type(self).extract_model_inputs is not ForwardPass.extract_model_inputs
        if model_input_pattern is None and not overridden:
            raise TypeError(
                f"{type(self).__name__} needs a model_input_pattern, such as (0, '_') for batches of (inputs, "
                "targets), or a subclass that overrides extract_model_inputs"
            )
        creates = type(self).create_random_model_inputs is not ForwardPass.create_random_model_inputs
        if not expecting_common_inputs and not creates:
            raise TypeError(
                f"{type(self).__name__} with expecting_common_inputs=False must override create_random_model_inputs"
            )
        self.pattern: ModelInputPattern | None = None
        if model_input_pattern is not None:
            self.pattern = ModelInputPattern(model_input_pattern)
        self.expecting_common_inputs: Any = FLAG("expecting_common_inputs", expecting_common_inputs)

    def extract_model_inputs(self, batch: Any) -> Any:
        """Return the model's inputs in a batch: anything that `ModelInputs.of` reads."""
        if isinstance(batch, Mapping):
            return self._entries(batch)
        if isinstance(batch, (tuple, list)):
            return self._pattern().rearrange(batch)[0]
        return batch

    def extract_targets(self, batch: Any) -> Any:
        """Return the targets in a batch: the elements that the pattern leaves out, or the entries `TARGET_KEYS`."""
        if isinstance(batch, Mapping):
            targets = [batch[key] for key in TARGET_KEYS if key in batch]
        else:
            targets = list(self._pattern().rearrange(batch)[1]) if isinstance(batch, (tuple, list)) else []
        if not targets:
            raise InputError(
                f"no targets in a batch of type {type(batch).__name__}: the pattern leaves none out; override "
                "ForwardPass.extract_targets to say where they are"
            )
        return targets[0] if len(targets) == 1 else tuple(targets)

    def create_random_model_inputs(self, batch_size: int) -> Any:
        """Return inputs for a batch size; called only if ``expecting_common_inputs`` is False."""
        raise NotImplementedError

    def _pattern(self) -> ModelInputPattern:
        if self.pattern is None or self.pattern.names:
            raise InputError(
                f"a tuple batch needs a pattern of indices such as (0, '_'), but the pattern is {self.pattern!r}"
            )
        return self.pattern

    def _entries(self, batch: Mapping[Any, Any]) -> Any:
        names = self.pattern.names if self.pattern is not None else []
        missing = [name for name in names if name not in batch]
        if missing:
            raise InputError(f"the pattern names {missing!r}, but the batch has the keys {list(batch)!r}")
        return {key: batch[key] for key in (names or batch) if names or key not in TARGET_KEYS}


_PASS = instance(ForwardPass, "a ForwardPass").or_none()
_PASSES = instance((ForwardPass, Mapping), "a ForwardPass, or one by split").or_none()


class DataLoader:
    """A thin wrapper around an iterable of batches, from which a profiler can read inputs.

    Batches may be tuples, lists, mappings or single tensors. It must be possible to iterate over it more than once.
    """

    def __init__(self, native: Iterable[Any], forward_pass: ForwardPass | None = None) -> None:
        if isinstance(native, Iterator):
            raise InputError(
                f"a {type(native).__name__} can be read only once; give the data loader itself, or a list of batches"
            )
        if not isinstance(native, Iterable) and not hasattr(native, "__getitem__"):
            raise ArgumentError(f"native={shown(native)}: a data split must be an iterable of batches")
        self.native_dl = native
        default = ForwardPass(model_input_pattern=(0, "_"))
        self.forward_pass: ForwardPass = _PASS("forward_pass", forward_pass) or default
        self._description: str | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.native_dl if self._description is None else track(self.native_dl, self._description))

    def __len__(self) -> int:
        return len(self.native_dl)  # type: ignore[arg-type]

    @property
    def batch_size(self) -> int | None:
        """The native loader's ``batch_size``; None if it has none."""
        return getattr(self.native_dl, "batch_size", None)

    def track(self, description: str) -> DataLoader:
        """Return a copy of the loader that shows its progress on a terminal while it is iterated over."""
        loader = copy.copy(self)
        loader._description = description
        return loader

    def model_inputs(self) -> ModelInputs:
        """Return the model's inputs from the first batch."""
        for batch in self.native_dl:
            return ModelInputs.of(self.forward_pass.extract_model_inputs(batch))
        raise InputError("the data split has no batches; give one with at least one")


def _read_splits(value: Any) -> Any:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError
    return value


def _read_loader(value: Any) -> Any:
    if isinstance(value, (str, bytes, type)) or not (isinstance(value, Iterable) or hasattr(value, "__getitem__")):
        raise TypeError
    return value


SPLITS = Check("loaders by name: data_splits={'train': loader}", _read_splits)
#: What evaluation functions take.
LOADER = Check("a loader: an iterable of batches, with at least one sample", _read_loader)
TRANSFORM = to_call("a function of inputs and targets that returns both").or_none()


def wrap_splits(
    data_splits: Mapping[str, Any],
    forward_pass: ForwardPass | Mapping[str, ForwardPass] | None,
    loader_class: type[DataLoader],
    forward_pass_class: type[ForwardPass],
) -> dict[str, DataLoader]:
    """Return the native loaders wrapped, by name; ``forward_pass`` is one for all splits, or a mapping by split."""
    data_splits = SPLITS("data_splits", data_splits)
    forward_pass = _PASSES("forward_pass", forward_pass)
    misspelt = [name for name in forward_pass if name not in data_splits] if isinstance(forward_pass, Mapping) else []
    if misspelt:
        raise InputError(f"forward_pass names the splits {misspelt!r}; the data splits are: {', '.join(data_splits)}")
    wrapped = {}
    for name, native in data_splits.items():
        split_pass = forward_pass.get(name) if isinstance(forward_pass, Mapping) else forward_pass
        if not isinstance(native, DataLoader):
            native = loader_class(native, split_pass or forward_pass_class(model_input_pattern=(0, "_")))
        wrapped[name] = native
    return wrapped
