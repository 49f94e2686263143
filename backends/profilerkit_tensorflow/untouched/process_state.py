"""The state of the process around a model: random numbers, the counters that name layers, the settings of Keras.

Only modules that are already imported are read.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

from tensorflow.python.eager import context as eager

from profilerkit.process.restoring import Step

from .switches import note_switches

__all__ = ["process_roots", "process_state"]

#: The attributes of modules that are settings of the process, or objects that hold its state.
_SETTINGS: dict[str, tuple[str, ...]] = {
    "sys": ("excepthook", "unraisablehook"),
    "threading": ("excepthook",),
    "tensorflow.python.eager.polymorphic_function.eager_function_run": ("RUN_FUNCTIONS_EAGERLY",),
    "tensorflow.python.data.ops.debug_mode": ("DEBUG_MODE",),
    "tensorflow.python.ops.stateful_random_ops": ("global_generator",),
    "keras.src.backend.config": (
        *("_FLOATX", "_EPSILON", "_IMAGE_DATA_FORMAT", "_NNX_ENABLED", "_MAX_EPOCHS", "_MAX_STEPS_PER_EPOCH"),
    ),
    "keras.src.saving.object_registration": ("GLOBAL_CUSTOM_OBJECTS", "GLOBAL_CUSTOM_NAMES"),
    "keras.src.backend.common.global_state": ("GLOBAL_STATE_TRACKER", "GLOBAL_SETTINGS_TRACKER"),
    "tf_keras.src.backend_config": ("_FLOATX", "_EPSILON", "_IMAGE_DATA_FORMAT"),
    "tf_keras.src.backend": (
        "PER_GRAPH_OBJECT_NAME_UIDS",
        "OBSERVED_NAMES",
        "_MANUAL_VAR_INIT",
        "_SEED_GENERATOR",
        "_USE_GENERATOR_FOR_RNG",
    ),
    "tf_keras.src.engine.base_layer_utils": ("_call_context",),
    "tf_keras.src.mixed_precision.policy": ("_global_policy",),
    "tf_keras.src.mixed_precision.autocast_variable": ("_autocast_dtype",),
}


def process_roots() -> list[Any]:
    """Return the objects that hold the state of Keras and TensorFlow, which are restored as a model is."""
    return [value for _, _, value in _attributes()]


def _attributes() -> Iterator[tuple[Any, str, Any]]:
    for name, attributes in _SETTINGS.items():
        module = sys.modules.get(name)
        for attribute in attributes if module else ():
            if hasattr(module, attribute):
                yield module, attribute, getattr(module, attribute)


def process_state() -> tuple[Step, list[Step]]:
    """Record the settings and random states of the process; return what changes its seed, and what restores all."""
    numpy = sys.modules.get("numpy")
    python_rng, numpy_rng = random.getstate(), numpy.random.get_state() if numpy else None
    settings = list(_attributes())
    change_context, restore_context = _context_state()

    def restore() -> None:
        for module, name, value in settings:
            if getattr(module, name, None) is not value:
                setattr(module, name, value)
        random.setstate(python_rng)
        if numpy and numpy_rng is not None:
            numpy.random.set_state(numpy_rng)

    return change_context, [restore_context, note_switches(), restore]


def _context_state() -> tuple[Step, Step]:
    """Record TensorFlow's global seed, the generator of the operators' seeds, and the default device.

    Until they are restored, another global seed is set. The kernel of a random operator is cached by its two seeds and
    counts its calls, and nothing can reset that count: under another seed the user's kernels are not used. Clearing
    the cache instead would restart them. The other seed is a function of the one that the user has set.
    """
    context = eager.context()
    seed, generator = context._seed, getattr(context, "_rng", None)
    state = generator.getstate() if generator else None
    device = context.device_name, context.device_spec
    stand_in = random.Random()
    if seed is not None and state is not None:
        stand_in.seed(f"{seed} {state[1][:4]} {state[1][-1]}")

    def change() -> None:
        context._seed, context._rng = stand_in.getrandbits(31), stand_in

    def restore() -> None:
        context._seed = seed
        if generator is None:
            vars(context).pop("_rng", None)
        else:
            context._rng = generator
            generator.setstate(state)
        if context.device_name != device[0]:
            context._set_device(*device)

    return change, restore
