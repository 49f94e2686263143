"""`Backend`: the small interface that a framework must implement for every metric to work with it.

A metric calls these methods and never a framework, so N backends and M metrics take N + M implementations. The
capabilities that only some frameworks have are in `profilerkit.protocols`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from .arguments.checks import FLAG, Check, at_least, instance, text
from .count_text import format_count
from .data_splits import DataLoader, ForwardPass
from .errors import ArgumentError, NotOfferedError
from .input_shapes import DEFAULT_DTYPE, TensorSpec
from .inputs import ModelInputs
from .times.run import Run
from .trace.records import ModelTrace

__all__ = [
    "AS_IT_IS",
    "BACKEND",
    "DEVICE",
    "RUN_CHECKS",
    "Backend",
    "Device",
    "DeviceLike",
    "RunOptions",
]

T = TypeVar("T")


class Device(Enum):
    """The device that a model runs on. A framework's own string (``"cuda:1"``, ``"mps"``) is accepted too."""

    CPU = "cpu"
    GPU = "gpu"

    @classmethod
    def _missing_(cls, value: object) -> Device | None:
        """Return the member for its name in upper or lower case: ``Device("CPU")``."""
        return next((member for member in cls if isinstance(value, str) and member.value == value.lower()), None)


def _read_device(value: Any) -> Any:
    if not (isinstance(value, (str, Enum)) or _is_instance_named("device", value)):
        raise ValueError
    return Device(value.lower()) if isinstance(value, str) and value.lower() in ("cpu", "gpu") else value


def _is_instance_named(word: str, value: Any) -> bool:
    """Return whether the name of a value's class contains a word: each framework has its own devices and dtypes."""
    return not isinstance(value, type) and word in type(value).__name__.lower()


DEVICE = Check("Device.CPU, Device.GPU or the framework's own name, such as 'cuda:1'", _read_device).or_none()

#: The names of the kinds of devices, for editors.
_Kind: TypeAlias = Literal["cpu", "gpu"]
DeviceLike: TypeAlias = "Device | _Kind | str | None"


@dataclass(frozen=True)
class RunOptions:
    """How a model is run for timing; by default for inference, uncompiled, on the device where it is.

    Args:
        training: Run training steps: the forward pass in training mode, and the gradients of the sum of the outputs by
            the trainable weights.
        compile: Compile the model first with the framework's compiler; for torch this may also be the name of a
            compiler, or a mapping of arguments for ``torch.compile``.
        autocast: Run it under automatic mixed precision; True for the framework's usual lower precision, or a dtype.
        num_threads: How many threads one operator may use.
        device: The device to run on; None for the device where the model is.
        mode: One of the backend's execution modes; None for its usual one.

    Raises `ArgumentError` for an invalid value of any of them.
    """

    training: bool = False
    compile: Any = False
    autocast: Any = False
    num_threads: int | None = None
    device: DeviceLike = None
    mode: str | None = None

    def __post_init__(self) -> None:
        for name, check in RUN_CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))

    @property
    def requested(self) -> dict[str, Any]:
        """The options that differ from their defaults, by name; device and mode are not among them."""
        kinds = {name: value for name, value in vars(self).items() if name not in ("device", "mode")}
        return {name: value for name, value in kinds.items() if value is not None and value is not False}

    def __str__(self) -> str:
        """Return a description of the options for a report; an empty text if all are the defaults."""
        descriptions = {
            "training": "one training step: the forward pass in training mode, and the gradients",
            "compile": "compiled" if self.compile is True else f"compiled ({self.compile})",
            "autocast": "under autocast" if self.autocast is True else f"under autocast to {self.autocast}",
            "num_threads": f"on {format_count(self.num_threads or 0, 'thread')}",
        }
        return ", ".join(descriptions[name] for name in self.requested)


def _read_compile(value: Any) -> Any:
    return value if isinstance(value, (str, Mapping)) else FLAG.read(value)


def _read_autocast(value: Any) -> Any:
    return value if isinstance(value, (str, type)) or _is_instance_named("dtype", value) else FLAG.read(value)


#: The checks of the arguments of `RunOptions`.
RUN_CHECKS = {
    "training": FLAG,
    "compile": Check(
        "True, the name of a compiler such as 'inductor', or a mapping of arguments", _read_compile
    ).or_none(),
    "autocast": Check("True, or a dtype such as torch.bfloat16 or 'bfloat16'", _read_autocast).or_none(),
    "num_threads": at_least(1, "a whole number from 1, or None to leave them as they are").or_none(),
    "device": DEVICE,
    "mode": text("the name of one of the backend's modes, such as 'eager'").or_none(),
}

#: The defaults: run a model for inference, on the device where it is.
AS_IT_IS = RunOptions()


