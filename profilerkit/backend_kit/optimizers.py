"""The bytes that an optimizer stores for the weights that it trains, by its name, for any framework.

The state has the dtype of the weight, as in both frameworks, unless an entry states otherwise. `OPTIMIZERS` is the only
list of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import InputError, by_likeness
from ..trace.records import WeightRecord

__all__ = ["OPTIMIZERS", "OptimizerBytes", "OptimizerState", "optimizer_bytes"]


class OptimizerBytes(NamedTuple):
    """The bytes that an optimizer stores between steps, and the bytes that it allocates while it updates the weights.

    ``missing`` names, in words, the bytes that are unknown and left out; it is empty if there are none.
    """

    state: int
    update: int = 0
    missing: str = ""


@dataclass(frozen=True)
class OptimizerState:
    """The state of an optimizer: a description, its source, and the bytes for one weight.

    Attributes:
        keeps: The stored tensors, in words.
        source: Where they are defined.
        bytes_for: Returns the bytes for one weight.
        copies: How many tensors as large as a weight exist at once while it is updated.
        left_over: How many of them still exist while the next weight is updated.
        of_shapes: Whether the bytes depend on the shape of the weight, which not every backend reports.
    """

    keeps: str
    source: str
    bytes_for: Callable[[WeightRecord], int]
    copies: int = 0
    left_over: int = 0
    of_shapes: bool = False

    def count_update_bytes(self, weights: Iterable[WeightRecord]) -> int:
        """Return the most bytes that exist while weights are updated one after another, beside the stored bytes."""
        most = remaining = 0
        for weight in weights:
            most = max(most, self.copies * weight.bytes + remaining)
            remaining = self.left_over * weight.bytes
        return most


def optimizer_bytes(name: str, weights: Iterable[WeightRecord]) -> OptimizerBytes | str:
    """Return the bytes of an optimizer for all trained weights, or the reason why they are not known.

    The weights are updated one after another, in their order.

    Raises `InputError` for an unknown name.
    """
    optimizer = OPTIMIZERS.get(name.lower())
    if optimizer is None:
        raise InputError(
            f"optimizer={name!r} is not a known optimizer; the known ones are, nearest first: "
            f"{', '.join(by_likeness(name, OPTIMIZERS))}; or give the framework's own optimizer"
        )
    weights = tuple(weights)
    unknown = [weight.name for weight in weights if weight.trainable is None]
    if unknown:
        return f"the state of {name}: it is not known whether these weights are trained: {', '.join(unknown[:5])}"
    trained = [weight for weight in weights if weight.trainable]
    shapeless = [weight.name for weight in trained if math.prod(weight.shape) != weight.count]
    if optimizer.of_shapes and shapeless:
        return f"the state of {name} for weights of unknown shape ({', '.join(shapeless[:5])})"
    return OptimizerBytes(sum(map(optimizer.bytes_for, trained)), optimizer.count_update_bytes(trained))


def _values(number: int) -> Callable[[WeightRecord], int]:
    """Return the bytes of ``number`` values for each element of a weight."""
    return lambda weight: number * weight.bytes


def _count_factored_bytes(weight: WeightRecord) -> int:
    """Return the bytes of a row and a column of sums for each matrix, and a value for each element of a vector."""
    element = weight.bytes // max(1, weight.count)
    if len(weight.shape) < 2:
        return weight.bytes
    *stacked, rows, columns = weight.shape
    return math.prod(stacked) * (rows + columns) * element


#: The values of bitsandbytes: the elements that share one scale, and the fewest elements of a quantized state.
_BLOCK, _FEWEST = 256, 4096


def _in_8_bits(weight: WeightRecord) -> int:
    """Return the bytes of two one-byte values for each element, and two four-byte scales for each block of elements.

    A small weight has two four-byte values for each element.
    """
    if weight.count < _FEWEST:
        return 8 * weight.count
    return 2 * weight.count + 8 * math.ceil(weight.count / _BLOCK)


_ADAM = OptimizerState(
    "two values for each element: the means of gradient and squared gradient",
    "Kingma and Ba 2015 (arXiv:1412.6980); AdamW: Loshchilov and Hutter 2019 (arXiv:1711.05101)",
    _values(2),
    copies=2,  # the square root of the squared gradient's mean, and its quotient by the correction of bias
    left_over=1,  # the quotient
)
#: The optimizers by the name that ``optimizer=`` takes.
OPTIMIZERS: Mapping[str, OptimizerState] = {
    "sgd": OptimizerState("nothing", "gradient descent without momentum", _values(0)),
    "momentum": OptimizerState(
        "one value for each element: the velocity", "gradient descent with momentum (Polyak 1964)", _values(1)
    ),
    "adam": _ADAM,
    "adamw": _ADAM,
    "adafactor": OptimizerState(
        "a row and a column of sums for each matrix, one value for each element of a vector",
        "Shazeer and Stern 2018 (arXiv:1804.04235), without momentum",
        _count_factored_bytes,
        copies=1,
        of_shapes=True,
    ),
    "adam8bit": OptimizerState(
        f"two bytes for each element and two 4-byte scales for each {_BLOCK} of them; 8 bytes for each element of a "
        f"weight with fewer than {_FEWEST:,}",
        "Dettmers et al. 2022 (arXiv:2110.02861), as bitsandbytes has it",
        _in_8_bits,
    ),
}
