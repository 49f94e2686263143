"""``profilerkit compare REFERENCE OTHER...``, and ``profilerkit diff OLD NEW``, which shows what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ..errors import UnknownStatusError
from .completions import complete_models
from .loading import is_saved, name_spec
from .measuring import Measured, Request, end_with_failures, measure_jobs
from .options import input_options, isolation_options, measuring_options, output_options, pick, strict_option
from .output import Display

if TYPE_CHECKING:
    from ..job import Job
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["compare", "diff"]


@click.command("compare")
@click.argument("reference", shell_complete=complete_models)
@click.argument("others", nargs=-1, required=True, metavar="OTHER...", shell_complete=complete_models)
@input_options
@measuring_options
@isolation_options
@output_options
@strict_option
@click.option("--check-outputs", is_flag=True, help="Also run the models on the same inputs and compare their outputs.")
def compare(reference: str, others: tuple[str, ...], check_outputs: bool, **options: Any) -> None:
    """Profile models side by side; times are measured in turn.

    REFERENCE and each OTHER is a MODEL as 'profilerkit profile' takes it, or a report that was saved as JSON.
    """
    request, display = pick(Request, options), pick(Display, options)
    if check_outputs:
        if request.is_isolated:
            raise click.UsageError("--check-outputs runs the models in one process; leave out the options of isolation")
        request = replace(request, further={"check_outputs": True})
    _show_comparison((reference, *others), request, display)


@click.command("diff")
@click.argument("old", shell_complete=complete_models)
@click.argument("new", shell_complete=complete_models)
@input_options
@measuring_options
@isolation_options
@output_options
@strict_option
def diff(old: str, new: str, **options: Any) -> None:
    """Show what changed between OLD and NEW, metric by metric and layer by layer.

    Each is a report that was saved as JSON, or a MODEL as 'profilerkit profile' takes it.
    """
    display = pick(Display, options)
    _show_comparison((old, new), pick(Request, options), display, changes=not display.layers)


def _show_comparison(specs: Sequence[str], request: Request, display: Display, **further: Any) -> None:
    """Show models and saved reports side by side; ``further`` options go to the renderer.

    If names are equal, a saved report gets the name of its file, and the other models get numbers. With --metric, saved
    reports are shown without their other metrics.
    """
    from ..results.comparison import side_by_side

    jobs = request.make_jobs(specs)
    measured = measure_jobs(jobs, request)
    reports = [report for report, _ in measured]
    comparison = side_by_side(reports, _choose_names(jobs, reports))
    if request.metric:
        comparison = _limit_metrics(comparison, request.metric, specs)
    display.emit(comparison, **further)
    pairs = zip(comparison.reports, measured, strict=True)
    end_with_failures([Measured(report, profiler) for report, (_, profiler) in pairs])


def _choose_names(jobs: Sequence[Job], reports: Sequence[Report]) -> list[str]:
    """Return the names of models from the options, or else from the reports, where names may be equal."""
    names: list[str] = []
    for job, report in zip(jobs, reports, strict=True):
        names.append(job.name or (report.name if is_saved(job.model) else name_spec(job.model)))
    return [
        name_spec(job.model) if job.name is None and is_saved(job.model) and names.count(name) > 1 else name
        for job, name in zip(jobs, names, strict=True)
    ]


def _limit_metrics(comparison: Comparison, metrics: Sequence[str], specs: Sequence[str]) -> Comparison:
    """Return a comparison with these metrics alone, and with all that the models have, which were just measured.

    Raises a usage error for a metric that no report has.
    """
    from ..hooks.offers import name_of_metric

    keys = list(dict.fromkeys(key for report in comparison.reports for key in report.statuses))
    requested = [name_of_metric(name) for name in metrics]
    for name in requested:
        if name not in keys:
            error = UnknownStatusError(name, keys, owner="these reports")
            raise click.BadParameter(str(error), param_hint="--metric")
    measured = [report for spec, report in zip(specs, comparison.reports, strict=True) if not is_saved(spec)]
    shown = {*requested, *(key for report in measured for key in report.statuses)}
    reference, *others = [
        replace(report, statuses={key: record for key, record in report.statuses.items() if key in shown})
        for report in comparison.reports
    ]
    return replace(comparison, reference=reference, others=tuple(others))
