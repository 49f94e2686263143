"""Where results go: to standard output in the requested format, and to files in the format of their suffix."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

import click

from ..errors import ProfilerKitError
from ..process.clean_output import wants_color
from ..process.files import write_text
from .printing import MODEL_FAILED, USAGE, emit, fail

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["Display", "cannot_write", "find_form"]


def find_form(path: Path) -> str:
    """Return the form that a file's suffix says; raises a usage error for one that says none."""
    from ..hooks import renderers

    form = renderers.find_form(path)
    if form is None:
        listing = ", ".join(renderers.rank_suffixes(path))
        raise click.BadParameter(
            f"{path.name!r}: the suffix names no format; use one of these, nearest first: {listing}",
            param_hint="--output",
        )
    return form


@dataclass(frozen=True)
class Display:
    """How and where a result is to be shown, as the options say."""

    layers: bool
    depth: int | None
    top: int | None
    configuration: bool
    advice: bool
    form: str
    output: tuple[Path, ...]
    quiet: bool

    def __post_init__(self) -> None:
        """Raise a usage error for ``--configuration`` if no requested form shows it: before anything is measured."""
        forms = [self.form, *map(find_form, self.output)]
        if self.configuration and not any(_takes(form, "configuration") for form in forms):
            raise click.BadParameter(
                f"format {self.form!r} does not show how layers are made; add --format tree",
                param_hint="--configuration",
            )

    def emit(self, result: Report | Comparison, **further: Any) -> None:
        """Write the files, then print the result unless ``quiet``; ``further`` options go to the renderer too.

        Where a file cannot be written the result is printed all the same, for it took its time.
        """
        options = {"details": self.layers, "depth": self.depth, "top": self.top, "advice": self.advice, **further}
        options |= {"configuration": True} if self.configuration else {}
        failures = self._write_files(result, {**options, "details": True})  # a file has room for every layer
        if not self.quiet:
            try:
                text = _render(result, self.form, **options, color=wants_color())
            except MemoryError:
                raise
            except Exception as error:  # whatever a renderer does wrong
                fail(_explain(self.form, error), MODEL_FAILED, error)
            emit(text.rstrip("\n"), colored=True)
        if failures:
            first = next(iter(failures.values()))
            fail("; ".join(failures), USAGE if _is_of_file(first) else MODEL_FAILED, first)

    def _write_files(self, result: Report | Comparison, options: dict[str, Any]) -> dict[str, Exception]:
        """Write each file, and return the errors of those that cannot be written, by their explanations."""
        failures: dict[str, Exception] = {}
        for path in self.output:
            form = find_form(path)
            try:
                write_text(path, _render(result, form, **options))
            except MemoryError:
                raise
            except Exception as error:  # whatever a renderer does wrong
                failures[_explain(form, error)] = error
        return failures


def _render(result: Any, form: str, **options: Any) -> str:
    from ..render import render

    try:
        return render(result, form, **options)
    except OSError as error:  # of a file that the renderer reads, and not of the one that is written
        raise ProfilerKitError(f"renderer {form!r} raised {type(error).__name__}: {error}") from error


def cannot_write(error: OSError) -> NoReturn:
    """Leave the command, saying which file could not be written."""
    fail(_explain("", error), USAGE, error)


def _explain(form: str, error: Exception) -> str:
    """Return why a result was not written or printed in a form."""
    if _is_of_file(error):
        return f"cannot write {error.filename}: {error.strerror or error}"
    if isinstance(error, ProfilerKitError):
        return str(error)
    return f"renderer {form!r} raised {type(error).__name__}: {error}"


def _is_of_file(error: Exception) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and error.filename is not None


def _takes(form: str, option: str) -> bool:
    """Return whether the renderer of a form takes an option."""
    from ..hooks.renderers import renderer

    return option in inspect.signature(renderer(form)).parameters
