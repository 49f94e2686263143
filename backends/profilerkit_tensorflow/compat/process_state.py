"""The state of the process that TensorFlow and Keras keep."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit.backend_kit.keras_layers import find_keras_state
from profilerkit.backend_kit.private_names import field, find
from profilerkit.process.interrupts import keep_interrupts_from

from .names import find_first, lacking

#: The seed of TensorFlow, and the generator of the seeds of operators. Without them each profile says that it draws.
_SEED, _SEEDS = field("_seed"), field("_rng")
_context: Any = find("tensorflow.python.eager.context.context")
if _context is None:
    lacking.append(f"TensorFlow {tf.__version__} hides its random seed: a profile may change what is drawn afterwards")
# The C code of a tape asks tensors for their dtype, and crashes if an interrupt is raised there.
keep_interrupts_from(getattr(tf.Tensor.dtype, "fget", None))
#: Whether gradients are recorded in this thread, or recording was stopped. Without these that is not refused.
_recording_is_off: Any = find("tensorflow.python.pywrap_tfe.TFE_Py_TapeSetIsEmpty")
_recording_is_stopped: Any = find("tensorflow.python.pywrap_tfe.TFE_Py_TapeSetIsStopped")
if None in (_recording_is_off, _recording_is_stopped):
    lacking.append(f"TensorFlow {tf.__version__} does not tell whether a gradient tape records what is profiled")
#: Only these read or change some settings. Without them a model's change of a setting stays, and no report names it.
is_deterministic: Callable[[], bool] = find_first(
    "tensorflow.python.framework.config.is_op_determinism_enabled", instead=lambda: False
)
stop_being_deterministic: Callable[[], object] = find_first(
    "tensorflow.python.framework.config.disable_op_determinism", instead=lambda: None
)
_promotion: Any = find("tensorflow.python.framework.ops.get_dtype_conversion_mode")
#: Attributes of modules that are settings of the process, or hold its state. A missing attribute is not restored.
_STATE: dict[str, tuple[str, ...]] = {
    "tensorflow.python.eager.polymorphic_function.eager_function_run": ("RUN_FUNCTIONS_EAGERLY",),
    "tensorflow.python.data.ops.debug_mode": ("DEBUG_MODE",),
    "tensorflow.python.autograph.utils.ag_logging": ("verbosity_level", "echo_log_to_stdout"),
    "tensorflow.python.ops.stateful_random_ops": ("global_generator",),
    "keras.src.backend.config": (
        *("_FLOATX", "_EPSILON", "_IMAGE_DATA_FORMAT", "_NNX_ENABLED", "_MAX_EPOCHS", "_MAX_STEPS_PER_EPOCH"),
    ),
    "keras.src.saving.object_registration": ("GLOBAL_CUSTOM_OBJECTS", "GLOBAL_CUSTOM_NAMES"),
    "keras.src.backend.common.global_state": ("GLOBAL_STATE_TRACKER", "GLOBAL_SETTINGS_TRACKER"),
    "tf_keras.src.backend_config": ("_FLOATX", "_EPSILON", "_IMAGE_DATA_FORMAT"),
    "tf_keras.src.backend": (
        *("PER_GRAPH_OBJECT_NAME_UIDS", "OBSERVED_NAMES", "_MANUAL_VAR_INIT"),
        *("_SEED_GENERATOR", "_USE_GENERATOR_FOR_RNG"),
    ),
    "tf_keras.src.engine.base_layer_utils": ("_call_context",),
    "tf_keras.src.mixed_precision.policy": ("_global_policy",),
    "tf_keras.src.mixed_precision.autocast_variable": ("_autocast_dtype",),
}


class Seeds(NamedTuple):
    """TensorFlow's seed, and the generator of the seeds of operators; None if there is none."""

    seed: Any
    generator: Any


class ModuleState(NamedTuple):
    """An attribute of a module that is a setting of the process, or holds its state, with its value."""

    module: Any
    name: str
    value: Any


def list_notes() -> list[str]:
    """Return the capabilities that are off in these releases of TensorFlow and Keras although calls go on."""
    hidden = "keras" in sys.modules and find_keras_state() is None
    return [*lacking, *(["this release of Keras hides its state: later layers may have other names"] if hidden else [])]


def read_seeds() -> Seeds | None:
    """Return the seeds as they are now; None if this release hides them."""
    context = None if _context is None else _context()
    return Seeds(getattr(context, _SEED), getattr(context, _SEEDS, None)) if hasattr(context, _SEED) else None


def set_seeds(seeds: Seeds) -> None:
    """Set both; no generator if there was none."""
    context = _context()
    setattr(context, _SEED, seeds.seed)
    if seeds.generator is not None:
        setattr(context, _SEEDS, seeds.generator)
    else:
        vars(context).pop(_SEEDS, None)


def read_promotion() -> str:
    """Return how operators convert the dtypes of their arguments; "off", the default, if this release does not tell."""
    return "off" if _promotion is None else str(_promotion().name).lower()


def list_module_state() -> Iterator[ModuleState]:
    """Yield the state of Keras and TensorFlow that imported modules hold."""
    for name, attributes in _STATE.items():
        module = sys.modules.get(name)
        for attribute in attributes if module else ():
            if hasattr(module, attribute):
                yield ModuleState(module, attribute, getattr(module, attribute))


def is_recorded() -> bool:
    """Return whether a tape records the operators of this thread; False if this release does not tell."""
    return _recording_is_off is not None and not _recording_is_off()


def is_recording_stopped() -> bool:
    """Return whether nothing can be recorded in this thread; False if this release does not tell."""
    return _recording_is_stopped is not None and bool(_recording_is_stopped())
