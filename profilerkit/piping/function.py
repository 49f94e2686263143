"""Profiler functions: the signature of ``__call__`` is the contract.

A function names its arguments, like a test that names pytest fixtures, and the profiler passes them.
`profilerkit.piping.computation` lists the possible names.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from inspect import Parameter
from typing import Any, ClassVar, NamedTuple, TypeAlias

from ..arguments.checks import Check
from ..error_text import shown
from ..errors import ArgumentError
from .status import StatusKey

__all__ = [
    "PROVIDED",
    "RESERVED",
    "ArgumentBundle",
    "Contract",
    "JointFunction",
    "KeyLike",
    "Keys",
    "Need",
    "ProfilerFunction",
    "describe",
    "is_nameless",
    "read_usable",
    "why_no_function",
]

#: A status key: a class, or a configured instance.
KeyLike: TypeAlias = "StatusKey | type[StatusKey]"
#: The possible values of ``KEYS``.
Keys: TypeAlias = "KeyLike | Iterable[KeyLike]"

#: The arguments that every profiler provides by name; no status key may have such a name.
PROVIDED = ("model", "data_splits", "backend", "profiler", "input_source")
#: Parameters of the profiler's own methods, which could never reach a function.
RESERVED = frozenset({"name", "recompute", "print_mode", "short_print", "strict"})
#: The arguments that give the model, or the user's own loaders, to the code of a function.
_HANDLES = frozenset({"model", "data_splits", "profiler"})
#: The arguments that a function which uses the model through the backend takes only to run it.
_RUN_WITH = frozenset({"inputs", "data_splits", "sampling", "profiler"})

#: The name by which a subclass may define its keys too.
_SINGULAR = "get_bounded_status_key"


class Need(IntEnum):
    """The use that a function makes of the model; a later member includes the earlier ones.

    ``static=True`` computes the functions that need less than `RUN`. A separate process computes functions in this
    order, because a model may hang or crash when it runs.
    """

    #: Nothing but arguments of the caller.
    NOTHING = 0
    #: The contents of a trace: layers, operators, shapes.
    TRACE = 1
    #: The model itself, such as its attributes and weights. It does not run.
    MODEL = 2
    #: A run of the model.
    RUN = 3


class Contract(NamedTuple):
    """The keys and the parameters of a function.

    Attributes:
        keys: An instance of each status key, by its name.
        parameters: The parameters of ``__call__`` by name.
        handles_model: Whether code of its own, not of the backend, may use the model or the user's data. The model is
            guarded while it runs, and its values may depend on all values of the weights.
        need: The use that the function itself makes of the model: ``NEED``, or else by its parameters. A function with
            a parameter ``model`` may run it unless ``NEED`` is less. The needs of the status keys among its parameters
            are added by `Registry.find_need`.
    """

    keys: Mapping[str, StatusKey]
    parameters: Mapping[str, Parameter]
    handles_model: bool
    need: Need


class ProfilerFunction(ABC):
    """Computes one or more status keys of a model.

    A subclass lists the keys in ``KEYS``. The signature of ``__call__`` lists its arguments:

    >>> from profilerkit import Metric
    >>> class MacsPerParam(Metric):
    ...     '''Multiply-accumulates per parameter.'''
    ...     NAME = "macs_per_param"
    >>> class ComputeMacsPerParam(ProfilerFunction):
    ...     KEYS = (MacsPerParam,)
    ...     def __call__(self, macs, total_params):
    ...         return macs / total_params

    With one key, ``__call__`` can return the value; with several keys, it returns a dict of values by name. It returns
    `Partial` for an incomplete value, and `Unavailable` if there is none. If the keys depend on the arguments of the
    constructor, override `get_bounded_status_keys` instead of setting ``KEYS``; its name may also be spelled in the
    singular, ``get_bounded_status_key``.
    """

    #: The status keys that it computes: classes, or configured instances.
    KEYS: ClassVar[Keys] = ()
    #: Whether the keys are computed only if they are requested by name.
    ON_DEMAND: ClassVar[bool] = False
    #: Arguments that request the keys too: the caller need not name the keys if one of these is passed, and not False.
    COMPUTED_WITH: ClassVar[tuple[str, ...]] = ()
    #: Whether it uses the model only through methods of the backend, which restore the model themselves.
    ONLY_THROUGH_BACKEND: ClassVar[bool] = False
    #: The use that it makes of the model, if its parameters do not show it; see `Contract`.
    NEED: ClassVar[Need | None] = None
    #: The checks of the caller's arguments, by the names of parameters of ``__call__``.
    CHECKS: ClassVar[Mapping[str, Check]] = {}
    #: The status keys that it adds to the report of a watched training loop; see `Profiler.watch`.
    REPORTED_OF_WATCHED_STEPS: ClassVar[tuple[str, ...]] = ()

    def get_bounded_status_keys(self) -> Keys:
        """Return the status keys that this function computes. Default: ``KEYS``."""
        singular: Callable[[], Keys] | None = getattr(self, _SINGULAR, None)
        if singular is not None:
            return singular()
        if self.KEYS is ProfilerFunction.KEYS:
            raise TypeError(
                f"{describe(self)} does not say what it computes: define get_bounded_status_keys(), or set KEYS"
            )
        return self.KEYS

    def list_keys(self) -> tuple[StatusKey, ...]:
        """Return an instance of each status key; raise `TypeError` if there is none, or one name twice."""
        keys: Any = self.get_bounded_status_keys()
        if isinstance(keys, (StatusKey, str)) or inspect.isclass(keys):
            keys = (keys,)
        templates = tuple(_make_template(self, key) for key in keys)
        names = [template.NAME for template in templates]
        if not names:
            raise TypeError(f"{describe(self)} is bound to no status key: return at least one")
        if len(set(names)) < len(names):
            raise TypeError(f"{describe(self)} is bound to the same status key twice: {', '.join(names)}")
        return templates

    def parameters(self) -> Mapping[str, Parameter]:
        """Return the parameters that the profiler passes, by name."""
        return inspect.signature(self if hasattr(self, "__signature__") else self.__call__).parameters

    def read_contract(self) -> Contract:
        """Return the keys and parameters of the function, which are read once, when it is registered."""
        parameters = self.parameters()
        handles_model = not self.ONLY_THROUGH_BACKEND and not _HANDLES.isdisjoint(parameters)
        need = self.NEED
        if need is None:
            need = Need.MODEL if "model" in parameters else Need.NOTHING
            if handles_model or not _RUN_WITH.isdisjoint(parameters):
                need = Need.RUN
        return Contract({key.NAME: key for key in self.list_keys()}, parameters, handles_model, need)

    def check(self, arguments: Mapping[str, Any]) -> None:  # noqa: B027 - most functions have nothing to check
        """Raise an error for invalid arguments of the caller, before anything is computed.

        ``arguments`` has all arguments that the caller passed by name, also those for other functions.
        """

    def can_pipe(self) -> bool:
        """Return whether all arguments can be passed by name: False for ``*args``, ``**kwargs``, and before a ``/``."""
        return not any(map(is_nameless, self.parameters().values()))

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the values. A subclass lists the parameters that it needs."""


