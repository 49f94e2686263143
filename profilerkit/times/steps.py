"""The measurements of a step of a training loop, and the interface by which a backend takes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..arguments.checks import Check, at_least, several
from ..count_text import format_count, name_several
from ..inputs import ModelInputs
from .layer_times import LayerTime

__all__ = ["STEPS", "StepRecord", "StepRecorder", "WatchedSteps"]


@dataclass(frozen=True)
class StepRecord:
    """Seconds of one step and of its parts; None if the step did not have the part.

    Attributes:
        seconds: The seconds of the whole step.
        forward: The seconds of the model's layers forward, over all calls of the model in the step.
        backward: The seconds of the model's layers backward, likewise.
        optimizer: The seconds of the update of the weights.
        memory: Bytes on the device, if it tells: ``forward_end``, ``backward_end``, ``optimizer_end`` and ``step_end``,
            and ``forward_peak`` and so on for a phase in which more was allocated than ever before in the process.
        calls: How often the model was called: more than once if gradients are accumulated; None if unknown.
    """

    seconds: float
    forward: float | None = None
    backward: float | None = None
    optimizer: float | None = None
    memory: Mapping[str, int] = field(default_factory=dict)
    calls: int | None = None

    @property
    def other(self) -> float:
        """The rest: loading data, the loss and its gradient, all other work of the loop, and measuring."""
        return self.seconds - sum(part or 0.0 for part in (self.forward, self.backward, self.optimizer))


@dataclass(frozen=True)
class WatchedSteps:
    """The steps of a training loop that were measured.

    Attributes:
        asked: The numbers of the requested steps.
        steps: The records of the measured steps, by their numbers.
        loop_steps: How many steps the loop had.
        unwatched: The seconds of the steps that were not measured, the first step left out.
        layers: The times of each layer; every call of the model in a measured step is a pass.
        reasons: Why a part of a step could not be measured, by part.
    """

    asked: tuple[int, ...]
    steps: Mapping[int, StepRecord]
    loop_steps: int
    unwatched: tuple[float, ...] = ()
    layers: tuple[LayerTime, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def missed(self) -> str:
        """A sentence that names the requested steps that the loop did not reach; empty if it reached all."""
        missed = [step for step in self.asked if step not in self.steps]
        if not missed:
            return ""
        which = f"{name_several('step', len(missed))} {', '.join(map(str, missed))}"
        was = "was" if len(missed) == 1 else "were"
        hint = "" if self.loop_steps else ": call step() at the end of each iteration"
        return f"{which} {was} requested, the loop ended after {format_count(self.loop_steps, 'step')}{hint}"

    @property
    def without_calls(self) -> str:
        """Why no measured step called the model; empty if one did, or if that is not known."""
        if not self.steps:
            return self.missed or "no step was measured: call start() and stop()"
        is_idle = all(step.calls == 0 for step in self.steps.values())
        return "the model was not called in the steps that were measured" if is_idle else ""

    def explain_absence(self, part: str) -> str:
        """Return why "forward", "backward", "optimizer" or "memory" was not measured, or a general text."""
        return self.reasons.get(part, f"the backend has measured nothing of {part!r} in these steps")


def _read_steps(value: Any) -> tuple[int, ...]:
    """Return step numbers in ascending order, each once; raises `ValueError` for none at all."""
    single = not isinstance(value, Iterable) or getattr(value, "shape", None) == ()
    steps = {at_least(0).read(step) for step in ([value] if single else several(value))}
    if not steps:
        raise ValueError
    return tuple(sorted(steps))


#: The steps of a loop that are measured.
STEPS = Check("the number of a step, counted from 0, or several: at_step=(5, 6, 7)", _read_steps)


class StepRecorder(ABC):
    """Measures a step. Outside of `begin` and `end` it leaves nothing in the model or the process."""

    @abstractmethod
    def begin(self) -> None:
        """Begin to measure a step."""

    @abstractmethod
    def end(self) -> StepRecord:
        """End the step and return its seconds. Everything that was added to the model or the process is removed."""

    @abstractmethod
    def abandon(self) -> None:
        """Remove everything without reading times, because the step did not end."""

    @abstractmethod
    def layers(self) -> Sequence[LayerTime]:
        """Return the times of each layer in the steps so far."""

    @property
    def inputs(self) -> ModelInputs | None:
        """The inputs of the last call of the model in a measured step; None if it was not called."""
        return None

    @property
    def optimizer(self) -> Any:
        """The optimizer that updated the model in a measured step; None if unknown."""
        return None

    @property
    def reasons(self) -> Mapping[str, str]:
        """The reasons why parts of a step cannot be measured, by "forward", "backward", "optimizer" or "memory"."""
        return {}
