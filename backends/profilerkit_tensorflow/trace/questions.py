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
from types import FrameType
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit.backend_kit.replaced_attributes import replace_attribute

from ..compat.questions import DISALLOW, Context, SymbolicTensor
from .asking_frames import describe_line, find_asking, is_of_a_library, outside_of_libraries

__all__ = ["Questions"]

#: Conversions that symbolic tensors lack: Python looks for them on the class.
_CONVERSIONS = ("__complex__", "__float__", "__index__", "__int__")
_EAGER: type = type(tf.constant(0))


class _Wrapping(NamedTuple):
    """An attribute of a class or module of TensorFlow's, and what makes of it the one in its place meanwhile."""

    owner: Any
    name: str
    wrap: Callable[[Any], Any]


class Questions:
    """Notes, while it is `listen`, what a model asks in a graph.

    Each ``_wrap`` method returns what stands in the place of an attribute meanwhile: it notes the question, and answers
    as the original does.

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
        wrappings = [
            _Wrapping(Context, "executing_eagerly", self._wrap_executing_eagerly),
            _Wrapping(tensor, "__getattr__", self._wrap_getattr),
            _Wrapping(tensor, DISALLOW, partial(self._wrap_raising, "bool() or iter() of a tensor")),
            _Wrapping(tensor, "__len__", partial(self._wrap_raising, "len() of a tensor")),
            _Wrapping(tensor, "__array__", partial(self._wrap_raising, "the values of a tensor")),
            _Wrapping(symbolic, "device", self._wrap_device),
            _Wrapping(tf, "get_static_value", partial(self._wrap_function, "tf.get_static_value()", None)),
            _Wrapping(tf, "inside_function", partial(self._wrap_function, "tf.inside_function()", True)),
            _Wrapping(tf, "is_symbolic_tensor", partial(self._wrap_function, "tf.is_symbolic_tensor()", True)),
            *(_Wrapping(symbolic, name, partial(self._make_conversion, name)) for name in _CONVERSIONS),
        ]
        with ExitStack() as patches:
            for owner, name, wrap in wrappings:
                original = getattr(owner, name, None)
                is_present, is_expected = original is not None, name not in _CONVERSIONS
                if owner is not None and is_present == is_expected:  # else this release answers in another way
                    patches.enter_context(replace_attribute(owner, name, wrap(original)))
            yield

    def _note(self, question: str, frame: FrameType | None) -> None:
        """Note a question of a frame of the model; nothing for None, and for another thread."""
        if frame is None or threading.get_ident() != self._thread:
            return
        line = describe_line(frame)
        is_converted = line.startswith("__autograph_generated_file")
        location = f"{frame.f_code.co_name.removeprefix('tf__')}()" if is_converted else line
        asked = f"{question} in {location}"
        if asked not in self.asked:
            self.asked.append(asked)

    def _note_if_model_asks(self, question: str, caller: FrameType | None) -> None:
        """Note a question that libraries ask too, for the same work either way, if the model's own code asks it."""
        asking = find_asking(caller)
        if not is_of_a_library(asking):
            self._note(question, asking)

    def _wrap_executing_eagerly(self, original: Callable[[Any], bool]) -> Callable[[Any], bool]:
        public = tf.executing_eagerly.__code__

        def executing_eagerly(this: Any) -> bool:
            answer = original(this)
            caller = sys._getframe(1)
            if not answer and caller.f_code is public:
                self._note_if_model_asks("tf.executing_eagerly()", caller.f_back)
            return answer

        return executing_eagerly

    def _wrap_getattr(self, original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def __getattr__(this: Any, name: str) -> Any:
            is_private = name.startswith("_") and not name.startswith("__")
            if hasattr(_EAGER, name) and not is_private:
                self._note(f".{name} of a tensor", outside_of_libraries(sys._getframe(1)))
            return original(this, name)

        return __getattr__

    def _wrap_raising(self, question: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(this: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return original(this, *args, **kwargs)
            except Exception:
                self._note(question, outside_of_libraries(sys._getframe(1)))
                raise

        return method

    def _make_conversion(self, name: str, original: None) -> Callable[[Any], Any]:
        word = name.strip("_")

        def method(this: Any) -> Any:
            self._note(f"{word}() of a tensor", outside_of_libraries(sys._getframe(1)))
            raise TypeError(f"a symbolic tensor has no value for {word}()")

        return method

    def _wrap_device(self, original: Any) -> property:
        def device(this: Any) -> Any:
            self._note_if_model_asks(".device of a tensor", sys._getframe(1))
            return original.__get__(this, type(this))

        return property(device)

    def _wrap_function(self, question: str, in_graph: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            if answer is in_graph:
                self._note_if_model_asks(question, sys._getframe(1))
            return answer

        unconverted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
        return unconverted
