"""What a framework must offer so that every metric works over it: one small interface.

N backends and M metrics cost N + M pieces of code: a metric calls these methods and never a framework.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from os import PathLike
from typing import Any, ClassVar, TypeAlias, TypeVar

from .arguments.checking import checked
from .arguments.rules import of_kind
from .backend_kit.optimizers import OptimizerBytes
from .errors import ArgumentError, NotOfferedError
from .inputs import DataLoader, ForwardPass, ModelInputs, TensorSpec
from .times.layer_times import LayerTime, LayerTimer
from .times.operator_times import OperatorTimes
from .times.steps import StepRecorder
from .trace.records import ModelTrace, WeightRecord

__all__ = ["AS_IT_IS", "Backend", "BackendInfo", "Device", "DeviceLike", "RunOptions"]

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")


class Device(Enum):
    """Where a model runs. A framework's own string (``"cuda:1"``, ``"mps"``) is taken wherever a member is."""

    CPU = "cpu"
    GPU = "gpu"


DeviceLike: TypeAlias = "Device | str | None"


@dataclass(frozen=True)
class RunOptions:
    """How a model is run to be timed; unless anything is said, as it is, where it is, and for inference.

    Args:
        training: Run training steps: the forward pass in training mode, and the gradients of the sum of the outputs by
            the trainable weights.
        compile: Compile it first, as the framework does; in torch also the name of a compiler, or a mapping of
            arguments for ``torch.compile``.
        autocast: Run it under automatic mixed precision, in the framework's usual lower precision or in the given one.
        num_threads: How many threads one operator may use.
        device: Where to run; where the model is unless given.
        mode: The backend's mode, its usual one unless given.

    Raises `ArgumentError` where one of them is not what it may be.
    """

    training: bool = False
    compile: Any = False
    autocast: Any = False
    num_threads: int | None = None
    device: DeviceLike = None
    mode: str | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, checked(name, value))

    @property
    def given(self) -> dict[str, Any]:
        """The options that ask for another kind of run, by name; device and mode are not among them."""
        kinds = {name: value for name, value in vars(self).items() if name not in ("device", "mode")}
        return {name: value for name, value in kinds.items() if value is not None and value is not False}

    def __str__(self) -> str:
        """Say for a report how the model was run; nothing where nothing was asked for."""
        said = {
            "training": "one training step: the forward pass in training mode, and the gradients",
            "compile": "compiled" if self.compile is True else f"compiled ({self.compile})",
            "autocast": "under autocast" if self.autocast is True else f"under autocast to {self.autocast}",
            "num_threads": f"on {self.num_threads} thread{'s' if self.num_threads != 1 else ''}",
        }
        return ", ".join(said[name] for name in self.given)


of_kind("run_options", RunOptions)

#: To run a model for inference, with nothing asked for besides.
AS_IT_IS = RunOptions()


def offering(what: str) -> Callable[[F], F]:
    """Mark a method of `Backend` that not every backend has: what one offers that overrides it, in words."""

    def mark(method: F) -> F:
        method.offers = what  # type: ignore[attr-defined]
        return method

    return mark


