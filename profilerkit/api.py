"""The main functions: `profile` a model, `compare` several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from .arguments.checks import FLAG
from .arguments.names import status_names
from .backend import Backend, DeviceLike
from .call_arguments import read_functions, read_names, read_run_arguments, require_no_foreign_input
from .errors import ArgumentError
from .models.placing import place_model, split_arguments
from .piping.function import ProfilerFunction
from .piping.status import StatusKey
from .profiler import Profiler, compare_profilers, compute_report, make_profiler
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
    call = _Call(
        {"inputs": inputs, "input_shape": input_shape, "data_splits": data_splits},
        backend=backend,
        functions=functions,
        leave_out=leave_out,
        run_arguments=read_run_arguments(batch_size, device),
        named_arguments=arguments,
    )
    is_strict = FLAG("strict", strict)
    is_static = FLAG("static", static)
    requested = status_names("metrics", metrics)
    profiler = call.make_profiler(model, name)
    # An unknown argument may be a parameter of this function that was misspelled: messages suggest those of the caller.
    return compute_report(profiler, requested, call.arguments, strict=is_strict, static=is_static, caller=profile)


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
    call = _Call(
        {"inputs": inputs, "input_shape": input_shape, "data_splits": data_splits},
        backend=backend,
        functions=functions,
        leave_out=leave_out,
        run_arguments=read_run_arguments(batch_size, device),
        named_arguments=arguments,
    )
    is_strict = FLAG("strict", strict)
    is_static = FLAG("static", static)
    requested = status_names("metrics", metrics)
    if all(isinstance(model, Profiler) for model in models):
        call.require_nothing_of_profilers()
    profilers = [model if isinstance(model, Profiler) else call.make_profiler(model) for model in models]
    return compare_profilers(
        profilers, requested, call.arguments, models=shown_names, strict=is_strict, static=is_static, caller=compare
    )


class _Call:
    """What a call says of its models and of their functions; raises `ArgumentError` for a wrong argument.

    Args:
        sources: Where inputs and data come from: the arguments of `Profiler` by name, None for those not given.
        backend: Which backend runs; None for that of the model's framework.
        functions: Further functions, which take precedence over those of plugins.
        leave_out: Status keys that no plugin is to compute.
        run_arguments: The batch size and the device, if they were given.
        named_arguments: What the call takes by any name: arguments that say what is profiled in place of a model
            (``placing``), and those of the metric functions.
    """

    def __init__(
        self,
        sources: Mapping[str, Any],
        *,
        backend: Backend | str | None,
        functions: Any,
        leave_out: Any,
        run_arguments: Mapping[str, Any],
        named_arguments: Mapping[str, Any],
    ) -> None:
        self.placing, of_functions = split_arguments(named_arguments)
        self.arguments = {**of_functions, **run_arguments}
        require_no_foreign_input(self.arguments, *sources.values())
        self.sources, self.backend = sources, backend
        self.functions = read_functions(functions)
        self.leave_out = status_names("leave_out", leave_out)

    def make_profiler(self, model: Any, name: str | None = None) -> Profiler:
        """Return the profiler of a model, or of what is profiled in its place."""
        subject, backend = place_model(model, self.backend, self.placing)
        return make_profiler(
            subject,
            functions=self.functions,
            leave_out=self.leave_out,
            placing=self.placing,
            once=True,
            name=name,
            backend=backend,
            **self.sources,
        )

    def require_nothing_of_profilers(self) -> None:
        """Raise `ArgumentError` for what profilers have themselves, where all models are profilers."""
        values = {
            **self.sources,
            "backend": self.backend,
            "functions": self.functions or None,
            "leave_out": self.leave_out or None,
            **self.placing,
        }
        duplicates = [name for name, value in values.items() if value is not None]
        if duplicates:
            raise ArgumentError(
                f"compare() got profilers and {', '.join(duplicates)}, which they have themselves; give one of both"
            )
