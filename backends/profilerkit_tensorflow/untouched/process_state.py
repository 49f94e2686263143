"""The state of the process around a model: random numbers, the counters that name layers, the settings of Keras.

Only modules that are already imported are read.
"""

from __future__ import annotations

import random
import sys
import threading
from typing import Any, NamedTuple

import numpy as np

from profilerkit.process.restoring import Step

from ..compat.process_state import ModuleState, Seeds, list_module_state, read_seeds, set_seeds
from .switches import note_switches

__all__ = ["RecordedProcess", "process_roots", "record_process"]

#: Settings of Python that a model's code may change, beside those of TensorFlow and Keras.
_HOOKS = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"))


class RecordedProcess(NamedTuple):
    """What is done to the process while a model is profiled, and what undoes it.

    Attributes:
        change: Sets another seed.
        steps: Restore the seed, the settings and the random states.
    """

    change: Step
    steps: list[Step]


def process_roots() -> list[Any]:
    """Return the objects that hold the state of Keras and TensorFlow, which are restored as a model is."""
    return [state.value for state in list_module_state()]


def record_process() -> RecordedProcess:
    """Record the settings and random states of the process."""
    python_rng, numpy_rng = random.getstate(), np.random.get_state()
    hooks = [ModuleState(module, name, getattr(module, name)) for module, name in _HOOKS]
    states = [*list_module_state(), *hooks]
    change_seed, restore_seed = _record_seed()

    def restore() -> None:
        for state in states:
            if getattr(state.module, state.name, None) is not state.value:
                setattr(state.module, state.name, state.value)
        random.setstate(python_rng)
        np.random.set_state(numpy_rng)

    return RecordedProcess(change_seed, [restore_seed, note_switches(), restore])


def _record_seed() -> tuple[Step, Step]:
    """Return what sets another global seed of TensorFlow's, and what restores the present one.

    The kernel of a random operator is cached by its two seeds and counts its calls, and nothing can reset that count:
    under another seed the user's kernels are not used. Clearing the cache instead would restart them. The other seed is
    a function of the one that the user has set.
    """
    before = read_seeds()
    if before is None:
        return (lambda: None), (lambda: None)
    state = before.generator.getstate() if before.generator else None
    stand_in = random.Random()
    if before.seed is not None and state is not None:
        numbers = state[1]  # those of the generator, and behind them how many it has given
        stand_in.seed(f"{before.seed} {numbers[:4]} {numbers[-1]}")

    def change() -> None:
        set_seeds(Seeds(stand_in.getrandbits(31), stand_in))

    def restore() -> None:
        set_seeds(before)
        if before.generator is not None:
            before.generator.setstate(state)

    return change, restore
