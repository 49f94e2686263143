"""A clock that moves only when it is advanced, and a backend in pure Python and numpy for models with set numbers.

`FakeBackend` profiles a `FakeModel` on `FakeTensor`s or numpy arrays. ``FakeModel.of(ARCHITECTURES["lenet5"])`` is a
model with the numbers of a known network.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar

from ..backend import AS_IT_IS, Backend, Device, DeviceLike, RunOptions
from ..errors import DeviceNotAvailableError, InputError, ModelFailedError
from ..input_shapes import TensorSpec
from ..inputs import ModelInputs
from ..times.run import Run
from ..trace.dtypes import element_bytes
from ..trace.records import LayerCall, LayerRecord, MemoryTimeline, ModelTrace, OpRecord, TensorInfo, WeightRecord
from .expected import Architecture, DataFormat

__all__ = ["FakeBackend", "FakeClock", "FakeLayer", "FakeModel", "FakeTensor"]

T = TypeVar("T")
Shapes: TypeAlias = Mapping["int | str", tuple[int, ...]]


class FakeClock:
    """A clock in seconds that moves only when it is advanced: pass it as ``Sampling(clock=clock)``.

    >>> clock = FakeClock()
    >>> call = clock.make_call([0.1, 0.2])
    >>> call(); clock()
    0.1
    """

    def __init__(self) -> None:
        self.now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Advance the clock by a number of seconds."""
        self.now += seconds

    def make_call(self, seconds: Sequence[float]) -> Callable[[], None]:
        """Return a function whose calls advance the clock by each of these times in turn, repeatedly."""
        calls = 0

        def call() -> None:
            nonlocal calls
            self.advance(seconds[calls % len(seconds)])
            calls += 1

        return call


@dataclass(frozen=True)
class FakeTensor:
    """A tensor with only a shape and a dtype; as a numpy array, floats are normally distributed and others zero.

    >>> import numpy as np
    >>> np.asarray(FakeTensor((2, 3), "int64")).tolist()
    [[0, 0, 0], [0, 0, 0]]
    """

    shape: tuple[int, ...]
    dtype: str = "float32"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np  # imported here, since fakes work without numpy

        if self.dtype.startswith("float"):
            values = np.random.default_rng(0).standard_normal(self.shape)
        else:
            values = np.zeros(self.shape)
        return values.astype(dtype or self.dtype)


@dataclass
class FakeLayer:
    """A layer of a `FakeModel`.

    Attributes:
        name: Its path: "block.conv" is in "block", and "" is the model itself.
        params: The number of its parameters, which have its ``dtype``.
        macs: The multiply-accumulates of one sample in all its calls; ``flops`` are counted alike.
        activation_bytes: The bytes that are alive after it, for one sample.
        uncounted: The name of an operator in it that is not counted; None if all are counted.
        statistics: The number of elements of its buffers.
        value: Stands for the values of its parameters: with another value, `FakeBackend.fingerprint` differs.
    """

    name: str
    params: int = 0
    macs: int = 0
    flops: int = 0
    activation_bytes: int = 0
    trainable: bool | None = True
    uncounted: str | None = None
    type: str = "FakeLayer"
    calls: int = 1
    statistics: int = 0
    value: float = 0.0
    dtype: str = "float32"


