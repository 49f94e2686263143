"""Questions: what a model asks in a graph, and whether a tape records what is profiled."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.private_names import field, find

from .names import lacking

#: The class that ``tf.executing_eagerly()`` asks. Without one of these three any model may have asked: it is run once.
Context: Any = find("tensorflow.python.eager.context.Context")
#: The class of tensors in a graph.
SymbolicTensor: Any = find("tensorflow.python.framework.ops.SymbolicTensor")
#: What ``bool()`` and ``iter()`` of such a tensor call, to raise.
DISALLOW = field("_disallow")


def list_unheard_questions() -> tuple[str, ...]:
    """Return in words that a model may have asked something that this release does not show; nothing where it does."""
    shows = None not in (Context, SymbolicTensor) and hasattr(tf.Tensor, DISALLOW)
    return () if shows else ("or may do so: this release of TensorFlow does not show it",)


#: Whether gradients are recorded in this thread, or recording was stopped. Without these that is not refused.
_recording_is_off: Any = find("tensorflow.python.pywrap_tfe.TFE_Py_TapeSetIsEmpty")
_recording_is_stopped: Any = find("tensorflow.python.pywrap_tfe.TFE_Py_TapeSetIsStopped")
if None in (_recording_is_off, _recording_is_stopped):
    lacking.append(f"TensorFlow {tf.__version__} does not tell whether a gradient tape records what is profiled")


def is_recorded() -> bool:
    """Return whether a tape records the operators of this thread; False if this release does not tell."""
    return _recording_is_off is not None and not _recording_is_off()


def is_recording_stopped() -> bool:
    """Return whether nothing can be recorded in this thread; False if this release does not tell."""
    return _recording_is_stopped is not None and bool(_recording_is_stopped())
