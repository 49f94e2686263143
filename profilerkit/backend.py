"""What a framework must offer so that every metric works over it: one small interface.

N backends and M metrics cost N + M pieces of code: a metric calls these methods and never a framework. What only some
frameworks offer is in `profilerkit.protocols`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, TypeAlias, TypeVar

from .arguments.checking import checked
from .arguments.rules import of_kind
from .error_text import shown
from .errors import ArgumentError, NotOfferedError
from .inputs import DataLoader, ForwardPass, ModelInputs, TensorSpec
from .times.run import Run
from .trace.records import ModelTrace

__all__ = [
    "API_VERSION",
    "AS_IT_IS",
    "OLDEST_API_VERSION",
    "Backend",
    "BackendInfo",
    "Device",
    "DeviceLike",
    "RunOptions",
]

T = TypeVar("T")


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


class Backend(ABC):
    """One framework, behind the interface that every metric is written over.

    The model a method is given comes back exactly as it was, after errors too: the same parameters and buffers
    (objects, values, devices), train/eval flags, hooks, attributes and ``state_dict`` keys.

    A backend that offers more than this has the methods of a class in `profilerkit.protocols`: `TimesLayers`, say.
    """

    #: The name people read and request: "torch".
    name: ClassVar[str]
    #: The loader and forward pass that data splits are wrapped in.
    data_loader: ClassVar[type[DataLoader]] = DataLoader
    forward_pass: ClassVar[type[ForwardPass]] = ForwardPass
    #: The ways it can run a model for timing; the first is the usual one.
    execution_modes: ClassVar[tuple[str, ...]] = ("eager",)
    #: The kinds of run that `run` offers beside inference, by their names in `RunOptions`: "training", "compile".
    offered_options: ClassVar[tuple[str, ...]] = ()
    #: Whether the formulas that `profilerkit.protocols.TakesCosts` takes are kept for all instances of the class.
    shares_costs: ClassVar[bool] = False

    # Models and devices -----------------------------------------------------------------------------------------

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

    # Inputs -----------------------------------------------------------------------------------------------------

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

    # The model at work ------------------------------------------------------------------------------------------

    @abstractmethod
    def trace(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Find all static facts about the model in one pass, on shapes alone where the framework can.

        Without inputs, or if the model raises, the trace holds the layers alone, and the error as its ``failure``.
        """

    def run(self, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> AbstractContextManager[Run]:
        """Return a context that yields a `Run`: each call of it runs one pass, and returns when the device is done.

        What is done once, such as moving or compiling the model, is done when the context is entered. `mode` checks the
        options, before anything runs. A backend that only counts leaves this out: it raises `NotOfferedError` then, and
        what needs a run is unavailable.
        """
        raise NotOfferedError(f"the {self.name} backend counts models, and does not run them")

    @property
    def runs_models(self) -> bool:
        """Whether the backend runs models, and does not only count them."""
        return type(self).run is not Backend.run

    def mode(self, options: RunOptions = AS_IT_IS) -> str:
        """Return the execution mode that is requested, or the usual one.

        Raises `ArgumentError` for a mode that the backend lacks, and `NotOfferedError` for options beyond its
        `offered_options`.
        """
        if options.mode is not None and options.mode not in self.execution_modes:
            known = ", ".join(map(repr, self.execution_modes))
            raise ArgumentError(
                f"mode={options.mode!r}: the {self.name} backend does not run models so; its modes are: {known}"
            )
        refused = {name: value for name, value in options.given.items() if name not in self.offered_options}
        if refused:
            listing = ", ".join(f"{name}={value!r}" for name, value in refused.items())
            usual = "" if self.offered_options else " runs a model as it is, for inference: it"
            raise NotOfferedError(f"the {self.name} backend{usual} offers no {listing}")
        return options.mode or self.execution_modes[0]

    @abstractmethod
    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``, made while the model is in inference mode and on the device."""

    @abstractmethod
    def preserved(self, model: Any) -> AbstractContextManager[None]:
        """Hand the model, and the process around it, back exactly as they came."""

    def environment(self) -> Mapping[str, str]:
        """Return what a reader must know to repeat a measurement: framework version, threads, devices."""
        return {}


of_kind("backend", Backend)


#: The version of the interface between backends and the library; it rises when backends must change to go on working.
API_VERSION = 1
#: The oldest version that is still understood.
OLDEST_API_VERSION = 1


@dataclass(frozen=True)
class BackendInfo:
    """A backend that can be loaded when it is needed.

    Args:
        name: The name that people read and request.
        frameworks: Where the classes come from that mark a model as this backend's: packages ("torch"), modules
            ("torch.onnx") or classes with their module. The longest that fits a class counts.
        load: Imports the framework and returns the backend.
        requirement: What to install where that fails.
        claims: Says no to a model of such a class that is another backend's after all; where it is nobody's, it raises
            `BackendNotFoundError` with what to do. The framework need not be imported for that.
        installed: Returns the versions of what is installed without importing it, and raises `ImportError` where
            something is missing or too old: with it ``profilerkit list`` need not load the backend.
        api_version: The version of the interface that the backend is written for. Give it as a number: a backend that
            is newer than the library is refused then, with what to upgrade.
        suffixes: The endings of files that this backend alone opens, ``(".onnx",)``: a path with one of them needs no
            ``backend=``. The backend offers `profilerkit.protocols.OpensModels`.

    Raises `ArgumentError` for names of frameworks or suffixes that are no tuple of texts, and for a version that is no
    number.
    """

    name: str
    frameworks: tuple[str, ...]
    load: Callable[[], Backend]
    requirement: str
    claims: Callable[[Any], bool] = field(default=lambda model: True)
    installed: Callable[[], Mapping[str, str]] | None = None
    api_version: int = API_VERSION
    suffixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        number = self.api_version
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ArgumentError(
                f"api_version={shown(number)}: give the version of the interface that the {self.name} backend is "
                f"written for as a number, such as {API_VERSION}"
            )
        listed: Any = self.frameworks
        if isinstance(listed, str) or not all(isinstance(each, str) and each for each in listed):
            raise ArgumentError(
                f"frameworks={shown(listed)}: give the packages, modules or classes of the {self.name} backend as a "
                "tuple of texts, such as ('torch',)"
            )
        endings: Any = self.suffixes
        if isinstance(endings, str) or not all(isinstance(each, str) and each[:1] == "." for each in endings):
            raise ArgumentError(
                f"suffixes={shown(endings)}: give the endings of the files that the {self.name} backend opens as a "
                "tuple of texts, such as ('.onnx',)"
            )