class Backend(ABC):
    """One framework, behind the interface that every metric is written over.

    The model a method is given comes back exactly as it was, after errors too: the same parameters and buffers
    (objects, values, devices), train/eval flags, hooks, attributes and ``state_dict`` keys.
    """

    #: The name people read and ask for: "torch".
    name: ClassVar[str]
    #: The loader and forward pass that data splits are wrapped in.
    data_loader: ClassVar[type[DataLoader]] = DataLoader
    forward_pass: ClassVar[type[ForwardPass]] = ForwardPass
    #: The ways it can run a model for timing; the first is the usual one.
    execution_modes: ClassVar[tuple[str, ...]] = ("eager",)
    #: Whether the formulas that `add_costs` takes are kept for all instances of the class.
    shares_costs: ClassVar[bool] = False

    def opened(self, model: Any) -> Any:
        """Return the model that a path leads to, where the backend reads files; anything else as it is."""
        return model

    @abstractmethod
    def accepts(self, model: Any) -> bool:
        """Say whether this backend can profile the model."""

    def model_name(self, model: Any) -> str:
        """Return what reports call the model unless the user names it: its class."""
        return type(model).__name__

    @abstractmethod
    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return the framework's string for a device; for None, where the model is.

        Raises `DeviceNotAvailableError` for a device that this machine lacks, before anything runs.
        """

    @abstractmethod
    def is_tensor(self, value: Any) -> bool:
        """Say whether a value is a tensor or array that a model takes as one input."""

    def as_tensor(self, value: Any) -> Any:
        """Return a tensor for what stands for one, such as a numpy array; anything else as it is."""
        return value

    @abstractmethod
    def random_tensor(self, spec: TensorSpec, batch_size: int) -> Any:
        """Return a tensor of shape ``(batch_size, *spec.shape)``: normal for floats, zeros for integers."""

    @abstractmethod
    def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
        """Return the tensor with its first dimension cut or repeated to ``batch_size``."""

    def fit_inputs(self, model: Any, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs in the layout that the model says it takes; as they are where it says nothing."""
        return inputs

    @abstractmethod
    def trace(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Find all static facts about the model in one pass, on shapes alone where the framework can.

        Without inputs, or if the model raises, the trace holds the layers alone, and the error as its ``failure``.
        """

    @offering("training counts and memory")
    def trace_training(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        """Trace one training step: the forward pass in training mode, and the gradients of the trainable weights.

        The gradients are those of the sum of the outputs. Raises `NotOfferedError` where the backend cannot.
        """
        raise NotOfferedError(f"the {self.name} backend does not trace training steps")

    def optimizer_state(self, model: Any) -> int | str:
        """Return the bytes that the model's optimizer keeps for its weights; in words, why that is not known.

        0 for a model that has no optimizer. The state is counted, never made.
        """
        return 0

    def optimizer_bytes(self, optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
        """Return what an optimizer keeps for these weights and takes to update them; in words, why it is not known.

        ``optimizer`` is what the framework has for one: an object that may have run already, or a class.
        """
        return f"the state of {optimizer!r}: the {self.name} backend reads no optimizers; give the name of one"

    @offering("zeros among the weights")
    def zero_weights(self, model: Any) -> tuple[int, int]:
        """Return how many elements of the model's floating-point parameters are zero, and how many there are in all.

        Raises `WithoutValuesError` where they have no values, `NotOfferedError` where the backend cannot look at them.
        """
        raise NotOfferedError(f"the {self.name} backend does not look for zeros among the weights")

    @offering("work on nonzero weights alone")
    def trace_nonzero(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        """Trace one forward pass, leaving out the multiply-accumulates whose weight is zero.

        The model is run. Raises `WithoutValuesError` where its weights have no values, `NotOfferedError` where the
        backend cannot.
        """
        raise NotOfferedError(f"the {self.name} backend does not count the work on nonzero weights alone")

    @offering("memory as the allocator has it")
    def measured_memory(self, model: Any, inputs: ModelInputs, device: DeviceLike = None) -> int:
        """Return the most bytes that the device's allocator had given out at once in one forward pass.

        Inputs and activations, and whatever else the framework asks for; not the weights. Raises `NotOfferedError`
        where the backend or the device does not tell, `WithoutValuesError` for a model without values.
        """
        raise NotOfferedError(f"the {self.name} backend does not measure memory")

    @abstractmethod
    def forward(
        self, model: Any, inputs: ModelInputs, device: DeviceLike = None, mode: str | None = None
    ) -> AbstractContextManager[Callable[[], Any]]:
        """Yield a call without arguments that runs one forward pass and returns when the device is done.

        ``mode`` is one of `execution_modes`, the first where it is None. A call that has an attribute
        ``first_call_seconds`` says what its first run took, compilation included; one that has a method ``timed`` runs
        one pass and returns its seconds, by the device's own clock.
        """

    def running(
        self,
        model: Any,
        inputs: ModelInputs,
        device: DeviceLike = None,
        mode: str | None = None,
        options: RunOptions = AS_IT_IS,
    ) -> AbstractContextManager[Callable[[], Any]]:
        """Yield a call as `forward` does, that runs the model as the options say.

        Raises `NotOfferedError` for options that the backend does not offer, before anything runs.
        """
        if options.given:
            asked = ", ".join(f"{name}={value!r}" for name, value in options.given.items())
            raise NotOfferedError(f"the {self.name} backend runs a model as it is, for inference: it offers no {asked}")
        return self.forward(model, inputs, device, mode)

    def mode(self, wanted: str | None) -> str:
        """Return the execution mode of that name, or the usual one; raises `ArgumentError` for one that it lacks."""
        if checked("mode", wanted) is not None and wanted not in self.execution_modes:
            known = ", ".join(map(repr, self.execution_modes))
            raise ArgumentError(
                f"mode={wanted!r}: the {self.name} backend does not run models so; its modes are: {known}"
            )
        return wanted or self.execution_modes[0]

    @offering("times of single layers")
    def layer_times(
        self, model: Any, inputs: ModelInputs, device: DeviceLike = None, passes: int = 10, backward: bool = True
    ) -> Sequence[LayerTime]:
        """Return the time of each layer's own work in each of several passes, forward and (if wanted) backward.

        Raises `NotOfferedError` where the backend cannot tell.
        """
        raise NotOfferedError(f"the {self.name} backend does not time single layers")

    @offering("times of single operators")
    def operator_times(
        self,
        model: Any,
        inputs: ModelInputs,
        device: DeviceLike = None,
        passes: int = 10,
        backward: bool = True,
        export: str | PathLike[str] | None = None,
    ) -> OperatorTimes:
        """Return the time of each operator in each layer, as the framework's own profiler has it.

        With ``export`` the profiler's trace of one pass is written to a file. Raises `ProfilerBusyError` where the
        profiler is in use, and `NotOfferedError` where the backend cannot.
        """
        raise NotOfferedError(f"the {self.name} backend does not time single operators")

    def ranks(self, model: Any) -> int:
        """Return how many processes run the model together, and so must call it equally often."""
        return 1

    @offering("times of layers in the user's own code")
    def timing_layers(self, model: Any) -> LayerTimer:
        """Return a context manager that times the layers of the model in what the caller's own code runs.

        Raises `NotOfferedError` where the backend cannot.
        """
        raise NotOfferedError(f"the {self.name} backend does not time layers while other code runs the model")

    @offering("steps of training loops, watched")
    def watching_steps(self, model: Any, optimizer: Any = None) -> StepRecorder:
        """Return what measures single steps of a training loop that the caller's own code runs.

        ``optimizer`` is what updates the model; None for every one that does while a step is measured. Raises
        `NotOfferedError` where the backend cannot.
        """
        raise NotOfferedError(f"the {self.name} backend does not watch training loops")

    @abstractmethod
    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``, made while the model is in inference mode and on the device."""

    @abstractmethod
    def preserved(self, model: Any) -> AbstractContextManager[None]:
        """Hand the model, and the process around it, back exactly as they came."""

    def apart(self) -> AbstractContextManager[None]:
        """Keep what the caller has switched on in the framework away from what is computed meanwhile.

        Entered around every computation of a profiler. Raises `TracingError` where nothing can be profiled now.
        """
        return nullcontext()

    @offering("cost formulas of plugins")
    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        """Take cost formulas of plugins, by operator or layer class, for all models from now on; all of them or none.

        Called once for each plugin that offers any, when the backend is first used: with `shares_costs` the first of
        its name, otherwise each instance. Raises `RegistrationConflictError` for what has a formula already.
        """
        raise NotOfferedError(f"the {self.name} backend takes no cost formulas")

    @offering("notices that a model was trained")
    def fingerprint(self, model: Any, values: bool = True) -> object:
        """Return what changes when the model's parameters do, so that values computed before are not taken for new.

        Without ``values``, what changes when there are others of them, or others are trained: counts need no more, and
        to look at every value takes time. Compared with ``==``; None where a backend cannot tell.
        """
        return None

    def environment(self) -> Mapping[str, str]:
        """Return what a reader must know to repeat a measurement: framework version, threads, devices."""
        return {}


of_kind("backend", Backend)


@dataclass(frozen=True)
class BackendInfo:
    """A backend that can be loaded when it is needed.

    ``frameworks`` are the top-level packages whose classes mark a model as this backend's. ``load`` imports the
    framework and returns the backend; ``requirement`` is what to install where that fails. ``claims`` says no to a
    model of such a class that is another backend's after all; where it is nobody's, it raises
    `BackendNotFoundError` with what to do.
    """

    name: str
    frameworks: tuple[str, ...]
    load: Callable[[], Backend]
    requirement: str
    claims: Callable[[Any], bool] = field(default=lambda model: True)
