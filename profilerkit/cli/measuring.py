"""From MODELs, as text, to their reports: what ``profile``, ``compare``, ``diff`` and ``check`` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..count_text import format_count
from ..errors import (
    ArgumentError,
    IncompleteStatusError,
    InputError,
    ModelFailedError,
    ProfilerKitError,
    ReportFileError,
    UnknownStatusError,
)
from ..piping.requests import Preference
from ..process.progress import progress_enabled, track
from .configuration import list_configured
from .options import parse_shapes
from .printing import MODEL_FAILED, NOT_KEPT, USAGE, fail

if TYPE_CHECKING:
    from ..isolation.job import Job
    from ..profiler import Profiler
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = [
    "Measured",
    "Request",
    "compare_specs",
    "end_with_failures",
    "is_saved",
    "load_argument",
    "load_report",
    "load_saved",
    "measure_specs",
    "profile_spec",
]


@dataclass(frozen=True)
class Request:
    """How models are to be measured, as the options say."""

    input_shape: tuple[str, ...] = ()
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

    def require_known_names(self) -> None:
        """Raise an error for a shape or a metric that no model has: before one, and its framework, is loaded."""
        from ..plugging.offers import list_known_names

        parse_shapes(self.input_shape)
        typed = {"this profiler": self.metric, "leave_out": self.leave_out}
        all_names = list_known_names() if any(typed.values()) else None
        if all_names is None:  # nothing is asked for, or only a profiler knows
            return
        for owner, names in typed.items():
            for name in names:
                if name not in all_names:
                    raise UnknownStatusError(name, all_names, owner=owner)

    def make_job(self, spec: str) -> Job:
        """Return what the process of a model is to do."""
        from ..isolation.job import Job

        if self.static:
            raise click.UsageError("--static runs nothing, so there is nothing to --isolate; leave out one of both")
        return Job(
            spec,
            {"input_shape": parse_shapes(self.input_shape)},
            metrics=self.metric or None,
            leave_out=self.leave_out,
            strict=self.strict,
            arguments=self.arguments,
            trust=self.trust,
        )

    def profile_isolated(self, specs: Sequence[str]) -> list[Report]:
        """Return the reports of models, each of which gets a process of its own; they take turns."""
        from ..isolation.api import run_jobs
        from ..isolation.job import NoModelError
        from ..isolation.limits import Limits

        try:
            return run_jobs([self.make_job(spec) for spec in specs], Limits.read(self.timeout, self.memory))
        except NoModelError as error:
            raise click.BadParameter(str(error), param_hint="MODEL") from error

    def make_profiler(self, model: Any, name: str | None = None, **made_with: Any) -> Profiler:
        """Return the profiler of a loaded model, with the requested inputs, or those of its loader."""
        from ..plugging.extension import LoadedModel
        from ..profiler import make_profiler

        shapes = parse_shapes(self.input_shape)
        loaded = model if isinstance(model, LoadedModel) else LoadedModel(model)
        from_loader = {"inputs": loaded.inputs, "input_shape": loaded.input_shape}
        sources = {"input_shape": shapes} if shapes is not None else from_loader
        named = name or loaded.name
        return make_profiler(loaded.model, name=named, leave_out=self.leave_out, once=True, **made_with, **sources)

    def make_report(self, profiler: Profiler) -> Report:
        """Return the report of a profiler."""
        from ..profiler import compute_report

        metrics = self.metric or None
        return compute_report(profiler, metrics, self.arguments, strict=self.strict, static=self.static)

    @property
    def arguments(self) -> dict[str, Any]:
        """What the functions are given."""
        names = ("batch_size", "device", "max_seconds", "num_threads", "on", "optimizer", "fit_in")
        values = {name: getattr(self, name) for name in names}
        arguments = {
            name: Preference(value) if name in self.preferred else value
            for name, value in values.items()
            if value is not None
        }
        return {**arguments, **self.further}


class Measured(NamedTuple):
    """A report, and the profiler that has the errors of what failed.

    A saved report has no profiler, and neither has a model in a process of its own.
    """

    report: Report
    profiler: Profiler | None = None


def names_for(specs: Sequence[str], request: Request) -> list[str | None]:
    """Return what the models are called: by --name, one for each, else by what was typed, None for a saved report.

    Raises a usage error for another number of names.
    """
    if request.name and len(request.name) != len(specs):
        counts = f"{format_count(len(request.name), 'name')} for {format_count(len(specs), 'model')}"
        raise click.BadParameter(f"{counts}; give one for each, in their order", param_hint="--name")
    if request.name:
        return list(request.name)
    return [None if is_saved(spec) else read_name(spec) for spec in specs]


def read_name(spec: str) -> str:
    """Return the part of a MODEL that names it: ``student`` of ``nets.py:student``, ``net`` of ``net.onnx``."""
    source, _, name = spec.rpartition(":")
    return name if source and "/" not in name else Path(spec.rstrip("/")).stem or spec


def load_argument(spec: str, trust: bool = False, hint: str = "MODEL") -> Any:
    """Return the model that MODEL leads to, by a model loader; an error ends the command with a message of one line."""
    from ..plugging.loaders import load_model

    try:
        for loading in track((spec,), f"Loading {spec}"):
            model = load_model(loading, trust=trust)
        return model
    except InputError as error:
        raise click.BadParameter(str(error), param_hint=hint) from error
    except ModelFailedError as error:
        fail(str(error), MODEL_FAILED, error)


def is_saved(spec: str) -> bool:
    """Say whether a text names a saved report rather than a model."""
    return Path(spec).suffix.lower() == ".json"


def load_saved(path: str, hint: str = "REPORT") -> Report | Comparison:
    """Return what a file holds; what is wrong with it is a usage error."""
    from ..plugging.backends import list_backends
    from ..results.saving import load

    try:
        return load(path)
    except ReportFileError as error:
        is_model = any(Path(path).suffix in offer.item.suffixes for offer in list_backends()) and Path(path).exists()
        wrong = f"{path} is a model, and not a saved report; profile it: profilerkit profile {path}"
        raise click.BadParameter(wrong if is_model else str(error), param_hint=hint) from error


def profile_spec(spec: str, request: Request) -> Measured:
    """Return the report of one model."""
    from ..plugging.placing import split_arguments

    placing, others = split_arguments(request.further)
    if placing:
        if request.is_isolated:
            options = ", ".join(f"--{option}" for option in placing)
            raise click.UsageError(f"{options} gets a process of its own already; leave out the options of isolation")
        return _profile_in_place(spec, replace(request, further=others), placing)
    names_for([spec], request)
    return _profile_models({0: spec}, request)[0]


def _profile_in_place(spec: str, request: Request, placing: Mapping[str, Any]) -> Measured:
    """Return the report of what is profiled in place of a model, which is not loaded here."""
    from ..plugging.extension import LoadedModel
    from ..plugging.placing import place_model

    with _end_in_a_line(), progress_enabled(not request.quiet):
        model, backend = place_model(spec, None, placing, request.trust)
        loaded = LoadedModel(model, name=names_for([spec], request)[0])
        profiler = request.make_profiler(loaded, backend=backend, placing=placing)
        return Measured(request.make_report(profiler), profiler)


def compare_specs(specs: Sequence[str], request: Request) -> tuple[Comparison, list[Profiler | None]]:
    """Return models and saved reports side by side, and their profilers as in `Measured`.

    Those that are called alike get a number each. With --metric, reports that have more are shown without the rest.
    """
    from ..results.comparison import Comparison, distinct_names

    measured = measure_specs(specs, request)
    typed = names_for(specs, request)
    names = distinct_names(name or one.report.name for name, one in zip(typed, measured, strict=True))
    reports = [replace(one.report, name=name) for name, one in zip(names, measured, strict=True)]
    if request.metric:
        models = [report for spec, report in zip(specs, reports, strict=True) if not is_saved(spec)]
        reports = _with_metrics(reports, request.metric, models)
    first, *others = reports
    return Comparison(first, tuple(others)), [one.profiler for one in measured]


def measure_specs(specs: Sequence[str], request: Request) -> list[Measured]:
    """Return the reports of models, which are measured in turn, and of files; they are called as --name says, if so."""
    names_for(specs, request)  # a wrong number of them is said before anything is measured
    saved = {index: _rename(load_report(spec), request, index) for index, spec in enumerate(specs) if is_saved(spec)}
    measured = _profile_models({index: spec for index, spec in enumerate(specs) if index not in saved}, request)
    return [Measured(saved[index]) if index in saved else measured[index] for index in range(len(specs))]


def _rename(report: Report, request: Request, index: int) -> Report:
    """Return the report of the MODEL at an index, called as --name says."""
    return replace(report, name=request.name[index]) if request.name else report


def _with_metrics(reports: Sequence[Report], metrics: Sequence[str], measured: Sequence[Report]) -> list[Report]:
    """Return reports with these metrics, and others that the measured ones were asked for: a saved one may have more.

    Raises a usage error for a metric that no report has.
    """
    from ..plugging.offers import name_of_metric

    names = [name_of_metric(name) for name in metrics]
    keys = list(dict.fromkeys(key for report in reports for key in report.statuses))
    for name in names:
        if name not in keys:
            error = UnknownStatusError(name, keys, owner="these reports")
            raise click.BadParameter(str(error), param_hint="--metric")
    kept = {*names, *(key for report in measured for key in report.statuses)}
    return [
        replace(report, statuses={key: record for key, record in report.statuses.items() if key in kept})
        for report in reports
    ]


def _profile_models(specs: Mapping[int, str], request: Request) -> dict[int, Measured]:
    """Return the reports of the MODELs at these indices, which are measured in turn; plugins see them so too."""
    return _profile_isolated(specs, request) if request.is_isolated else _profile_here(specs, request)


def _profile_isolated(specs: Mapping[int, str], request: Request) -> dict[int, Measured]:
    """Return the reports of models in processes of their own."""
    from ..plugging.manager import announce
    from ..results.comparison import side_by_side

    with _end_in_a_line():
        reports = request.profile_isolated(list(specs.values())) if specs else []
        reports = [_rename(report, request, index) for index, report in zip(specs, reports, strict=True)]
        if reports:
            announce(side_by_side(reports) if len(reports) > 1 else reports[0])
    return {index: Measured(report) for index, report in zip(specs, reports, strict=True)}


def _profile_here(specs: Mapping[int, str], request: Request) -> dict[int, Measured]:
    """Return the reports of models, with their profilers."""
    from ..profiler import compare_profilers

    with _end_in_a_line():
        request.require_known_names()
    with progress_enabled(not request.quiet):
        models = [load_argument(spec, request.trust) for spec in specs.values()]
    with _end_in_a_line(), progress_enabled(not request.quiet):
        names = [request.name[index] if request.name else None for index in specs]
        profilers = list(map(request.make_profiler, models, names))
        if len(profilers) > 1:
            reports = compare_profilers(
                profilers, request.metric or None, request.arguments, strict=request.strict, static=request.static
            ).reports
        else:
            reports = tuple(map(request.make_report, profilers))
    return {
        index: Measured(replace(report, name=profiler.name), profiler)
        for index, report, profiler in zip(specs, reports, profilers, strict=True)
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


def load_report(path: str) -> Report:
    """Return the report of one model that a file holds; anything else is a usage error."""
    from ..results.report import Report

    loaded = load_saved(path, "MODEL")
    if not isinstance(loaded, Report):
        raise click.BadParameter(f"{path} holds a comparison; give the report of one model", param_hint="MODEL")
    return loaded


def end_with_failures(report: Report, profiler: Profiler | None) -> None:
    """Leave with an exit code where a metric of a report failed."""
    from ..piping.outcome import Completeness

    failed = [record.key for record in report.statuses.values() if record.completeness is Completeness.FAILED]
    if failed:
        is_status = profiler is not None and failed[0] in profiler.status_keys()
        error = profiler.status_get(failed[0], to_value=False).outcome.error if is_status and profiler else None
        fail(f"{', '.join(failed)} of {report.name} failed", MODEL_FAILED, error)
