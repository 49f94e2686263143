"""The numpy backend: `Backend`, which says what each method is for, spelt out for `Sequential`."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import numpy as np

from profilerkit import Backend, Device, DeviceNotAvailableError, InputError, ModelInputs, ModelTrace, Run, TensorSpec
from profilerkit.backend import AS_IT_IS, DeviceLike, RunOptions
from profilerkit.errors import model_failed

from .layers import Array, Sequential
from .tracing import layer_records, trace_model

T = TypeVar("T")


class NumpyBackend(Backend):
    """Profiles the networks of `profilerkit_numpy.layers`."""

    name: ClassVar[str] = "numpy"

    def accepts(self, model: Any) -> bool:
        return isinstance(model, Sequential) and type(model).__call__ is Sequential.__call__

    def resolve_device(self, model: Sequential, device: DeviceLike) -> str:
        if device not in (None, Device.CPU, "cpu"):
            raise DeviceNotAvailableError(f"device {device!r} is not there; numpy runs on 'cpu' alone")
        return "cpu"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def as_tensor(self, value: Any) -> Any:
        return np.asarray(value) if hasattr(value, "__array__") else value

    def random_tensor(self, spec: TensorSpec, batch_size: int) -> Array:
        try:
            zeros = np.zeros((batch_size, *spec.shape), spec.dtype)
        except TypeError as error:
            raise InputError(f"numpy has no dtype {spec.dtype!r}; use a name such as 'float32' or 'int64'") from error
        return (
            np.random.default_rng(0).normal(size=zeros.shape).astype(zeros.dtype) if zeros.dtype.kind == "f" else zeros
        )

    def with_batch_size(self, tensor: Array, batch_size: int) -> Array:
        if not len(tensor):
            raise InputError("an input has an empty batch, which cannot be repeated to a batch size")
        return np.resize(tensor, (batch_size, *tensor.shape[1:]))

    def trace(self, model: Sequential, inputs: ModelInputs | None) -> ModelTrace:
        if inputs is None:
            return ModelTrace(layer_records(model, {}))
        try:
            with self.preserve(model):
                return trace_model(model, *inputs.own_call().args, **inputs.kwargs)
        except Exception as error:  # whatever a layer raises
            return ModelTrace(layer_records(model, {}), failure=model_failed(error, inputs))

    @contextmanager
    def run(self, model: Sequential, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Iterator[Run]:
        self.resolve_device(model, options.device)
        self.mode(options)
        with self.preserve(model):
            model.training = False
            yield Run(lambda: inputs.run(model))

    def evaluate(self, model: Sequential, call: Callable[[], T], device: DeviceLike = None) -> T:
        self.resolve_device(model, device)
        with self.preserve(model):
            model.training = False
            return call()

    @contextmanager
    def preserve(self, model: Sequential) -> Iterator[None]:
        states, weights = (random.getstate(), np.random.get_state()), [layer.weights for layer in model.layers]
        contents = [(attributes, dict(attributes)) for attributes in (vars(model), *map(vars, model.layers), *weights)]
        values = [(array, array.copy()) for attributes in weights for array in attributes.values()]
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            for attributes, content in contents:
                attributes.clear()
                attributes.update(content)
            for array, value in values:
                array[...] = value

    def fingerprint(self, model: Sequential, values: bool = True) -> object:
        return [(layer.trainable, [zlib.crc32(w.tobytes()) for w in layer.weights.values()]) for layer in model.layers]

    def environment(self) -> Mapping[str, str]:
        return {"numpy": np.__version__}
