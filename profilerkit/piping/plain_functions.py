"""Metrics made of plain functions: `metric` fills their parameters by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..arguments.checks import FLAG, Check, instance
from ..error_text import shown
from ..errors import ArgumentError
from ..trace.completeness import TracePart
from .comparative import Comparative
from .function import PROVIDED, RESERVED, Need, ProfilerFunction, is_nameless
from .intrinsic import INTRINSIC
from .quantity import Scale
from .status import Metric

__all__ = ["PlainMetric", "metric"]

_TEXT = instance(str, "a text")
_PART = Check(f"one of {', '.join(repr(part.value) for part in TracePart)}", TracePart).or_none()
_NEEDS = {need.name.lower(): need for need in Need}
_NEED = Check(f"one of {', '.join(map(repr, _NEEDS))}", _NEEDS.__getitem__).or_none()
#: Further facts in the documentation of a metric.
_FACTS = ("formula", "omissions", "source")


class PlainMetric(ProfilerFunction):
    """The result of `metric`: it is called like the original function, and registered like any profiler function.

    Attributes:
        func: The function.
        key: The class of its metric.
    """

    def __init__(
        self, func: Callable[..., Any], key: type[Metric], on_demand: bool = False, need: Need | None = None
    ) -> None:
        self.func: Callable[..., Any] = func
        self.key: type[Metric] = key
        self.ON_DEMAND = on_demand  # type: ignore[misc]
        self.NEED = need  # type: ignore[misc]
        self.__name__: str = func.__name__
        self.__qualname__ = func.__qualname__
        self.__module__, self.__doc__ = func.__module__, func.__doc__
        self.__signature__: inspect.Signature = inspect.signature(func)
        self.__wrapped__ = func  # so that doctest runs the examples of its docstring

    def get_bounded_status_keys(self) -> type[Metric]:
        """Return its metric."""
        return self.key

    def __reduce__(self) -> str:
        """Pickle it as functions are: by its name in its module."""
        return self.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.func(*args, **kwargs)


class _PlainKey(Metric):
    """The metric of a `PlainMetric`: its class has no name in a module, so that it is pickled by the function's."""

    function: PlainMetric

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_template, (self.function,), vars(self)


def _make_template(function: PlainMetric) -> Metric:
    return function.key()


def metric(
    name: str,
    *,
    better: str | None = None,
    unit: str = "",
    description: str = "",
    friendly_name: str = "",
    scale: Scale = Scale.NONE,
    derived_from: TracePart | str | None = None,
    grows: bool = False,
    on_demand: bool = False,
    need: str | None = None,
    **facts: str,
) -> Callable[[Callable[..., Any]], PlainMetric]:
    """Turn a function into a metric. Its parameters name status keys, or arguments of the caller.

    >>> @metric("macs_per_param", better="lower", unit="MACs", description="Multiply-accumulates for each parameter.")
    ... def macs_per_param(macs, total_params):
    ...     return macs / total_params
    >>> macs_per_param(300, 30)
    10.0

    Pass it as ``profile(model, x, functions=[macs_per_param])``, or return it from the hook of a plugin. If one of its
    values is partial, the metric is partial too.

    Args:
        name: The key of the metric, in reports and in ``metrics=``.
        better: Which values are better, "lower" or "higher"; None if neither is.
        unit: The base unit of the returned value.
        description: One sentence. Default: the docstring of the function.
        friendly_name: The name that reports show. Default: the name in title case.
        scale: The prefixes of the unit.
        derived_from: The part of the trace that the value depends on, such as "operators", if the function takes
            ``trace``. If that part is incomplete, the value is too. Default: any part.
        grows: If True, the value grows with that part, as a sum does: it is a lower bound if the part is incomplete.
            Otherwise no bound is known then.
        on_demand: If True, the metric is computed only if it is requested by name.
        need: The use that the function makes of the model: "nothing", "trace", "model" if it reads the model and does
            not run it, or "run". With ``static=True`` a metric that runs the model is left out. Default: "run" if the
            function takes ``model``, ``data_splits``, ``profiler`` or ``inputs``.
        **facts: Any of ``formula``, ``omissions`` and ``source``, for the documentation of the metric.

    Raises:
        ArgumentError: An argument is wrong, every profiler already has this name, or the function has no parameters or
            has ``*args``.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ArgumentError(f'name={shown(name)}: give the name of the metric, as in @metric("macs_per_param")')
    if name in _list_taken_names():
        raise ArgumentError(f"name={name!r}: every profiler has {name!r} already; give the metric another name")
    for fact in facts.keys() - set(_FACTS):
        raise ArgumentError(f"metric takes no argument {fact!r}; of further facts it takes {', '.join(_FACTS)}")
    attributes = {
        "NAME": name,
        "UNIT": _TEXT("unit", unit),
        "FRIENDLY_NAME": _TEXT("friendly_name", friendly_name),
        "SCALE": instance(Scale, "a member of Scale, such as Scale.SI")("scale", scale),
        "COMPARATIVE": Comparative.choose_ratio(better),
        "DERIVED_FROM": _PART("derived_from", derived_from),
        "GROWS": FLAG("grows", grows),
        "__doc__": _TEXT("description", description),
        **{fact.upper(): _TEXT(fact, value) for fact, value in facts.items()},
    }
    return partial(_make_metric, attributes, FLAG("on_demand", on_demand), _NEED("need", need))


def _make_metric(
    attributes: Mapping[str, Any], on_demand: bool, need: Need | None, func: Callable[..., Any]
) -> PlainMetric:
    """Make a metric of a function, with a class of these attributes for its key."""
    _require_pipeable(attributes["NAME"], func)
    doc = attributes["__doc__"] or inspect.getdoc(func) or f"What {func.__name__} returns."
    title = "".join(word.title() for word in attributes["NAME"].split("_"))
    key: type[_PlainKey] = type(title, (_PlainKey,), {**attributes, "__doc__": doc, "__module__": func.__module__})
    key.function = PlainMetric(func, key, on_demand, need)
    return key.function


def _list_taken_names() -> set[str]:
    """Return the parameter names with a meaning in every profiler: provided values, and parameters of its functions."""
    keys = {key.NAME for function in INTRINSIC for key in function.list_keys()}
    return {*PROVIDED, *RESERVED, *keys, *(name for function in INTRINSIC for name in function.parameters())}


def _require_pipeable(name: str, func: Any) -> None:
    """Raise `ArgumentError` for a function whose parameters no profiler can fill by their names."""
    if not inspect.isroutine(func):
        raise ArgumentError(f"@metric({name!r}) is for a function, not {shown(func)}; put it above a def")
    parameters = inspect.signature(func).parameters
    problem = "" if parameters else "no parameters; name status keys or arguments: def f(macs, total_params)"
    for parameter in parameters.values():
        if is_nameless(parameter):
            problem = (
                f"{parameter}, which cannot be passed by name; spell its parameters out: def f(macs, total_params)"
            )
        elif parameter.name == name:
            problem = f"{name!r}, which is the metric itself; rename the parameter"
        elif parameter.name in RESERVED:
            problem = f"{parameter.name!r}, which compute_status and its like take themselves; rename the parameter"
    if problem:
        raise ArgumentError(f"{func.__name__} takes {problem}")
