"""The job of a separate process: a model, or how to get it, and the arguments of the profile.

What loads a model is imported where it is used: the parent makes jobs, and loads none.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..hooks.extension import LoadedModel

__all__ = ["Job", "NoModelError", "is_builder"]


@dataclass(frozen=True)
class Job:
    """One model to profile, and how.

    Functions, data splits and the model may each be a text, which the process loads by the model loaders, as
    ``net.py:build``: what it leads to then need not be pickled.

    Attributes:
        model: The model as text, a class or a function that builds it, or the model itself.
        inputs: The model's inputs; None where they are not given, as for the next two.
        input_shape: Their shapes.
        data_splits: The data splits.
        functions: Further profiler functions.
        metrics: The metrics to compute; None for the default ones.
        leave_out: The status keys of plugins that are not computed.
        name: The name of the model in the report; None for the one that its class or text has.
        backend: A backend or its name; None for the one that recognizes the model.
        strict: Whether a value that is not complete is an error.
        static: Whether the model does not run.
        arguments: The arguments of `profilerkit.profile` that are no attribute here.
        in_turn: Whether several such processes take turns when they measure times.
        own_plugins_alone: Whether the plugins of other packages are left out.
        trust: Whether files are loaded that can run code, such as pickles.
        gated: Whether the process waits, before the first function that runs the model, until the caller lets it; then
            it measures by itself.
        folder: The current folder of the process, if it is another one.
        dtype: The dtype of the model's weights and of the floating-point ``input_shape``, if it is another one. Given
            ``inputs`` keep theirs.
    """

    model: Any
    inputs: Any = None
    input_shape: Any = None
    data_splits: Any = None
    functions: tuple[Any, ...] = ()
    metrics: Sequence[str] | None = None
    leave_out: Sequence[str] = ()
    name: str | None = None
    backend: Any = None
    strict: bool = False
    static: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    in_turn: bool = False
    own_plugins_alone: bool = False
    trust: bool = False
    gated: bool = False
    folder: str | None = None
    dtype: str | None = None

    @property
    def label(self) -> str:
        """The name of the model before it is loaded."""
        if self.name:
            return self.name
        if isinstance(self.model, (str, os.PathLike)):
            return os.fspath(self.model)
        return getattr(self.model, "__name__", None) or type(self.model).__name__

    def load(self) -> LoadedModel:
        """Return the model: loaded from its text, built, or as it is; with the job's inputs, in the job's dtype."""
        from ..hooks.extension import LoadedModel

        model = self.model
        if isinstance(model, (str, os.PathLike)) and self._is_spec(os.fspath(model)):
            model = _load_text(os.fspath(model), self.trust)
        elif is_builder(model):
            model = model()
        loaded = model if isinstance(model, LoadedModel) else LoadedModel(model)
        if self.dtype is not None:
            loaded = _cast(loaded, self.backend, self.dtype)
        return self._add_data(loaded)

    def _add_data(self, loaded: LoadedModel) -> LoadedModel:
        """Return the model with the job's inputs or data splits in place of its loader's inputs, if the job has any."""
        if self.inputs is not None or self.input_shape is not None:
            shape = self.input_shape if self.dtype is None else _cast_shape(self.input_shape, self.dtype)
            return replace(loaded, inputs=self.inputs, input_shape=shape)
        if self.data_splits is not None:
            return replace(loaded, inputs=None, input_shape=None)
        return loaded

    def load_data_splits(self) -> Any:
        """Return the data splits: as they are, or what a text leads to; the loader calls a function."""
        splits = self.data_splits
        return _load_text(splits, self.trust) if isinstance(splits, str) else splits

    def load_functions(self) -> list[Any]:
        """Return the functions: as they are, or what texts lead to; a text may lead to several."""
        functions: list[Any] = []
        for function in self.functions:
            loaded = _load_text(function, self.trust) if isinstance(function, str) else function
            functions += loaded if isinstance(loaded, (list, tuple)) else [loaded]
        return functions

    def _is_spec(self, text: str) -> bool:
        """Return whether a text is for a model loader. If not, it is the path of a saved model, which a backend opens.

        Without a backend it must be for a loader, whose error says what is wrong with it.
        """
        if self.backend is None:
            return True
        from ..models.loaders import find_loader

        try:
            find_loader(text)
        except InputError:
            return False
        return True


class NoModelError(InputError):
    """Raised for a text from which no model can be loaded, or no functions or data splits, where these are texts."""


def _load_text(text: str, trust: bool) -> Any:
    """Return what a text leads to, by a model loader; raises `NoModelError` where it leads to nothing."""
    from ..models.loaders import load_model

    try:
        return load_model(text, trust)
    except InputError as error:
        raise NoModelError(str(error)) from error


def is_builder(model: Any) -> bool:
    """Return whether the model has to be built by a call: it is a class, a function or a partial."""
    return inspect.isclass(model) or inspect.isroutine(model) or isinstance(model, functools.partial)


def _cast(loaded: LoadedModel, backend: Any, dtype: str) -> LoadedModel:
    """Return a loaded model in a dtype, by its backend, with the floating-point inputs that its loader declares."""
    from ..models.opening import open_model
    from ..protocols import CastsModels, require_capability

    opened = open_model(loaded.model, backend)
    model = require_capability(opened.backend, CastsModels).cast(opened.model, dtype)
    return replace(loaded, model=model, input_shape=_cast_shape(loaded.input_shape, dtype))


def _cast_shape(shape: Any, dtype: str) -> Any:
    """Return an ``input_shape`` with another dtype for its floating-point inputs.

    >>> _cast_shape({"ids": ((128,), "int64"), "x": (3, 8)}, "float16")
    {'ids': ((128,), 'int64'), 'x': ((3, 8), 'float16')}
    """
    from ..input_shapes import parse_input_shape

    if shape is None:
        return None
    shapes = parse_input_shape(shape)

    def cast_spec(spec: Any) -> tuple[Any, str]:
        return spec.shape, dtype if "float" in spec.dtype else spec.dtype

    if shapes.named:
        return {name: cast_spec(spec) for name, spec in shapes.named.items()}
    return [cast_spec(spec) for spec in shapes.positional]
