"""The main functions: `profile` a model, `compare` several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from .arguments.checks import BATCH_SIZE, FLAG, NAMES
from .arguments.names import foreign_hint, status_names
from .backend import DEVICE, Backend, DeviceLike
from .error_text import shown
from .errors import ArgumentError
from .piping.function import ProfilerFunction
from .piping.registry import why_no_function
from .piping.status import StatusKey
from .plugging.placing import place_model, split_arguments
from .profiler import Profiler, compare_profilers, make_profiler
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
    placing, arguments = split_arguments(arguments)
    model, backend = place_model(model, backend, placing)
    made_with = {"inputs": inputs, "input_shape": input_shape, "data_splits": data_splits, "backend": backend}
    arguments |= arguments_given(batch_size, device)
    require_no_foreign_input(arguments, inputs, input_shape, data_splits)
    strict, static, names = FLAG("strict", strict), FLAG("static", static), status_names("metrics", metrics)
    profiler = make_profiler(
        model,
        functions=read_functions(functions),
        leave_out=status_names("leave_out", leave_out),
        name=name,
        placing=placing,
        **made_with,
    )
    return profiler._compute_report(names, arguments, strict=strict, static=static, once=True, caller=profile)


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
        raise TypeError("compare() needs a reference and at least one other model: compare(teacher, student, inputs=x)")
    shown_names = read_names(names, len(models))
    placing, arguments = split_arguments(arguments)
    made_with = {"inputs": inputs, "input_shape": input_shape, "data_splits": data_splits, "backend": backend}
    arguments |= arguments_given(batch_size, device)
    require_no_foreign_input(arguments, inputs, input_shape, data_splits)
    strict, static, requested = FLAG("strict", strict), FLAG("static", static), status_names("metrics", metrics)
    unwanted, further = status_names("leave_out", leave_out), read_functions(functions)
    duplicates = [name for name, value in {**made_with, "leave_out": unwanted or None}.items() if value is not None]
    if duplicates and all(isinstance(model, Profiler) for model in models):
        raise ArgumentError(
            f"compare() got profilers and {', '.join(duplicates)}, which they have themselves; give one of both"
        )
    profilers = [
        model
        if isinstance(model, Profiler)
        else _make_profiler(model, placing, functions=further, leave_out=unwanted, **made_with)
        for model in models
    ]
    return compare_profilers(
        profilers, requested, arguments, models=shown_names, strict=strict, static=static, caller=compare
    )


def _make_profiler(model: Any, placing: Mapping[str, Any], backend: Backend | str | None, **options: Any) -> Profiler:
    """Return the profiler of a model, or of what is profiled in its place."""
    placed, backend = place_model(model, backend, placing)
    return make_profiler(placed, backend=backend, placing=placing, **options)


def require_no_foreign_input(arguments: Mapping[str, Any], *alternatives: Any) -> None:
    """Raise `ArgumentError` for inputs under another profiler's name, where there are no others to run the model with.

    Elsewhere an unknown argument is a warning; this one would let every metric fail.
    """
    if any(value is not None for value in alternatives):
        return
    for name, value in arguments.items():
        hint = foreign_hint(name, value, ("inputs", "input_shape"))
        if hint:
            raise ArgumentError(f"there is no argument {name!r}; {hint}")


def read_functions(functions: Any) -> list[ProfilerFunction]:
    """Return one function, or several, as a list; raises `ArgumentError` for what is no `ProfilerFunction`."""
    if isinstance(functions, ProfilerFunction):
        return [functions]
    if isinstance(functions, (type, str, bytes, Mapping)) or not isinstance(functions, Iterable):
        raise ArgumentError(f"functions={shown(functions)}: {why_no_function(functions)}")
    listed = list(functions)
    for function in listed:
        if not isinstance(function, ProfilerFunction):
            raise ArgumentError(f"functions has {shown(function)}: {why_no_function(function)}")
    return listed


def read_names(names: Any, models: int) -> list[str] | None:
    """Return the names of so many models, None for None; raises `ArgumentError` unless there is one for each."""
    read: list[str] | None = NAMES("names", names)
    if read is not None and len(read) != models:
        raise ArgumentError(f"names has {len(read)} entries for {models} models; give one for each")
    return read


def arguments_given(batch_size: Any, device: Any) -> dict[str, Any]:
    """Return those of the two arguments that are not None, read before a backend is looked for."""
    read = {"batch_size": BATCH_SIZE("batch_size", batch_size), "device": DEVICE("device", device)}
    return {name: value for name, value in read.items() if value is not None}
