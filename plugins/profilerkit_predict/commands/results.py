"""Writing the result of a command to a file, and printing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from profilerkit.cli import emit
from profilerkit.cli.output import cannot_write

if TYPE_CHECKING:
    from ..joining import JoinedProfile
    from ..language_models import LanguageModelComparison, LanguageModelReport


def save_and_print(
    result: LanguageModelReport | LanguageModelComparison | JoinedProfile,
    output: Path | None,
    form: str,
    **options: int | None,
) -> None:
    """Write a result to a file, if one is given, and print it as "json" or as text, of which there are ``options``.

    Where the file cannot be written the result is printed all the same, for it took its time.
    """
    unwritten = None
    if output is not None:
        try:
            result.save(output)
        except OSError as error:
            unwritten = error
    emit(json.dumps(result.to_dict(), indent=2) if form == "json" else result.to_text(**options))
    if unwritten is not None:
        cannot_write(unwritten)
