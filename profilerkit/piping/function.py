"""Profiler functions: the signature of ``__call__`` is the contract.

A function names what it needs, as a pytest fixture does, and the profiler hands it over. What may be named is said in
`profilerkit.piping.computation`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any, ClassVar, TypeAlias

from ..arguments.checks import Check, to_call
from ..error_text import shown
from .status import StatusKey

__all__ = ["ArgumentBundle", "ExternalProfilerFunction", "JointFunction", "Keys", "ProfilerFunction"]

KeyLike: TypeAlias = "StatusKey | type[StatusKey]"
#: What ``KEYS`` may be.
Keys: TypeAlias = "KeyLike | Iterable[KeyLike]"

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)

#: Where a class keeps, for itself and not for its subclasses, what a profiler asks for all the time: the templates with
#: the ``KEYS`` that they are made of, and the signature with the ``__call__`` that it is of.
_TEMPLATES, _SIGNATURE = "_profilerkit_templates", "_profilerkit_signature"


class ProfilerFunction(ABC):
    """Computes one or more status keys of a model.

    A subclass lists the keys in ``KEYS``. The signature of ``__call__`` lists what it needs:

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
    constructor, override `get_bounded_status_keys` instead of setting ``KEYS``.
    """

    #: The status keys that it computes: classes, or configured instances.
    KEYS: ClassVar[Keys] = ()
    #: Whether the keys are computed only if they are requested by name.
    ON_DEMAND: ClassVar[bool] = False
    #: Arguments that request the keys too: the caller need not name the keys if one of these is passed.
    COMPUTED_WITH: ClassVar[tuple[str, ...]] = ()
    #: Whether it uses the model only through methods of the backend, which restore the model themselves.
    ONLY_THROUGH_BACKEND: ClassVar[bool] = False
    #: What arguments of the caller may be, by the names of parameters of ``__call__``.
    CHECKS: ClassVar[Mapping[str, Check]] = {}
    #: The status keys that it adds to the report of a watched training loop; see `Profiler.watch`.
    REPORTED_OF_WATCHED_STEPS: ClassVar[tuple[str, ...]] = ()

    def get_bounded_status_keys(self) -> Keys:
        """Return the status keys that this function computes. Default: ``KEYS``."""
        singular = getattr(self, "get_bounded_status_key", None)
        keys: Keys = self.KEYS if singular is None else singular()
        if keys is ProfilerFunction.KEYS and singular is None:
            raise TypeError(
                f"{describe(self)} does not say what it computes: define get_bounded_status_keys(), or set KEYS"
            )
        return keys

    def list_keys(self) -> tuple[StatusKey, ...]:
        """Return the status keys that this function computes, as checked templates."""
        cls = type(self)
        kept: tuple[object, tuple[StatusKey, ...]] | None = cls.__dict__.get(_TEMPLATES)
        if kept is not None and kept[0] is self.KEYS:
            return kept[1]
        templates = self._check_keys()
        is_by_class = cls.get_bounded_status_keys is ProfilerFunction.get_bounded_status_keys
        if is_by_class and not hasattr(self, "get_bounded_status_key") and "KEYS" not in vars(self):
            setattr(cls, _TEMPLATES, (self.KEYS, templates))
        return templates

    def _check_keys(self) -> tuple[StatusKey, ...]:
        bounded = self.get_bounded_status_keys()
        single = isinstance(bounded, (StatusKey, str)) or inspect.isclass(bounded)
        keys: Iterable[Any] = (bounded,) if single else bounded  # type: ignore[assignment]
        templates = tuple(_template(self, key) for key in keys)
        names = [template.NAME for template in templates]
        if not names:
            raise TypeError(f"{describe(self)} is bound to no status key: return at least one")
        if len(set(names)) < len(names):
            raise TypeError(f"{describe(self)} is bound to the same status key twice: {', '.join(names)}")
        return templates

    def parameters(self) -> Mapping[str, Parameter]:
        """Return the parameters that the profiler passes, by name."""
        return self._signature().parameters

    def _signature(self) -> inspect.Signature:
        """Return the signature of ``__call__``, which is read once for each class."""
        if hasattr(self, "__signature__"):
            return inspect.signature(self)
        cls = type(self)
        kept: tuple[object, inspect.Signature] | None = cls.__dict__.get(_SIGNATURE)
        if kept is None or kept[0] is not cls.__call__:
            kept = cls.__call__, inspect.signature(self.__call__)  # as it is called: static methods have no self
            setattr(cls, _SIGNATURE, kept)
        return kept[1]

    def check(self, arguments: Mapping[str, Any]) -> None:  # noqa: B027 - most functions have nothing to check
        """Raise an error for invalid arguments of the caller, before anything is computed.

        ``given`` has all arguments that the caller passed by name, also those for other functions.
        """

    def can_pipe(self) -> bool:
        """Return whether arguments can be passed by name: False for ``*args`` or ``**kwargs`` in the signature."""
        return {parameter.kind for parameter in self.parameters().values()}.isdisjoint(_VARIADIC)

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function with the arguments, for all kinds of parameters."""
        bound = self._signature().bind_partial()
        bound.arguments.update(arguments)
        return self(*bound.args, **bound.kwargs)

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the values. A subclass lists the parameters that it needs."""


class ExternalProfilerFunction(ProfilerFunction):
    """Makes a profiler function from a callable whose first two positional parameters are the model and the data.

    The names of these two do not matter. The other parameters are passed by name. Pass the status keys here, or
    override `get_bounded_status_keys` in a subclass.

    >>> def count_batches(network, data):
    ...     return len(data["test"])
    >>> ExternalProfilerFunction(count_batches, StatusKey).can_pipe()
    True
    """

    def __init__(self, func: Callable[..., Any], *status_keys: KeyLike) -> None:
        self.func: Any = to_call("a function of the model and the data")("func", func)
        self.status_keys = status_keys
        try:
            listed = list(inspect.signature(func).parameters.values())
        except ValueError as error:
            raise TypeError(f"{shown(func)} has no signature to read; wrap it in a Python function") from error
        leading = listed[:2]
        positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        if not any(parameter.kind in _VARIADIC for parameter in listed) and (
            len(leading) < 2 or any(parameter.kind not in positional for parameter in leading)
        ):
            raise TypeError(f"{shown(func)} must take the model and the data as its first two positional parameters")
        self._variadic = [parameter for parameter in listed if parameter.kind in _VARIADIC]
        self._others = {p.name: p for p in listed[2:] if p.kind not in _VARIADIC}

    def get_bounded_status_keys(self) -> Keys:
        """Return the status keys given to the constructor."""
        return self.status_keys or super().get_bounded_status_keys()

    def parameters(self) -> Mapping[str, Parameter]:
        """Return ``model``, ``data_splits`` and the callable's further parameters."""
        provided = {name: Parameter(name, Parameter.KEYWORD_ONLY) for name in ("model", "data_splits")}
        return {**provided, **self._others, **{parameter.name: parameter for parameter in self._variadic}}

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function; model and data go first, in this order."""
        others = {name: value for name, value in arguments.items() if name not in ("model", "data_splits")}
        return self(arguments["model"], arguments["data_splits"], **others)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped callable with model, data and its further arguments."""
        return self.func(*args, **kwargs)


class ArgumentBundle(ProfilerFunction):
    """Puts arguments of the caller's together to one value, which other functions name.

    Its arguments are taken where another function names its key, or that of a function which does.
    """


class JointFunction(ProfilerFunction):
    """A profiler function that measures several models together, under the same conditions.

    ``compare`` uses it for times: the models take turns, and the ratio comes from the pairs. ``__call__`` can return
    ``self.alone(...)`` with its arguments by name.
    """

    def alone(self, **arguments: Any) -> Any:
        """Return the result of `measure_together` for one model."""
        return self.measure_together([arguments])[0]

    @abstractmethod
    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return the result of ``__call__`` for each set of arguments (one for each model), measured together."""


def _template(function: ProfilerFunction, key: Any) -> StatusKey:
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
