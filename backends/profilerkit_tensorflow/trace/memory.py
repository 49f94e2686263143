"""The memory of operators: the steps of the bytes alive, lists, constants, and tensors of unknown size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from profilerkit.backend_kit.live_bytes import Step

from .kernel_memory import LIST_WRITES, count_scratch_bytes, find_shared_input, is_too_small, list_reusable
from .tensor_facts import Tensor
from .values import Executed

__all__ = ["count_constant_bytes", "find_unsized_tensors", "write_steps"]


def write_steps(operators: Iterable[Executed], inputs: Iterable[Tensor] = ()) -> tuple[Step, ...]:
    """Return a step for each operator, for `profilerkit.backend_kit.live_bytes.live_bytes`.

    ``inputs`` are the tensors that the caller holds, resource handles among them. Other tensors that no operator makes
    are held elsewhere, and have no bytes here; nor have constants (`count_constant_bytes`).
    """
    writer = _StepWriter(inputs)
    return tuple(writer.write(operator) for operator in operators)


@dataclass(frozen=True)
class _ValueFacts:
    """The known facts about a value.

    Attributes:
        tensor: Its number, shape and dtype.
        origin: The first value in its buffer; for a value that goes into a loop, or comes out of it, the value itself.
        maker: The type of the operator that made it; empty for a value of the caller.
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
    """Turns operators into steps, one after the other, and keeps the known facts about each value."""

    def __init__(self, inputs: Iterable[Tensor]) -> None:
        self._facts = {tensor.number: _ValueFacts(tensor, origin=tensor.number) for tensor in inputs}
        #: The origins of the items of all lists.
        self._listed: set[int] = set()

    def write(self, operator: Executed) -> Step:
        """Return the step of the next operator."""
        sources = [self._facts.get(number) for number in operator.inputs]
        tensors = [None if source is None else source.tensor for source in sources]
        aliases: dict[int, int] = {}
        makes: dict[int, int] = {}
        for index, output in enumerate(operator.outputs):
            shared = find_shared_input(operator.type, index, tensors, output)
            source = None if shared is None else sources[shared]
            if source is not None:
                aliases[output.number] = source.tensor.number
            is_held_elsewhere = operator.type == "Const" or (shared is not None and source is None)
            size = 0 if is_held_elsewhere else self._count_bytes(operator, sources, output, source)
            makes[output.number] = size
            self._remember(operator, output, sources[0] if operator.type in LIST_WRITES else source, size)
        maker = sources[0].maker if sources and sources[0] is not None else ""
        return Step(
            reads=_list_numbers(tensors),
            makes=tuple(makes.items()),
            aliases=aliases,
            reuses=_list_numbers(list_reusable(operator.type, tensors, maker)),
            scratch=count_scratch_bytes(operator.type, tensors, operator.outputs, operator.equation),
        )

    def _remember(self, operator: Executed, output: Tensor, before: _ValueFacts | None, size: int) -> None:
        """Keep the known facts about an output; ``before`` is its value under another name, or in an earlier state."""
        self._facts[output.number] = _ValueFacts(
            output,
            origin=output.number if before is None or operator.silent else before.origin,
            maker=operator.type,
            runs=operator.times if before is None else before.runs,
            is_carried=operator.silent,
            list_bytes=size if output.dtype == "variant" else 0,
        )

    def _count_bytes(
        self, operator: Executed, sources: Sequence[_ValueFacts | None], output: Tensor, source: _ValueFacts | None
    ) -> int:
        """Return the bytes of an output; for a list (a variant), the bytes of its items."""
        if output.dtype != "variant":
            return output.bytes
        if operator.type in LIST_WRITES:
            return self._count_written_list(operator, sources[0], sources[LIST_WRITES[operator.type]])
        first = sources[0] if operator.type == "TensorListFromTensor" else None
        if first is not None:
            return first.tensor.bytes
        return 0 if source is None else source.list_bytes

    def _count_written_list(self, operator: Executed, before: _ValueFacts | None, item: _ValueFacts | None) -> int:
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
        return before.list_bytes + operator.times // before.runs * item.tensor.bytes


def _list_numbers(tensors: Iterable[Tensor | None]) -> tuple[int, ...]:
    """Return the numbers of the tensors that are not held elsewhere."""
    return tuple(tensor.number for tensor in tensors if tensor is not None)


def count_constant_bytes(operators: Iterable[Executed]) -> int:
    """Return the bytes of the constants in a graph, which holds them as long as it is there."""
    constants = [operator for operator in operators if operator.type == "Const"]
    return sum(output.bytes for constant in constants for output in constant.outputs)


def find_unsized_tensors(operators: Iterable[Executed], inputs: Iterable[Tensor] = ()) -> dict[str, int]:
    """Return the operators that make tensors of unknown size, with their calls; ``input`` for tensors of the caller.

    A tensor that shares the buffer of an input needs no memory and is not among them.
    """
    tensors = {tensor.number: tensor for tensor in inputs}
    unsized = Counter("input" for tensor in tensors.values() if tensor.is_unsized)
    for operator in operators:
        sources = [tensors.get(number) for number in operator.inputs]
        makes_unsized = any(
            output.is_unsized
            and not is_too_small(operator.type, index)
            and find_shared_input(operator.type, index, sources, output) is None
            for index, output in enumerate(operator.outputs)
        )
        if makes_unsized:
            unsized[operator.type] += operator.times
        tensors.update((output.number, output) for output in operator.outputs)
    return dict(unsized)
