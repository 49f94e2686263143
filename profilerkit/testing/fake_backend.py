"""A backend in pure Python and numpy that profiles a `FakeModel` on `FakeTensor`s or numpy arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, TypeVar

from ..backend import AS_IT_IS, Backend, Device, DeviceLike, RunOptions
from ..errors import DeviceNotAvailableError, InputError, ModelFailedError
from ..input_shapes import TensorSpec
from ..inputs import ModelInputs
from ..times.run import Run
from ..trace.dtypes import element_bytes
from ..trace.records import LayerCall, LayerRecord, MemoryTimeline, ModelTrace, OpRecord, TensorInfo, WeightRecord
from .fakes import FakeLayer, FakeModel, FakeTensor, count_bytes, read_batch

__all__ = ["FakeBackend"]

T = TypeVar("T")


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
        calls = model.calls
        try:
            outputs = inputs.run(model)
        except MemoryError:
            raise
        except Exception as error:
            failure = ModelFailedError(f"the model raised {type(error).__name__}: {error}")
            return ModelTrace(_record_layers(model), failure=failure)
        finally:
            model.calls = calls  # a trace is no run
        layers = _record_layers(model, LayerCall(_describe_tensors(inputs), _describe_tensors(ModelInputs(outputs))))
        batch = read_batch(inputs)
        memory = MemoryTimeline(
            weight_bytes=sum(weight.bytes for layer in layers for weight in (*layer.parameters, *layer.buffers)),
            input_bytes=sum(map(count_bytes, _list_tensors(inputs))) if model.inputs else 0,
            live_bytes=tuple(layer.activation_bytes * batch for layer in model.layers),
        )
        operators = tuple(_record_operator(layer, batch) for layer in model.layers)
        uncounted = {layer.uncounted: 1 for layer in model.layers if layer.uncounted}
        return ModelTrace(layers, operators, memory, uncounted, "given numbers")

    def run(self, model: FakeModel, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> AbstractContextManager[Run]:
        """Return a context that yields a run of the model, in inference mode."""
        self.resolve_device(model, options.device)
        self.mode(options)  # raises for options that a fake has not
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


# The records of a trace -----------------------------------------------------------------------------------------------


def _list_tensors(values: ModelInputs) -> list[Any]:
    return [leaf for leaf in values.leaves() if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]


def _describe_tensors(values: ModelInputs) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(tuple(tensor.shape), str(tensor.dtype)) for tensor in _list_tensors(values))


def _record_operator(layer: FakeLayer, batch: int) -> OpRecord:
    return OpRecord(
        operator="fake::activation" if layer.type == "activation" else "fake::op",
        layer=layer.name,
        call=0,
        macs=layer.macs * batch,
        flops=layer.flops * batch,
        bytes_read=0,
        bytes_written=layer.activation_bytes * batch,
        outputs=(),
        missing=layer.uncounted or "",
    )


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
