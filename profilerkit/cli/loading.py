"""The target of a MODEL or REPORT of the command line: a model that a loader takes, or a saved report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputError, ModelFailedError, ReportFileError
from ..process.progress import track
from .printing import MODEL_FAILED, fail

if TYPE_CHECKING:
    from ..job import Job
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["is_saved", "load_job", "load_report", "load_saved", "name_spec"]


def load_job(job: Job, hint: str = "MODEL") -> Job:
    """Return a job with the model that MODEL leads to; an error ends the command with a message of one line."""
    try:
        for loading in track((job,), f"Loading {job.model}"):
            loaded = loading.load()
        return loaded
    except InputError as error:
        raise click.BadParameter(str(error), param_hint=hint) from error
    except ModelFailedError as error:
        fail(str(error), MODEL_FAILED, error)


def is_saved(spec: str) -> bool:
    """Return whether a text names a saved report rather than a model."""
    return Path(spec).suffix.lower() == ".json"


def load_saved(path: str, hint: str = "REPORT") -> Report | Comparison:
    """Return the report or comparison in a file; a file that cannot be read is a usage error."""
    from ..hooks.backends import backends
    from ..results.saving import load

    try:
        return load(path)
    except ReportFileError as error:
        is_model = any(Path(path).suffix in info.suffixes for info in backends()) and Path(path).exists()
        wrong = f"{path} is a model, and not a saved report; profile it: profilerkit profile {path}"
        raise click.BadParameter(wrong if is_model else str(error), param_hint=hint) from error


def load_report(path: str, name: str | None = None) -> Report:
    """Return the report of one model that a file holds, renamed if there is a name; anything else is a usage error."""
    from ..results.report import Report

    loaded = load_saved(path, "MODEL")
    if not isinstance(loaded, Report):
        raise click.BadParameter(f"{path} holds a comparison; give the report of one model", param_hint="MODEL")
    return loaded if name is None else replace(loaded, name=name)


def name_spec(spec: str) -> str:
    """Return the part of a MODEL that names it: ``net`` of ``net.onnx``, ``Qwen2-0.5B`` of ``hf:Qwen/Qwen2-0.5B``."""
    path = Path(spec)
    source, _, name = spec.rpartition(":")
    if len(source) > 1 and not path.exists():  # one letter is a drive
        return Path(name).name or spec
    return (path.name if path.is_dir() else path.stem) or spec
