"""Every exception and warning of profilerkit.

Each message says what was requested, what was wrong, and what to do about it.
"""

from __future__ import annotations

import copyreg
import errno
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from .count_text import list_some
from .error_text import error_line, list_causes, read_message, shown

__all__ = [
    "ArgumentError",
    "ArgumentWarning",
    "BackendFailedError",
    "BackendNotFoundError",
    "BackendNotInstalledError",
    "BudgetError",
    "CostFormulaError",
    "DependencyCycleError",
    "DeviceFileError",
    "DeviceNotAvailableError",
    "DeviceNotKnownError",
    "FailureCode",
    "IncompleteStatusError",
    "InputError",
    "InvalidTraceError",
    "MissingArgumentError",
    "ModelChangedWarning",
    "ModelFailedError",
    "NotOfferedError",
    "PlacementError",
    "PlanError",
    "PluginFailedError",
    "PluginWarning",
    "ProfileFileError",
    "ProfilerBusyError",
    "ProfilerKitError",
    "ProfilerKitWarning",
    "RegistrationConflictError",
    "RegistrationWarning",
    "ReportFileError",
    "StoreError",
    "TracingError",
    "UnknownStatusError",
    "WithoutValuesError",
]

#: How many of the nearest names an error shows.
_NEAREST = 5


class FailureCode(StrEnum):
    """Why there is no value, or why the process of a model ended early: a word that programs can read.

    It is set where the failure is known, and travels with the value to reports, stores and pages.
    """

    #: The limit on memory was reached, or the system refused memory.
    MEMORY = "memory"
    #: The time limit was reached.
    TIMEOUT = "timeout"
    #: The limit on threads was reached, or the system refused a thread.
    THREADS = "threads"
    #: The process was ended by a signal: a segmentation fault, an abort, a kill by the system.
    SIGNAL = "signal"
    #: The model left its process: ``os._exit``, ``sys.exit``.
    EXIT = "exit"
    #: The model wrote to the descriptor that results go through.
    CHANNEL = "channel"
    #: The process that watches over the model was killed.
    LOST = "lost"
    #: A package that the model needs cannot be imported.
    IMPORT = "import"
    #: The model could not be loaded or profiled: an error of its code, wrong inputs, a name that does not exist.
    MODEL = "model"
    #: The engine of an audit could not run the model, such as a lost node of a cluster.
    ENGINE = "engine"


class ProfilerKitError(Exception):
    """Base class of every error that profilerkit raises on purpose."""


class UnknownStatusError(ProfilerKitError, KeyError):
    """A requested status key that no registered function computes."""

    def __init__(self, name: str, names: Iterable[str], *, owner: str = "this profiler") -> None:
        self.name = name
        self.names: tuple[str, ...] = tuple(by_likeness(name, names))
        self.owner = owner
        is_profiler = owner == "this profiler"
        nothing = "none: register a ProfilerFunction first" if is_profiler else "none"
        listing = list_some(self.names, _NEAREST) or nothing
        if len(self.names) > _NEAREST + 1 and is_profiler:
            listing += "; `profilerkit list` lists them"
        verb = "know" if owner.startswith("these ") else "knows"
        super().__init__(f"unknown metric {shown(name)}; {owner} {verb}, nearest first: {listing}")

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class MissingArgumentError(ProfilerKitError, TypeError):
    """A profiler function has a parameter for which there is no value."""


class DependencyCycleError(ProfilerKitError, RuntimeError):
    """Status keys depend on each other in a circle."""


class RegistrationConflictError(ProfilerKitError, RuntimeError):
    """Two functions claim the same status key, both with ``override=True``; or two plugins the same name."""


class BackendNotFoundError(ProfilerKitError, LookupError):
    """No backend recognizes the model, or none has the requested name."""


class BackendNotInstalledError(ProfilerKitError, ImportError):
    """A backend is installed, but its framework cannot be imported."""


class DeviceNotAvailableError(ProfilerKitError, RuntimeError):
    """The requested device does not exist on this machine."""


