"""The job of a separate process: a model, or how to get it, and the arguments of the profile."""

from __future__ import annotations

import functools
import inspect
import io
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..arguments.names import status_names
from ..errors import InputError

if TYPE_CHECKING:
    from ..plugging.extension import LoadedModel

__all__ = ["NEVER_FORKED", "Job", "NoModelError", "read_job", "require_names", "require_started", "write_job"]

#: What is never forked once it is imported: its threads and locks do not come along, and the copy waits for them.
NEVER_FORKED = {"tensorflow": "TensorFlow", "jax": "JAX"}


@dataclass(frozen=True)
class Job:
    """One model to profile: the arguments of `profilerkit.profile`, with the model as text, a builder or an object.

    ``in_turn`` says that several such processes take turns when they measure times; with ``gated`` the process waits
    before the first function that runs the model until the caller lets it, and then measures by itself. ``folder`` is
    the current folder of the process. With ``dtype`` the model's weights and the floating-point ``input_shape`` are of
    that dtype. Functions and data splits may be texts, by which the process loads them: ``data.py:splits``.
    """

    model: Any
    data: Mapping[str, Any] = field(default_factory=dict)
    functions: tuple[Any, ...] = ()
    metrics: tuple[str, ...] | None = None
    leave_out: tuple[str, ...] = ()
    name: str | None = None
    backend: Any = None
    strict: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    in_turn: bool = False
    own_plugins_alone: bool = False
    trust: bool = False
    gated: bool = False
    folder: str | None = None
    dtype: str | None = None

    @property
    def called(self) -> str:
        """The name of the model before it is loaded."""
        if self.name:
            return self.name
        if isinstance(self.model, (str, os.PathLike)):
            return os.fspath(self.model)
        return getattr(self.model, "__name__", None) or type(self.model).__name__

    def load(self) -> Any:
        """Return the model as a `LoadedModel`: loaded from its text, built, or as it is."""
        from ..plugging.extension import LoadedModel

        model = self.model
        if isinstance(model, (str, os.PathLike)) and self._is_spec(os.fspath(model)):
            model = _model_at(os.fspath(model), self.trust)
        elif is_builder(model):
            model = model()
        loaded = model if isinstance(model, LoadedModel) else LoadedModel(model)
        return self._with_data(loaded if self.dtype is None else _cast(loaded, self.backend, self.dtype))

    def _with_data(self, loaded: LoadedModel) -> LoadedModel:
        """Return the model with the inputs of the job; in the job's dtype, if it has one."""
        if any(self.data.get(key) is not None for key in ("inputs", "input_shape")):
            shape = self.data.get("input_shape")
            shape = shape if self.dtype is None else _in_dtype(shape, self.dtype)
            return replace(loaded, inputs=self.data.get("inputs"), input_shape=shape)
        if self.data.get("data_splits") is not None:
            return replace(loaded, inputs=None, input_shape=None)
        return loaded

    def data_splits(self) -> Any:
        """Return the data splits: as they are, or what a text leads to, called if it is a function."""
        splits = self.data.get("data_splits")
        return _model_at(splits, self.trust) if isinstance(splits, str) else splits

    def all_functions(self) -> list[Any]:
        """Return the functions: as they are, or what texts lead to; a function that returns several is called."""
        functions: list[Any] = []
        for function in self.functions:
            loaded = _model_at(function, self.trust) if isinstance(function, str) else function
            functions += loaded if isinstance(loaded, (list, tuple)) else [loaded]
        return functions

    def _is_spec(self, text: str) -> bool:
        """Return whether a text is for a model loader; with a backend it may be the path of a saved model."""
        if self.backend is None:
            return True
        from ..plugging.loaders import find_loader

        try:
            find_loader(text)
        except InputError:
            return False
        return True


class NoModelError(InputError):
    """Raised for a text from which no model can be loaded."""


def _model_at(text: str, trust: bool) -> Any:
    from ..plugging.loaders import load_model

    try:
        return load_model(text, trust)
    except InputError as error:
        raise NoModelError(str(error)) from error


