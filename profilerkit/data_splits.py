"""Data splits: loaders whose batches a `ForwardPass` divides into the model's inputs and the targets."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .arguments.checks import FLAG, Check, instance
from .error_text import shown
from .errors import ArgumentError, InputError
from .inputs import ModelInputs
from .process.progress import track

__all__ = ["LOADER", "TARGET_KEYS", "DataLoader", "ForwardPass", "ModelInputPattern", "wrap_splits"]

#: Entries of a mapping batch that are targets, not inputs of the model.
TARGET_KEYS = ("label", "labels", "target", "targets", "y")
#: The possible patterns, after "give".
_PATTERNS = "indices such as (0, '_'), or the names of entries such as ('input_ids', 'attention_mask')"


class BatchParts(NamedTuple):
    """The elements of a batch: the inputs of the model in order, and the elements left out, such as the targets."""

    inputs: tuple[Any, ...]
    rest: tuple[Any, ...]


class ModelInputPattern(tuple[Any, ...]):
    """Which elements of a batch go into the model: ``(0, '_')`` is the first of two, the usual (inputs, targets).

    An integer is the index of the element among the model's positional inputs, which are 0, 1, and so on; ``'_'``
    leaves the element out. Other strings name the entries of a mapping batch that are passed as keyword inputs:
    ``("input_ids", "attention_mask")``.
    """

    def __new__(cls, elements: Iterable[Any]) -> ModelInputPattern:
        """Check the elements: the integers from zero and '_', or names."""
        if isinstance(elements, (str, bytes, Mapping, type)) or not isinstance(elements, Iterable):
            raise ArgumentError(f"model_input_pattern={shown(elements)}: give {_PATTERNS}")
        pattern = super().__new__(cls, elements)
        if pattern.names:
            if any(not isinstance(element, str) for element in pattern):
                raise _make_pattern_error(pattern, "use integers and '_' for tuple batches, or names for mappings")
            return pattern
        indices = [element for element in pattern if not (isinstance(element, str) and element == "_")]
        if any(isinstance(index, bool) or not isinstance(index, int) or index < 0 for index in indices):
            raise _make_pattern_error(pattern, "elements must be integers from zero, '_' placeholders, or names")
        if not indices or sorted(indices) != list(range(len(indices))):
            raise _make_pattern_error(pattern, "give the inputs of the model the indices 0, 1, ..., each once")
        return pattern

    @property
    def names(self) -> list[str]:
        """The names of keyword inputs; empty for a pattern of indices."""
        return [element for element in self if isinstance(element, str) and element != "_"]

    def rearrange(self, batch: Sequence[Any]) -> BatchParts:
        """Return the elements of a batch as the pattern divides them.

        A batch may also hold the inputs alone. Raises `InputError` for a batch of any other length than the pattern's.
        """
        indices = [element for element in self if element != "_"]
        pattern = tuple(indices) if len(batch) == len(indices) else tuple(self)
        if len(batch) != len(pattern):
            raise InputError(
                f"a batch of the loader has {len(batch)} elements, the model input pattern {tuple(self)!r} has "
                f"{len(self)}; give ForwardPass(model_input_pattern=...) one element for each"
            )
        inputs = {index: element for index, element in zip(pattern, batch, strict=True) if index != "_"}
        rest = [element for index, element in zip(pattern, batch, strict=True) if index == "_"]
        return BatchParts(tuple(inputs[index] for index in sorted(inputs)), tuple(rest))


def _make_pattern_error(pattern: ModelInputPattern, why: str) -> ArgumentError:
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
            return self._pick_entries(batch)
        if isinstance(batch, (tuple, list)):
            return self._require_indices().rearrange(batch).inputs
        return batch

    def extract_targets(self, batch: Any) -> Any:
        """Return the targets in a batch: the elements that the pattern leaves out, or the entries `TARGET_KEYS`."""
        targets: Sequence[Any] = ()
        if isinstance(batch, Mapping):
            targets = [batch[key] for key in TARGET_KEYS if key in batch]
        elif isinstance(batch, (tuple, list)):
            targets = self._require_indices().rearrange(batch).rest
        if not targets:
            raise InputError(
                f"no targets in a batch of type {type(batch).__name__}: the pattern leaves none out; override "
                "ForwardPass.extract_targets to say where they are"
            )
        return targets[0] if len(targets) == 1 else tuple(targets)

    def create_random_model_inputs(self, batch_size: int) -> Any:
        """Return inputs for a batch size; called only if ``expecting_common_inputs`` is False."""
        raise NotImplementedError

    def _require_indices(self) -> ModelInputPattern:
        """Return the pattern; raises `InputError` if it is not one of indices."""
        if self.pattern is None or self.pattern.names:
            raise InputError(
                f"a tuple batch needs a pattern of indices such as (0, '_'), but the pattern is {self.pattern!r}"
            )
        return self.pattern

    def _pick_entries(self, batch: Mapping[Any, Any]) -> Any:
        """Return the entries that the pattern names; without names all that are no targets."""
        names = self.pattern.names if self.pattern is not None else []
        missing = [name for name in names if name not in batch]
        if missing:
            raise InputError(f"the pattern names {missing!r}, but the batch has the keys {list(batch)!r}")
        keys = names or [key for key in batch if key not in TARGET_KEYS]
        return {key: batch[key] for key in keys}


_PASS = instance(ForwardPass, "a ForwardPass").or_none()


def _read_loader(value: Any) -> Any:
    """Return a loader as it is; a mapping is none, whose batches would be its keys, nor are a text and a class."""
    if isinstance(value, (str, bytes, Mapping, type)):
        raise TypeError
    if not isinstance(value, Iterable) and not hasattr(value, "__getitem__"):
        raise TypeError
    return value


#: The check of an iterable of batches: a data split, or the loader of an evaluation function.
LOADER = Check("a loader: an iterable of batches, with at least one sample", _read_loader)


class DataLoader:
    """A thin wrapper around an iterable of batches, from which a profiler can read inputs.

    Batches may be tuples, lists, mappings or single tensors. It must be possible to iterate over it more than once.
    """

    def __init__(self, native: Iterable[Any], forward_pass: ForwardPass | None = None) -> None:
        if isinstance(native, Iterator):
            raise InputError(
                f"a {type(native).__name__} can be read only once; give the data loader itself, or a list of batches"
            )
        self.native_dl: Iterable[Any] = LOADER("native", native)
        self.forward_pass: ForwardPass = _PASS("forward_pass", forward_pass) or ForwardPass((0, "_"))
        self._description: str | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.native_dl if self._description is None else track(self.native_dl, self._description))

    def __len__(self) -> int:
        return len(self.native_dl)  # type: ignore[arg-type]

    @property
    def batch_size(self) -> int | None:
        """The native loader's ``batch_size``; None if it has none."""
        return getattr(self.native_dl, "batch_size", None)

    def divide_by(self, forward_pass: ForwardPass) -> DataLoader:
        """Return a copy of the loader whose batches another forward pass divides."""
        loader = copy.copy(self)
        loader.forward_pass = forward_pass
        return loader

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


