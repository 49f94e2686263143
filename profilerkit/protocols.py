"""What a backend may offer beyond `Backend`: one protocol for each, and who asks for it.

A backend offers what it has the methods of; it need not name the protocol. One that names it as a base class lets type
checkers compare the signatures, and cannot forget a method. Methods may raise `NotOfferedError` for a model or device
that they cannot handle after all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

from .backend import Backend, DeviceLike
from .backend_kit.optimizers import OptimizerBytes
from .errors import NotOfferedError
from .inputs import ModelInputs
from .times.layer_times import LayerTime, LayerTimer
from .times.operator_times import OperatorTimes
from .times.steps import StepRecorder
from .trace.records import ModelTrace, WeightRecord

__all__ = [
    "CAPABILITIES",
    "Capability",
    "CountsNonzero",
    "DeclaresInputs",
    "FitsInputs",
    "HoldsOptimizer",
    "KeepsApart",
    "LimitsMetrics",
    "MeasuresMemory",
    "NoticesTraining",
    "OpensModels",
    "ReadsOptimizers",
    "ReadsWeights",
    "RunsInRanks",
    "TakesCosts",
    "TimesLayers",
    "TimesOperators",
    "Trains",
    "Watches",
    "WatchesLayers",
    "declared_by",
    "fingerprint_of",
    "fitted",
    "implements",
    "inapplicable_to",
    "kept_apart",
    "offered",
]

P = TypeVar("P")


@runtime_checkable
class OpensModels(Protocol):
    """Reads models from files, or takes apart what wraps them."""

    @abstractmethod
    def opened(self, model: Any) -> Any:
        """Return the model that a path leads to; anything else as it is."""


@runtime_checkable
class DeclaresInputs(Protocol):
    """Makes inputs as a model itself declares them; they are used where nobody gives any."""

    @abstractmethod
    def example_inputs(self, model: Any, batch_size: int | None = None) -> ModelInputs | None:
        """Return inputs of a batch size; None where the model declares none.

        `profilerkit.declared_inputs.made_from` makes them of a declaration, and raises `InputError` for sizes that are
        open, and for another batch size than the model's own.
        """


@runtime_checkable
class FitsInputs(Protocol):
    """Brings inputs into the layout that a model says it takes."""

    @abstractmethod
    def fit_inputs(self, model: Any, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs in the model's layout; as they are where it says nothing."""


