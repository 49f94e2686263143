"""From a MODEL or REPORT, as text, to the model or the saved result that it names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InputError, ModelFailedError, ReportFileError
from ..process.progress import track
from .printing import MODEL_FAILED, fail

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["is_saved", "load_argument", "load_report", "load_saved"]


def load_argument(spec: str, trust: bool = False, hint: str = "MODEL") -> Any:
    """Return the model that MODEL leads to, by a model loader; an error ends the command with a message of one line."""
    from ..models.loaders import load_model

    try:
        for loading in track((spec,), f"Loading {spec}"):
            model = load_model(loading, trust=trust)
        return model
    except InputError as error:
        raise click.BadParameter(str(error), param_hint=hint) from error
    except ModelFailedError as error:
        fail(str(error), MODEL_FAILED, error)


def is_saved(spec: str) -> bool:
    """Return whether a text names a saved report rather than a model."""
    return Path(spec).suffix.lower() == ".json"


def load_saved(path: str, hint: str = "REPORT") -> Report | Comparison:
    """Return what a file holds; what is wrong with it is a usage error."""
    from ..hooks.backends import list_backends
    from ..results.saving import load

    try:
        return load(path)
    except ReportFileError as error:
        is_model = any(Path(path).suffix in offer.item.suffixes for offer in list_backends()) and Path(path).exists()
        wrong = f"{path} is a model, and not a saved report; profile it: profilerkit profile {path}"
        raise click.BadParameter(wrong if is_model else str(error), param_hint=hint) from error


def load_report(path: str) -> Report:
    """Return the report of one model that a file holds; anything else is a usage error."""
    from ..results.report import Report

    loaded = load_saved(path, "MODEL")
    if not isinstance(loaded, Report):
        raise click.BadParameter(f"{path} holds a comparison; give the report of one model", param_hint="MODEL")
    return loaded
