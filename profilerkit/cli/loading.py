"""From what a user types as MODEL and --input-shape to a model and its inputs."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from . import MODEL_FAILED, fail

__all__ = ["load_model", "parse_shapes"]


def load_model(reference: str) -> Any:
    """Return the model that ``package.module:name`` or ``path/to/file.py:name`` refers to.

    A class, or a function whose parameters all have defaults, is called; anything else is the model itself.
    """
    source, separator, name = reference.rpartition(":")
    if not separator or not source or not name:
        raise click.BadParameter(
            f"{reference!r} does not say where the model is; give package.module:name or path/to/file.py:name",
            param_hint="MODEL",
        )
    module = _module(source)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = ", ".join(known for known in vars(module) if not known.startswith("_"))
            raise click.BadParameter(f"{source!r} has no {name!r}; it has: {public}", param_hint="MODEL")
        found = getattr(found, part)
    if inspect.isclass(found) or inspect.isroutine(found):
        return _guarded(reference, found)
    return found


def _guarded(source: str, load: Callable[[], Any]) -> Any:
    """Return ``load()``; an error of the user's own code is said in a line."""
    try:
        return load()
    except Exception as error:
        fail(f"{source} raised {type(error).__name__}: {error}", MODEL_FAILED)


def _module(source: str) -> Any:
    path = Path(source)
    if path.suffix != ".py":
        sys.path.insert(0, str(Path.cwd()))
        if not _exists(source):
            raise click.BadParameter(f"cannot import {source!r}: there is no such module", param_hint="MODEL")
        return _guarded(source, lambda: importlib.import_module(source))
    if not path.is_file():
        raise click.BadParameter(f"there is no file {source!r}", param_hint="MODEL")
    sys.path.insert(0, str(path.parent.resolve()))
    name = f"_profiled_{path.stem}"  # a file called random.py must not take the place of random
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.BadParameter(f"cannot load {source!r} as a Python module", param_hint="MODEL")
    loader, module = spec.loader, importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _guarded(source, lambda: loader.exec_module(module))
    return module


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def parse_shapes(values: tuple[str, ...]) -> tuple[Any, int | None]:
    """Return (input_shape, batch size) for ``1,3,224,224`` or ``ids=1,128:int64``, several of either.

    The first dimension is the batch, which all inputs share.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    batches = set()
    for value in values:
        name, _, rest = value.rpartition("=")
        sizes, _, dtype = rest.partition(":")
        try:
            batch, *shape = (int(size) for size in sizes.split(","))
        except ValueError:
            raise click.BadParameter(
                f"{value!r} is no shape; give 1,3,224,224 (batch first), with a name and dtype ids=1,128:int64",
                param_hint="--input-shape",
            ) from None
        batches.add(batch)
        spec = (tuple(shape), dtype or "float32")
        if name:
            named[name] = spec
        else:
            positional.append(spec)
    if len(batches) > 1:
        raise click.BadParameter("the inputs have different batch sizes (first dimensions)", param_hint="--input-shape")
    if positional and named:
        raise click.BadParameter("name all inputs or none of them", param_hint="--input-shape")
    return (named or positional or None), (batches.pop() if batches else None)
