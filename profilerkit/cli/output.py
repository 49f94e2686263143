"""Where results go: to standard output in the form that was asked for, and to files in the form of their suffix."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import MODEL_FAILED, fail

if TYPE_CHECKING:
    from ..comparison import Comparison
    from ..report import Report

__all__ = ["emit", "form_of", "write"]

#: Suffixes that are not the name of their form.
_SUFFIXES = {"txt": "console", "md": "markdown", "tex": "latex", "htm": "html"}


def form_of(path: Path) -> str:
    """Return the form that a file's suffix says; raises a usage error for one that says none."""
    from ..plugins import offered_renderers

    suffix = path.suffix.removeprefix(".").lower()
    form = _SUFFIXES.get(suffix, suffix)
    known = [offer.item.name for offer in offered_renderers()]
    if form not in known:
        listing = ", ".join(sorted({*known, *_SUFFIXES}))
        raise click.BadParameter(f"{path.name!r}: the suffix says no form; there are {listing}", param_hint="--output")
    return form


def emit(
    result: Report | Comparison, form: str, output: Iterable[Path] = (), quiet: bool = False, **options: Any
) -> None:
    """Write the files, then print the result unless ``quiet``; ``options`` go to the renderer."""
    for path in output:
        write(path, _rendered(result, form_of(path), **{"details": True, **_given(options)}))
    if not quiet:
        click.echo(_rendered(result, form, **options).rstrip("\n"))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value not in (None, False)}


def _rendered(result: Any, form: str, **options: Any) -> str:
    from ..render import render

    try:
        return render(result, form, **options)
    except Exception as error:  # whatever a plugin's renderer does wrong
        fail(f"renderer {form!r} raised {type(error).__name__}: {error}", MODEL_FAILED, error)


def write(path: Path, text: str) -> None:
    """Write a text file: the whole of it, or nothing."""
    handle, scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text if text.endswith("\n") else f"{text}\n")
        mask = os.umask(0)
        os.umask(mask)
        Path(scratch).chmod(0o666 & ~mask)  # as any new file: mkstemp's is readable to its owner alone
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
