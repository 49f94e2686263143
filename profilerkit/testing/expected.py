"""The expected results of a backend for a known network: the layer table and its totals, in closed form.

`profilerkit.testing.architectures` has the networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from ..backend import Backend
from ..costs import Cost
from ..input_shapes import TensorSpec
from ..inputs import ModelInputs
from ..trace.records import LayerTable

__all__ = ["Architecture", "DataFormat", "ExpectedLayer", "InputSpec", "LayerNumbers", "layer_numbers", "random_inputs"]

DataFormat: TypeAlias = Literal["channels_last", "channels_first"]
NOTHING = Cost(0, 0)


class LayerNumbers(NamedTuple):
    """A row of the layer table without names; counts include the layers inside, but ``own_...`` do not."""

    depth: int
    kind: str
    calls: int
    params: int
    macs: int
    flops: int
    own_macs: int
    own_flops: int


def random_inputs(
    backend: Backend, shape: Sequence[TensorSpec] | Mapping[str, TensorSpec], batch_size: int
) -> ModelInputs:
    """Return inputs of a batch size that a backend makes up, by position or by name."""
    if isinstance(shape, Mapping):
        return ModelInputs(**{name: backend.random_tensor(spec, batch_size) for name, spec in shape.items()})
    return ModelInputs(*(backend.random_tensor(spec, batch_size) for spec in shape))


def layer_numbers(table: LayerTable, kinds: Mapping[str, str]) -> tuple[LayerNumbers, ...]:
    """Return the rows of a trace's table in the form of `Architecture.layer_numbers`, for a comparison with it.

    Args:
        table: ``backend.trace(model, inputs).table``.
        kinds: The kind of each layer type of the framework, ``{"Dense": "linear"}``; the root is the "model". A type
            that is not listed keeps its name, so that the rows differ.
    """
    return tuple(
        LayerNumbers(
            depth=row["depth"],
            kind=kinds.get(row["type"], row["type"]) if row["depth"] else "model",
            **{name: row[name] for name in LayerNumbers._fields[2:]},
        )
        for row in table
    )


@dataclass(frozen=True)
class InputSpec:
    """The shape and dtype of one input in both layouts; they are equal if the input is no image."""

    channels_last: TensorSpec
    channels_first: TensorSpec

    @classmethod
    def of(cls, *shape: int, dtype: str = "float32") -> InputSpec:
        """Return the spec of an input without a layout, such as features, sequences or indices."""
        return cls(TensorSpec(shape, dtype), TensorSpec(shape, dtype))

    @classmethod
    def image(cls, height: int, width: int, channels: int) -> InputSpec:
        """Return the spec of an image, from its sizes in elements."""
        return cls(TensorSpec((height, width, channels)), TensorSpec((channels, height, width)))


@dataclass(frozen=True)
class ExpectedLayer:
    """A layer and the layers inside it.

    ``params`` is the number of its own trained elements, ``statistics`` the number of its other values (the mean and
    variance of a batch norm). ``cost`` is its own cost for one call with one sample, ``calls`` the number of its calls
    in one forward pass.
    """

    kind: str
    name: str
    params: int = 0
    cost: Cost = NOTHING
    inside: tuple[ExpectedLayer, ...] = ()
    calls: int = 1
    statistics: int = 0

    def share(self, times: int) -> ExpectedLayer:
        """Return the layer with ``times`` as many calls, and its parameters once."""
        return replace(self, calls=self.calls * times, inside=tuple(layer.share(times) for layer in self.inside))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, ExpectedLayer]]:
        """Yield this layer and the layers inside with their depths, outer layers first."""
        yield depth, self
        for layer in self.inside:
            yield from layer.walk(depth + 1)

    def numbers(self, depth: int, batch_size: int, with_statistics: bool = False) -> LayerNumbers:
        """Return the row of this layer; its statistics count as parameters only ``with_statistics``."""
        every = [layer for _, layer in self.walk()]
        return LayerNumbers(
            depth=depth,
            kind=self.kind,
            calls=self.calls,
            params=sum(layer.params + (layer.statistics if with_statistics else 0) for layer in every),
            macs=batch_size * sum(layer.calls * layer.cost.macs for layer in every),
            flops=batch_size * sum(layer.calls * layer.cost.flops for layer in every),
            own_macs=batch_size * self.calls * self.cost.macs,
            own_flops=batch_size * self.calls * self.cost.flops,
        )


@dataclass(frozen=True)
class Architecture:
    """A network in words and in numbers.

    Attributes:
        name: The name in `profilerkit.testing.ARCHITECTURES`.
        description: The network in words, complete enough to build it.
        inputs: The spec of each input: all by name, or all by index, in order.
        outputs: The shape of each output for one sample, by its key if the model returns a dict; a model that returns
            one tensor has output 0.
        root: The model as a layer, with its layers inside.
        largest_activation: A lower bound of the elements, for one sample, of the largest tensor between two layers.
    """

    name: str
    description: str
    inputs: Mapping[int | str, InputSpec]
    outputs: Mapping[int | str, tuple[int, ...]]
    root: ExpectedLayer
    largest_activation: int = 0

    @property
    def params(self) -> int:
        """The number of elements of the distinct parameters."""
        return self.root.numbers(0, 1).params

    @property
    def statistics(self) -> int:
        """The number of elements of the means and variances of batch norms, which are no parameters."""
        return sum(layer.statistics for _, layer in self.root.walk())

    def macs(self, batch_size: int = 1) -> int:
        """Return the multiply-accumulates of one forward pass of a batch."""
        return self.root.numbers(0, batch_size).macs

    def flops(self, batch_size: int = 1) -> int:
        """Return the floating-point operations of one forward pass of a batch."""
        return self.root.numbers(0, batch_size).flops

    @property
    def layers(self) -> tuple[tuple[int, str], ...]:
        """The depth and kind of each layer in the order of the model, the root included."""
        return tuple((depth, layer.kind) for depth, layer in self.root.walk())

    def layer_numbers(self, batch_size: int = 1, *, with_statistics: bool = False) -> tuple[LayerNumbers, ...]:
        """Return the rows of the layer table for a batch.

        ``with_statistics`` is for frameworks in which the statistics of a batch norm are parameters that are not
        trained, such as Keras.
        """
        return tuple(layer.numbers(depth, batch_size, with_statistics) for depth, layer in self.root.walk())

    def input_shape(self, data_format: DataFormat) -> list[TensorSpec] | dict[str, TensorSpec]:
        """Return the shapes of the inputs for one sample, as ``input_shape`` of `profile` takes them."""
        specs = {key: getattr(spec, data_format) for key, spec in self.inputs.items()}
        named = {key: spec for key, spec in specs.items() if isinstance(key, str)}
        return named or list(specs.values())

    def model_inputs(self, backend: Backend, data_format: DataFormat, batch_size: int = 1) -> ModelInputs:
        """Return random inputs from a backend, for a batch in one of the layouts."""
        return random_inputs(backend, self.input_shape(data_format), batch_size)
