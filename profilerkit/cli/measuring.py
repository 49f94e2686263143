"""From MODELs, as text, to their reports: what ``profile``, ``compare``, ``diff`` and ``check`` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..count_text import format_count
from ..errors import ArgumentError, IncompleteStatusError, ProfilerKitError, UnknownStatusError
from ..process.progress import progress_enabled
from .loading import is_saved, load_argument, load_report
from .printing import MODEL_FAILED, NOT_KEPT, USAGE, fail
from .request import Request

if TYPE_CHECKING:
    from ..profiler import Profiler
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["Measured", "compare_specs", "end_with_failures", "measure_specs", "profile_spec"]


@dataclass(frozen=True, eq=False)
class Subject:
    """A MODEL of the command line: a model, or a report that was saved. The same text twice makes two subjects.

    Attributes:
        spec: The text.
        given_name: Its name by --name.
    """

    spec: str
    given_name: str | None = None

    @property
    def name(self) -> str | None:
        """What it is called: by --name, or else by its text; None for a saved report, which has a name."""
        if self.given_name or self.is_saved:
            return self.given_name
        return read_name(self.spec)

    @property
    def is_saved(self) -> bool:
        return is_saved(self.spec)

    def name_report(self, report: Report) -> Report:
        """Return a report of this subject under its name by --name, if it has one."""
        return report if self.given_name is None else replace(report, name=self.given_name)


class Measured(NamedTuple):
    """A report, and the profiler that has the errors of what failed.

    A saved report has no profiler, and neither has a model in a process of its own.
    """

    report: Report
    profiler: Profiler | None = None


class Compared(NamedTuple):
    """Models side by side, and the profiler of each, as in `Measured`."""

    comparison: Comparison
    profilers: list[Profiler | None]


def list_subjects(specs: Sequence[str], request: Request) -> list[Subject]:
    """Return the MODELs with their names; raises a usage error for another number of names than of models."""
    if not request.name:
        return list(map(Subject, specs))
    if len(request.name) != len(specs):
        counts = f"{format_count(len(request.name), 'name')} for {format_count(len(specs), 'model')}"
        raise click.BadParameter(f"{counts}; give one for each, in their order", param_hint="--name")
    return list(map(Subject, specs, request.name))


def read_name(spec: str) -> str:
    """Return the part of a MODEL that names it: ``student`` of ``nets.py:student``, ``net`` of ``net.onnx``."""
    source, _, name = spec.rpartition(":")
    return name if source and "/" not in name else Path(spec.rstrip("/")).stem or spec


def profile_spec(spec: str, request: Request) -> Measured:
    """Return the report of one model."""
    from ..models.placing import split_arguments

    (subject,) = list_subjects([spec], request)
    placing, others = split_arguments(request.further)
    if not placing:
        return _profile([subject], request)[subject]
    if request.is_isolated:
        options = ", ".join(f"--{option}" for option in placing)
        raise click.UsageError(f"{options} gets a process of its own already; leave out the options of isolation")
    return _profile_in_place(subject, replace(request, further=others), placing)


def _profile_in_place(subject: Subject, request: Request, placing: Mapping[str, Any]) -> Measured:
    """Return the report of what is profiled in place of a model, which is not loaded here."""
    from ..hooks.extension import LoadedModel
    from ..models.placing import place_model

    with _end_in_a_line(), progress_enabled(not request.quiet):
        model, backend = place_model(subject.spec, None, placing, request.trust)
        loaded = LoadedModel(model, name=subject.name)
        profiler = request.make_profiler(loaded, backend=backend, placing=placing)
        return Measured(request.make_report(profiler), profiler)


def compare_specs(specs: Sequence[str], request: Request) -> Compared:
    """Return models and saved reports side by side.

    Of those that are called alike a saved report is called by its file, and others get a number each. With --metric,
    saved reports are shown without their other metrics.
    """
    from ..results.comparison import side_by_side

    subjects = list_subjects(specs, request)
    measured = _measure(subjects, request)
    names = [subject.name or measured[subject].report.name for subject in subjects]
    names = [
        read_name(subject.spec) if subject.name is None and names.count(name) > 1 else name
        for subject, name in zip(subjects, names, strict=True)
    ]
    comparison = side_by_side([measured[subject].report for subject in subjects], names)
    if request.metric:
        fresh = [report for subject, report in zip(subjects, comparison.reports, strict=True) if not subject.is_saved]
        reference, *others = _select_metrics(comparison.reports, request.metric, fresh)
        comparison = replace(comparison, reference=reference, others=tuple(others))
    return Compared(comparison, [measured[subject].profiler for subject in subjects])


def measure_specs(specs: Sequence[str], request: Request) -> list[Measured]:
    """Return the reports of models, which are measured in turn, and of files, in the order of ``specs``."""
    subjects = list_subjects(specs, request)
    measured = _measure(subjects, request)
    return [measured[subject] for subject in subjects]


def _select_metrics(reports: Sequence[Report], metrics: Sequence[str], fresh: Sequence[Report]) -> list[Report]:
    """Return reports with these metrics alone, and with all that the ``fresh`` ones, which were just made, have.

    Raises a usage error for a metric that no report has.
    """
    from ..hooks.offers import name_of_metric

    names = [name_of_metric(name) for name in metrics]
    keys = list(dict.fromkeys(key for report in reports for key in report.statuses))
    for name in names:
        if name not in keys:
            error = UnknownStatusError(name, keys, owner="these reports")
            raise click.BadParameter(str(error), param_hint="--metric")
    shown = {*names, *(key for report in fresh for key in report.statuses)}
    return [
        replace(report, statuses={key: record for key, record in report.statuses.items() if key in shown})
        for report in reports
    ]


def _measure(subjects: Sequence[Subject], request: Request) -> dict[Subject, Measured]:
    """Return the report of each subject: saved ones are read first, then the models are measured."""
    saved = [subject for subject in subjects if subject.is_saved]
    models = [subject for subject in subjects if not subject.is_saved]
    measured = {subject: Measured(subject.name_report(load_report(subject.spec))) for subject in saved}
    return {**measured, **_profile(models, request)}


def _profile(subjects: Sequence[Subject], request: Request) -> dict[Subject, Measured]:
    """Return the reports of models, which are measured in turn; plugins see them so too."""
    return _profile_isolated(subjects, request) if request.is_isolated else _profile_here(subjects, request)


def _profile_isolated(subjects: Sequence[Subject], request: Request) -> dict[Subject, Measured]:
    """Return the reports of models in processes of their own."""
    from ..hooks.manager import announce
    from ..results.comparison import side_by_side

    with _end_in_a_line():
        reports = request.profile_isolated([subject.spec for subject in subjects]) if subjects else []
        reports = [subject.name_report(report) for subject, report in zip(subjects, reports, strict=True)]
        if reports:
            announce(side_by_side(reports) if len(reports) > 1 else reports[0])
    return dict(zip(subjects, map(Measured, reports), strict=True))


def _profile_here(subjects: Sequence[Subject], request: Request) -> dict[Subject, Measured]:
    """Return the reports of models, with their profilers."""
    from ..profiler import compare_profilers

    with _end_in_a_line():
        request.require_known_names()
    with progress_enabled(not request.quiet):
        models = [load_argument(subject.spec, request.trust) for subject in subjects]
    with _end_in_a_line(), progress_enabled(not request.quiet):
        names = [subject.given_name for subject in subjects]
        profilers = list(map(request.make_profiler, models, names))
        if len(profilers) > 1:
            reports = compare_profilers(
                profilers, request.metric or None, request.arguments, strict=request.strict, static=request.static
            ).reports
        else:
            reports = tuple(map(request.make_report, profilers))
    return {
        subject: Measured(replace(report, name=profiler.name), profiler)
        for subject, report, profiler in zip(subjects, reports, profilers, strict=True)
    }


@contextmanager
def _end_in_a_line() -> Iterator[None]:
    """End the command with a line and an exit code where measuring raises."""
    try:
        yield
    except click.ClickException:
        raise
    except IncompleteStatusError as error:
        fail(str(error), NOT_KEPT, error)
    except (UnknownStatusError, ArgumentError) as error:
        fail(str(error), USAGE, error)
    except ProfilerKitError as error:
        fail(str(error), MODEL_FAILED, error)
    except MemoryError:
        raise
    except Exception as error:  # whatever the model raised: with --strict nothing is kept
        fail(f"{type(error).__name__}: {error}", MODEL_FAILED, error)


def end_with_failures(report: Report, profiler: Profiler | None) -> None:
    """Leave with an exit code if a metric of a report failed; the profiler has the traceback of the first."""
    from ..piping.outcome import Completeness

    failed = [record.key for record in report.statuses.values() if record.completeness is Completeness.FAILED]
    if failed:
        error = None
        if profiler is not None and failed[0] in profiler.status_keys():
            error = profiler.status_get(failed[0], to_value=False).outcome.error
        fail(f"{', '.join(failed)} of {report.name} failed", MODEL_FAILED, error)
