"""What a call of a block was given and has returned, without the tensors: so later calls can be compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from profilerkit.backend_kit.call_stack import tensors_in

from .tensor_looks import TensorLook, look_at

__all__ = ["BlockCall", "DifferentBlocksError", "find_argument", "find_tensor", "look_inside"]

#: Stands for the tensor that a block returns, in what is kept of its output.
_TENSOR = object()


class DifferentBlocksError(Exception):
    """Blocks that look equal are called in different ways, or do not do the same."""


class BlockCall(NamedTuple):
    """A call of a block. It keeps no tensor alive.

    Attributes:
        arguments: What was given by name or number, as `look_inside` has it.
        argument: The name or number of the one that the block before has returned; None if there is none.
        output: What was returned, with `_TENSOR` in place of the tensor.
        look: How that tensor looks.
    """

    arguments: Any
    argument: int | str | None
    output: Any
    look: TensorLook

    @classmethod
    def make(cls, arguments: Any, argument: int | str | None, output: Any) -> BlockCall:
        """Return the record of a call that has returned an output with one tensor."""
        tensor = find_tensor(output)
        return cls(arguments, argument, _exchange(output, tensor, _TENSOR), look_at(tensor))

    def repeat(self, arguments: Mapping[Any, Any]) -> Any:
        """Return what the next block returns without running it: the same, with the tensor that it is given.

        Raises `DifferentBlocksError` if it is not given what this one was, and the tensor that this one returned.
        """
        if self.argument is None:
            raise DifferentBlocksError("something runs between blocks")
        looks = look_inside(arguments)
        if not _are_same(looks, self.arguments) or looks[self.argument] != self.look:
            raise DifferentBlocksError("blocks are called with different arguments")
        return _exchange(self.output, _TENSOR, arguments[self.argument])


def find_argument(arguments: Mapping[Any, Any], tensor: torch.Tensor | None) -> int | str | None:
    """Return the name or number of the argument that is this tensor; None if none is."""
    return next((name for name, value in arguments.items() if tensor is not None and value is tensor), None)


def find_tensor(output: Any) -> torch.Tensor:
    """Return the only tensor of a block's output."""
    tensors: list[torch.Tensor] = list(tensors_in(output, torch.is_tensor))
    if len(tensors) != 1:
        raise DifferentBlocksError("a block returns several tensors, or none")
    return tensors[0]


def _exchange(output: Any, before: Any, after: Any) -> Any:
    """Return an output with another value in place of one: of the output, or of an entry of a tuple or list."""
    if output is before:
        return after
    if type(output) not in (tuple, list) or not any(entry is before for entry in output):
        raise DifferentBlocksError("a block returns its tensor in something else than a tuple or a list")
    return type(output)(after if entry is before else entry for entry in output)


def look_inside(value: Any) -> Any:
    """Return a value with the look of each tensor in its place, so that tensors can be freed."""
    if isinstance(value, torch.Tensor):
        return look_at(value)
    if isinstance(value, dict):
        return {name: look_inside(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return [look_inside(entry) for entry in value]
    return value


def _are_same(first: Any, second: Any) -> bool:
    """Return whether arguments, looked inside, are the same; objects that are not plain must be the same object."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_are_same(first[name], second[name]) for name in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_are_same, first, second))
    return first is second or (isinstance(first, TensorLook | int | float | str) and bool(first == second))
