"""What an optimizer keeps for the weights it trains, in bytes: by its name, whatever the framework.

The state has the dtype of the weight, as both frameworks make it, unless an entry says otherwise. `OPTIMIZERS` is the
one list of them.
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
    """What an optimizer keeps from step to step, and what it takes besides while it updates the weights."""

    state: int
    update: int = 0


@dataclass(frozen=True)
class OptimizerState:
    """What an optimizer keeps: in words, where that is from, and the bytes for one weight.

    ``copies`` are those of a weight that are there while it is updated. ``of_shapes`` says that the bytes depend on the
    shape of the weight, which not every backend tells.
    """

    keeps: str
    source: str
    bytes_for: Callable[[WeightRecord], int]
    copies: int = 0
    of_shapes: bool = False


def optimizer_bytes(name: str, weights: Iterable[WeightRecord]) -> OptimizerBytes | str:
    """Return what the optimizer of a name takes for all weights that are trained; in words, why that is not known.

    They are updated one after the other, so that the largest of them decides what an update takes.

    Raises `InputError` for a name that is not known.
    """
    optimizer = OPTIMIZERS.get(name.lower())
    if optimizer is None:
        raise InputError(
            f"optimizer={name!r}: nothing is known of such an optimizer; known are, the nearest first: "
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
    largest = max((weight.bytes for weight in trained), default=0)
    return OptimizerBytes(sum(map(optimizer.bytes_for, trained)), optimizer.copies * largest)


def _values(number: int) -> Callable[[WeightRecord], int]:
    """Keep that many values for each element of a weight."""
    return lambda weight: number * weight.bytes


def _factored(weight: WeightRecord) -> int:
    """Keep a row and a column of sums for each matrix, and one value for each element of a vector."""
    element = weight.bytes // max(1, weight.count)
    if len(weight.shape) < 2:
        return weight.bytes
    *stacked, rows, columns = weight.shape
    return math.prod(stacked) * (rows + columns) * element


#: As bitsandbytes has them: elements that share one scale, and the fewest of a weight whose state is quantised.
_BLOCK, _FEWEST = 256, 4096


def _in_8_bits(weight: WeightRecord) -> int:
    """Keep two values of one byte for each element, and for each block of them two scales of four bytes.

    Of a small weight two values of four bytes are kept.
    """
    if weight.count < _FEWEST:
        return 8 * weight.count
    return 2 * weight.count + 8 * math.ceil(weight.count / _BLOCK)


_ADAM = OptimizerState(
    "two values for each element: the means of gradient and squared gradient",
    "Kingma and Ba 2015 (arXiv:1412.6980); AdamW: Loshchilov and Hutter 2019 (arXiv:1711.05101)",
    _values(2),
    copies=2,
)
#: By the name that ``optimizer=`` takes.
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
        _factored,
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