def _cast(loaded: LoadedModel, backend: Any, dtype: str) -> LoadedModel:
    """Return a loaded model in a dtype, by its backend, with the floating-point inputs that its loader declares."""
    from ..plugging.opening import open_model
    from ..protocols import CastsModels, require_capability

    model, resolved = open_model(loaded.model, backend, None)
    cast = require_capability(resolved, CastsModels).cast(model, dtype)
    return replace(loaded, model=cast, input_shape=_in_dtype(loaded.input_shape, dtype))


def _in_dtype(shape: Any, dtype: str) -> Any:
    """Return an ``input_shape`` with another dtype for its floating-point inputs.

    >>> _in_dtype({"ids": ((128,), "int64"), "x": (3, 8)}, "float16")
    {'ids': ((128,), 'int64'), 'x': ((3, 8), 'float16')}
    """
    from ..inputs import parse_input_shape

    if shape is None:
        return None
    positional, named = parse_input_shape(shape)

    def pair(spec: Any) -> tuple[Any, str]:
        return spec.shape, dtype if "float" in spec.dtype else spec.dtype

    return {name: pair(spec) for name, spec in named.items()} if named else [pair(spec) for spec in positional]


def is_builder(model: Any) -> bool:
    """Return whether the model has to be built by a call: it is a class, a function or a partial."""
    return inspect.isclass(model) or inspect.isroutine(model) or isinstance(model, functools.partial)


def write_job(job: Job) -> IO[bytes]:
    """Return an unnamed file with the job, and with the facts that another process needs to read it.

    Raises `InputError` if a part of the job cannot be pickled.
    """
    import tempfile

    content = io.BytesIO()
    try:
        pickle.Pickler(content, protocol=5).dump(job)
    except MemoryError:
        raise
    except Exception as error:  # whatever the parts of a model say
        raise InputError(
            f"{job.called} cannot be sent to a process of its own ({type(error).__name__}: {error}); give it as text "
            "(package.module:name, path/to/file.py:name), or as a function of a module that builds it"
            f"{_or_by_forking()}"
        ) from error
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever starts the process closes it
    pickle.dump(_surroundings(b"__main__" in content.getvalue(), job), file)
    file.write(content.getvalue())
    file.flush()
    file.seek(0)
    return file


def _or_by_forking() -> str:
    """Return the advice to fork this process; empty if it has imported what must not be forked."""
    return "" if any(module in sys.modules for module in NEVER_FORKED) else ", or use start_method='fork'"


def _surroundings(needs_main: bool, job: Job) -> dict[str, Any]:
    """Return the facts by which another process finds the same code, as `multiprocessing` passes them on."""
    if not needs_main:
        return {"sys_path": list(sys.path), "dir": job.folder or str(Path.cwd())}
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if getattr(main, "__spec__", None) is None and (file is None or not Path(file).exists()):
        raise InputError(
            f"{job.called} is of a session or a notebook, which another process cannot import; put it into a module"
            f"{_or_by_forking()}"
        )
    from multiprocessing.spawn import get_preparation_data

    data = get_preparation_data("profilerkit-isolated")
    names = ("sys_path", "sys_argv", "dir", "init_main_from_name", "init_main_from_path")
    return {key: data[key] for key in names if key in data}


def read_job(descriptor: int) -> Job:
    """Read a file of `write_job`. The main program is imported under another name if the job refers to it."""
    from multiprocessing.spawn import prepare

    with os.fdopen(descriptor, "rb") as file, _mark_reading():
        prepare(pickle.load(file))
        job = pickle.load(file)
    if not isinstance(job, Job):
        raise InputError(f"the job is a {type(job).__name__}")
    return job


_reading: list[bool] = []


@contextmanager
def _mark_reading() -> Iterator[None]:
    _reading.append(True)
    try:
        yield
    finally:
        _reading.pop()


def require_started() -> None:
    """Raise `InputError` if the main program, imported in a separate process, would start another process."""
    if _reading:
        raise InputError(
            "the main program profiles in processes of their own while it is imported in one of them; put the call "
            "behind: if __name__ == '__main__':"
        )


def require_names(argument: str, names: Any) -> tuple[str, ...] | None:
    """Return one or several names of status keys as a tuple; raises `ArgumentError` for anything else."""
    read = status_names(argument, names)
    return None if read is None else tuple(read)