class DeviceNotKnownError(ProfilerKitError, LookupError):
    """No device of that name is described; the message has the nearest names."""


class DeviceFileError(ProfilerKitError, ValueError):
    """A file that should describe a device, or hold its calibration, cannot be read."""


class ProfileFileError(ProfilerKitError, ValueError):
    """A profile that was made elsewhere cannot be read, or cannot be joined with the model."""


class InputError(ProfilerKitError, ValueError):
    """The model's inputs are missing, or contradict other arguments."""


class ArgumentError(InputError, TypeError):
    """An invalid value of an argument, raised before anything runs. It is a `ValueError` and a `TypeError`."""


class PlacementError(ArgumentError):
    """The requested replacement of a model is impossible, such as a rank of a mesh that the model does not fit.

    This may be known only after the model is built. No metric can be computed then, so the whole call raises it.
    """


class WithoutValuesError(InputError):
    """The model's weights have no values yet: the model cannot be run, but its counts are available."""


class ModelFailedError(ProfilerKitError, RuntimeError):
    """The model raised while it was being profiled; the cause is chained."""


class BackendFailedError(ProfilerKitError, RuntimeError):
    """The backend raised an error that the model did not cause; the underlying error is chained."""


class NotOfferedError(ProfilerKitError, NotImplementedError):
    """The backend or the plugins do not offer what was requested: a training trace, layer times, a renderer."""


class ProfilerBusyError(ProfilerKitError, RuntimeError):
    """The framework's own profiler, of which a process has only one, is in use."""


class TracingError(ProfilerKitError, RuntimeError):
    """The framework is recording (a trace, an export, a compilation); nothing can be profiled until that ends."""


class CostFormulaError(ProfilerKitError, RuntimeError):
    """A cost formula raised for the shapes of an operator; the cause is chained."""


class PluginFailedError(ProfilerKitError, RuntimeError):
    """The code of a plugin raised, and its result was needed; the cause is chained."""


