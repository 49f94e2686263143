"""The memory of operators: the steps of the bytes alive, lists, constants, and tensors of unknown size."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    return tuple(writer.write(op) for op in operators)


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


class _StepWriter:
    """Turns operators into steps, one after the other."""

    def __init__(self, inputs: Iterable[Tensor]) -> None:
        #: The values that are given or made so far, by their numbers; others are held elsewhere.
        self._tensors = {tensor.number: tensor for tensor in inputs}
        #: The type of the operator that has made each value, the buffer of each, and the bytes of each list.
        self._makers: dict[int, str] = {}
        self._buffers: defaultdict[int, _Buffer] = defaultdict(_Buffer)
        self._list_bytes: dict[int, int] = {}

    def write(self, op: Executed) -> Step:
        """Return the step of the next operator."""
        kind, sources = op.operator, [self._tensors.get(tensor.number) for tensor in op.inputs]
        maker = self._makers.get(op.inputs[0].number, "") if op.inputs else ""
        makes: list[tuple[int, int]] = []
        aliases: dict[int, int] = {}
        for index, output in enumerate(op.outputs):
            shared = find_shared_input(kind, index, sources, output)
            source = None if shared is None else sources[shared]
            is_held_elsewhere = kind == "Const" or (shared is not None and source is None)
            makes.append((output.number, 0 if is_held_elsewhere else self._count_bytes(op, output, sources, source)))
            if source is not None:
                aliases[output.number] = source.number
            self._note_buffer(op, output, sources[0] if kind in LIST_WRITES else source)
            self._tensors[output.number], self._makers[output.number] = output, kind
        return Step(
            reads=_list_numbers(sources),
            makes=tuple(makes),
            aliases=aliases,
            reuses=_list_numbers(list_reusable(kind, sources, maker)),
            scratch=count_scratch_bytes(kind, sources, op.outputs, op.equation),
        )

    def _note_buffer(self, op: Executed, output: Tensor, before: Tensor | None) -> None:
        """Note the buffer of an output; ``before`` is its value under another name, or in an earlier state."""
        buffer = _Buffer(op.times) if before is None else self._buffers[before.number]
        # An operator that is none of the model's hands a value into a loop, or out of it.
        self._buffers[output.number] = _Buffer(buffer.runs, is_carried=True) if op.silent else buffer

    def _count_bytes(
        self, op: Executed, output: Tensor, sources: Sequence[Tensor | None], source: Tensor | None
    ) -> int:
        """Return the bytes that an output takes while it is alive; ``source`` is the input in whose buffer it is.

        The bytes of a list (a variant) are those of the items that operators have put in.
        """
        if output.dtype != "variant":
            return output.bytes
        if op.operator in LIST_WRITES:
            size = self._count_written(op, sources[0], sources[LIST_WRITES[op.operator]])
        elif op.operator == "TensorListFromTensor" and sources[0] is not None:
            size = sources[0].bytes
        else:
            size = 0 if source is None else self._list_bytes.get(source.number, 0)
        self._list_bytes[output.number] = size
        return size

    def _count_written(self, op: Executed, before: Tensor | None, item: Tensor | None) -> int:
        """Return the bytes of a list after an operator in a loop has written an item to it in each run.

        An item that the loop does not make is the same tensor in each run, and counted elsewhere; unless it is one of
        the loop's variables, which is another tensor each time. One that several lists hold counts once.
        """
        if before is None or item is None:
            return 0
        bytes_before, buffer = self._list_bytes.get(before.number, 0), self._buffers[item.number]
        is_same_each_time = buffer.runs < op.times and not buffer.is_carried
        if buffer.is_listed or is_same_each_time:
            return bytes_before
        buffer.is_listed = True
        return bytes_before + op.times // self._buffers[before.number].runs * item.bytes


def _list_numbers(tensors: Iterable[Tensor | None]) -> tuple[int, ...]:
    """Return the numbers of the tensors that are not held elsewhere."""
    return tuple(tensor.number for tensor in tensors if tensor is not None)


def count_constant_bytes(operators: Iterable[Executed]) -> int:
    """Return the bytes of the constants in a graph, which holds them as long as it is there."""
    return sum(output.bytes for op in operators if op.operator == "Const" for output in op.outputs)


def find_unsized_tensors(operators: Iterable[Executed], inputs: Iterable[Tensor] = ()) -> dict[str, int]:
    """Return the operators that make tensors of unknown size, with their calls; ``input`` for tensors of the caller.

    A tensor that shares the buffer of an input needs no memory and is not among them.
    """
    tensors = {tensor.number: tensor for tensor in inputs}
    unsized = Counter("input" for tensor in tensors.values() if tensor.is_unsized)
    for op in operators:
        sources = [tensors.get(tensor.number) for tensor in op.inputs]
        makes_unsized = any(
            output.is_unsized
            and not is_too_small(op.operator, index)
            and find_shared_input(op.operator, index, sources, output) is None
            for index, output in enumerate(op.outputs)
        )
        if makes_unsized:
            unsized[op.operator] += op.times
        tensors.update((output.number, output) for output in op.outputs)
    return dict(unsized)
