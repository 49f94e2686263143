"""The outputs of a model: JAX has to see all arrays among them.

JAX finds arrays in tuples, lists, dictionaries and registered classes. Work on arrays of other objects would be taken
for work that no output needs, and would not be counted.
"""

from __future__ import annotations

from enum import Enum
from types import ModuleType
from typing import Any

import jax
import numpy as np

from profilerkit import InputError
from profilerkit.unfinished import is_unfinished, require_finished

from .arrays import is_array

__all__ = ["check_outputs"]

#: Values of these types hold no arrays that belong to an output.
_PLAIN = (str, bytes, int, float, complex, range, type, type(None), ModuleType, Enum, np.dtype)


def check_outputs(outputs: Any, arguments: Any) -> Any:
    """Return the outputs of a model.

    Raises `InputError` for an object that may hide arrays, and for a generator and the like: it has done no work yet.
    Functions among the leaves of ``arguments``, the model and its inputs, hide none: they were there before the call. A
    training step of Equinox returns a module with the activation function of the one that it was given.
    """
    functions = {id(leaf) for leaf in jax.tree.leaves(arguments) if callable(leaf)}

    def require_visible(leaf: Any) -> Any:
        return leaf if id(leaf) in functions else _require_visible(leaf)

    return jax.tree.map(require_visible, outputs, is_leaf=is_unfinished)  # JAX itself warns of such leaves


def _require_visible(leaf: Any) -> Any:
    if is_array(leaf) or isinstance(leaf, _PLAIN):
        return leaf
    if isinstance(leaf, (np.ndarray, np.generic)) and not leaf.dtype.hasobject:  # of texts or dates
        return leaf
    require_finished(leaf)
    raise InputError(
        f"the model returned an object ({type(leaf).__name__}) in which JAX sees no arrays; register its class "
        "(jax.tree_util.register_dataclass), or let the model return the arrays"
    )
