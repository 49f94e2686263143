"""The capabilities that a backend may have beyond `Backend`: a protocol for each, and functions that call them.

A backend has a capability if it has the protocol's methods; it need not name the protocol. If it names the protocol as
a base class, type checkers compare the signatures, and a missing method is an error. Methods may raise
`NotOfferedError` for a model or device that they do not support.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from .backend import Backend, DeviceLike
from .backend_kit.optimizers import OptimizerBytes
from .errors import NotOfferedError
from .inputs import ModelInputs
from .times.layer_times import LayerTime, LayerTimer
from .times.operator_times import OperatorTimes
from .times.steps import StepRecorder
from .trace.records import ModelTrace, WeightRecord

if TYPE_CHECKING:
    from .devices.info import DeviceInfo
    from .times.ceiling_work import CeilingWork

__all__ = [
    "CAPABILITIES",
    "Capability",
    "CastsModels",
    "CountsNonzero",
    "DeclaresInputs",
    "FitsInputs",
    "HoldsOptimizer",
    "KeepsApart",
    "LimitsMetrics",
    "MeasuresCeilings",
    "MeasuresMemory",
    "NamesDevices",
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
    "abilities",
    "find_capability",
    "fit_inputs",
    "list_inapplicable",
    "read_declared_inputs",
    "require_capability",
    "suspend_modes",
    "take_fingerprint",
]

P = TypeVar("P")


@runtime_checkable
class OpensModels(Protocol):
    """Reads models from files, or unwraps them."""

    @abstractmethod
    def open_model(self, model: Any) -> Any:
        """Return the model in the file at a path, which all other methods take; any other object unchanged."""


@runtime_checkable
class CastsModels(Protocol):
    """Converts the weights of a model to another dtype, for the plans of audits."""

    @abstractmethod
    def cast(self, model: Any, dtype: str) -> Any:
        """Return the model with its floating-point weights in a dtype, or an input tensor of floats in this dtype.

        Raises `InputError` for an unknown name.
        """


@runtime_checkable
class DeclaresInputs(Protocol):
    """Makes inputs from the model's own declaration; they are used if the user gives none."""

    @abstractmethod
    def example_inputs(self, model: Any, batch_size: int | None = None) -> ModelInputs | None:
        """Return inputs of a batch size; None if the model declares none.

        `profilerkit.declared_inputs.make_inputs` makes them from a declaration. It raises `InputError` if a size is
        open, and for a batch size that differs from the model's own.
        """


