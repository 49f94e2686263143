"""Exported programs and scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from profilerkit.backend_kit.private_names import field

from .names import read_attribute, require

#: Puts values into the structure that a program takes.
tree_unflatten: Callable[[Any, Any], Any] = require(
    "torch.utils._pytree.tree_unflatten", purpose="gives an exported program its inputs"
)


def read_script_type(value: torch.ScriptObject) -> str:
    """Return the type of an object of torch in C++, as text: some layers pack their weights in these objects."""
    return str(read_attribute(value, field("_type"), "ScriptObject._type", "finds the weights that a layer packs")())


_read_script: Callable[[Any], dict[str, Any]] = require(
    "torch._C._jit_debug_module_iterators", purpose="finds the weights that scripts pack"
)


def read_script_attributes(module: Any) -> dict[str, Any]:
    """Return the attributes that a script keeps in C++, by name, including modules and objects with packed weights."""
    kept = read_attribute(module, field("_c"), "ScriptModule._c", "finds the weights that scripts pack")
    return dict(_read_script(kept)["named_attributes"])
