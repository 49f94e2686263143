"""The state of the process around a model: random numbers, the counters that name layers, the settings of Keras.

Only modules that are already imported are read.
"""

from __future__ import annotations

import random
import sys
import threading
from typing import Any

import numpy as np

from profilerkit.process.restoring import Step

from ..compat.process_state import list_module_state, read_seeds, set_seeds
from .switches import note_switches

__all__ = ["process_roots", "process_state"]

#: Settings of Python that a model's code may change, beside those of TensorFlow and Keras.
_HOOKS = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"))


def process_roots() -> list[Any]:
    """Return the objects that hold the state of Keras and TensorFlow, which are restored as a model is."""
    return [value for _, _, value in list_module_state()]


def process_state() -> tuple[Step, list[Step]]:
    """Record the settings and random states of the process; return what changes its seed, and what restores all."""
    python_rng, numpy_rng = random.getstate(), np.random.get_state()
    settings = [*list_module_state(), *((module, name, getattr(module, name)) for module, name in _HOOKS)]
    change_seed, restore_seed = _record_seed()

    def restore() -> None:
        for module, name, value in settings:
            if getattr(module, name, None) is not value:
                setattr(module, name, value)
        random.setstate(python_rng)
        np.random.set_state(numpy_rng)

    return change_seed, [restore_seed, note_switches(), restore]


def _record_seed() -> tuple[Step, Step]:
    """Record TensorFlow's global seed and the generator of the operators' seeds.

    Until they are restored, another global seed is set. The kernel of a random operator is cached by its two seeds and
    counts its calls, and nothing can reset that count: under another seed the user's kernels are not used. Clearing
    the cache instead would restart them. The other seed is a function of the one that the user has set.
    """
    before = read_seeds()
    if before is None:
        return (lambda: None), (lambda: None)
    seed, generator = before
    state = generator.getstate() if generator else None
    stand_in = random.Random()
    if seed is not None and state is not None:
        stand_in.seed(f"{seed} {state[1][:4]} {state[1][-1]}")

    def change() -> None:
        set_seeds(stand_in.getrandbits(31), stand_in)

    def restore() -> None:
        set_seeds(seed, generator)
        if generator is not None:
            generator.setstate(state)

    return change, restore
