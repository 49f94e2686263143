"""One line for most people: `profile` a model, `compare` several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .backend import Backend, DeviceLike
from .batch_sweep import with_sweep
from .comparison import Comparison
from .function import ProfilerFunction
from .profiler import Profiler, compare_profilers
from .registry import warn_of_unknown_arguments
from .report import Report

__all__ = ["compare", "profile"]


def profile(
    model: Any,
    inputs: Any = None,
    *,
    input_shape: Any = None,
    data_splits: Mapping[str, Any] | None = None,
    functions: Iterable[ProfilerFunction] = (),
    metrics: str | Iterable[str] | None = None,
    leave_out: str | Iterable[str] = (),
    batch_size: int | Iterable[int] | None = None,
    device: DeviceLike = None,
    name: str | None = None,
    backend: Backend | str | None = None,
    strict: bool = False,
    **kwargs: Any,
) -> Report:
    """Compute what every installed plugin offers for the model and return it as a `Report`.

    Args:
        model: A model of any framework a backend is installed for; it comes back exactly as it was.
        inputs: Example inputs, or a callable that builds them from a batch size; see `Profiler`.
        input_shape: Shapes of one sample instead: ``(3, 224, 224)``.
        data_splits: Loaders by name, from which inputs are read and which evaluation functions run over.
        functions: Further functions, which take precedence: ``[ComputeEvalMetric(get_accuracy)]``.
        metrics: The names of the only metrics wanted; all of them unless given.
        leave_out: Names of status keys that no plugin is to compute: ``"execution_time"``; also the way out where two
            plugins offer one key.
        batch_size: Samples in one forward pass; as many as the example inputs have unless given. With several,
            ``(1, 8, 32)``, times are taken at each of them (``batch_sweep``), and all else is for the first.
        device: Where to run; where the model is unless given.
        name: What the report calls the model.
        backend: A backend or its name; found from the model unless given.
        strict: Raise where a value fails or is not complete, instead of saying so in the report.
        **kwargs: Arguments for the functions, by name: ``max_seconds=1``. ``call`` is a function of the model and the
            inputs that is profiled in place of the model's own call; ``ignore`` leaves layers out of the counts.
    """
    own = {"inputs": inputs, "input_shape": input_shape, "data_splits": data_splits, "backend": backend}
    profiler = profiler_of(model, functions=functions, leave_out=_names(leave_out), name=name, **own)
    return compute(profiler, metrics, strict=strict, **_arguments(kwargs, batch_size, device))


def compute(
    profiler: Profiler, metrics: str | Iterable[str] | None = None, *, strict: bool = False, **arguments: Any
) -> Report:
    """Compute the named status keys of a profiler, all of them unless there are names, and return its report."""
    warn_of_unknown_arguments(arguments, [profiler._registry])
    wanted = _names(metrics)
    profiler.compute(profiler.status_keys() if wanted is None else wanted, strict=strict, **arguments)
    return profiler.report(None if wanted is None else with_sweep(wanted, profiler._registry, arguments))


def compare(
    reference: Any,
    *others: Any,
    inputs: Any = None,
    input_shape: Any = None,
    data_splits: Mapping[str, Any] | None = None,
    functions: Iterable[ProfilerFunction] = (),
    metrics: str | Iterable[str] | None = None,
    leave_out: str | Iterable[str] = (),
    batch_size: int | Iterable[int] | None = None,
    device: DeviceLike = None,
    names: Iterable[str] | None = None,
    backend: Backend | str | None = None,
    strict: bool = False,
    **kwargs: Any,
) -> Comparison:
    """Profile models side by side and return their `Comparison`; times are measured in turn.

    Args:
        reference: The model the others are measured by (or a `Profiler` of it).
        *others: The models to compare with it (or profilers of them).
        inputs: Example inputs for all of them; see `profile` for this and the other arguments.
        input_shape: Shapes of one sample instead.
        data_splits: Loaders by name, for all of them.
        functions: Further functions, which take precedence.
        metrics: The names of the only metrics wanted.
        leave_out: Names of status keys that no plugin is to compute; profilers have theirs already.
        batch_size: Samples in one forward pass; several as in `profile`.
        device: Where to run.
        names: What the report calls the models, the reference first.
        backend: A backend or its name, for all of them; found from each model unless given.
        strict: Raise where a value fails or is not complete.
        **kwargs: Arguments for the functions, by name.
    """
    models = [reference, *others]
    if len(models) < 2:
        raise TypeError("compare() needs a reference and at least one other model: compare(teacher, student, inputs=x)")
    called = list(names) if names is not None else None
    if called is not None and len(called) != len(models):
        raise ValueError(f"names has {len(called)} entries for {len(models)} models; give one for each")
    own = {"inputs": inputs, "input_shape": input_shape, "data_splits": data_splits, "backend": backend}
    unwanted = _names(leave_out)
    given = [name for name, value in {**own, "leave_out": unwanted or None}.items() if value is not None]
    if given and all(isinstance(model, Profiler) for model in models):
        raise TypeError(f"compare() got profilers and {', '.join(given)}, which they have themselves; give one of both")
    extra = list(functions)
    profilers = [
        model if isinstance(model, Profiler) else profiler_of(model, functions=extra, leave_out=unwanted, **own)
        for model in models
    ]
    wanted = _names(metrics)
    arguments = _arguments(kwargs, batch_size, device)
    return compare_profilers(profilers[0], profilers[1:], wanted, called=called, strict=strict, **arguments)


def profiler_of(
    model: Any,
    *,
    functions: Iterable[ProfilerFunction] = (),
    leave_out: Iterable[str] | None = None,
    name: str | None = None,
    **own: Any,
) -> Profiler:
    """Return a profiler with what every plugin offers for the model, and further functions that take precedence."""
    profiler = Profiler(model, name=name, **own)
    for function in functions:
        profiler.register_profiler_function(function, override=True)
    return profiler.register_defaults(leave_out=leave_out or ())


def _names(metrics: str | Iterable[str] | None) -> list[str] | None:
    if metrics is None:
        return None
    return [metrics] if isinstance(metrics, str) else list(metrics)


def _arguments(kwargs: dict[str, Any], batch_size: int | Iterable[int] | None, device: DeviceLike) -> dict[str, Any]:
    sizes = tuple(batch_size) if isinstance(batch_size, Iterator) else batch_size
    given = {"batch_size": sizes, "device": device}
    return {**kwargs, **{name: value for name, value in given.items() if value is not None}}
