"""Every exception and warning a user of profilerkit can meet.

Each message says what was asked, what was wrong, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .error_text import error_line, shown

__all__ = [
    "ArgumentError",
    "ArgumentWarning",
    "BackendFailedError",
    "BackendNotFoundError",
    "BackendNotInstalledError",
    "BudgetError",
    "CostFormulaError",
    "DependencyCycleError",
    "DeviceNotAvailableError",
    "IncompleteStatusError",
    "InputError",
    "InvalidTraceError",
    "MissingArgumentError",
    "ModelChangedWarning",
    "ModelFailedError",
    "NotOfferedError",
    "PluginFailedError",
    "PluginWarning",
    "ProfilerBusyError",
    "ProfilerKitError",
    "ProfilerKitWarning",
    "RegistrationConflictError",
    "RegistrationWarning",
    "ReportFileError",
    "TracingError",
    "UnknownStatusError",
    "WithoutValuesError",
]


class ProfilerKitError(Exception):
    """Base class of every error that profilerkit raises on purpose."""


class UnknownStatusError(ProfilerKitError, KeyError):
    """A status key was asked for that no registered function computes."""

    def __init__(self, name: str, known: Iterable[str], *, owner: str = "this profiler") -> None:
        self.name = name
        self.known = tuple(by_likeness(name, known))
        self.owner = owner
        nothing = "none: register a ProfilerFunction first" if owner == "this profiler" else "none"
        listing = ", ".join(self.known) or nothing
        super().__init__(f"unknown status {shown(name)}; {owner} knows, nearest first: {listing}")

    def __reduce__(self) -> tuple[Callable[..., UnknownStatusError], tuple[Any, ...]]:
        return _unknown_status, (self.name, self.known, self.owner)

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


def _unknown_status(name: str, known: tuple[str, ...], owner: str) -> UnknownStatusError:
    return UnknownStatusError(name, known, owner=owner)


class MissingArgumentError(ProfilerKitError, TypeError):
    """A profiler function names a parameter that nothing provides."""


class DependencyCycleError(ProfilerKitError, RuntimeError):
    """Status keys need each other in a circle."""


class RegistrationConflictError(ProfilerKitError, RuntimeError):
    """Two functions claim the same status key, both with ``override=True``; or two plugins the same name."""


class BackendNotFoundError(ProfilerKitError, LookupError):
    """No backend recognises the model, or none has the name that was asked for."""


class BackendNotInstalledError(ProfilerKitError, ImportError):
    """A backend is known, but its framework cannot be imported here."""


class DeviceNotAvailableError(ProfilerKitError, RuntimeError):
    """The device that was asked for does not exist on this machine."""


class InputError(ProfilerKitError, ValueError):
    """The model's inputs are missing, or do not fit what was said about them."""


class ArgumentError(InputError, TypeError):
    """An argument is not what it may be; said before anything runs. It is a `ValueError` and a `TypeError`."""


class WithoutValuesError(InputError):
    """The model's weights have no values yet, so that it cannot be run; it can be counted all the same."""


class ModelFailedError(ProfilerKitError, RuntimeError):
    """The model raised while it was being profiled; the cause is chained."""


class BackendFailedError(ProfilerKitError, RuntimeError):
    """The backend raised an error of its own making, which is not the model's; the cause is chained."""


class NotOfferedError(ProfilerKitError, NotImplementedError):
    """Nobody offers what was asked for: no training trace, no layer times, no such renderer."""


class ProfilerBusyError(ProfilerKitError, RuntimeError):
    """The framework's own profiler, of which there is one per process, is in use."""


class TracingError(ProfilerKitError, RuntimeError):
    """The framework records what runs (a trace, an export, a compilation): nothing can be profiled meanwhile."""


class CostFormulaError(ProfilerKitError, RuntimeError):
    """A cost formula raised for the shapes it was given; the cause is chained."""


class PluginFailedError(ProfilerKitError, RuntimeError):
    """Code of a plugin raised where its result was needed; the cause is chained."""


class InvalidTraceError(ProfilerKitError, ValueError):
    """A backend has returned a `ModelTrace` that breaks a rule, so that nothing can be read from it.

    Attributes:
        backend: The name of the backend.
        path: The path of the layer where the rule is broken; empty for the model as a whole.
        rule: The rule, and what was found in its place.
    """

    def __init__(self, backend: str, path: str, rule: str) -> None:
        self.backend, self.path, self.rule = backend, path, rule
        where = f"at the layer {path!r}" if path else "of the model"
        super().__init__(
            f"the {backend} backend has made an invalid trace, {where}: {rule}; this is a fault of the backend, not of "
            "the model: tell its authors"
        )

    def __reduce__(self) -> tuple[Callable[..., InvalidTraceError], tuple[str, str, str]]:
        return type(self), (self.backend, self.path, self.rule)


class ReportFileError(ProfilerKitError, ValueError):
    """A file is no report of profilerkit, was cut off or changed, or holds what no version of it wrote."""


class BudgetError(ProfilerKitError, ValueError):
    """A limit cannot be read, or cannot be checked against the report it is given."""


class IncompleteStatusError(ProfilerKitError, RuntimeError):
    """With ``strict=True``: a value is partial or unavailable."""


class ProfilerKitWarning(UserWarning):
    """Base class of every warning that profilerkit gives."""


class RegistrationWarning(ProfilerKitWarning):
    """A registration replaced the function of a status key."""


class ArgumentWarning(ProfilerKitWarning):
    """An argument that no registered function takes, most often a typo."""


class PluginWarning(ProfilerKitWarning):
    """A plugin could not be loaded, or does not do what its hooks promise."""


class ModelChangedWarning(ProfilerKitWarning):
    """The model, or what it keeps, could not be left as it was: its own code, or another thread, stood in the way."""


def model_failed(error: Exception | None, inputs: object, hint: str = "do these inputs fit it?") -> ModelFailedError:
    """Return what is said of a model that raised: the error in a line, what it was called with, and what to look at."""
    failure = ModelFailedError(f"the model raised {error_said(error)}; it was called with {inputs!r}, {hint}")
    failure.__cause__ = error
    return failure


def error_said(error: BaseException | None) -> str:
    """Return an error as its type and its message in one line; its type alone where it has none."""
    line = "" if error is None else error_line(error)
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def training_step_failed(error: BaseException) -> ModelFailedError:
    """Return what is said of a model that runs, but whose training step raised an error."""
    return ModelFailedError(
        f"the model runs, but its training step raised {type(error).__name__}: {error_line(error)}; use backward=False "
        "to have the forward times alone"
    )


def by_likeness(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names, the ones most like ``name`` first."""
    import difflib  # only an error needs it

    wanted = str(name).lower()

    def unlikeness(other: str) -> float:
        return -difflib.SequenceMatcher(None, wanted, other.lower()).ratio()

    return sorted(dict.fromkeys(known), key=lambda other: (unlikeness(other), other))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like ``name``, or None where none is like it."""
    import difflib

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None
