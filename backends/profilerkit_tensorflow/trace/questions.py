"""Questions of a model whose answer in a graph differs from that in an eager run, and which it may survive.

``x.numpy()``, ``bool(x)`` or ``len(x)`` raise in a graph, and in a ``try`` the model goes on by another way;
``tf.executing_eagerly()`` and ``x.device`` answer otherwise. They are answered as TensorFlow answers them, and noted:
whether the model does other work when it is run eagerly is then found by such a run.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import PurePath
from types import FrameType
from typing import Any

import tensorflow as tf

from profilerkit.process.restoring import restored

from ..compat import DISALLOW, Context, SymbolicTensor

__all__ = ["Questions", "outside_of_libraries", "replace_attribute"]

#: This package, whose frames are around those of the model.
_OWN = __name__.partition(".")[0]
#: Packages whose own questions lead to the same work either way.
_LIBRARIES = ("keras", "numpy", "optree", "tensorflow", "tf_keras", "tree", _OWN)
#: Conversions that symbolic tensors lack: Python looks for them on the class.
_CONVERSIONS = ("__complex__", "__float__", "__index__", "__int__")
_EAGER: type = type(tf.constant(0))
_ABSENT = object()


class Questions:
    """Notes, while it is `listen`, what a model asks in a graph.

    Attributes:
        asked: Each question in words, with the file and line of the code that asks.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._thread = threading.get_ident()

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Notice what is asked of symbolic tensors and of the context in this thread."""
        symbolic, tensor = SymbolicTensor, tf.Tensor
        ways: list[tuple[Any, str, Callable[[Any], Any]]] = [
            (Context, "executing_eagerly", self._answer_executing_eagerly),
            (tensor, "__getattr__", self._note_missing),
            (tensor, DISALLOW, partial(self._note_raising, "bool() or iter() of a tensor")),
            (tensor, "__len__", partial(self._note_raising, "len() of a tensor")),
            (tensor, "__array__", partial(self._note_raising, "the values of a tensor")),
            (symbolic, "device", self._device),
            (tf, "get_static_value", partial(self._public, "tf.get_static_value()", None)),
            (tf, "inside_function", partial(self._public, "tf.inside_function()", True)),
            (tf, "is_symbolic_tensor", partial(self._public, "tf.is_symbolic_tensor()", True)),
            *((symbolic, name, partial(self._conversion, name)) for name in _CONVERSIONS),
        ]
        with ExitStack() as patches:
            for owner, name, method in ways:
                original = getattr(owner, name, None)
                if owner is not None and (original is None) == (name in _CONVERSIONS):
                    patches.enter_context(replace_attribute(owner, name, method(original)))
            yield

    def _note(self, question: str, frame: FrameType | None) -> None:
        if frame is None or threading.get_ident() != self._thread:
            return
        file, function = PurePath(frame.f_code.co_filename).name, frame.f_code.co_name
        converted = file.startswith("__autograph_generated_file")
        location = f"{function.removeprefix('tf__')}()" if converted else f"{file}, line {frame.f_lineno}"
        asked = f"{question} in {location}"
        if asked not in self.asked:
            self.asked.append(asked)

    def _answer_executing_eagerly(self, original: Callable[[Any], bool]) -> Callable[[Any], bool]:
        public = tf.executing_eagerly.__code__

        def executing_eagerly(this: Any) -> bool:
            answer = original(this)
            if not answer:
                frame = sys._getframe(1)
                if frame.f_code is public:
                    asking = _find_asking(frame.f_back)
                    if not _is_of_a_library(asking):
                        self._note("tf.executing_eagerly()", asking)
            return answer

        return executing_eagerly

    def _note_missing(self, original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def __getattr__(this: Any, name: str) -> Any:
            if hasattr(_EAGER, name) and (name.startswith("__") or not name.startswith("_")):
                self._note(f".{name} of a tensor", outside_of_libraries(sys._getframe(1)))
            return original(this, name)

        return __getattr__

    def _note_raising(self, question: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(this: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return original(this, *args, **kwargs)
            except Exception:
                self._note(question, outside_of_libraries(sys._getframe(1)))
                raise

        return method

    def _conversion(self, name: str, original: None) -> Callable[[Any], Any]:
        word = name.strip("_")

        def method(this: Any) -> Any:
            self._note(f"{word}() of a tensor", outside_of_libraries(sys._getframe(1)))
            raise TypeError(f"a symbolic tensor has no value for {word}()")

        return method

    def _device(self, original: Any) -> property:
        def device(this: Any) -> Any:
            asking = _find_asking(sys._getframe(1))
            if not _is_of_a_library(asking):
                self._note(".device of a tensor", asking)
            return original.__get__(this, type(this))

        return property(device)

    def _public(self, question: str, in_graph: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            if answer is in_graph:
                asking = _find_asking(sys._getframe(1))
                if not _is_of_a_library(asking):
                    self._note(question, asking)
            return answer

        unconverted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
        return unconverted


@contextmanager
def replace_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Have an attribute of a class or module another value meanwhile."""
    before = vars(owner).get(name, _ABSENT)

    def restore() -> None:
        if before is _ABSENT:
            if name in vars(owner):
                delattr(owner, name)
        else:
            setattr(owner, name, before)

    with restored(restore):
        setattr(owner, name, value)
        yield


def _find_asking(frame: FrameType | None) -> FrameType | None:
    """Return the frame that asks: autograph calls functions for the code that it has converted."""
    while frame is not None and _module(frame).startswith("tensorflow.python.autograph."):
        frame = frame.f_back
    return frame


def outside_of_libraries(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the model's own code; None where a library asks for itself."""
    while frame is not None and _is_of_a_library(frame):
        if _module(frame).partition(".")[0] == _OWN:
            return None
        frame = frame.f_back
    return frame


def _is_of_a_library(frame: FrameType | None) -> bool:
    return frame is None or _module(frame).partition(".")[0] in _LIBRARIES


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