_SPLITS = Check("loaders by name: data_splits={'train': loader}", _read_splits)
_PASSES = instance((ForwardPass, Mapping), "a ForwardPass, or one by split").or_none()


def wrap_splits(
    data_splits: Mapping[str, Any],
    forward_pass: ForwardPass | Mapping[str, ForwardPass] | None,
    loader_class: type[DataLoader],
    forward_pass_class: type[ForwardPass],
) -> dict[str, DataLoader]:
    """Return the native loaders wrapped, by name; ``forward_pass`` is one for all splits, or a mapping by split.

    Raises `ArgumentError` for a wrong loader or forward pass, and `InputError` for a split that does not exist.
    """
    splits = _SPLITS("data_splits", data_splits)
    passes = _PASSES("forward_pass", forward_pass)
    if not isinstance(passes, Mapping):
        passes = dict.fromkeys(splits, passes)
    misspelt = [name for name in passes if name not in splits]
    if misspelt:
        raise InputError(f"forward_pass names the splits {misspelt!r}; the data splits are: {', '.join(splits)}")
    wrapped: dict[str, DataLoader] = {}
    for name, native in splits.items():
        split_pass = _PASS(f"forward_pass[{name!r}]", passes.get(name))
        if not isinstance(native, DataLoader):
            wrapped[name] = loader_class(native, split_pass or forward_pass_class(model_input_pattern=(0, "_")))
        else:
            wrapped[name] = native if split_pass is None else native.divide_by(split_pass)
    return wrapped
