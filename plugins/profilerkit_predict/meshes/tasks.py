"""The step of a rank as tasks in their order: the work of layers, and what is exchanged between; which waits for which.

Operators that follow each other in one layer are one task. A task of work waits for the one before it. A collective
that the next operator needs is waited for by the next task. One that runs beside the work, as what gathers weights
does, begins a task earlier, and the layer that it is for waits for it; nobody waits for what reduces gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from profilerkit.errors import NotOfferedError
from profilerkit.trace.records import OpRecord

from .records import Collective, RankTrace

__all__ = ["Task", "list_tasks"]

#: The kinds that bring something that the rank's work reads; the others take away what it made.
_BRINGING = ("all-gather", "broadcast", "receive")


@dataclass
class Task:
    """A part of a step.

    Attributes:
        layer: The path of the layer; empty for the model itself.
        phase: "forward", "backward" or "update".
        operators: The work.
        collective: What is exchanged; None for work.
        after: The numbers of the tasks that it waits for.
    """

    layer: str
    phase: str
    operators: tuple[OpRecord, ...] = ()
    collective: Collective | None = None
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
        """What it does: the layer and the phase, and the kind of collective if it is one."""
        kind = "" if self.collective is None else f" {self.collective.kind} over {self.collective.dimension}"
        return f"{self.layer or 'model'} {self.phase}{kind}"


def list_tasks(step: RankTrace) -> list[Task]:
    """Return the tasks of a step; each waits for tasks with lower numbers.

    Raises `NotOfferedError` for a step of which it is not known when it exchanges what.
    """
    if step.unknown:
        raise NotOfferedError("it is not known in which order this step exchanges what it does, or how much")
    tasks: list[Task] = []
    line: list[int] = []  # the tasks that follow each other
    waiting: list[int] = []  # what is gathered for a layer that has not begun
    for task in _list_alone(step):
        number = len(tasks)
        tasks.append(task)
        overlaps = task.collective is not None and task.collective.overlaps
        if not overlaps:
            ready = [gathered for gathered in waiting if task.collective is None and _is_for(tasks[gathered], task)]
            waiting = [gathered for gathered in waiting if gathered not in ready]
            task.after = [*line[-1:], *ready]
            line.append(number)
        elif task.collective is not None and task.collective.kind in _BRINGING:
            task.after = line[-2:-1]
            waiting.append(number)
        else:
            task.after = line[-1:]
    return tasks


def _is_for(gathered: Task, task: Task) -> bool:
    """Return whether what was gathered is for the layer of a task, or for one around it."""
    return f"{task.layer}.".startswith(f"{gathered.layer}.") if gathered.layer else True


def _list_alone(step: RankTrace) -> Iterator[Task]:
    """Yield the tasks in their order, without what they wait for."""
    collectives: dict[int, list[Collective]] = {}
    for placed in step.exchanged:
        collectives.setdefault(placed.position, []).append(placed.collective)
    operators = step.trace.operators
    for key, numbers in groupby(range(len(operators)), lambda number: _find_key(number, operators, collectives)):
        if isinstance(key, int):
            yield from _list_exchanges(collectives[key])
            continue
        task = Task(*key, tuple(operators[number] for number in numbers))
        if task.flops or task.bytes:
            yield task
    for position in sorted(position for position in collectives if position >= len(operators)):
        yield from _list_exchanges(collectives[position])


def _find_key(number: int, operators: Sequence[OpRecord], collectives: Mapping[int, object]) -> int | tuple[str, str]:
    """Return what an operator shares with those of its task; its number for one that is a collective."""
    return number if number in collectives else (operators[number].layer, operators[number].phase)


def _list_exchanges(collectives: Sequence[Collective]) -> Iterator[Task]:
    return (Task(collective.layer, collective.phase, collective=collective) for collective in collectives)
