"""Help for testing metrics, functions and reports without a framework and without waiting.

`FakeClock` is a clock that only moves when it is told to; `FakeBackend` profiles a `FakeModel`, whose numbers are
given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from .backend import Backend, Device, DeviceLike
from .data import ModelInputs, TensorSpec
from .errors import DeviceNotAvailableError, ModelFailedError
from .trace import LayerCall, LayerRecord, MemoryTimeline, ModelTrace, OpRecord, TensorInfo, WeightRecord

__all__ = ["FakeBackend", "FakeClock", "FakeLayer", "FakeModel", "FakeTensor"]

T = TypeVar("T")


class FakeClock:
    """A clock in seconds that moves only when it is told to: pass it as ``Sampling(clock=clock)``.

    >>> clock = FakeClock()
    >>> call = clock.taking([0.1, 0.2])
    >>> call(); clock()
    0.1
    """

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def taking(self, seconds: Sequence[float]) -> Callable[[], None]:
        """Return a call that takes each of these times in turn, over and over."""
        calls = 0

        def call() -> None:
            nonlocal calls
            self.advance(seconds[calls % len(seconds)])
            calls += 1

        return call


@dataclass(frozen=True)
class FakeTensor:
    """A tensor that is nothing but its shape and dtype."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass
class FakeLayer:
    """A layer of a `FakeModel`: ``macs`` are for one sample, ``params`` are float32."""

    name: str
    params: int = 0
    macs: int = 0
    flops: int = 0
    activation_bytes: int = 0
    trainable: bool = True
    uncounted: str | None = None


@dataclass
class FakeModel:
    """A model whose numbers are given; ``calls`` counts how often it ran, ``on_call`` is done each time."""

    layers: list[FakeLayer] = field(default_factory=list)
    on_call: Callable[[], object] = lambda: None
    calls: int = 0

    def __call__(self, *args: Any, **kwargs: Any) -> FakeTensor:
        self.calls += 1
        self.on_call()
        return FakeTensor((1,))


class FakeBackend(Backend):
    """A backend for `FakeModel`; ``traced`` counts its traces and ``preserving`` how often a model was handed back."""

    name: ClassVar[str] = "fake"

    def __init__(self) -> None:
        self.traced = 0
        self.preserving = 0

    def accepts(self, model: Any) -> bool:
        """Say whether it is a `FakeModel`."""
        return isinstance(model, FakeModel)

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return "cpu"; there is no other device."""
        if device not in (None, Device.CPU, "cpu"):
            raise DeviceNotAvailableError(f"device {device!r} is not there; the fake backend has the cpu alone")
        return "cpu"

    def is_tensor(self, value: Any) -> bool:
        """Say whether it is a `FakeTensor`."""
        return isinstance(value, FakeTensor)

    def random_tensor(self, spec: TensorSpec, batch_size: int) -> FakeTensor:
        """Return a tensor of that shape."""
        return FakeTensor((batch_size, *spec.shape), spec.dtype)

    def with_batch_size(self, tensor: FakeTensor, batch_size: int) -> FakeTensor:
        """Return a tensor with another first dimension."""
        return FakeTensor((batch_size, *tensor.shape[1:]), tensor.dtype)

    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        """Return the given numbers, times the batch size."""
        self.traced += 1
        layers = [LayerRecord("", "FakeModel", 0)]
        layers += [_record(index, layer) for index, layer in enumerate(model.layers)]
        if inputs is None:
            return ModelTrace(tuple(layers))
        try:
            model.on_call()
        except Exception as error:
            return ModelTrace(
                tuple(layers), failure=ModelFailedError(f"the model raised {type(error).__name__}: {error}")
            )
        shapes = [leaf.shape for leaf in inputs.leaves() if isinstance(leaf, FakeTensor)]
        batch = shapes[0][0] if shapes and shapes[0] else 1
        operators = [
            OpRecord("fake::op", layer.name, 0, layer.macs * batch, layer.flops * batch, 0, 0, ())
            for layer in model.layers
        ]
        weights = sum(4 * layer.params for layer in model.layers)
        live = tuple(layer.activation_bytes * batch for layer in model.layers)
        uncounted = {layer.uncounted: 1 for layer in model.layers if layer.uncounted}
        return ModelTrace(tuple(layers), tuple(operators), MemoryTimeline(weights, 0, live), uncounted, "given numbers")

    @contextmanager
    def forward(
        self, model: FakeModel, inputs: ModelInputs, device: DeviceLike = None, mode: str | None = None
    ) -> Iterator[Callable[[], Any]]:
        """Yield a call of the model."""
        self.resolve_device(model, device)
        self.mode(mode)
        yield lambda: model(*inputs.args, **inputs.kwargs)

    def evaluate(self, model: FakeModel, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``."""
        self.resolve_device(model, device)
        return call()

    @contextmanager
    def preserved(self, model: FakeModel) -> Iterator[None]:
        """Count that the model was handed back."""
        try:
            yield
        finally:
            self.preserving += 1

    def fingerprint(self, model: FakeModel) -> object:
        """Return the layers as text."""
        return repr(model.layers)

    def environment(self) -> Mapping[str, str]:
        """Return that it is a fake."""
        return {"fake": "1.0"}


def _record(index: int, layer: FakeLayer) -> LayerRecord:
    weight = WeightRecord("weight", index, layer.params, 4 * layer.params, "float32", layer.trainable)
    call = LayerCall((TensorInfo((1,), "float32"),), (TensorInfo((1,), "float32"),))
    depth = layer.name.count(".") + 1
    return LayerRecord(layer.name, "FakeLayer", depth, (weight,) if layer.params else (), (), (call,))
