"""The job of a separate process: a model, or where to find it, and how to profile it."""

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
from typing import IO, Any

from ..arguments.checking import status_names
from ..errors import InputError

__all__ = ["Job", "NoModelError", "names_of", "read_job", "require_started", "written"]


@dataclass(frozen=True)
class Job:
    """One model to profile: what `profilerkit.profile` is given, as text, a builder, or the model itself.

    ``in_turn`` says that the caller lets several such processes take turns where they measure times.
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

    @property
    def called(self) -> str:
        """The name of the model until it is loaded."""
        if self.name:
            return self.name
        if isinstance(self.model, (str, os.PathLike)):
            return os.fspath(self.model)
        return getattr(self.model, "__name__", None) or type(self.model).__name__

    def loaded(self) -> Any:
        """Return the model as a `LoadedModel`: loaded from its text, built, or as it is."""
        from ..plugging.extension import LoadedModel

        model = self.model
        if isinstance(model, (str, os.PathLike)) and self._is_spec(os.fspath(model)):
            model = _model_at(os.fspath(model), self.trust)
        elif is_builder(model):
            model = model()
        loaded = model if isinstance(model, LoadedModel) else LoadedModel(model)
        if any(self.data.get(key) is not None for key in ("inputs", "input_shape")):
            return replace(loaded, inputs=self.data.get("inputs"), input_shape=self.data.get("input_shape"))
        if self.data.get("data_splits") is not None:
            return replace(loaded, inputs=None, input_shape=None)
        return loaded

    def _is_spec(self, text: str) -> bool:
        """Say whether a text is one for a model loader: with a backend it may be the path of a saved model too."""
        if self.backend is None:
            return True
        from ..plugging.loaders import find_loader

        try:
            find_loader(text)
        except InputError:
            return False
        return True


class NoModelError(InputError):
    """A text leads to no model."""


def _model_at(text: str, trust: bool) -> Any:
    from ..plugging.loaders import load_model

    try:
        return load_model(text, trust)
    except InputError as error:
        raise NoModelError(str(error)) from error


def is_builder(model: Any) -> bool:
    """Return whether the model is built by a call without arguments: of a class, a function or a partial."""
    return inspect.isclass(model) or inspect.isroutine(model) or isinstance(model, functools.partial)


def written(job: Job) -> IO[bytes]:
    """Return a file without a name, with the job and what is needed to read it elsewhere.

    Raises `InputError` where something in it cannot be pickled.
    """
    import tempfile

    content = io.BytesIO()
    try:
        pickle.Pickler(content, protocol=5).dump(job)
    except Exception as error:  # whatever the parts of a model say
        raise InputError(
            f"{job.called} cannot be sent to a process of its own ({type(error).__name__}: {error}); give it as text "
            "(package.module:name, path/to/file.py:name), as a function of a module that builds it, or use "
            "start_method='fork'"
        ) from error
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever starts the process closes it
    pickle.dump(_surroundings(b"__main__" in content.getvalue(), job), file)
    file.write(content.getvalue())
    file.flush()
    file.seek(0)
    return file


def _surroundings(needs_main: bool, job: Job) -> dict[str, Any]:
    """Return what the other process needs to find the same code: as `multiprocessing` hands it over."""
    if not needs_main:
        return {"sys_path": list(sys.path), "dir": str(Path.cwd())}
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if getattr(main, "__spec__", None) is None and (file is None or not Path(file).exists()):
        raise InputError(
            f"{job.called} is of a session or a notebook, which another process cannot import; put it into a module, "
            "or use start_method='fork'"
        )
    from multiprocessing.spawn import get_preparation_data

    data = get_preparation_data("profilerkit-isolated")
    names = ("sys_path", "sys_argv", "dir", "init_main_from_name", "init_main_from_path")
    return {key: data[key] for key in names if key in data}


def read_job(descriptor: int) -> Job:
    """Read what `written` wrote; the main program is imported, under another name, where something is of it."""
    from multiprocessing.spawn import prepare

    with os.fdopen(descriptor, "rb") as file, _starting():
        prepare(pickle.load(file))
        job = pickle.load(file)
    if not isinstance(job, Job):
        raise InputError(f"the job is a {type(job).__name__}")
    return job


_reading: list[bool] = []


@contextmanager
def _starting() -> Iterator[None]:
    _reading.append(True)
    try:
        yield
    finally:
        _reading.pop()


def require_started() -> None:
    """Raise `InputError` where the main program, imported in a process of its own, starts the next one."""
    if _reading:
        raise InputError(
            "the main program profiles in processes of their own while it is imported in one of them; put the call "
            "behind: if __name__ == '__main__':"
        )


def names_of(argument: str, names: Any) -> tuple[str, ...] | None:
    """Return one or several names of status keys as a tuple; raises `ArgumentError` for anything else."""
    read = status_names(argument, names)
    return None if read is None else tuple(read)
