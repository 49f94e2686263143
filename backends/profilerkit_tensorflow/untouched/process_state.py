"""The process around a model: random numbers, the counters that name layers, settings of TensorFlow and Keras.

Only modules that are already imported are read.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from profilerkit.backend_kit.python_state import note_python_state
from profilerkit.process.restoring import Step

from ..compat.process_state import ModuleState, Seeds, list_module_state, read_seeds, set_seeds
from .settings import SWITCHES, Switch

__all__ = ["record_process"]


class _RecordedProcess(NamedTuple):
    """The changes to the process while a model is profiled, and the steps that undo them.

    Attributes:
        change: Sets another seed.
        steps: Restore the seed, the settings and the random states.
    """

    change: Step
    steps: list[Step]


def record_process() -> _RecordedProcess:
    """Record the settings and random states of the process."""
    seed = _Seed()
    switches = [(switch, switch.read()) for switch in SWITCHES]
    modules = list(list_module_state())
    restore: list[Step] = [seed.restore, partial(_restore_switches, switches), partial(_restore_modules, modules)]
    return _RecordedProcess(seed.change, [*restore, note_python_state()])


def _restore_modules(states: Iterable[ModuleState]) -> None:
    for state in states:
        if getattr(state.module, state.name, None) is not state.value:
            setattr(state.module, state.name, state.value)


class _Seed:
    """The global seed of TensorFlow, as it was when this was made.

    The kernel of a random operator is cached by its two seeds and counts its calls, and nothing can reset that count:
    under another seed the user's kernels are not used. Clearing the cache instead would restart them.
    """

    def __init__(self) -> None:
        self._before = read_seeds()
        generator = None if self._before is None else self._before.generator
        self._state = None if generator is None else generator.getstate()

    def change(self) -> None:
        """Set another seed, which depends only on the user's seed."""
        if self._before is None:
            return
        stand_in = random.Random()
        if self._before.seed is not None and self._state is not None:
            numbers = self._state[1]  # the generator's numbers, and then the count of numbers that it has given
            stand_in.seed(f"{self._before.seed} {numbers[:4]} {numbers[-1]}")
        set_seeds(Seeds(stand_in.getrandbits(31), stand_in))

    def restore(self) -> None:
        """Set the seed that it was."""
        if self._before is not None:
            set_seeds(self._before)
            if self._state is not None:
                self._before.generator.setstate(self._state)


def _restore_switches(switches: Iterable[tuple[Switch, Any]]) -> None:
    """Set the settings that have changed to the values that were read."""
    for switch, value in switches:
        if switch.read() != value:
            switch.put(value)
