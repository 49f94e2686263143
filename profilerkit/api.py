"""The main functions: `profile` a model, `compare` several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from .arguments.checking import checked, checked_all, status_names
from .arguments.foreign import foreign_hint
from .arguments.keywords import ProfileOptions
from .arguments.showing import documents_options, own_parameters, shows_options
from .backend import Backend, DeviceLike
from .comparing import compare_profilers
from .error_text import shown
from .errors import ArgumentError
from .piping.function import ProfilerFunction
from .piping.registry import read_arguments, why_no_function
from .piping.status import StatusKey
from .profiler import Profiler
from .results.comparison import Comparison
from .results.report import Report

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Literal, Unpack

    from .arguments.keywords import KeyName
    from .backend import RunOptions
    from .devices import DeviceInfoLike
    from .times.sampling import Sampling
    from .times.steps import WatchedSteps
    from .trace.ignoring import Ignored

__all__ = ["compare", "profile"]

#: A status key, by name or by class.
Key: TypeAlias = "KeyName | str | StatusKey | type[StatusKey]"
#: Status keys: one of them, several, or None.
Names: TypeAlias = "Key | Iterable[Key] | None"


# The arguments of profile for editors, written by docs/make_keywords.py: begin
# fmt: off
@overload
def profile(
    model: Any, inputs: Any = ..., *, input_shape: Any = ..., data_splits: Mapping[str, Any] | None = ...,
    functions: Iterable[ProfilerFunction] | ProfilerFunction = ..., metrics: Names = ..., leave_out: Names = ...,
    batch_size: int | Iterable[int] | None = ..., device: DeviceLike = ..., name: str | None = ...,
    backend: Backend | str | None = ..., strict: bool = ..., static: bool = ..., **options: Unpack[ProfileOptions]
) -> Report: ...
@overload
def profile(
    model: Any, inputs: Any = ..., *, input_shape: Any = ..., data_splits: Mapping[str, Any] | None = ...,
    functions: Iterable[ProfilerFunction] | ProfilerFunction = ..., metrics: Names = ..., leave_out: Names = ...,
    batch_size: int | Iterable[int] | None = ..., device: DeviceLike = ..., name: str | None = ...,
    backend: Backend | str | None = ..., strict: bool = ..., static: bool = ...,
    attention: Literal["full", "attended"] = ..., autocast: Any = ..., backward: bool = ...,
    batch_sizes: Iterable[int] = ..., cache_bytes: int = ..., call: Callable[..., Any] | None = ...,
    compile: bool | str | Mapping[str, Any] | None = ..., confidence: float = ..., drop_first: int | None = ...,
    dtype: str | None = ..., export: str | os.PathLike[str] | None = ..., ignore: Ignored = ...,
    include_weights: bool = ..., max_seconds: float = ..., min_samples: int = ..., mode: str | None = ...,
    num_iters: int | None = ..., num_threads: int | None = ..., on: DeviceInfoLike | None = ..., optimizer: Any = ...,
    passes: int = ..., peaks_of: DeviceInfoLike | None = ..., relative_precision: float = ...,
    run_options: RunOptions = ..., sampling: Sampling = ..., split: str | None = ..., training: bool = ...,
    warmup: int | None = ..., watched: WatchedSteps | None = ..., **of_plugins: Any
) -> Report: ...
# fmt: on
# The arguments of profile for editors: end
@documents_options
@shows_options(ProfileOptions)
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
    **kwargs: Any,
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
        **kwargs: Arguments of the metric functions, by name: ``max_seconds=1``.

    Raises:
        ArgumentError: An argument has a wrong type or value. Nothing has run.
    """
    made_with = {"inputs": inputs, "input_shape": input_shape, "data_splits": data_splits, "backend": backend}
    options, strict = arguments_given(batch_size=batch_size, device=device), checked("strict", strict)
    require_no_foreign_input(kwargs, inputs, input_shape, data_splits)
    static = checked("static", static)
    names_requested = status_names("metrics", metrics)
    profiler = profiler_of(model, functions=functions, leave_out=leave_out, name=name, **made_with)
    candidates = own_parameters(profile)
    return compute(
        profiler,
        names_requested,
        strict=strict,
        static=static,
        candidates=candidates,
        once=True,
        **{**kwargs, **options},
    )


def compute(
    profiler: Profiler,
    metrics: Names = None,
    *,
    strict: bool = False,
    static: bool = False,
    candidates: Iterable[str] = (),
    once: bool = False,
    **arguments: Any,
) -> Report:
    """Compute the named status keys of a profiler, all of them unless there are names, and return its report.

    ``candidates`` are the names that an unknown argument may mean. ``once`` says that this is the only request to
    the profiler. ``static`` leaves out what runs the model, as in `profile`.
    """
    profiler._once = once
    names = status_names("metrics", metrics)
    try:
        if static:
            names = profiler._registry.static_names(names)
        return profiler._computed_report(names, arguments, strict, candidates, static)
    finally:
        profiler._once = False


