"""A clock that moves only when it is advanced, and models with set numbers, for tests that need no framework.

``FakeModel.of(ARCHITECTURES["lenet5"])`` is a model with the numbers of a known network. `FakeBackend` profiles models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..inputs import ModelInputs
from ..trace.dtypes import element_bytes
from .expected import Architecture, DataFormat

__all__ = ["FakeClock", "FakeLayer", "FakeModel", "FakeTensor", "count_bytes", "read_batch"]

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
        params: The number of its parameters.
        macs: The multiply-accumulates of one sample in all its calls.
        flops: The floating-point operations of one sample in all its calls.
        activation_bytes: The bytes that are alive after it, for one sample.
        trainable: Whether training changes its parameters; None if unknown.
        uncounted: The name of an operator in it that is not counted; None if all are counted.
        type: The name of its class.
        calls: How often it is called in one pass.
        statistics: The number of elements of its buffers, which are float32.
        value: Stands for the values of its parameters: with another value, `FakeBackend.fingerprint` differs.
        dtype: The dtype of its parameters.
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
    If they are empty, any inputs are accepted, their bytes do not count, and one tensor of shape (1,) is returned.
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
        layers = list(_list_layers(architecture))
        # The peak is in the first layer, and the outputs are alive after the last one; both are float32.
        layers[0].activation_bytes = sum(map(count_bytes, specs.values())) + 4 * architecture.largest_activation
        layers[-1].activation_bytes = sum(4 * math.prod(shape) for shape in architecture.outputs.values())
        shapes = {key: spec.shape for key, spec in specs.items()}
        return cls(layers, inputs=shapes, outputs=dict(architecture.outputs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs for a batch: one tensor, a tuple of tensors, or a dict if some have names."""
        self.calls += 1
        self.on_call()
        if not self.outputs:
            return FakeTensor((1,))
        shapes = {
            key: tuple(value.shape[1:]) for key, value in (*enumerate(args), *kwargs.items()) if _has_batch(value)
        }
        if shapes != dict(self.inputs):
            raise ValueError(f"the inputs have the shapes {shapes}, the model takes {dict(self.inputs)}")
        batch = read_batch(ModelInputs(*args, **kwargs))
        outputs = {key: FakeTensor((batch, *shape)) for key, shape in self.outputs.items()}
        if any(isinstance(key, str) for key in outputs):
            return outputs
        return outputs[0] if len(outputs) == 1 else tuple(outputs[index] for index in sorted(outputs))


def _has_batch(value: Any) -> bool:
    """Return whether a value is a tensor with dimensions, the first of which is the batch; a number is none."""
    return len(getattr(value, "shape", ())) > 0


def read_batch(inputs: ModelInputs) -> int:
    """Return the first dimension of the first tensor; 1 if there is none."""
    return next((int(leaf.shape[0]) for leaf in inputs.leaves() if _has_batch(leaf)), 1)


def count_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor, or of a tensor's spec, by its shape and dtype."""
    return int(math.prod(tensor.shape) * element_bytes(str(tensor.dtype)))


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
