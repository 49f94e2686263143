"""The steps of operators that ran, for the bytes alive while each of them runs, by the rules of `kernel_memory`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from profilerkit.backend_kit.live_bytes import Step

from .kernel_memory import (
    LIST_WRITES,
    Tensor,
    find_shared_input,
    is_too_small,
    is_unsized,
    list_reusable,
    scratch_bytes,
    tensor_bytes,
)

__all__ = ["Operator", "constant_bytes", "find_unsized_tensors", "write_steps"]


class Operator(Protocol):
    """What is read of an operator that ran: its type, the values it read and made, how often it ran in all.

    A ``silent`` one is no operator of the model: it hands a value into a loop, or out of it.
    """

    @property
    def type(self) -> str: ...
    @property
    def inputs(self) -> Sequence[int]: ...
    @property
    def outputs(self) -> Sequence[Tensor]: ...
    @property
    def times(self) -> int: ...
    @property
    def silent(self) -> bool: ...


Ran = TypeVar("Ran", bound=Operator)


def write_steps(
    operators: Sequence[Ran], inputs: Iterable[Tensor] = (), equation_of: Callable[[Ran], str] = lambda operator: ""
) -> tuple[Step, ...]:
    """Return a step for each operator, for `profilerkit.backend_kit.live_bytes.live_bytes`.

    ``inputs`` are the tensors that the caller holds, resource handles among them. ``equation_of`` gives the equation
    of an ``Einsum``, without which its transposed copies are not counted. What an operator reads that is neither an
    input nor made by another operator is held elsewhere, and takes nothing here; nor do constants (`constant_bytes`).
    """
    writer = _StepWriter(inputs)
    return tuple(
        writer.step(operator, equation_of(operator) if operator.type == "Einsum" else "") for operator in operators
    )


def constant_bytes(operators: Iterable[Operator]) -> int:
    """Return the bytes of the constants in a graph, which holds them as long as it is there."""
    return sum(
        tensor_bytes(shape, dtype)
        for operator in operators
        if operator.type == "Const"
        for _, shape, dtype in operator.outputs
    )


def find_unsized_tensors(operators: Iterable[Operator], inputs: Iterable[Tensor] = ()) -> dict[str, int]:
    """Return the operators that make tensors of unknown size, with their calls; those of the caller are ``input``.

    What shares an input's buffer takes none of its own.
    """
    tensors: dict[int, Tensor] = {tensor[0]: tensor for tensor in inputs}
    unsized = Counter("input" for tensor in tensors.values() if is_unsized(tensor))
    for operator in operators:
        sources = [tensors.get(value) for value in operator.inputs]
        makes_unsized = any(
            is_unsized(output)
            and not is_too_small(operator.type, index)
            and find_shared_input(operator.type, index, sources, output) is None
            for index, output in enumerate(operator.outputs)
        )
        if makes_unsized:
            unsized[operator.type] += operator.times
        tensors.update((output[0], output) for output in operator.outputs)
    return dict(unsized)


@dataclass(frozen=True)
class _Facts:
    """What is known about a value.

    Attributes:
        tensor: Its number, shape and dtype.
        origin: The first value in its buffer; what goes into a loop, or comes out of it, stands for itself.
        maker: The type of the operator that made it; empty for the caller's.
        runs: How often the step ran that made its buffer.
        is_carried: Whether it goes into a loop, or comes out of it.
        list_bytes: The bytes of all items, if it is a list.
    """

    tensor: Tensor
    origin: int
    maker: str = ""
    runs: int = 1
    is_carried: bool = False
    list_bytes: int = 0


class _StepWriter:
    """Turns operators into steps, one after the other, and keeps what is known about each value."""

    def __init__(self, inputs: Iterable[Tensor]) -> None:
        self._facts = {tensor[0]: _Facts(tensor, origin=tensor[0]) for tensor in inputs}
        #: The origins of the items of all lists.
        self._listed: set[int] = set()

    def step(self, operator: Operator, equation: str) -> Step:
        """Return the step of the next operator."""
        sources = [self._facts.get(value) for value in operator.inputs]
        tensors = [None if source is None else source.tensor for source in sources]
        aliases: dict[int, int] = {}
        makes = []
        for index, output in enumerate(operator.outputs):
            value = output[0]
            shared = find_shared_input(operator.type, index, tensors, output)
            source = None if shared is None else sources[shared]
            if source is not None:
                aliases[value] = source.tensor[0]
            is_held_elsewhere = operator.type == "Const" or (shared is not None and source is None)
            size = 0 if is_held_elsewhere else self._count_bytes(operator, sources, output, source)
            makes.append((value, size))
            self._remember(operator, output, sources[0] if operator.type in LIST_WRITES else source, size)
        first = sources[0] if sources else None
        reusable = list_reusable(operator.type, tensors, "" if first is None else first.maker)
        return Step(
            tuple(tensor[0] for tensor in tensors if tensor is not None),
            tuple(makes),
            aliases,
            tuple(tensor[0] for tensor in reusable if tensor is not None),
            scratch_bytes(operator.type, tensors, operator.outputs, equation),
        )

    def _remember(self, operator: Operator, output: Tensor, before: _Facts | None, size: int) -> None:
        """Keep what is known about an output; ``before`` is the value that it is another name or a later state of."""
        self._facts[output[0]] = _Facts(
            output,
            origin=output[0] if before is None or operator.silent else before.origin,
            maker=operator.type,
            runs=operator.times if before is None else before.runs,
            is_carried=operator.silent,
            list_bytes=size if output[2] == "variant" else 0,
        )

    def _count_bytes(
        self, operator: Operator, sources: Sequence[_Facts | None], output: Tensor, source: _Facts | None
    ) -> int:
        """Return the bytes of an output: of a tensor its own, of a list (a variant) those of its items."""
        _, shape, dtype = output
        if dtype != "variant":
            return tensor_bytes(shape, dtype)
        if operator.type in LIST_WRITES:
            return self._count_written_list(operator, sources[0], sources[LIST_WRITES[operator.type]])
        if operator.type == "TensorListFromTensor" and sources[0] is not None:
            return tensor_bytes(*sources[0].tensor[1:])
        return 0 if source is None else source.list_bytes

    def _count_written_list(self, operator: Operator, before: _Facts | None, item: _Facts | None) -> int:
        """Return the bytes of a list after an operator in a loop has written an item to it in each run.

        An item that the loop does not make is the same tensor in each run, and counted elsewhere; unless it is one of
        the loop's variables, which is another tensor each time. One that several lists hold counts once.
        """
        if before is None or item is None:
            return 0
        origin = self._facts[item.origin]
        is_same_each_time = origin.runs < operator.times and not origin.is_carried
        if item.origin in self._listed or is_same_each_time:
            return before.list_bytes
        self._listed.add(item.origin)
        return before.list_bytes + operator.times // before.runs * tensor_bytes(*item.tensor[1:])
