"""Models in Python code: ``package.module:name`` and ``path/to/file.py:name``, the loaders of profilerkit's own."""

from __future__ import annotations

import ast
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ..error_text import describe_error
from ..errors import InputError, ModelFailedError, by_likeness
from .loaded_files import Namespace, find_namespace, in_plain_names

__all__ = [
    "is_in_file",
    "is_in_module",
    "list_definitions",
    "load_from_python",
    "load_function",
    "parse_python",
]

#: The value of an attribute that there is not.
_MISSING = object()
#: The folders of Python's own modules and of profilerkit's.
_OURS = (Path(ast.__file__).parent, Path(__file__).parents[1])


def is_in_module(spec: str) -> bool:
    """Return whether a text has the form ``package.module:name``."""
    source, _, name = spec.rpartition(":")
    return bool(source and name) and not is_in_file(spec)


def is_in_file(spec: str) -> bool:
    """Return whether a text has the form ``path/to/file.py:name``."""
    source, _, name = spec.rpartition(":")
    return bool(name) and Path(source).suffix == ".py"


def load_from_python(spec: str) -> Any:
    """Return the model that ``package.module:name`` or ``path/to/file.py:name`` names.

    A class or a function is called without arguments; any other object is the model itself. While it is loaded, the
    file's folder, or for a module the current folder, is on ``sys.path``. The modules that come from this folder are
    separate from modules of the same names of another file, and of the caller; a module that is installed is imported
    as usual. ``importlib.import_module(type(model).__module__)`` is the module of the model's class.
    """
    with _import_source(spec) as module:
        member = _find_member(spec, module)
        return _call_user_code(spec, member) if inspect.isclass(member) or inspect.isroutine(member) else member


def load_function(spec: str) -> Callable[..., Any]:
    """Return the function that ``package.module:name`` or ``path/to/file.py:name`` names, and do not call it.

    Raises `InputError` if there is no such function, or if it cannot be called.
    """
    with _import_source(spec) as module:
        function: Any = _find_member(spec, module)
    if not callable(function):
        raise InputError(f"{spec!r} is a {type(function).__name__}, and cannot be called; name a function")
    return function  # type: ignore[no-any-return]


# The module of a text -------------------------------------------------------------------------------------------------


@contextmanager
def _import_source(spec: str) -> Iterator[Any]:
    """Import the module, or run the file, that a text names, and yield it while its folder is on ``sys.path``."""
    source = spec.rpartition(":")[0]
    if is_in_file(spec):
        if not Path(source).is_file():
            raise InputError(f"there is no file {source!r}")
        namespace = find_namespace(Path(source))
        load = namespace.load_main
    else:
        namespace = find_namespace(Path.cwd())
        load = partial(_import_module, namespace, source)
    with namespace.in_use():
        module = _call_user_code(source, load)
        if module is None:
            raise InputError(f"cannot import {source!r}: there is no such module")
        yield module


def _import_module(namespace: Namespace, name: str) -> Any:
    """Import a module and return it; None if there is no such module."""
    if name.startswith("."):
        return None
    try:
        return namespace.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{in_plain_names(error.name)}."):
            return None
        raise  # it exists, and imports a module that does not


def _find_member(spec: str, module: Any) -> Any:
    """Return what a text names in a module; raises `InputError` for a name that there is not."""
    source, _, name = spec.rpartition(":")
    member = module
    for part in name.split("."):
        member = _call_user_code(source, partial(getattr, member, part, _MISSING))
        if member is _MISSING:
            public = [
                key for key, value in vars(module).items() if not inspect.ismodule(value) and not key.startswith("_")
            ]
            listing = ", ".join(by_likeness(name, public)[:10]) or "nothing public"
            raise InputError(f"{source!r} has no {name!r}; it has, nearest first: {listing}")
    return member


def _call_user_code(source: str, load: Callable[[], Any]) -> Any:
    """Return ``load()``; an error of the user's code, `SystemExit` among them, becomes a `ModelFailedError`."""
    try:
        return load()
    except MemoryError:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:
        raise ModelFailedError(f"{source} raised {in_plain_names(describe_error(error))}{_find_line(error)}") from error


def _find_line(error: BaseException) -> str:
    """Return where an error arose in the user's own files: the last line of a call that is in no installed package."""
    calls = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    lines = [(path, line) for path, line in calls if path.is_file() and not _is_installed(path)]
    return f" ({lines[-1][0].name}, line {lines[-1][1]})" if lines else ""


def _is_installed(path: Path) -> bool:
    is_in_package = not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
    return is_in_package or any(path.is_relative_to(folder) for folder in _OURS)


# Python code that is read and not run ---------------------------------------------------------------------------------


def parse_python(content: bytes) -> ast.Module | None:
    """Return the statements of Python code, which is not run; None if it is no Python, or is nested too deep."""
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two are of the parser's own stack
        return None


def list_definitions(path: Path) -> list[str] | None:
    """Return the public classes and functions at the top of a Python file, which is read and not run.

    None for a file that cannot be read as Python: its content is unknown.
    """
    try:
        tree = parse_python(path.read_bytes())
    except OSError:
        return None
    if tree is None:
        return None
    definitions = [item for item in tree.body if isinstance(item, (ast.ClassDef, ast.FunctionDef))]
    return [item.name for item in definitions if not item.name.startswith("_")]
