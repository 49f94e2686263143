"""The memory of a node of the backward pass: other than what the operators that a mode sees would take.

While a mode is active, torch makes new tensors in some nodes that write in place without a mode, and runs other
operators in a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from profilerkit.trace.records import OpRecord

from ..compat.autograd import count_references, count_references_in_sum, list_followers, read_node_number
from ..compat.operators import find_operator
from ..model.storages import count_stored_bytes
from .live_bytes import LiveBytes
from .operator_facts import tensors_in

__all__ = ["NodeMemory", "count_beside_mask"]

_ADD, _ADD_IN_PLACE = find_operator("aten.add.Tensor"), find_operator("aten.add_.Tensor")
#: How the gradient of elements that were chosen is written to zeros, and the same in place.
_INTO_ZEROS = {
    find_operator(f"aten.{name}"): find_operator(f"aten.{name.replace('.', '_.')}")
    for name in (
        "index_put.default",
        "index_add.default",
        "put.default",
        "index_fill.int_Tensor",
        "scatter.src",
        "scatter_add.default",
        "masked_scatter.default",
    )
}


class _Limit(NamedTuple):
    """What a node takes at most on a device, if it makes so many gradients: tensors and masks of the input's size."""

    gradients: int
    tensors: int
    masks: int = 0  #: of one byte for each element


#: The limits of nodes, by the name of the node and one of its first operators: while a mode is active, torch writes
#: nothing in place in these nodes, and reads no values. ``mish`` is taken apart.
_LIMITS = {
    ("MishBackward0", find_operator("aten.softplus.default")): _Limit(1, tensors=1),
    ("BinaryCrossEntropyBackward0", find_operator("aten.logit.default")): _Limit(2, tensors=2),
    ("BinaryCrossEntropyWithLogitsBackward0", find_operator("aten.sigmoid.default")): _Limit(1, tensors=1),
    # With a weight for positives.
    ("BinaryCrossEntropyWithLogitsBackward0", find_operator("aten.mul.Tensor")): _Limit(1, tensors=3),
    # The masks are of zeros in the input.
    ("ProdBackward0", find_operator("aten.cumprod.default")): _Limit(1, tensors=2),
    ("ProdBackward1", find_operator("aten.cumprod.default")): _Limit(1, tensors=2, masks=1),
    ("CumprodBackward0", find_operator("aten.mul.Tensor")): _Limit(1, tensors=4, masks=1),
}
_EQUAL = find_operator("aten.eq.Tensor")
#: Nodes of one number of a tensor, as its maximum, whose gradient all elements of that value share.
_SHARED = ("MaxBackward1", "MinBackward1", "MedianBackward0", "NanmedianBackward0")
_INT64_BYTES = 8


def count_beside_mask(node: Any, func: Any, args: Any, device: torch.device | None) -> int:
    """Return the bytes that the CPU has, and a mode does not see, when a node has compared all elements with one.

    Without a mode it makes the gradient, of zeros, before it counts the ones of the mask, in int64; a mode sees two
    masks of NaN instead (``evenly_distribute_backward`` in ``torch/csrc/autograd/FunctionsManual.cpp``).
    """
    if func is not _EQUAL or node is None or device is None or device.type != "cpu" or node.name() not in _SHARED:
        return 0
    elements: torch.Tensor = args[0]
    return elements.numel() * (elements.element_size() + _INT64_BYTES - 2)


class _Node(NamedTuple):
    """A node that runs."""

    number: int
    first_operator: int  #: how many operators were recorded before it
    alive_before: int  #: the bytes alive when it began


class NodeMemory:
    """Follows the nodes of a backward pass by their operators, of which those recorded so far are given, and grow.

    ``below_autograd`` says whether autograd's kernels are left out, of which that of a sum refers to its terms too.
    """

    def __init__(self, live: LiveBytes, operators: Sequence[OpRecord], *, below_autograd: bool = False) -> None:
        #: The bytes that may be alive while the node runs; None if all bytes alive count.
        self.most_alive: int | None = None
        self._live = live
        self._operators = operators
        references = count_references_in_sum()
        if references is not None and below_autograd:
            of_tensor, of_storage, in_python = references
            references = of_tensor - 1, of_storage, in_python
        self._references_in_sum = references
        self._running = _Node(-1, 0, 0)

    def begin_operator(self, node: Any, func: Any, args: Any) -> Any:
        """Note an operator of a node, and return the operator of a real run: in place if torch writes so there.

        ``node`` is None for an operator that belongs to no node.
        """
        if node is None:
            self.most_alive = None
            return func
        number = read_node_number(node)
        if number != self._running.number:
            self._running = _Node(number, len(self._operators), self._live.total)
            self.most_alive = None
        if self.most_alive is None:
            self.most_alive = self._find_most_alive(node, func, args)
        if func in _INTO_ZEROS and self._writes_own_zeros(node, args[0]):
            return _INTO_ZEROS[func]
        if func is _ADD and self._adds_in_place(node, args):
            return _ADD_IN_PLACE
        return func

    def _find_most_alive(self, node: Any, func: Any, args: Any) -> int | None:
        """Return the bytes that may be alive while a node runs, by one of its operators; None if all count."""
        limit = _LIMITS.get((node.name(), func))
        if limit is None or limit.gradients != len(list_followers(node)):
            return None
        largest = max(tensors_in(args), key=count_stored_bytes)
        return self._running.alive_before + limit.tensors * count_stored_bytes(largest) + limit.masks * largest.numel()

    def _writes_own_zeros(self, node: Any, tensor: torch.Tensor) -> bool:
        """Return whether a node of torch writes to zeros that it has made itself."""
        if isinstance(node, torch.autograd.function.BackwardCFunction) or torch.is_grad_enabled():
            return False  # code of the user, or forward work that a checkpoint repeats
        if not tensor.is_contiguous():
            return False  # ``vmap`` has expanded them, for samples that would all be written to the same place
        makers = self._live.list_makers((tensor,), len(self._operators))
        return any(maker >= 0 and "zeros" in self._operators[maker].operator for maker in makers)

    def _adds_in_place(self, node: Any, terms: tuple[Any, ...]) -> bool:
        """Return whether torch adds the second gradient of a tensor to the first.

        It does if nothing else refers to the first gradient, which fills its storage. A sum inside of a node is another
        sum: the first of two gradients is made before the node that makes the second, unless this node makes both.
        """
        if torch.is_grad_enabled() or not _are_alike(*terms):
            return False
        if count_references(terms) != self._references_in_sum:  # no variable here may refer to the first term
            return False
        makers = self._live.list_makers(terms[:1], len(self._operators))
        is_made_before = max(makers, default=0) < self._running.first_operator
        followers = list_followers(node)
        return is_made_before or len(set(followers)) < len(followers)


def _are_alike(first: Any, second: Any) -> bool:
    """Return whether both terms of a sum are tensors of one size and dtype, and the first fills its storage."""
    if not isinstance(second, torch.Tensor) or first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(first.untyped_storage().nbytes() == first.numel() * first.element_size())
