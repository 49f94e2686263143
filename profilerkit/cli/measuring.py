"""From MODELs and REPORTs, as text, to reports: the common functions of the commands that measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..count_text import format_count
from ..errors import ArgumentError, IncompleteStatusError, ProfilerKitError, UnknownStatusError
from ..piping.requests import Preference
from ..process.progress import progress_enabled
from .configuration import list_configured
from .loading import is_saved, load_job, load_report, name_spec
from .printing import MODEL_FAILED, NOT_KEPT, USAGE, fail

if TYPE_CHECKING:
    from ..job import Job
    from ..profiler import Profiler
    from ..results.report import Report

__all__ = [
    "Measured",
    "Request",
    "end_with_failures",
    "measure_jobs",
    "measure_specs",
    "profile_spec",
]


@dataclass(frozen=True)
class Request:
    """How models are to be measured, as the options of a command say."""

    input_shape: Any = None
    batch_size: Any = None
    device: str | None = None
    metric: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    static: bool = False
    optimizer: str | None = None
    fit_in: str | None = None
    leave_out: tuple[str, ...] = ()
    max_seconds: float | None = None
    num_threads: int | None = None
    strict: bool = False
    quiet: bool = False
    trust: bool = False
    isolate: bool = False
    timeout: float | None = None
    memory: int | None = None
    on: str | None = None
    #: Arguments that options of plugins are.
    further: Mapping[str, Any] = field(default_factory=dict)
    #: The options that no one has typed: they come from the configuration, and hold for whatever takes them.
    preferred: frozenset[str] = field(default_factory=list_configured)

    @property
    def is_isolated(self) -> bool:
        """Whether each model gets a process of its own."""
        return self.isolate or self.timeout is not None or self.memory is not None

    def make_jobs(self, specs: Sequence[str]) -> list[Job]:
        """Return the job of each MODEL; raises a usage error for another number of names than of models."""
        from ..job import Job

        if self.name and len(self.name) != len(specs):
            counts = f"{format_count(len(self.name), 'name')} for {format_count(len(specs), 'model')}"
            raise click.BadParameter(f"{counts}; give one for each, in their order", param_hint="--name")
        job = Job(
            None,
            input_shape=self.input_shape,
            metrics=self.metric or None,
            leave_out=self.leave_out,
            strict=self.strict,
            static=self.static,
            arguments={**self._read_arguments(), **self.further},
            trust=self.trust,
        )
        return [
            replace(job, model=spec, name=name)
            for spec, name in zip(specs, self.name or (None,) * len(specs), strict=True)
        ]

    def _read_arguments(self) -> dict[str, Any]:
        """Return the options that are arguments of functions; those that no one has typed are preferences."""
        names = ("batch_size", "device", "max_seconds", "num_threads", "on", "optimizer", "fit_in")
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        return {name: Preference(value) if name in self.preferred else value for name, value in values.items()}

    def require_known_names(self) -> None:
        """Raise `UnknownStatusError` for a metric that no model has, before one, and its framework, is loaded."""
        from ..hooks.offers import list_known_names

        all_names = list_known_names() if self.metric or self.leave_out else None
        if all_names is None:  # only a profiler knows them
            return
        for owner, names in (("this profiler", self.metric), ("leave_out", self.leave_out)):
            for name in names:
                if name not in all_names:
                    raise UnknownStatusError(name, all_names, owner=owner)


class Measured(NamedTuple):
    """A report, and the profiler that has the errors of failed values.

    A saved report has no profiler, and neither has a model in a process of its own.
    """

    report: Report
    profiler: Profiler | None = None


def profile_spec(spec: str, request: Request) -> Measured:
    """Return the report of one model."""
    (job,) = request.make_jobs([spec])
    placing = job.split.placing
    if placing and request.is_isolated:
        options = ", ".join(f"--{option}" for option in placing)
        raise click.UsageError(f"{options} gets a process of its own already; leave out the options of isolation")
    return _profile([job], request)[0]


def measure_specs(specs: Sequence[str], request: Request) -> list[Measured]:
    """Return the reports of models, which are measured in turn, and of files, in the order of ``specs``."""
    return measure_jobs(request.make_jobs(specs), request)


def measure_jobs(jobs: Sequence[Job], request: Request) -> list[Measured]:
    """Return the report of each job: saved ones are read first, then the models are measured."""
    saved = [load_report(job.model, job.name) if is_saved(job.model) else None for job in jobs]
    models = [job for job, report in zip(jobs, saved, strict=True) if report is None]
    fresh = iter(_profile(models, request) if models else ())
    return [next(fresh) if report is None else Measured(report) for report in saved]


def _profile(jobs: Sequence[Job], request: Request) -> list[Measured]:
    """Return the reports of models, which are measured in turn; plugins see them so too."""
    if request.is_isolated:
        return _profile_isolated(jobs, request)
    from ..profiler import compare_profilers

    with _end_in_a_line():
        request.require_known_names()
    with progress_enabled(not request.quiet):
        loaded = [
            replace(job, name=job.name or name_spec(job.model)) if job.split.placing else load_job(job) for job in jobs
        ]
    with _end_in_a_line(), progress_enabled(not request.quiet):
        profilers = [job.make_profiler(once=True) for job in loaded]
        if len(profilers) == 1:
            return [Measured(loaded[0].compute_report(profilers[0]), profilers[0])]
        reports = compare_profilers(profilers, loaded[0].make_request()).reports
    return [
        Measured(replace(report, name=profiler.name), profiler)
        for report, profiler in zip(reports, profilers, strict=True)
    ]


def _profile_isolated(jobs: Sequence[Job], request: Request) -> list[Measured]:
    """Return the reports of models in processes of their own."""
    from ..hooks.manager import announce
    from ..isolation.api import run_jobs
    from ..isolation.limits import Limits
    from ..job import NoModelError
    from ..results.comparison import side_by_side

    with _end_in_a_line():
        try:
            reports = run_jobs(jobs, Limits.read(request.timeout, request.memory))
        except NoModelError as error:
            raise click.BadParameter(str(error), param_hint="MODEL") from error
        announce(side_by_side(reports) if len(reports) > 1 else reports[0])
    return list(map(Measured, reports))


@contextmanager
def _end_in_a_line() -> Iterator[None]:
    """End the command with a line and an exit code where measuring raises."""
    try:
        yield
    except (click.ClickException, MemoryError):
        raise
    except IncompleteStatusError as error:
        fail(str(error), NOT_KEPT, error)
    except (UnknownStatusError, ArgumentError) as error:
        fail(str(error), USAGE, error)
    except ProfilerKitError as error:
        fail(str(error), MODEL_FAILED, error)
    except Exception as error:  # whatever the model raised: with --strict nothing is kept
        fail(f"{type(error).__name__}: {error}", MODEL_FAILED, error)


def end_with_failures(measured: Iterable[Measured]) -> None:
    """Leave with an exit code if metrics of reports failed; their profilers have the traceback of the first."""
    from ..piping.outcome import Completeness

    failures: list[str] = []
    errors: list[BaseException | None] = []
    for report, profiler in measured:
        failed = [record.key for record in report.statuses.values() if record.completeness is Completeness.FAILED]
        if failed:
            failures.append(f"{', '.join(failed)} of {report.name}")
        if profiler is not None:
            keys = set(failed) & set(profiler.status_keys())
            errors += [profiler.status_get(key, to_value=False).outcome.error for key in failed if key in keys]
    if failures:
        fail(f"{'; '.join(failures)} failed", MODEL_FAILED, next(filter(None, errors), None))