@dataclass
class FakeModel:
    """A model whose numbers are set; ``calls`` counts its runs, and ``on_call`` is called in each of them.

    ``inputs`` and ``outputs`` are the shapes of one sample, by index or name; inputs of other shapes raise ValueError.
    If they are empty, any inputs are accepted, and one tensor of shape (1,) is returned.
    """

    layers: list[FakeLayer] = field(default_factory=list)
    on_call: Callable[[], object] = lambda: None
    calls: int = 0
    inputs: Shapes = field(default_factory=dict)
    outputs: Shapes = field(default_factory=dict)
    training: bool = True

    @classmethod
    def of(cls, architecture: Architecture, data_format: DataFormat = "channels_last") -> FakeModel:
        """Return a model with the layers and numbers of a network; a layer's type is its kind.

        >>> from profilerkit.testing import ARCHITECTURES
        >>> [layer.macs for layer in FakeModel.of(ARCHITECTURES["mlp"]).layers if layer.macs]
        [640, 512, 160]
        """
        specs = {key: getattr(spec, data_format) for key, spec in architecture.inputs.items()}
        shapes = {key: spec.shape for key, spec in specs.items()}
        layers = list(_list_layers(architecture))
        input_bytes = sum(map(_count_bytes, specs.values()))
        layers[0].activation_bytes = input_bytes + 4 * architecture.largest_activation  # the peak, in float32
        layers[-1].activation_bytes = sum(4 * math.prod(shape) for shape in architecture.outputs.values())
        return cls(layers, inputs=shapes, outputs=dict(architecture.outputs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.run(ModelInputs(*args, **kwargs))

    def run(self, inputs: ModelInputs) -> Any:
        """Return the outputs for a batch, without counting the call."""
        self.on_call()
        if not self.outputs:
            return FakeTensor((1,))
        tensors = [*enumerate(inputs.args), *inputs.kwargs.items()]
        shapes = {key: tuple(tensor.shape[1:]) for key, tensor in tensors}
        if shapes != dict(self.inputs):
            raise ValueError(f"the inputs have the shapes {shapes}, the model takes {dict(self.inputs)}")
        batch = read_batch(inputs)
        outputs = {key: FakeTensor((batch, *shape)) for key, shape in self.outputs.items()}
        return outputs[0] if 0 in outputs else outputs


def read_batch(inputs: ModelInputs) -> int:
    """Return the first dimension of the first tensor; 1 if there is none."""
    shapes = [leaf.shape for leaf in inputs.leaves() if hasattr(leaf, "shape")]
    return int(shapes[0][0]) if shapes and shapes[0] else 1


def _list_layers(architecture: Architecture) -> Iterator[FakeLayer]:
    """Yield the layers of a network with their paths, the model itself first."""
    names: list[str] = []  # from the outermost layer down to the current one; the model itself has none
    for depth, layer in architecture.root.walk():
        if depth:
            names[depth - 1 :] = [layer.name]
        yield FakeLayer(
            ".".join(names),
            layer.params,
            layer.calls * layer.cost.macs,
            layer.calls * layer.cost.flops,
            type=layer.kind,
            calls=layer.calls,
            statistics=layer.statistics,
        )


def _count_bytes(tensor: Any) -> int:
    return int(math.prod(tensor.shape) * element_bytes(str(tensor.dtype)))


class FakeBackend(Backend):
    """A backend for `FakeModel`; ``traced`` counts its traces, ``preserving`` how often it restored a model."""

    name: ClassVar[str] = "fake"

    def __init__(self) -> None:
        self.traced: int = 0
        self.preserving: int = 0

    def accepts(self, model: Any) -> bool:
        """Return whether it is a `FakeModel`."""
        return isinstance(model, FakeModel)

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return "cpu"; there is no other device."""
        if device not in (None, Device.CPU, "cpu"):
            raise DeviceNotAvailableError(f"device {device!r} is not there; the fake backend has the cpu alone")
        return "cpu"

    def is_tensor(self, value: Any) -> bool:
        """Return whether it is a `FakeTensor` or a numpy array."""
        numpy = sys.modules.get("numpy")
        return isinstance(value, FakeTensor) or (numpy is not None and isinstance(value, numpy.ndarray))

    def random_tensor(self, spec: TensorSpec, batch_size: int) -> FakeTensor:
        """Return a tensor of that shape."""
        return FakeTensor((batch_size, *spec.shape), spec.dtype)

    def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
        """Return a tensor with another first dimension; the samples of an array are repeated."""
        length = tensor.shape[0]
        if length == 0:
            raise InputError("an input has an empty batch, which cannot be repeated to a batch size")
        if isinstance(tensor, FakeTensor):
            return FakeTensor((batch_size, *tensor.shape[1:]), tensor.dtype)
        return tensor[[index % length for index in range(batch_size)]]

    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        """Return the given numbers, times the batch size."""
        self.traced += 1
        if inputs is None:
            return ModelTrace(_record_layers(model))
        try:
            outputs = model.run(inputs) if inputs.function is None else inputs.run(model)
        except MemoryError:
            raise
        except Exception as error:
            failure = ModelFailedError(f"the model raised {type(error).__name__}: {error}")
            return ModelTrace(_record_layers(model), failure=failure)
        batch = read_batch(inputs)
        operators = tuple(_record_operator(layer, batch) for layer in model.layers)
        weights = sum(4 * (layer.params + layer.statistics) for layer in model.layers)
        input_bytes = sum(map(_count_bytes, inputs.leaves())) if model.inputs else 0
        live = tuple(layer.activation_bytes * batch for layer in model.layers)
        uncounted = {layer.uncounted: 1 for layer in model.layers if layer.uncounted}
        called = LayerCall(_describe_tensors(inputs), _describe_tensors(ModelInputs.of(outputs)))
        memory = MemoryTimeline(weights, input_bytes, live)
        return ModelTrace(_record_layers(model, called), operators, memory, uncounted, "given numbers")

    def run(self, model: FakeModel, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> AbstractContextManager[Run]:
        """Return a context that yields a run of the model, in inference mode."""
        self.resolve_device(model, options.device)
        self.mode(options)
        return _run(model, inputs)

    def evaluate(self, model: FakeModel, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``."""
        self.resolve_device(model, device)
        with _switch_to_inference(model):
            return call()

    @contextmanager
    def preserve(self, model: FakeModel) -> Iterator[None]:
        """Count that a model was restored."""
        try:
            yield
        finally:
            self.preserving += 1

    def fingerprint(self, model: FakeModel, values: bool = True) -> object:
        """Return the layers as text."""
        return repr(model.layers)

    def environment(self) -> Mapping[str, str]:
        """Return one fact: that the backend is a fake."""
        return {"fake": "1.0"}


@contextmanager
def _run(model: FakeModel, inputs: ModelInputs) -> Iterator[Run]:
    with _switch_to_inference(model):
        yield Run(lambda: inputs.run(model))


@contextmanager
def _switch_to_inference(model: FakeModel) -> Iterator[None]:
    training, model.training = model.training, False
    try:
        yield
    finally:
        model.training = training


def _describe_tensors(tensors: ModelInputs) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(tuple(leaf.shape), str(leaf.dtype)) for leaf in tensors.leaves() if hasattr(leaf, "dtype"))


def _record_operator(layer: FakeLayer, batch: int) -> OpRecord:
    written = layer.activation_bytes * batch
    name = "fake::activation" if layer.type == "activation" else "fake::op"
    macs, flops = layer.macs * batch, layer.flops * batch
    return OpRecord(name, layer.name, 0, macs, flops, 0, written, (), missing=layer.uncounted or "")


def _record_layers(model: FakeModel, called: LayerCall | None = None) -> tuple[LayerRecord, ...]:
    """Return the layers, the model itself first; with calls if the model ran, which was ``called`` so."""
    by_name = {layer.name: layer for layer in model.layers}
    model_layer = by_name.get("", FakeLayer("", type="FakeModel"))
    one_number = (TensorInfo((1,), "float32"),)
    call_inside = LayerCall(one_number, one_number)
    records = [_record_layer(0, model_layer, (called,) * model_layer.calls if called and model.outputs else ())]
    for layer in model.layers:
        if layer.name:
            records.append(_record_layer(len(records), layer, (call_inside,) * layer.calls if called else ()))
    return tuple(records)


def _record_layer(index: int, layer: FakeLayer, calls: tuple[LayerCall, ...]) -> LayerRecord:
    """Return the record of a layer; its index makes the ids of its weights."""
    size = int(layer.params * element_bytes(layer.dtype))
    weight = WeightRecord("weight", 2 * index, layer.params, size, layer.dtype, layer.trainable)
    statistics = WeightRecord("statistics", 2 * index + 1, layer.statistics, 4 * layer.statistics, "float32", False)
    depth = layer.name.count(".") + 1 if layer.name else 0
    return LayerRecord(
        layer.name,
        layer.type,
        depth,
        parameters=(weight,) if layer.params else (),
        buffers=(statistics,) if layer.statistics else (),
        calls=calls,
    )
