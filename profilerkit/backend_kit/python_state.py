"""The state of Python and numpy that the code of a model may change: random numbers, settings, hooks."""

from __future__ import annotations

import random
import sys
import threading

from ..process.restoring import Step

__all__ = ["note_python_state"]

_HOOKS = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"))


def note_python_state() -> Step:
    """Return a function that restores the state as it is now."""
    import numpy as np

    generator, numpy_generator = random.getstate(), np.random.get_state(legacy=False)
    errors, on_error, printing = np.geterr(), np.geterrcall(), np.get_printoptions()
    hooks = [(module, name, getattr(module, name)) for module, name in _HOOKS]
    recursion_limit = sys.getrecursionlimit()

    def restore() -> None:
        random.setstate(generator)
        np.random.set_state(numpy_generator)
        np.seterr(**errors)
        np.seterrcall(on_error)
        np.set_printoptions(**printing)
        for module, name, hook in hooks:
            setattr(module, name, hook)
        if sys.getrecursionlimit() != recursion_limit:  # Python may refuse a limit close to the present depth
            sys.setrecursionlimit(recursion_limit)

    return restore
