"""A report of a language model, or several side by side, as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .comparison_table import compare_in_table
from .notes import general_notes, report_notes
from .report_tables import list_tables
from .text_table import draw_table, wrap_lines

if TYPE_CHECKING:
    from .comparison import LanguageModelComparison
    from .report import LanguageModelReport

__all__ = ["comparison_text", "json_text", "report_text"]


def json_text(values: Any) -> str:
    """Return values as JSON."""
    return json.dumps(values, indent=2)


def report_text(report: LanguageModelReport) -> str:
    """Return the tables and notes of one report."""
    notes = (*general_notes([report]), *report_notes(report))
    return "\n\n".join([*map(draw_table, list_tables(report)), wrap_lines(f"- {note}" for note in notes)])


def comparison_text(comparison: LanguageModelComparison) -> str:
    """Return one row for each report and batch size, the notes that all have, and those of each model."""
    models_by_note: dict[str, dict[str, None]] = {}
    for report in comparison.reports:
        for note in report.facts.notes:
            models_by_note.setdefault(note, {})[report.name] = None
    of_models = (f"{', '.join(models)}: {note}" for note, models in models_by_note.items())
    notes = wrap_lines(f"- {note}" for note in (*general_notes(comparison.reports), *of_models))
    return f"{draw_table(compare_in_table(comparison))}\n\n{notes}"