@runtime_checkable
class FitsInputs(Protocol):
    """Converts inputs to the layout that a model declares."""

    @abstractmethod
    def fit_inputs(self, model: Any, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs in the model's layout; unchanged if the model declares none."""


@runtime_checkable
class Trains(Protocol):
    """Traces training steps."""

    @abstractmethod
    def trace_training(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        """Trace one training step: the forward pass in training mode, and the gradients of the trainable weights.

        The gradients are those of the sum of the model's outputs.
        """


@runtime_checkable
class HoldsOptimizer(Protocol):
    """Knows the optimizer that a model was compiled with."""

    @abstractmethod
    def optimizer_state(self, model: Any) -> int | str:
        """Return the bytes that the model's optimizer stores for its weights, or the reason why that is not known.

        0 for a model without an optimizer. The state is counted and never created.
        """


@runtime_checkable
class ReadsOptimizers(Protocol):
    """Reads the framework's own optimizers."""

    @abstractmethod
    def optimizer_bytes(self, optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
        """Return the bytes that an optimizer stores for these weights and allocates to update them, or why not.

        ``optimizer`` is an optimizer of the framework: an object, which may have run already, or a class.
        """


@runtime_checkable
class ReadsWeights(Protocol):
    """Reads the values of the weights."""

    @abstractmethod
    def zero_weights(self, model: Any) -> tuple[int, int]:
        """Return how many elements of the model's floating-point parameters are zero, and how many there are in all.

        Raises `WithoutValuesError` if the parameters have no values.
        """


@runtime_checkable
class CountsNonzero(Protocol):
    """Counts the operations on nonzero weights only."""

    @abstractmethod
    def trace_nonzero(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        """Trace one forward pass, leaving out the multiply-accumulates whose weight is zero.

        The model may be run. Raises `WithoutValuesError` if its weights have no values.
        """


@runtime_checkable
class MeasuresMemory(Protocol):
    """Measures memory with the device's allocator."""

    @abstractmethod
    def measure_memory(self, model: Any, inputs: ModelInputs, device: DeviceLike = None) -> int:
        """Return the peak of the bytes that the device's allocator had allocated during one forward pass.

        It includes inputs, activations and all other memory that the framework allocates, but not the weights. The
        result may be a `profilerkit.trace.observed_runs.MeasuredPeak`, with the observed pass. Raises `NotOfferedError`
        if the device does not report its memory, `WithoutValuesError` for a model without values, `ProfilerBusyError`
        if it needs the framework's own profiler and that is running already.
        """


@runtime_checkable
class TimesLayers(Protocol):
    """Times single layers."""

    @abstractmethod
    def layer_times(
        self, model: Any, inputs: ModelInputs, device: DeviceLike = None, passes: int = 10, backward: bool = True
    ) -> Sequence[LayerTime]:
        """Return the time of each layer's own work in each of several passes, forward and (if requested) backward.

        The result may be a `profilerkit.trace.observed_runs.TimedLayers`, with the observed passes.
        """


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
        """Return the time of each operator in each layer, from the framework's own profiler.

        With ``export`` the profiler's trace of one pass is written to a file. Raises `ProfilerBusyError` if the
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
    def time_layers(self, model: Any) -> LayerTimer:
        """Return a context manager that times the layers of the model while the caller's own code runs it."""


@runtime_checkable
class Watches(Protocol):
    """Measures single steps of a training loop that the caller's own code runs."""

    @abstractmethod
    def record_steps(self, model: Any, optimizer: Any = None) -> StepRecorder:
        """Return the recorder that measures the steps.

        ``optimizer`` is the optimizer that updates the model; None for any optimizer that does during a measured step.
        """


@runtime_checkable
class KeepsApart(Protocol):
    """Suspends modes of the framework that the caller has switched on while a profiler computes."""

    @abstractmethod
    def apart(self) -> AbstractContextManager[None]:
        """Return a context that is entered around every computation of a profiler.

        Raises `TracingError` if nothing can be profiled now.
        """


@runtime_checkable
class TakesCosts(Protocol):
    """Takes the cost formulas that plugins offer.

    If all instances of the backend's class share the formulas, `Backend.shares_costs` is True.
    """

    @abstractmethod
    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        """Add cost formulas of a plugin, by operator or layer class, for all models; if one is refused, add none.

        It is called once for each plugin that offers formulas, at the first use of the backend: of any instance with
        ``shares_costs``, otherwise of each instance. Raises `RegistrationConflictError` for an operator or class that
        has a formula already.
        """


@runtime_checkable
class LimitsMetrics(Protocol):
    """Says which metrics have no meaning for a model."""

    @abstractmethod
    def inapplicable(self, model: Any) -> Mapping[str, str]:
        """Return the names of status keys that do not apply to the model, each with the reason in words.

        These metrics are unavailable, with that reason, and their functions are not called. For example, the weights of
        an exported program are constants: "an exported program holds constants, and nothing of it is trained".
        """


@runtime_checkable
class NoticesTraining(Protocol):
    """Detects that a model was trained or changed, so that values that were computed before are computed again."""

    @abstractmethod
    def fingerprint(self, model: Any, values: bool = True) -> object:
        """Return an object that changes when the model does; it is compared with ``==``.

        It covers the parameters (added, removed, replaced, written to, frozen), and the layers and attributes that can
        be changed in place. Without ``values`` it need not change with the values of parameters: that is enough for
        counts, and reading every value takes time. None if changes cannot be detected.
        """


@runtime_checkable
class NamesDevices(Protocol):
    """Names the devices of this machine."""

    @abstractmethod
    def device_info(self, device: DeviceLike = None) -> DeviceInfo:
        """Return the known figures of a device of this machine; None stands for the framework's default device.

        `profilerkit.devices.describe_device` finds a device by the name that its driver reports. Raises
        `DeviceNotAvailableError` for a device that this machine does not have.
        """


@runtime_checkable
class MeasuresCeilings(Protocol):
    """Provides the work by which the ceilings of a roofline are measured on the CPU."""

    @abstractmethod
    def ceiling_work(self, num_threads: int | None) -> AbstractContextManager[Iterable[CeilingWork]]:
        """Return a context that yields the work, and runs it on so many threads; None leaves the threads as they are.

        The work is the fastest of the framework in float32: its best products and convolutions, in its best layouts,
        and memory traffic, in caches and outside them. All of it together takes less than a second.
        """


class Capability(NamedTuple):
    """The description of a protocol: the feature that it offers, and the message for a backend without it.

    ``offers`` is empty for a protocol whose absence changes no profile: it is not listed as missing.
    """

    protocol: type
    offers: str
    without: str


#: The protocols of the core, in the order in which ``profilerkit doctor`` lists them.
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
    Capability(CastsModels, "models in another dtype", "does not convert a model to another dtype"),
    Capability(TakesCosts, "cost formulas of plugins", "takes no cost formulas"),
    Capability(NoticesTraining, "notices that a model was trained", "does not notice that a model was trained"),
    Capability(RunsInRanks, "models that run in several processes", "profiles models of one process"),
    Capability(DeclaresInputs, "inputs that a model declares itself", "reads no inputs from models"),
    Capability(MeasuresCeilings, "ceilings of a roofline", "provides nothing to measure ceilings with"),
    Capability(NamesDevices, "devices of this machine, by name", "does not name the devices of this machine"),
    Capability(FitsInputs, "", "takes inputs in one layout"),
    Capability(LimitsMetrics, "", "takes every metric to apply"),
    Capability(KeepsApart, "", "does not keep the caller's modes apart"),
)

#: The methods of each protocol.
_METHODS: dict[type, frozenset[str]] = {
    capability.protocol: vars(capability.protocol)["__abstractmethods__"] for capability in CAPABILITIES
}


def require_capability(
    backend: Backend, protocol: Callable[..., P], capabilities: Sequence[Capability] = CAPABILITIES
) -> P:
    """Return the backend, typed as the protocol: ``require_capability(backend, TimesLayers).layer_times(...)``.

    If the backend does not implement the protocol, return the first extension that does; plugins add extensions to a
    backend (``profilerkit_capabilities``). Raises `NotOfferedError` if there is none, in the words of ``capabilities``.
    The parameter is typed as a callable, because type checkers refuse a class that cannot be instantiated as
    ``type[P]``.
    """
    provider = find_capability(backend, protocol)
    if provider is not None:
        return provider
    requested: Any = protocol
    messages = {capability.protocol: capability.without for capability in capabilities}
    message = messages.get(requested, f"does not offer {requested.__name__}")
    raise NotOfferedError(f"the {backend.name} backend {message}")


def abilities(backend: Backend, capabilities: Sequence[Capability] = CAPABILITIES) -> dict[str, bool]:
    """Return for each listed capability, by its description, whether a backend or a plugin for it offers it."""
    return {
        capability.offers: find_capability(backend, capability.protocol) is not None
        for capability in capabilities
        if capability.offers
    }


def find_capability(backend: Backend, protocol: Callable[..., P]) -> P | None:
    """Return the backend, or the first of its extensions, that has every method of a protocol; None if none has.

    Every profile calls this several times, and ``isinstance`` would collect the protocol's methods each time.
    """
    requested: Any = protocol
    methods = _METHODS.get(requested)
    for part in (backend, *backend.extensions):
        if methods is None:  # a protocol of another package
            has_all = isinstance(part, requested)
        else:
            has_all = all(getattr(part, name, None) is not None for name in methods)
        if has_all:
            return cast("P", part)
    return None


def read_declared_inputs(backend: Backend, model: Any, batch_size: int | None) -> ModelInputs | None:
    """Return inputs as the model declares them; None if it declares none, or the backend cannot read declarations."""
    provider = find_capability(backend, DeclaresInputs)
    return None if provider is None else provider.example_inputs(model, batch_size)


def fit_inputs(backend: Backend, model: Any, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs in the layout that the model declares; unchanged if the backend does not support layouts."""
    provider = find_capability(backend, FitsInputs)
    if provider is None:
        return inputs
    fitted = provider.fit_inputs(model, inputs)
    fitted.note, fitted.are_random = inputs.note, inputs.are_random
    return fitted


def take_fingerprint(backend: Backend, model: Any, values: bool = True) -> object:
    """Return an object that changes when the model's parameters change; None if the backend cannot detect changes."""
    provider = find_capability(backend, NoticesTraining)
    return None if provider is None else provider.fingerprint(model, values)


def list_inapplicable(backend: Backend, model: Any) -> Mapping[str, str]:
    """Return the names of status keys that do not apply to the model, with the backend's reasons."""
    provider = find_capability(backend, LimitsMetrics)
    return {} if provider is None else provider.inapplicable(model)


def suspend_modes(backend: Backend) -> AbstractContextManager[None]:
    """Return the context for every computation of a profiler."""
    provider = find_capability(backend, KeepsApart)
    return nullcontext() if provider is None else provider.apart()