@runtime_checkable
class Trains(Protocol):
    """Traces training steps."""

    @abstractmethod
    def trace_training(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        """Trace one training step: the forward pass in training mode, and the gradients of the trainable weights.

        The gradients are those of the sum of the outputs.
        """


@runtime_checkable
class HoldsOptimizer(Protocol):
    """Knows the optimizer that a model was compiled with."""

    @abstractmethod
    def optimizer_state(self, model: Any) -> int | str:
        """Return the bytes that the model's optimizer keeps for its weights; in words, why that is not known.

        0 for a model that has no optimizer. The state is counted, never made.
        """


@runtime_checkable
class ReadsOptimizers(Protocol):
    """Reads the framework's own optimizers."""

    @abstractmethod
    def optimizer_bytes(self, optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
        """Return what an optimizer keeps for these weights and takes to update them; in words, why it is not known.

        ``optimizer`` is what the framework has for one: an object that may have run already, or a class.
        """


@runtime_checkable
class ReadsWeights(Protocol):
    """Reads the values of the weights."""

    @abstractmethod
    def zero_weights(self, model: Any) -> tuple[int, int]:
        """Return how many elements of the model's floating-point parameters are zero, and how many there are in all.

        Raises `WithoutValuesError` where they have no values.
        """


@runtime_checkable
class CountsNonzero(Protocol):
    """Counts the work on nonzero weights alone."""

    @abstractmethod
    def trace_nonzero(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        """Trace one forward pass, leaving out the multiply-accumulates whose weight is zero.

        The model is run. Raises `WithoutValuesError` where its weights have no values.
        """


@runtime_checkable
class MeasuresMemory(Protocol):
    """Asks the device's allocator."""

    @abstractmethod
    def measured_memory(self, model: Any, inputs: ModelInputs, device: DeviceLike = None) -> int:
        """Return the most bytes that the device's allocator had given out at once in one forward pass.

        Inputs and activations, and whatever else the framework requests; not the weights. Raises `NotOfferedError`
        where the device does not tell, `WithoutValuesError` for a model without values.
        """


@runtime_checkable
class TimesLayers(Protocol):
    """Times single layers."""

    @abstractmethod
    def layer_times(
        self, model: Any, inputs: ModelInputs, device: DeviceLike = None, passes: int = 10, backward: bool = True
    ) -> Sequence[LayerTime]:
        """Return the time of each layer's own work in each of several passes, forward and (if requested) backward."""


@runtime_checkable
class TimesOperators(Protocol):
    """Times single operators."""

    @abstractmethod
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
        profiler is in use.
        """


@runtime_checkable
class RunsInRanks(Protocol):
    """Profiles models that several processes run together."""

    @abstractmethod
    def ranks(self, model: Any) -> int:
        """Return how many processes run the model together, and so must call it equally often."""


@runtime_checkable
class WatchesLayers(Protocol):
    """Times layers while the caller's own code runs the model."""

    @abstractmethod
    def timing_layers(self, model: Any) -> LayerTimer:
        """Return a context manager that times the layers of the model in what the caller's own code runs."""


@runtime_checkable
class Watches(Protocol):
    """Measures single steps of a training loop that the caller's own code runs."""

    @abstractmethod
    def watching_steps(self, model: Any, optimizer: Any = None) -> StepRecorder:
        """Return what measures the steps.

        ``optimizer`` is what updates the model; None for every one that does while a step is measured.
        """


@runtime_checkable
class KeepsApart(Protocol):
    """Keeps what the caller has switched on in the framework away from what is computed."""

    @abstractmethod
    def apart(self) -> AbstractContextManager[None]:
        """Return a context that is entered around every computation of a profiler.

        Raises `TracingError` where nothing can be profiled now.
        """


@runtime_checkable
class TakesCosts(Protocol):
    """Takes the cost formulas that plugins offer.

    Where they are kept for all instances of its class, `Backend.shares_costs` is True.
    """

    @abstractmethod
    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        """Take cost formulas of plugins, by operator or layer class, for all models from now on; all of them or none.

        Called once for each plugin that offers any, when the backend is first used: with ``shares_costs`` the first of
        its name, otherwise each instance. Raises `RegistrationConflictError` for what has a formula already.
        """


@runtime_checkable
class LimitsMetrics(Protocol):
    """Says which metrics have no meaning for a model."""

    @abstractmethod
    def inapplicable(self, model: Any) -> Mapping[str, str]:
        """Return the names of status keys that do not apply to the model, each with the reason in words.

        They are unavailable then, with that reason, and their functions are not called for them. The weights of an
        exported program, say, are constants: "an exported program holds constants, and nothing of it is trained".
        """


@runtime_checkable
class NoticesTraining(Protocol):
    """Notices that a model was trained, so that values computed before are not taken for new."""

    @abstractmethod
    def fingerprint(self, model: Any, values: bool = True) -> object:
        """Return what changes when the model's parameters do.

        Without ``values``, what changes when there are others of them, or others are trained: counts need no more, and
        to look at every value takes time. Compared with ``==``; None where that cannot be told.
        """


class Capability(NamedTuple):
    """A protocol in words: what a backend offers by it, and what is said of a backend without it.

    ``offers`` is empty for what profiles work as well without, so that nobody misses it.
    """

    protocol: type
    offers: str
    without: str


#: Every protocol, in the order in which ``profilerkit doctor`` lists them.
CAPABILITIES = (
    Capability(Trains, "training counts and memory", "does not trace training steps"),
    Capability(TimesLayers, "times of single layers", "does not time single layers"),
    Capability(TimesOperators, "times of single operators", "does not time single operators"),
    Capability(
        WatchesLayers,
        "times of layers in the user's own code",
        "does not time layers while other code runs the model",
    ),
    Capability(Watches, "steps of training loops, watched", "does not watch training loops"),
    Capability(MeasuresMemory, "memory as the allocator has it", "does not measure memory"),
    Capability(ReadsWeights, "zeros among the weights", "does not look for zeros among the weights"),
    Capability(CountsNonzero, "work on nonzero weights alone", "does not count the work on nonzero weights alone"),
    Capability(ReadsOptimizers, "the framework's own optimizers", "reads no optimizers"),
    Capability(HoldsOptimizer, "the optimizer that a model is compiled with", "compiles no models with an optimizer"),
    Capability(OpensModels, "models in files", "opens no files"),
    Capability(TakesCosts, "cost formulas of plugins", "takes no cost formulas"),
    Capability(NoticesTraining, "notices that a model was trained", "does not notice that a model was trained"),
    Capability(RunsInRanks, "models that run in several processes", "profiles models of one process"),
    Capability(DeclaresInputs, "inputs that a model declares itself", "reads no inputs from models"),
    Capability(FitsInputs, "", "takes inputs in one layout"),
    Capability(LimitsMetrics, "", "takes every metric to apply"),
    Capability(KeepsApart, "", "does not keep the caller's modes apart"),
)

#: The methods of each protocol.
_METHODS: dict[type, frozenset[str]] = {
    each.protocol: vars(each.protocol)["__abstractmethods__"] for each in CAPABILITIES
}


def offered(backend: Backend, protocol: Callable[..., P]) -> P:
    """Return the backend as what offers a protocol: ``offered(backend, TimesLayers).layer_times(...)``.

    Raises `NotOfferedError` where it does not. The protocol is typed as what makes one, since type checkers refuse a
    class that cannot be instantiated as ``type[P]``.
    """
    if implements(backend, protocol):
        return backend
    requested: Any = protocol
    known = {capability.protocol: capability.without for capability in CAPABILITIES}
    raise NotOfferedError(f"the {backend.name} backend {known.get(requested, f'does not offer {requested.__name__}')}")


def implements(backend: object, protocol: Callable[..., P]) -> TypeGuard[P]:
    """Return whether a backend has every method of a protocol, as ``isinstance`` does.

    Every profile asks it several times, and ``isinstance`` collects the methods of the protocol anew each time.
    """
    requested: Any = protocol
    methods = _METHODS.get(requested)
    if methods is None:  # a protocol of another package
        return isinstance(backend, requested)
    return all(getattr(backend, name, None) is not None for name in methods)


def declared_by(backend: Backend, model: Any, batch_size: int | None) -> ModelInputs | None:
    """Return inputs as the model itself declares them; None where it declares none, or the backend cannot tell."""
    return backend.example_inputs(model, batch_size) if implements(backend, DeclaresInputs) else None


def fitted(backend: Backend, model: Any, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs in the layout that the model says it takes, where the backend knows of layouts."""
    return backend.fit_inputs(model, inputs) if implements(backend, FitsInputs) else inputs


def fingerprint_of(backend: Backend, model: Any, values: bool = True) -> object:
    """Return what changes when the model's parameters do; None where the backend cannot tell."""
    return backend.fingerprint(model, values) if implements(backend, NoticesTraining) else None


def inapplicable_to(backend: Backend, model: Any) -> Mapping[str, str]:
    """Return the names of status keys that do not apply to the model, with the reasons the backend gives."""
    return backend.inapplicable(model) if implements(backend, LimitsMetrics) else {}


def kept_apart(backend: Backend) -> AbstractContextManager[None]:
    """Return the context that every computation of a profiler is made in."""
    return backend.apart() if implements(backend, KeepsApart) else nullcontext()