class InvalidTraceError(ProfilerKitError, ValueError):
    """A backend has returned an invalid `ModelTrace`, from which no result can be computed.

    Attributes:
        backend: The name of the backend.
        path: The path of the layer where the rule is broken; empty for the model as a whole.
        rule: The rule, and how the trace breaks it.
    """

    def __init__(self, backend: str, path: str, rule: str) -> None:
        self.backend: str = backend
        self.path: str = path
        self.rule: str = rule
        where = f"at the layer {path!r}" if path else "of the model"
        super().__init__(
            f"the {backend} backend has made an invalid trace, {where}: {rule}; this is a fault of the backend, not of "
            "the model: tell its authors"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class ReportFileError(ProfilerKitError, ValueError):
    """A file is not a report of profilerkit, is truncated or changed, or has content that no version has written."""


class BudgetError(ProfilerKitError, ValueError):
    """A limit cannot be read, or cannot be checked against the report."""


class PlanError(ProfilerKitError, ValueError):
    """The plan of an audit cannot be read: an unknown key, an invalid value, a pattern that matches no model."""


class StoreError(ProfilerKitError, RuntimeError):
    """The store of an audit cannot be opened, read or written."""


class IncompleteStatusError(ProfilerKitError, RuntimeError):
    """With ``strict=True``: a value is partial or unavailable."""


class ProfilerKitWarning(UserWarning):
    """Base class of every warning of profilerkit."""


class RegistrationWarning(ProfilerKitWarning):
    """A registration replaced the function of a status key."""


class ArgumentWarning(ProfilerKitWarning):
    """An argument that no registered function takes; most often its name is misspelled."""


class PluginWarning(ProfilerKitWarning):
    """A plugin cannot be loaded, or its hooks return something invalid."""


class ModelChangedWarning(ProfilerKitWarning):
    """The model, or an object that it holds, could not be restored: its own code or another thread prevented that."""


def model_failed(
    error: Exception | None, inputs: object, hint: str = "do these inputs fit it?", layer: str = ""
) -> ProfilerKitError:
    """Return the error for a model that raised: its message in one line, the layer, the inputs of the call, a hint.

    An error of the inputs or of a cost formula is returned as it is: it is no error of the model, and says what to do.
    """
    if isinstance(error, (InputError, CostFormulaError)):
        return error
    summary = f"{error_summary(error).rstrip('.')}, in layer {layer}" if layer else error_summary(error)
    if isinstance(error, TypeError) and getattr(inputs, "kwargs", None):
        hint = f"{hint} The values of a mapping are keyword arguments; ModelInputs(batch) passes a mapping as one"
    advice = f"it was called with {inputs!r}, {hint}"
    if isinstance(error, ImportError):
        advice = "is what it imports installed?"
    failure = ModelFailedError(f"the model raised {summary}; {advice}")
    failure.__cause__ = error
    return failure


def error_summary(error: BaseException | None) -> str:
    """Return an error as its type and its message in one line; its type alone if it has no message."""
    line = "" if error is None else error_line(error)
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def explain_missing_step(error: BaseException) -> str:
    """Return why the times of a model are of forward passes alone, from the error of its training step.

    Raises `ModelFailedError` for a step that had not enough memory: the user may give it more.
    """
    if classify(error) is FailureCode.MEMORY:
        raise ModelFailedError(
            f"the model runs, but its training step raised {error_summary(error)}; use backward=False to have the "
            "forward times alone"
        ) from error
    return f"its backward pass is not timed: a training step raised {error_summary(error)}"


def by_likeness(name: str, names: Iterable[str]) -> list[str]:
    """Return the names, the most similar to ``name`` first; of several words, before them the names that have all.

    >>> by_likeness("plugin_functions", ["plugin_options", "plugin_profiler_functions"])
    ['plugin_profiler_functions', 'plugin_options']
    """
    import difflib  # only an error needs them
    import re

    lowered = str(name).lower()
    words = set(re.split(r"[\W_]+", lowered))

    def measure(other: str) -> tuple[bool, float, str]:
        lacks_words = len(words) > 1 and not words.issubset(re.split(r"[\W_]+", other.lower()))
        return lacks_words, -difflib.SequenceMatcher(None, lowered, other.lower()).ratio(), other

    return sorted(dict.fromkeys(names), key=measure)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of the names, in either case; None if none is similar.

    >>> nearest("MACs", ["flops", "macs"])
    'macs'
    """
    import difflib

    by_lowered = {one_name.lower(): one_name for one_name in reversed(list(names))}
    matches = difflib.get_close_matches(str(name).lower(), list(by_lowered), n=1, cutoff=0.6)
    return by_lowered[matches[0]] if matches else None


#: Messages of frameworks' C++ code when the system refuses memory or a thread: their errors have no common type.
_NO_MEMORY = (
    *("allocate memory", "unable to allocate", "out of memory", "oom when allocating"),
    *("bad_alloc", "resource_exhausted"),
)
_NO_THREAD = ("start new thread", "resource temporarily unavailable")


def classify(error: BaseException) -> FailureCode:
    """Return the code of an error that a model, or its loader, has raised.

    >>> classify(MemoryError()), classify(ModuleNotFoundError("no timm")), classify(KeyError("x"))
    (<FailureCode.MEMORY: 'memory'>, <FailureCode.IMPORT: 'import'>, <FailureCode.MODEL: 'model'>)
    """
    for cause in list_causes(error, implicit=False):
        text = "" if isinstance(cause, ProfilerKitError) else read_message(cause).lower()
        if isinstance(cause, BlockingIOError) or any(words in text for words in _NO_THREAD):
            return FailureCode.THREADS
        refused = isinstance(cause, OSError) and cause.errno == errno.ENOMEM
        if refused or isinstance(cause, MemoryError) or any(words in text for words in _NO_MEMORY):
            return FailureCode.MEMORY
        if isinstance(cause, ImportError):
            return FailureCode.IMPORT
    return FailureCode.MODEL
