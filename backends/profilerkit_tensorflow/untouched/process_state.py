"""The process around a model: random numbers, the counters that name layers, settings of TensorFlow and Keras.

Only modules that are already imported are read.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from typing import Any

from profilerkit.backend_kit.python_state import note_python_state
from profilerkit.process.restoring import Step

from ..compat.process_state import ModuleState, Seeds, list_module_state, read_seeds, set_seeds
from .settings import SWITCHES, Switch

__all__ = ["change_seed", "note_process"]


def note_process() -> list[Step]:
    """Return the steps that restore the seed, the settings and the random states of the process as they are now."""
    seeds = read_seeds()
    numbers = None if seeds is None or seeds.generator is None else seeds.generator.getstate()
    switches = [(switch, switch.read()) for switch in SWITCHES]
    return [
        partial(_restore_seeds, seeds, numbers),
        partial(_restore_switches, switches),
        partial(_restore_modules, list(list_module_state())),
        note_python_state(),
    ]


def change_seed() -> None:
    """Set another global seed of TensorFlow, which depends only on the user's seed.

    The kernel of a random operator is cached by its two seeds and counts its calls, and nothing can reset that count:
    under another seed the user's kernels are not used. Clearing the cache instead would restart them.
    """
    seeds = read_seeds()
    if seeds is None:
        return
    stand_in = random.Random()
    if seeds.seed is not None and seeds.generator is not None:
        numbers = seeds.generator.getstate()[1]  # its numbers, and then the count of those that it has given
        stand_in.seed(f"{seeds.seed} {numbers[:4]} {numbers[-1]}")
    set_seeds(Seeds(stand_in.getrandbits(31), stand_in))


def _restore_seeds(seeds: Seeds | None, numbers: Any) -> None:
    """Set the seed that it was, and its generator, to the numbers that it had."""
    if seeds is not None:
        set_seeds(seeds)
        if numbers is not None:
            seeds.generator.setstate(numbers)


def _restore_switches(switches: Iterable[tuple[Switch, Any]]) -> None:
    """Set the settings that have changed to the values that were read."""
    for switch, value in switches:
        if switch.read() != value:
            switch.put(value)


def _restore_modules(states: Iterable[ModuleState]) -> None:
    for state in states:
        if getattr(state.module, state.name, None) is not state.value:
            setattr(state.module, state.name, state.value)
