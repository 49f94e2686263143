"""The memory of operators: the steps of the bytes alive, lists, constants, and tensors of unknown size."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from profilerkit.backend_kit.live_bytes import Step, live_bytes

from .kernel_memory import LIST_WRITES, count_scratch_bytes, find_shared_input, is_too_small, list_reusable
from .tensor_facts import Tensor
from .values import Executed

__all__ = ["AS_A_GRAPH", "count_constant_bytes", "find_unsized_tensors", "list_live_bytes", "write_steps"]

#: What the bytes alive are.
AS_A_GRAPH = "of the model run as a graph; run eagerly, more stays alive"


def list_live_bytes(
    operators: Sequence[Executed],
    loops: Sequence[tuple[int, int]],
    inputs: Sequence[Tensor],
    captures: Sequence[Tensor],
    results: Iterable[int],
) -> Sequence[int]:
    """Return the bytes alive while each operator runs as a graph, in which a value is freed after its last use.

    Args:
        operators: The operators.
        loops: The ranges of operators that run more than once.
        inputs: The tensors that the caller gives.
        captures: The tensors that are there before and after the call, and count as nothing here.
        results: The numbers of the results.
    """
    sizes = {**{tensor.number: tensor.bytes for tensor in inputs}, **{tensor.number: 0 for tensor in captures}}
    steps = write_steps(operators, [*inputs, *captures])
    made = {number for step in steps for number, _ in step.makes} | sizes.keys()
    return live_bytes(steps, sizes, [number for number in results if number in made], loops)


def write_steps(operators: Iterable[Executed], inputs: Iterable[Tensor] = ()) -> tuple[Step, ...]:
    """Return a step for each operator, for `profilerkit.backend_kit.live_bytes.live_bytes`.

    ``inputs`` are the tensors that the caller holds, resource handles among them. Other tensors that no operator makes
    are held elsewhere, and have no bytes here; nor have constants (`count_constant_bytes`).
    """
    writer = _StepWriter(inputs)
    return tuple(writer.write(operator) for operator in operators)


class _StepWriter:
    """Turns operators into steps, one after the other."""

    def __init__(self, inputs: Iterable[Tensor]) -> None:
        #: The values that are given or made so far, by their numbers.
        self._tensors = {tensor.number: tensor for tensor in inputs}
        #: The type of the operator that has made each value.
        self._makers: dict[int, str] = {}
        self._lists = _Lists()

    def write(self, operator: Executed) -> Step:
        """Return the step of the next operator."""
        sources = [self._tensors.get(number) for number in operator.inputs]
        maker = self._makers.get(operator.inputs[0], "") if operator.inputs else ""
        outputs = [_find_buffer(operator, index, sources) for index in range(len(operator.outputs))]
        step = Step(
            reads=_list_numbers(sources),
            makes=tuple((output.tensor.number, self._count_bytes(operator, output, sources)) for output in outputs),
            aliases={output.tensor.number: output.source.number for output in outputs if output.source is not None},
            reuses=_list_numbers(list_reusable(operator.type, sources, maker)),
            scratch=count_scratch_bytes(operator.type, sources, operator.outputs, operator.equation),
        )
        for tensor, source, _ in outputs:
            self._lists.note_buffer(operator, tensor, sources[0] if operator.type in LIST_WRITES else source)
            self._tensors[tensor.number], self._makers[tensor.number] = tensor, operator.type
        return step

    def _count_bytes(self, operator: Executed, output: _Output, sources: Sequence[Tensor | None]) -> int:
        """Return the bytes that an output takes while it is alive."""
        if output.is_held_elsewhere:
            return 0
        if output.tensor.dtype == "variant":
            return self._lists.count_bytes(operator, sources, output.tensor, output.source)
        return output.tensor.bytes


class _Output(NamedTuple):
    """An output of an operator, and its buffer.

    Attributes:
        tensor: The output.
        source: The input in whose buffer it is; None if it has a buffer of its own, or of a tensor held elsewhere.
        is_held_elsewhere: Whether its buffer is no buffer of the pass, like a constant's or a variable's.
    """

    tensor: Tensor
    source: Tensor | None
    is_held_elsewhere: bool


def _find_buffer(operator: Executed, index: int, sources: Sequence[Tensor | None]) -> _Output:
    """Return an output of an operator, by its index, with its buffer."""
    output = operator.outputs[index]
    shared = find_shared_input(operator.type, index, sources, output)
    source = None if shared is None else sources[shared]
    is_held_elsewhere = operator.type == "Const" or (shared is not None and source is None)
    return _Output(output, source, is_held_elsewhere)


@dataclass(eq=False)
class _Buffer:
    """The buffer that a value is in.

    Attributes:
        runs: How often the step ran that made it.
        is_carried: Whether it is that of a loop variable: it may be another one in each turn.
        is_listed: Whether a list holds it.
    """

    runs: int = 1
    is_carried: bool = False
    is_listed: bool = False


class _Lists:
    """Counts the bytes of lists (variants): they are the bytes of the items that operators have put in."""

    def __init__(self) -> None:
        #: The buffers of values, and the bytes of lists, by the numbers of the values.
        self._buffers: defaultdict[int, _Buffer] = defaultdict(_Buffer)
        self._bytes: dict[int, int] = {}

    def note_buffer(self, operator: Executed, output: Tensor, before: Tensor | None) -> None:
        """Note the buffer of an output; ``before`` is its value under another name, or in an earlier state."""
        buffer = _Buffer(operator.times) if before is None else self._buffers[before.number]
        # An operator that is none of the model's hands a value into a loop, or out of it.
        self._buffers[output.number] = _Buffer(buffer.runs, is_carried=True) if operator.silent else buffer

    def count_bytes(
        self, operator: Executed, sources: Sequence[Tensor | None], output: Tensor, source: Tensor | None
    ) -> int:
        """Return the bytes of a list that an operator returns; ``source`` is the list in whose buffer it is."""
        if operator.type in LIST_WRITES:
            size = self._count_written(operator, sources[0], sources[LIST_WRITES[operator.type]])
        elif operator.type == "TensorListFromTensor" and sources[0] is not None:
            size = sources[0].bytes
        else:
            size = 0 if source is None else self._bytes.get(source.number, 0)
        self._bytes[output.number] = size
        return size

    def _count_written(self, operator: Executed, before: Tensor | None, item: Tensor | None) -> int:
        """Return the bytes of a list after an operator in a loop has written an item to it in each run.

        An item that the loop does not make is the same tensor in each run, and counted elsewhere; unless it is one of
        the loop's variables, which is another tensor each time. One that several lists hold counts once.
        """
        if before is None or item is None:
            return 0
        bytes_before, buffer = self._bytes.get(before.number, 0), self._buffers[item.number]
        is_same_each_time = buffer.runs < operator.times and not buffer.is_carried
        if buffer.is_listed or is_same_each_time:
            return bytes_before
        buffer.is_listed = True
        return bytes_before + operator.times // self._buffers[before.number].runs * item.bytes


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
