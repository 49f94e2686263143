"""The step of a rank as tasks in order: the work of layers, the collectives between, and which task waits for which.

Operators that follow each other in one layer are one task. Work, and collectives whose result the next operator needs,
are the main line: each task of it waits for the task before it. Other collectives run beside the main line:

- A collective that provides data, such as gathering weights, begins together with the task before it in the step. The
  first task of the layer that needs the data waits for it.
- A collective that takes results, such as reducing gradients, waits for the work that made them. No task waits for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from profilerkit.errors import NotOfferedError
from profilerkit.trace.records import OpRecord

from .records import Collective, RankTrace

#: The kinds that bring something; the others take something away.
_BRINGING = ("all-gather", "broadcast", "receive")


@dataclass
class Task:
    """A part of a step."""

    #: The path of the layer; empty for the model itself.
    layer: str
    #: "forward", "backward" or "update".
    phase: str
    operators: tuple[OpRecord, ...] = ()
    #: The collective of the task; None for work.
    collective: Collective | None = None
    #: The numbers of the tasks that it waits for.
    after: list[int] = field(default_factory=list)

    @property
    def flops(self) -> int:
        """The floating-point operations of the work."""
        return sum(operator.flops for operator in self.operators)

    @property
    def bytes(self) -> int:
        """The bytes that the work reads and writes."""
        return sum(operator.bytes_read + operator.bytes_written for operator in self.operators)

    @property
    def name(self) -> str:
        """Its description: the layer and the phase, and the kind if it is a collective."""
        kind = "" if self.collective is None else f" {self.collective.kind} over {self.collective.dimension}"
        return f"{self.layer or 'model'} {self.phase}{kind}"


def list_tasks(step: RankTrace) -> list[Task]:
    """Return the tasks of a step; each waits for tasks with lower numbers.

    Raises `NotOfferedError` for a step with exchanges of unknown order or size.
    """
    if step.unknown:
        raise NotOfferedError("it is not known in which order this step exchanges what it does, or how much")
    tasks = list(_list_in_order(step))
    last: list[int] = []  # the last task of the main line; empty before the first
    before_last: list[int] = []  # the task before the last
    brought: list[int] = []  # the collectives beside the main line, for layers that have not begun
    for number, task in enumerate(tasks):
        collective = task.collective
        if collective is None:
            needed = [other for other in brought if _is_inside(task.layer, tasks[other].layer)]
            brought = [other for other in brought if other not in needed]
            task.after = [*last, *needed]
        elif collective.overlaps and collective.kind in _BRINGING:
            task.after = [*before_last]
            brought.append(number)
        else:
            task.after = [*last]
        if collective is None or not collective.overlaps:  # it is on the main line
            before_last, last = last, [number]
    return tasks


def _is_inside(layer: str, outer: str) -> bool:
    """Return whether a layer is another one, or inside of it; the model itself, without a path, is around all."""
    return not outer or f"{layer}.".startswith(f"{outer}.")


def _list_in_order(step: RankTrace) -> Iterator[Task]:
    """Yield the tasks in their order, without the tasks that they wait for."""
    collectives: defaultdict[int, list[Collective]] = defaultdict(list)
    for placed in step.exchanged:
        collectives[placed.position].append(placed.collective)
    operators, start = step.trace.operators, 0
    for position in sorted(collectives):
        yield from _list_work(operators[start:position])
        for collective in collectives[position]:
            yield Task(collective.layer, collective.phase, collective=collective)
        start = position + 1  # the operator at the position is the collective itself
    yield from _list_work(operators[start:])


def _list_work(operators: Sequence[OpRecord]) -> Iterator[Task]:
    """Yield a task for operators that follow each other in one layer; tasks without work are left out."""
    for (layer, phase), group in groupby(operators, lambda operator: (operator.layer, operator.phase)):
        task = Task(layer, phase, tuple(group))
        if task.flops or task.bytes:
            yield task