class Backend(ABC):
    """The interface between one framework and the metrics.

    Each method leaves the model exactly as it was, after errors too: the same parameters and buffers (objects, values,
    devices), train/eval flags, hooks, attributes and ``state_dict`` keys.

    A backend with further capabilities also has the methods of a protocol in `profilerkit.protocols`, such as
    `TimesLayers`. All profilers share one instance: what it keeps of a model is for no other one.
    """

    #: The name in reports and in ``backend=``: "torch".
    name: ClassVar[str]
    #: The loader and forward pass that data splits are wrapped in.
    data_loader: ClassVar[type[DataLoader]] = DataLoader
    forward_pass: ClassVar[type[ForwardPass]] = ForwardPass
    #: The modes in which it can run a model for timing; the first is the usual one.
    execution_modes: ClassVar[tuple[str, ...]] = ("eager",)
    #: The options that `run` supports, by their names in `RunOptions`: "training", "compile".
    offered_options: ClassVar[tuple[str, ...]] = ()
    #: Objects with the methods of capabilities that this backend lacks, of plugins; `Profiler` sets it.
    extensions: tuple[object, ...] = ()
    #: Whether all instances of the class share the formulas that `profilerkit.protocols.TakesCosts` adds.
    shares_costs: ClassVar[bool] = False

    # Models and devices -----------------------------------------------------------------------------------------

    @abstractmethod
    def accepts(self, model: Any) -> bool:
        """Return whether this backend can profile the model."""

    def model_name(self, model: Any) -> str:
        """Return the model's name in reports if the user gives none: the name of its class."""
        return type(model).__name__

    def model_type(self, model: Any) -> str:
        """Return the class of the model with its module, for reports."""
        return f"{type(model).__module__}.{type(model).__qualname__}"

    @abstractmethod
    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return the framework's string for a device; for None, the device where the model is.

        Raises `DeviceNotAvailableError` for a device that this machine does not have, before anything runs.
        """

    # Inputs -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def is_tensor(self, value: Any) -> bool:
        """Return whether a value is a tensor or array that a model takes as one input."""

    def as_tensor(self, value: Any) -> Any:
        """Return a value that can be converted, such as a numpy array, as a tensor; any other value unchanged."""
        return value

    def usual_dtype(self, model: Any) -> str:
        """Return the dtype of inputs that are made up where the user names none."""
        return DEFAULT_DTYPE

    @abstractmethod
    def random_tensor(self, spec: TensorSpec, batch_size: int) -> Any:
        """Return a tensor of shape ``(batch_size, *spec.shape)``: normally distributed floats, or integer zeros."""

    @abstractmethod
    def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
        """Return the tensor with its first dimension cut or repeated to ``batch_size``."""

    def count_samples(self, model: Any, inputs: ModelInputs, trace: ModelTrace | None = None) -> int | None:
        """Return the number of samples in the inputs, if the model's layers say it; None if they do not.

        With None, it is the length of the first dimension that all input tensors share. A backend overrides this method
        if its layers take inputs without a batch dimension, or with the batch in another one. ``trace`` is the trace
        with these inputs, if there is one: a backend that needs one makes none then.
        """
        return None

    # Running the model ------------------------------------------------------------------------------------------

    @abstractmethod
    def trace(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Return all static facts about the model from one pass, with shapes alone if the framework supports that.

        Without inputs, or if the model raises, the trace holds only the layers, and the error as its ``failure``.
        """

    def run(self, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> AbstractContextManager[Run]:
        """Return a context that yields a `Run`: each call of it runs one pass, and returns when the device is done.

        The model is moved to the device, and compiled, when the context is entered. `mode` checks the options before
        anything runs. A backend that only counts does not override this method, which raises `NotOfferedError`; metrics
        that need a run are then unavailable.
        """
        raise NotOfferedError(f"the {self.name} backend counts models, and does not run them")

    @property
    def runs_models(self) -> bool:
        """Whether the backend can run models; if not, it only counts."""
        return type(self).run is not Backend.run

    def mode(self, options: RunOptions = AS_IT_IS) -> str:
        """Return the requested execution mode, or the usual one.

        Raises `ArgumentError` for a mode that the backend lacks, and `NotOfferedError` for options beyond its
        `offered_options`.
        """
        if options.mode is not None and options.mode not in self.execution_modes:
            modes = ", ".join(map(repr, self.execution_modes))
            raise ArgumentError(
                f"mode={options.mode!r}: the {self.name} backend has no such mode; its modes are: {modes}"
            )
        refused = {name: value for name, value in options.requested.items() if name not in self.offered_options}
        if refused:
            listing = ", ".join(f"{name}={value!r}" for name, value in refused.items())
            usual = "" if self.offered_options else " runs a model as it is, for inference: it"
            raise NotOfferedError(f"the {self.name} backend{usual} offers no {listing}")
        return options.mode or self.execution_modes[0]

    @abstractmethod
    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``, with the model in inference mode and on the device during the call."""

    @abstractmethod
    def preserve(self, model: Any) -> AbstractContextManager[None]:
        """Return a context that restores the model and the settings of the process exactly as they were."""

    @property
    def non_default_settings(self) -> tuple[str, ...]:
        """The settings of the process that change measured values, and no counts, where they differ from their default.

        Each in a few words: "torch.use_deterministic_algorithms: True".
        """
        return ()

    def environment(self) -> Mapping[str, str]:
        """Return the facts that a reader needs to repeat a measurement: framework version, threads, devices."""
        return {}


BACKEND = instance((Backend, str), "an instance of a Backend, or the name of one").or_none()
