"""The job of one call: a model, or how to load it, and the metrics to compute.

`profile` and `compare` make jobs and run them; a command makes them of its options; a separate process (``isolation``)
receives one.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .arguments.checks import BATCH_SIZE, FLAG, MODEL_NAME, NAMES
from .arguments.names import foreign_hint, status_names
from .backend import BACKEND, DEVICE
from .error_text import shown
from .errors import ArgumentError, InputError
from .hooks.infos import LoadedModel
from .hooks.manager import announce
from .input_shapes import dtype_name, parse_input_shape
from .inputs import ModelInputs
from .models.loaders import find_loader, load_model
from .models.opening import SplitArguments, open_model, place_model, split_arguments
from .piping.function import ProfilerFunction, why_no_function
from .piping.input_source import makes_inputs
from .piping.requests import KeyRequest, read_request
from .profiler import Profiler
from .protocols import CastsModels, require_capability
from .results.report import Report

__all__ = ["Job", "NoModelError", "is_builder", "read_names"]


@dataclass(frozen=True)
class Job:
    """One model to profile, and how.

    Functions, data splits and the model may each be a text for `load`, such as ``net.py:build``: then the object itself
    is not pickled for another process.

    Attributes:
        model: The model itself, or for `load` a text, or a class or a function that builds it.
        inputs: The model's inputs; None if they are not given.
        input_shape: The shapes of the inputs; None if they are not given.
        data_splits: The data splits; None if they are not given.
        functions: Further profiler functions.
        metrics: The metrics to compute; None for the default ones.
        leave_out: The status keys of plugins that are not computed; None for none.
        name: The name of the model in the report; None for the name of its class or text.
        backend: A backend or its name; None for the backend that recognizes the model.
        strict: Whether a value that is not complete is an error.
        static: Whether the model does not run.
        arguments: The arguments of `profilerkit.profile` that are no attribute here.
        in_turn: Whether the process waits for the caller before each function that runs the model, and each sample.
        own_plugins_alone: Whether the plugins of other packages are left out.
        trust: Whether files are loaded that can run code, such as pickles.
        gated: Whether the process waits for the caller before the first function that runs the model; then it measures
            by itself.
        folder: The current folder of the process, if it differs.
        dtype: The dtype of the model's weights and of the floating-point inputs, if it differs.
    """

    model: Any
    inputs: Any = None
    input_shape: Any = None
    data_splits: Any = None
    functions: tuple[Any, ...] = ()
    metrics: Sequence[str] | None = None
    leave_out: Sequence[str] | None = None
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

    @classmethod
    def read(
        cls, model: Any, *, arguments: Mapping[str, Any], batch_size: Any = None, device: Any = None, **parts: Any
    ) -> Job:
        """Return the job that the arguments of a call describe, by their names; `ArgumentError` for a wrong one."""
        all_arguments = dict(arguments)
        for name, check, value in (("batch_size", BATCH_SIZE, batch_size), ("device", DEVICE, device)):
            if value is not None:
                all_arguments[name] = check(name, value)
        read = {name: _CHECKS[name](name, value) if name in _CHECKS else value for name, value in parts.items()}
        job = cls(model, arguments=all_arguments, **read)
        if all_arguments:
            job._require_no_foreign_input()
        return job

    def _require_no_foreign_input(self) -> None:
        """Raise `ArgumentError` for inputs under another profiler's name, where there are no others.

        Elsewhere an unknown argument is a warning; this one would let every metric fail.
        """
        if self.inputs is None and self.input_shape is None and self.data_splits is None:
            for name, value in self.arguments.items():
                hint = foreign_hint(name, value, ("inputs", "input_shape"))
                if hint:
                    raise ArgumentError(f"there is no argument {name!r}; {hint}")

    @property
    def label(self) -> str:
        """The name of the model before it is loaded."""
        if self.name:
            return self.name
        if isinstance(self.model, (str, os.PathLike)):
            return os.fspath(self.model)
        return getattr(self.model, "__name__", None) or type(self.model).__name__

    @property
    def split(self) -> SplitArguments:
        """The arguments in two groups: arguments that replace the model by another one, and arguments of functions."""
        return split_arguments(self.arguments)

    # Running it ---------------------------------------------------------------------------------------------------

    def compute_report(self, profiler: Profiler, caller: Callable[..., Any] | None = None) -> Report:
        """Compute the requested metrics with a profiler, and return the report.

        ``caller`` is the function that the user has called: an unknown argument may mean one of its parameters.
        """
        request = self.make_request(caller)
        (keys,), arguments = read_request(request, [profiler._registry])
        profiler._compute_all(keys, arguments, strict=self.strict)
        report = profiler._report(keys if request.is_selective else None)
        announce(report)
        return report

    def make_request(self, caller: Callable[..., Any] | None = None) -> KeyRequest:
        """Return what is requested of the profiler; ``caller`` as in `compute_report`."""
        return KeyRequest(self.metrics, self.split.others, self.strict, self.static, caller)

    def make_profiler(self, once: bool = False) -> Profiler:
        """Return the profiler of the model, or of its replacement.

        ``once`` promises that there is only one request: the profiler does not note how its values were computed.
        """
        model, backend, placing = self.model, self.backend, self.split.placing
        if placing:
            model, backend = place_model(model, backend, placing, self.trust)
        profiler = Profiler(
            model, self.data_splits, self.name, inputs=self.inputs, input_shape=self.input_shape, backend=backend
        )
        profiler._placing, profiler._once = placing, once
        for function in self.functions:
            profiler._registry.register(function, override=True)
        return profiler.register_defaults(leave_out=self.leave_out or ())

    # Loading what is text, or is to be built ----------------------------------------------------------------------

    def load(self) -> Job:
        """Return the job with its model loaded or built, in its dtype, with the inputs of its loader if it has none.

        A replacement of the model loads the model itself, in its own dtype. Raises `NoModelError` for a text that leads
        to nothing, and `InputError` for a replacement in another dtype.
        """
        if self.split.placing and self.dtype is not None:
            replacing = ", ".join(self.split.placing)
            raise InputError(f"dtype={self.dtype!r} and {replacing} cannot be combined; build the model in this dtype")
        loaded = LoadedModel(self.model) if self.split.placing else self._load_model()
        if self.inputs is not None or self.input_shape is not None:
            loaded = replace(loaded, inputs=self.inputs, input_shape=self.input_shape)
        elif self.data_splits is not None:
            loaded = replace(loaded, inputs=None, input_shape=None)
        if self.dtype is not None:
            loaded = self._cast(loaded, self.dtype)
        return replace(
            self,
            model=loaded.model,
            inputs=loaded.inputs,
            input_shape=loaded.input_shape,
            data_splits=self._load_text(self.data_splits) if isinstance(self.data_splits, str) else self.data_splits,
            functions=self._load_functions(),
            name=self.name or loaded.name,
        )

    def _load_functions(self) -> tuple[Any, ...]:
        """Return the functions, with those that texts name: one for each text, or several."""
        functions: list[Any] = []
        for function in self.functions:
            loaded = self._load_text(function) if isinstance(function, str) else function
            functions += loaded if isinstance(loaded, (list, tuple)) else [loaded]
        return tuple(functions)

    def _load_model(self) -> LoadedModel:
        model = self.model
        if isinstance(model, (str, os.PathLike)) and self._is_spec(os.fspath(model)):
            model = self._load_text(os.fspath(model))
        elif is_builder(model):
            model = model()
        return model if isinstance(model, LoadedModel) else LoadedModel(model)

    def _cast(self, loaded: LoadedModel, dtype: str) -> LoadedModel:
        """Return a model with its weights and its floating-point inputs in another dtype."""
        opened = open_model(loaded.model, self.backend)
        backend, cast = opened.backend, require_capability(opened.backend, CastsModels).cast

        def cast_leaf(leaf: Any) -> Any:
            tensor = backend.as_tensor(leaf)
            is_float = backend.is_tensor(tensor) and "float" in dtype_name(tensor.dtype)
            return cast(tensor, dtype) if is_float else leaf

        def cast_inputs(inputs: Any) -> Any:
            if makes_inputs(inputs):
                return lambda batch_size: cast_inputs(inputs(batch_size))
            return None if inputs is None else ModelInputs.of(inputs).map(cast_leaf)

        shape = _cast_shape(loaded.input_shape, dtype)
        return replace(loaded, model=cast(opened.model, dtype), inputs=cast_inputs(loaded.inputs), input_shape=shape)

    def _is_spec(self, text: str) -> bool:
        """Return whether a text is for a model loader. If not, it is the path of a saved model, which a backend opens.

        Without a backend it must be for a loader, whose error explains what is wrong with the text.
        """
        if self.backend is not None:
            try:
                find_loader(text)
            except InputError:
                return False
        return True

    def _load_text(self, text: str) -> Any:
        try:
            return load_model(text, self.trust)
        except InputError as error:
            raise NoModelError(str(error)) from error


class NoModelError(InputError):
    """Raised for a text from which no model can be loaded, or no functions or data splits, where these are texts."""


def is_builder(model: Any) -> bool:
    """Return whether the model has to be built by a call: it is a class, a function or a partial."""
    return inspect.isclass(model) or inspect.isroutine(model) or isinstance(model, functools.partial)


def _cast_shape(shape: Any, dtype: str) -> Any:
    """Return an ``input_shape`` with another dtype for its floating-point inputs.

    >>> _cast_shape({"ids": ((128,), "int64"), "x": (3, 8)}, "float16")
    {'ids': ((128,), 'int64'), 'x': ((3, 8), 'float16')}
    """
    if shape is None:
        return None
    shapes = parse_input_shape(shape)

    def cast_spec(spec: Any) -> tuple[Any, str]:
        return spec.shape, dtype if "float" in spec.dtype else spec.dtype

    if shapes.named:
        return {name: cast_spec(spec) for name, spec in shapes.named.items()}
    return [cast_spec(spec) for spec in shapes.positional]


# Reading arguments ------------------------------------------------------------------------------------------------


def _read_functions(name: str, functions: Any) -> tuple[ProfilerFunction, ...]:
    """Return one function, or several; raises `ArgumentError` for an object that is no `ProfilerFunction`."""
    if isinstance(functions, ProfilerFunction):
        return (functions,)
    if isinstance(functions, (type, str, bytes, Mapping)) or not isinstance(functions, Iterable):
        raise ArgumentError(f"{name}={shown(functions)}: {why_no_function(functions)}")
    listed = tuple(functions)
    for function in listed:
        if not isinstance(function, ProfilerFunction):
            raise ArgumentError(f"{name} has {shown(function)}: {why_no_function(function)}")
    return listed


#: How the arguments are read that a job does not take as they are.
_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "functions": _read_functions,
    "metrics": status_names,
    "leave_out": status_names,
    "name": MODEL_NAME,
    "backend": BACKEND,
    "strict": FLAG,
    "static": FLAG,
    "trust": FLAG,
}


def read_names(names: Any, models: int) -> list[str] | None:
    """Return the names of so many models, None for None; raises `ArgumentError` unless there is one for each."""
    read: list[str] | None = NAMES("names", names)
    if read is not None and len(read) != models:
        raise ArgumentError(f"names has {len(read)} entries for {models} models; give one for each")
    return read