# The arguments of compare for editors, written by docs/make_keywords.py: begin
# fmt: off
@overload
def compare(
    reference: Any, *others: Any, inputs: Any = ..., input_shape: Any = ...,
    data_splits: Mapping[str, Any] | None = ..., functions: Iterable[ProfilerFunction] | ProfilerFunction = ...,
    metrics: Names = ..., leave_out: Names = ..., batch_size: int | Iterable[int] | None = ...,
    device: DeviceLike = ..., names: Iterable[str] | None = ..., backend: Backend | str | None = ...,
    strict: bool = ..., static: bool = ..., **options: Unpack[ProfileOptions]
) -> Comparison: ...
@overload
def compare(
    reference: Any, *others: Any, inputs: Any = ..., input_shape: Any = ...,
    data_splits: Mapping[str, Any] | None = ..., functions: Iterable[ProfilerFunction] | ProfilerFunction = ...,
    metrics: Names = ..., leave_out: Names = ..., batch_size: int | Iterable[int] | None = ...,
    device: DeviceLike = ..., names: Iterable[str] | None = ..., backend: Backend | str | None = ...,
    strict: bool = ..., static: bool = ..., attention: Literal["full", "attended"] = ..., autocast: Any = ...,
    backward: bool = ..., batch_sizes: Iterable[int] = ..., cache_bytes: int = ...,
    call: Callable[..., Any] | None = ..., compile: bool | str | Mapping[str, Any] | None = ...,
    confidence: float = ..., drop_first: int | None = ..., dtype: str | None = ...,
    export: str | os.PathLike[str] | None = ..., ignore: Ignored = ..., include_weights: bool = ...,
    max_seconds: float = ..., min_samples: int = ..., mode: str | None = ..., num_iters: int | None = ...,
    num_threads: int | None = ..., on: DeviceInfoLike | None = ..., optimizer: Any = ..., passes: int = ...,
    peaks_of: DeviceInfoLike | None = ..., relative_precision: float = ..., run_options: RunOptions = ...,
    sampling: Sampling = ..., split: str | None = ..., training: bool = ..., warmup: int | None = ...,
    watched: WatchedSteps | None = ..., **of_plugins: Any
) -> Comparison: ...
# fmt: on
# The arguments of compare for editors: end
@documents_options
@shows_options(ProfileOptions)
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
    **kwargs: Any,
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
        **kwargs: Arguments of the metric functions, by name.
    """
    models = [reference, *others]
    if len(models) < 2:
        raise TypeError("compare() needs a reference and at least one other model: compare(teacher, student, inputs=x)")
    called = checked("names", names)
    if called is not None and len(called) != len(models):
        raise ArgumentError(f"names has {len(called)} entries for {len(models)} models; give one for each")
    arguments, strict = {**kwargs, **arguments_given(batch_size=batch_size, device=device)}, checked("strict", strict)
    made_with = {"inputs": inputs, "input_shape": input_shape, "data_splits": data_splits, "backend": backend}
    unwanted, static = status_names("leave_out", leave_out), checked("static", static)
    require_no_foreign_input(kwargs, inputs, input_shape, data_splits)
    duplicates = [name for name, value in {**made_with, "leave_out": unwanted or None}.items() if value is not None]
    if duplicates and all(isinstance(model, Profiler) for model in models):
        raise ArgumentError(
            f"compare() got profilers and {', '.join(duplicates)}, which they have themselves; give one of both"
        )
    extra, requested = functions_of(functions), status_names("metrics", metrics)
    profilers = [
        model if isinstance(model, Profiler) else profiler_of(model, functions=extra, leave_out=unwanted, **made_with)
        for model in models
    ]
    registries = [profiler._registry for profiler in profilers]
    arguments = read_arguments(arguments, registries, own_parameters(compare), strict=strict)
    return compare_profilers(
        profilers[0], profilers[1:], requested, called=called, strict=strict, static=static, **arguments
    )


def require_no_foreign_input(kwargs: Mapping[str, Any], *alternatives: Any) -> None:
    """Raise `ArgumentError` for inputs under another profiler's name, where there are no others to run the model with.

    Elsewhere an unknown argument is a warning; this one would let every metric fail.
    """
    names = ("inputs", "input_shape")
    hints = {name: foreign_hint(name, value, names) for name, value in kwargs.items()}
    for name, hint in hints.items():
        if hint and all(value is None for value in alternatives):
            raise ArgumentError(f"there is no argument {name!r}; {hint}")


def profiler_of(
    model: Any,
    *,
    functions: Iterable[ProfilerFunction] | ProfilerFunction = (),
    leave_out: Names = None,
    name: str | None = None,
    **made_with: Any,
) -> Profiler:
    """Return a profiler with what every plugin offers for the model, and further functions that take precedence."""
    extra, unwanted = functions_of(functions), status_names("leave_out", leave_out) or ()
    return Profiler._equipped(model, extra, unwanted, name=name, **made_with)


def functions_of(functions: Any) -> list[ProfilerFunction]:
    """Return the functions that are given, one or several."""
    if isinstance(functions, ProfilerFunction):
        return [functions]
    if isinstance(functions, (type, str, bytes, Mapping)) or not isinstance(functions, Iterable):
        raise ArgumentError(f"functions={shown(functions)}: {why_no_function(functions)}")
    listed = list(functions)
    for function in listed:
        if not isinstance(function, ProfilerFunction):
            raise ArgumentError(f"functions has {shown(function)}: {why_no_function(function)}")
    return listed


def arguments_given(**arguments: Any) -> dict[str, Any]:
    """Return those arguments for functions that are not None, read before a backend is looked for."""
    return {name: value for name, value in checked_all(arguments).items() if value is not None}