class ArgumentBundle(ProfilerFunction):
    """Makes one value, such as a `RunOptions`, of several arguments that the caller passes by name.

    A function that names the bundle's key as a parameter takes the bundle's own arguments with it: where ``__call__``
    has a parameter ``run_options``, the caller may pass ``device`` and ``training``. So does a function that names a
    key of such a function.
    """


class JointFunction(ProfilerFunction):
    """A profiler function that measures several models together, under the same conditions.

    ``compare`` uses it for times: the models take turns, and the ratio comes from the pairs. ``__call__`` can return
    ``self.alone(...)`` with its arguments by name.
    """

    NEED: ClassVar[Need | None] = Need.RUN

    def alone(self, **arguments: Any) -> Any:
        """Return the result of `measure_together` for one model."""
        return list_results(self, self.measure_together([arguments]), 1)[0]

    @abstractmethod
    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return the result of ``__call__`` for each set of arguments (one for each model), measured together."""


def list_results(function: JointFunction, returned: Any, count: int) -> list[Any]:
    """Return what `measure_together` returned, as a list; raises `TypeError` if it is not one result for each model."""
    results = list(returned) if isinstance(returned, Iterable) and not isinstance(returned, (str, Mapping)) else []
    if len(results) != count:
        models = "one model" if count == 1 else f"{count} models"
        raise TypeError(
            f"measure_together of {describe(function)} returned {shown(returned)} for {models}; return a list with "
            "one result for each"
        )
    return results


def is_nameless(parameter: Parameter) -> bool:
    """Return whether a parameter cannot be passed by its name: ``*args``, ``**kwargs``, and one before a ``/``."""
    return parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _make_template(function: ProfilerFunction, key: Any) -> StatusKey:
    """Return a status key as an instance; raise `TypeError` for anything else, or for a key without a name."""
    template = key() if inspect.isclass(key) and issubclass(key, StatusKey) else key
    if not isinstance(template, StatusKey):
        raise TypeError(f"{describe(function)} is bound to {shown(key)}, which is no StatusKey class or instance")
    if not isinstance(template.NAME, str) or not template.NAME:
        raise TypeError(
            f"status key {type(template).__name__} of {describe(function)} has no NAME: set a non-empty string"
        )
    return template


def describe(function: ProfilerFunction) -> str:
    """Name a function for a message: its class, and the callable it wraps."""
    inner = getattr(function, "func", None)
    if inner is None:
        return type(function).__name__
    return f"{type(function).__name__}({getattr(inner, '__name__', type(inner).__name__)})"


def read_usable(function: Any) -> Contract:
    """Return the contract of a function.

    Raises `ArgumentError` for an object that is no `ProfilerFunction`, and `TypeError` for a function whose arguments
    cannot be passed by name, or that takes or computes a name which the profiler itself uses.
    """
    if not isinstance(function, ProfilerFunction):
        raise ArgumentError(f"cannot register {shown(function)}: {why_no_function(function)}")
    if not function.can_pipe():
        raise TypeError(
            f"cannot register {describe(function)}: arguments are passed by name, which *args, **kwargs or / in its "
            "signature do not allow; name its parameters"
        )
    if not isinstance(function.NEED, Need | None):
        raise TypeError(f"{describe(function)} has NEED = {shown(function.NEED)}; give a member, such as Need.MODEL")
    contract = function.read_contract()
    reserved = sorted(RESERVED & contract.parameters.keys())
    if reserved:
        raise TypeError(
            f"{describe(function)} has a parameter {reserved[0]!r}, which the methods of a profiler, such as "
            "compute_status, take themselves and cannot pass on; rename the parameter"
        )
    taken = contract.keys.keys() & set(PROVIDED)
    if taken:
        raise TypeError(
            f"{describe(function)}: a status key cannot be called {min(taken)!r}, every profiler provides that"
        )
    return contract


def why_no_function(value: Any) -> str:
    """Return why a value is no profiler function, and what to do."""
    if isinstance(value, type) and issubclass(value, ProfilerFunction):
        return f"it is a class; give an instance, {value.__name__}()"
    if isinstance(getattr(value, "NAME", None), str):
        return "it is a metric, no ProfilerFunction; ask for it with metrics=, and register what computes it"
    if callable(value):
        return "it is no ProfilerFunction; wrap it: ComputeEvalMetric(function), or ExternalProfilerFunction"
    return "it is no ProfilerFunction; give instances, such as ComputeEvalMetric(get_accuracy)"
