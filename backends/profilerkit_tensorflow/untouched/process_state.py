"""The process around a model: random numbers, the counters that name layers, settings of TensorFlow and Keras.

Only modules that are already imported are read.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit.backend_kit.python_state import note_python_state
from profilerkit.process.restoring import Step

from ..compat.process_state import (
    Seeds,
    is_deterministic,
    list_module_state,
    read_seeds,
    set_seeds,
    stop_being_deterministic,
)

__all__ = ["put_graph_options", "record_process"]


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
    states = list(list_module_state())
    change_seed, restore_seed = _record_seed()

    def restore_modules() -> None:
        for state in states:
            if getattr(state.module, state.name, None) is not state.value:
                setattr(state.module, state.name, state.value)

    return _RecordedProcess(change_seed, [restore_seed, _note_switches(), restore_modules, note_python_state()])


def _record_seed() -> tuple[Step, Step]:
    """Return a function that sets another global seed of TensorFlow, and a function that restores the present one.

    The kernel of a random operator is cached by its two seeds and counts its calls, and nothing can reset that count:
    under another seed the user's kernels are not used. Clearing the cache instead would restart them. The other seed
    depends only on the user's seed.
    """
    before = read_seeds()
    if before is None:
        return (lambda: None), (lambda: None)
    state = before.generator.getstate() if before.generator else None
    stand_in = random.Random()
    if before.seed is not None and state is not None:
        numbers = state[1]  # the generator's numbers, and then the count of numbers that it has given
        stand_in.seed(f"{before.seed} {numbers[:4]} {numbers[-1]}")

    def change() -> None:
        set_seeds(Seeds(stand_in.getrandbits(31), stand_in))

    def restore() -> None:
        set_seeds(before)
        if before.generator is not None:
            before.generator.setstate(state)

    return change, restore


class _Switch(NamedTuple):
    """A setting: a function that reads it, and a function that sets it to the value read."""

    read: Callable[[], Any]
    put: Callable[[Any], Any]


def _put_determinism(on: bool) -> None:
    if on:
        tf.config.experimental.enable_op_determinism()
    else:
        stop_being_deterministic()


def put_graph_options(options: dict[str, Any]) -> None:
    """Set the options of the graph optimizer to these, and to no others: None takes one away."""
    optimizer = tf.config.optimizer
    optimizer.set_experimental_options({**dict.fromkeys(optimizer.get_experimental_options()), **options})


def _put_traceback_filtering(on: bool) -> None:
    if on:
        tf.debugging.enable_traceback_filtering()
    else:
        tf.debugging.disable_traceback_filtering()


_config = tf.config
_experimental = tf.config.experimental
_SWITCHES: tuple[_Switch, ...] = (
    _Switch(is_deterministic, _put_determinism),
    _Switch(_experimental.tensor_float_32_execution_enabled, _experimental.enable_tensor_float_32_execution),
    _Switch(_config.get_soft_device_placement, _config.set_soft_device_placement),
    _Switch(tf.debugging.get_log_device_placement, tf.debugging.set_log_device_placement),
    _Switch(_config.optimizer.get_jit, _config.optimizer.set_jit),
    _Switch(_config.optimizer.get_experimental_options, put_graph_options),
    _Switch(_experimental.get_synchronous_execution, _experimental.set_synchronous_execution),
    _Switch(_experimental.get_device_policy, _experimental.set_device_policy),
    _Switch(tf.debugging.is_traceback_filtering_enabled, _put_traceback_filtering),
)


def _note_switches() -> Callable[[], None]:
    """Record all settings, and return a function that restores the changed settings."""
    noted = [(switch, switch.read()) for switch in _SWITCHES]

    def restore() -> None:
        for switch, value in noted:
            if switch.read() != value:
                switch.put(value)

    return restore
