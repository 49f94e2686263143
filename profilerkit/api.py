"""The main functions: `profile` a model, `compare` several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from .backend import Backend, DeviceLike
from .errors import ArgumentError
from .job import Job, read_names
from .piping.function import ProfilerFunction
from .piping.status import StatusKey
from .profiler import Profiler, compare_profilers
from .results.comparison import Comparison
from .results.report import Report

__all__ = ["compare", "profile"]

#: A status key, by name or by class.
Key: TypeAlias = str | StatusKey | type[StatusKey]
#: Status keys: one of them, several, or None.
Names: TypeAlias = Key | Iterable[Key] | None


def profile(
    model: Any,
    inputs: Any = None,
    *,
    input_shape: Any = None,
    data_splits: Mapping[str, Any] | None = None,
    functions: Iterable[ProfilerFunction] | ProfilerFunction = (),
    metrics: Names = None,
    leave_out: Names = (),
    batch_size: int | Iterable[int] | None = None,
    device: DeviceLike = None,
    name: str | None = None,
    backend: Backend | str | None = None,
    strict: bool = False,
    static: bool = False,
    **arguments: Any,
) -> Report:
    """Compute the metrics of a model, those of all installed plugins, and return them as a `Report`.

    Args:
        model: A model of any framework that has a backend. It is not changed.
        inputs: Example inputs, or a function that creates them for a batch size; see `Profiler`.
        input_shape: The shape of one sample, instead of inputs: ``(3, 224, 224)``.
        data_splits: Data loaders by name. Evaluation functions run over them; inputs come from the first batch.
        functions: More metric functions: ``[ComputeEvalMetric(get_accuracy)]``. They replace others of the same key.
        metrics: The metrics to compute, by name or by class: ``["macs", TotalParams]``. Default: the standard ones.
        leave_out: Metrics that plugins offer and that are not computed: ``"execution_time"``. Use it if two plugins
            offer the same metric.
        batch_size: The samples in one forward pass. Default: the batch size of the example inputs. With several,
            ``(1, 8, 32)``, times are measured for each (``batch_sweep``), and all other metrics for the first.
        device: The device that runs the model. Default: the current device of the model.
        name: The name of the model in the report. Default: the name of its class.
        backend: A backend or its name. Default: the backend of the model's framework.
        strict: If True, a metric that fails or is not complete, and an unknown argument, raise an error. Otherwise the
            report contains the reason, and an unknown argument gives a warning.
        static: If True, the model does not run: only metrics that follow from layers and shapes are computed. A metric
            that needs a run raises `ArgumentError`.
        **arguments: Arguments of the metric functions, by name: ``max_seconds=1``.

    Raises:
        ArgumentError: An argument has a wrong type or value. Nothing has run.
    """
    job = Job.read(
        model,
        inputs=inputs,
        input_shape=input_shape,
        data_splits=data_splits,
        functions=functions,
        metrics=metrics,
        leave_out=leave_out,
        batch_size=batch_size,
        device=device,
        name=name,
        backend=backend,
        strict=strict,
        static=static,
        arguments=arguments,
    )
    return job.compute_report(job.make_profiler(once=True), caller=profile)


def compare(
    reference: Any,
    *others: Any,
    inputs: Any = None,
    input_shape: Any = None,
    data_splits: Mapping[str, Any] | None = None,
    functions: Iterable[ProfilerFunction] | ProfilerFunction = (),
    metrics: Names = None,
    leave_out: Names = (),
    batch_size: int | Iterable[int] | None = None,
    device: DeviceLike = None,
    names: Iterable[str] | None = None,
    backend: Backend | str | None = None,
    strict: bool = False,
    static: bool = False,
    **arguments: Any,
) -> Comparison:
    """Profile two or more models, and return their `Comparison`. The models take turns while they are timed.

    Args:
        reference: The model that the others are compared with, or a `Profiler` of it.
        *others: The other models, or profilers of them.
        inputs: Example inputs for all models. `profile` describes this and the other arguments.
        input_shape: The shape of one sample, instead of inputs.
        data_splits: Data loaders by name, for all models.
        functions: More metric functions, for all models.
        metrics: The metrics to compute, by name or by class.
        leave_out: Metrics that plugins offer and that are not computed. A `Profiler` keeps its own metrics.
        batch_size: The samples in one forward pass; several give a sweep, as in `profile`.
        device: The device that runs the models.
        names: The names of the models in the report, the reference first.
        backend: A backend or its name, for all models. Default: for each model the backend of its framework.
        strict: If True, a metric that fails or is not complete raises an error.
        static: If True, no model runs, as in `profile`.
        **arguments: Arguments of the metric functions, by name.
    """
    models = [reference, *others]
    if len(models) < 2:
        one_by_one = ", one by one and not as a list" if isinstance(reference, (list, tuple)) else ""
        raise TypeError(
            f"compare() needs a reference and at least one other model{one_by_one}: compare(teacher, student, inputs=x)"
        )
    shown_names = read_names(names, len(models))
    job = Job.read(
        None,
        inputs=inputs,
        input_shape=input_shape,
        data_splits=data_splits,
        functions=functions,
        metrics=metrics,
        leave_out=leave_out,
        batch_size=batch_size,
        device=device,
        backend=backend,
        strict=strict,
        static=static,
        arguments=arguments,
    )
    if all(isinstance(model, Profiler) for model in models):
        _require_nothing_of_profilers(job)
    profilers = [
        model if isinstance(model, Profiler) else replace(job, model=model).make_profiler(once=True) for model in models
    ]
    return compare_profilers(profilers, job.make_request(compare), names=shown_names)


def _require_nothing_of_profilers(job: Job) -> None:
    """Raise `ArgumentError` for an argument that profilers have themselves, if all models are profilers."""
    duplicates = [
        name for name in ("inputs", "input_shape", "data_splits", "backend") if getattr(job, name) is not None
    ]
    duplicates += [*(name for name in ("functions", "leave_out") if getattr(job, name)), *job.split.placing]
    if duplicates:
        raise ArgumentError(
            f"compare() got profilers and {', '.join(duplicates)}, which they have themselves; give one of both"
        )
