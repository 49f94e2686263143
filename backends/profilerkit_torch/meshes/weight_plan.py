"""The order in which layers need weights in a step of ZeRO 3, by the rules and defaults of DeepSpeed.

DeepSpeed learns the order in the first steps: the step here is a later step. Addresses:
``partition_parameters.py`` and ``config.py`` in ``deepspeed/runtime/zero`` at github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit.arguments.structures import tensors_in
from profilerkit.process.restoring import call_each, restored

from ..compat.modules import read_parameters
from ..model.modules import list_layers
from .gradient_bucket import require_one_dtype

__all__ = ["Gathering", "Plan", "Weight", "follow_layers", "make_plan"]


#: ``stage3_param_persistence_threshold``: weights of so many elements or fewer stay whole.
_SMALL = 100_000


class Weight:
    """A weight: the rank's part of it, whether it stays whole because it is small, and whether it is whole now.

    Args:
        path: The path of the first layer that has it.
        order: Its place among the weights of the model.
        parameter: The weight; it has the memory of the whole weight, or none.
        ranks: The number of ranks that it is divided among.
    """

    def __init__(self, path: str, order: int, parameter: nn.Parameter, ranks: int) -> None:
        self.path = path
        self.order = order
        self.parameter = parameter
        self.elements = parameter.numel()
        with torch.no_grad():
            self.partition = parameter.new_empty(-(-self.elements // ranks))
        self.is_small: bool = self.elements <= _SMALL
        self.is_whole = False
        self.coming: Gathering | None = None  #: the all-gather that is under way
        self.users: set[nn.Module] = set()  #: the layers that need it now

    @property
    def is_away(self) -> bool:
        """Whether it is neither whole nor under way."""
        return not self.is_whole and self.coming is None

    def resize(self, elements: int) -> None:
        """Give the whole weight memory for so many elements."""
        self.parameter.untyped_storage().resize_(elements * self.parameter.itemsize)


class Gathering(NamedTuple):
    """An all-gather of weights."""

    weights: Sequence[Weight]
    #: The tensor that several are gathered into; None for one weight, which is gathered into its own memory.
    flat: torch.Tensor | None


@dataclass(frozen=True)
class Plan:
    """The weights of a model, and the order in which layers need them."""

    dtype: torch.dtype  #: the dtype of all weights
    by_parameter: Mapping[int, Weight]  #: the weights, by the ``id`` of their parameters
    by_module: Mapping[nn.Module, Sequence[Weight]]  #: the weights that each layer has itself; only layers with weights
    order: Sequence[nn.Module]  #: the layers in the order in which they begin in a pass, forward and backward

    @property
    def trainable(self) -> Sequence[Weight]:
        """The weights that get gradients."""
        return [weight for weight in self.by_parameter.values() if weight.parameter.requires_grad]


def make_plan(model: nn.Module, ranks: int, rehearse: Callable[[], None]) -> Plan:
    """Divide the weights of a model among ranks, and note the order in which layers begin in a rehearsal of a pass."""
    dtype = require_one_dtype(list(model.parameters()))
    by_parameter: dict[int, Weight] = {}
    by_module: dict[nn.Module, list[Weight]] = {}
    for path, module in list_layers(model):
        weights = by_module[module] = []
        for parameter in read_parameters(module).values():
            if parameter is not None:
                weights.append(
                    by_parameter.setdefault(id(parameter), Weight(path, len(by_parameter), parameter, ranks))
                )
    by_module = {module: weights for module, weights in by_module.items() if weights}
    order: list[nn.Module] = []
    with follow_layers(by_module, order.append, lambda module: None):
        rehearse()
    return Plan(dtype, by_parameter, by_module, order)


@contextmanager
def follow_layers(
    modules: Iterable[nn.Module], begin: Callable[[nn.Module], None], end: Callable[[nn.Module], None]
) -> Iterator[None]:
    """Call functions with each module as it begins and ends, forward and backward, inside.

    A module whose inputs need no gradients, such as an embedding, has no end in the backward pass.
    """

    def begin_forward(module: nn.Module, arguments: Any) -> None:
        begin(module)

    def end_forward(module: nn.Module, arguments: Any, output: Any) -> None:
        end(module)
        if torch.is_grad_enabled():
            for tensor in tensors_in(output, torch.is_tensor):
                if tensor.requires_grad:
                    tensor.register_hook(partial(begin_backward, module))

    def begin_backward(module: nn.Module, gradient: torch.Tensor) -> None:
        begin(module)

    def end_backward(module: nn.Module, inputs: Any, outputs: Any) -> None:
        if any(gradient is not None for gradient in inputs):  # DeepSpeed notices the end only by these
            end(module)

    stops: list[Callable[[], None]] = []
    with restored(partial(call_each, stops)):
        for module in modules:
            stops.append(module.register_forward_pre_hook(begin_forward).remove)
            stops.append(module.register_forward_hook(end_forward).remove)
            stops.append(module.register_full_backward_hook(end_backward).remove)
        yield
