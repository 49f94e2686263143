"""Work that no callback of TensorFlow shows: on values that leave it for numpy, and in threads of the model.

Such a count is a lower bound; the name of the uncounted work says where the values leave TensorFlow.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import PurePath
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit.backend_kit.replaced_attributes import replace_attribute

from ..compat.eager_runs import EAGER_TENSOR, EXECUTORS, GIVE_VALUES, RUNTIME, shows_departures
from ..compat.variables import ResourceVariable

__all__ = ["Departures"]

#: This package, whose frames are around the model's frames.
_THIS_PACKAGE = __name__.partition(".")[0]
#: Packages by which others read values.
_READERS = ("numpy", "tensorflow")
#: Packages whose own reading of values leads to no work that is not counted.
_LIBRARIES = (*_READERS, "keras", "optree", "tf_keras", "tree", _THIS_PACKAGE)
#: Gives the values to another library, without a copy.
_TO_DLPACK = "TFE_ToDlpackCapsule"
#: So many pairs of integers are no data: TensorFlow itself reads the paddings of convolutions, a pair to a dimension.
_MOST_PAIRS = 8
#: Operators that do no work wherever they run.
_FREE = ("Identity", "ReadVariableOp", "NoOp", "EagerConst")


class Departures:
    """Notes, inside of `watch`, the places where values leave TensorFlow, and the operators of other threads.

    Args:
        note_reader: Called with each tensor whose values a model or a library reads.

    Attributes:
        missing: Descriptions of uncounted work, with their numbers.
    """

    def __init__(self, note_reader: Callable[[Any], None]) -> None:
        self.missing: Counter[str] = Counter()
        self._note_reader = note_reader
        self._thread = threading.get_ident()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Notice values that leave, and operators in other threads."""
        if not shows_departures(tf.constant(0)):
            self.missing["work on values that leave TensorFlow and in threads, which this release does not show"] += 1
        wrappers = (
            *((RUNTIME, name, self._wrap_executing) for name in EXECUTORS),
            (EAGER_TENSOR, GIVE_VALUES, self._wrap_leaving),
            (RUNTIME, _TO_DLPACK, self._wrap_leaving),
        )
        with ExitStack() as patches:
            for owner, name, wrap in wrappers:
                if hasattr(owner, name):
                    patches.enter_context(replace_attribute(owner, name, wrap(getattr(owner, name))))
            yield

    def check_operands(self, kind: str, tensors: Iterable[Any], is_of_operator: Callable[[Any], bool]) -> None:
        """Note an operand that was made by no operator: ``np.asarray`` hands values to numpy without being noticed.

        It may also be a constant that is made in each call: then the lower bound is exact.
        """
        if self.missing:  # the count is a lower bound already
            return
        if any(_is_work(tensor) and not is_of_operator(tensor) for tensor in tensors):
            self.missing[f"work that led to an operand of {kind} that TensorFlow did not compute"] += 1

    def check_results(self, outputs: Any, is_of_operator: Callable[[Any], bool]) -> None:
        """Note a result that no operator made, for example numpy."""
        if self.missing:
            return
        leaves = tf.nest.flatten(outputs)
        arrays = [np.asarray(leaf) for leaf in leaves if hasattr(leaf, "__array_interface__")]
        tensors = [leaf for leaf in leaves if tf.is_tensor(leaf) and hasattr(leaf, "numpy")]
        if any(map(_is_work, [*arrays, *(tensor for tensor in tensors if not is_of_operator(tensor))])):
            self.missing["a result of the model that TensorFlow did not compute"] += 1

    def _wrap_leaving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that makes numpy arrays of tensors: computations with these arrays are not counted."""

        def leave(tensor: Any, *args: Any) -> Any:
            if tf.executing_eagerly():  # a graph that is built takes constants in
                frame = sys._getframe(1)
                if _find_frame(frame, _READERS) is not None:
                    self._note_reader(tensor)
                asking = _find_frame(frame, _LIBRARIES)
                if asking is not None and _is_work(tensor):
                    self.missing[f"work on values that leave TensorFlow{_describe_place(asking)}"] += 1
            return original(tensor, *args)

        return leave

    def _wrap_executing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that runs operators: other threads' are not counted; variables are read before them."""

        def execute(*args: Any) -> Any:
            if threading.get_ident() != self._thread and (kind := _find_operator_type(args)) not in _FREE:
                where = _describe_place(_find_frame(sys._getframe(1), _LIBRARIES))
                self.missing[f"{kind} in another thread{where}"] += 1
            return original(*map(_read_variables, args))

        return execute


def _find_operator_type(args: Sequence[Any]) -> str:
    """Return the type of the operator that a function of TensorFlow's gets: after a context, and perhaps a device."""
    return next((arg for arg in args[1:3] if isinstance(arg, str) and arg.isidentifier()), "operators")


def _find_frame(frame: FrameType | None, skipped: Sequence[str]) -> FrameType | None:
    """Return the innermost frame outside of the skipped packages; None if this package stands inside of it."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == _THIS_PACKAGE:
            return None
        if package not in skipped:
            return frame
        frame = frame.f_back
    return None


def _describe_place(frame: FrameType | None) -> str:
    """Return the line of a frame, as the end of a sentence."""
    return "" if frame is None else f" ({PurePath(frame.f_code.co_filename).name}, line {frame.f_lineno})"


def _read_variables(argument: Any) -> Any:
    """Return the values of variables that an operator is given: its code in C would read them and show no operator."""
    if isinstance(argument, ResourceVariable):
        return argument.value()
    if isinstance(argument, (list, tuple)) and any(isinstance(one, ResourceVariable) for one in argument):
        return [_read_variables(one) for one in argument]
    return argument


def _is_work(tensor: Any) -> bool:
    """Return whether arithmetic on a tensor would count: not on single numbers, and not on sizes and indices."""
    elements = math.prod(tensor.shape)
    try:
        dtype = tf.as_dtype(tensor.dtype)
    except TypeError:  # of numpy alone: dates are no work, as texts; structures and longer floats may be
        return elements > 1 and tensor.dtype.kind not in "mM"
    if dtype.is_integer:
        is_padding = tensor.shape[-1:] == (2,) and elements <= 2 * _MOST_PAIRS
        return len(tensor.shape) > 1 and elements > 1 and not is_padding
    return elements > 1 and bool(dtype.is_floating or dtype.is_complex)
