"""Gradient tapes: whether a tape records the profiled operators."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.private_names import find

from .names import lacking

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
