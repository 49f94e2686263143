"""Files of torch, exported programs and scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from profilerkit.backend_kit.private_names import field, find

from .names import find_first, read_attribute, require

#: Names in torch's own files, of all releases.
PICKLED_NAMES = ("torch._utils._rebuild", "torch._tensor", "torch.FloatStorage", "collections.OrderedDict")
#: Reads the records of a file of torch; without it the file is refused unless it is trusted.
FileReader: Any = require("torch._C.PyTorchFileReader", purpose="looks into files before they are read")
#: The schemas of all operators of a name; without it none is known as harmless, and a program with one is refused.
schemas_by_name: Callable[[str], list[Any]] = find_first(
    "torch._C._jit_get_schemas_for_operator", instead=lambda name: []
)
#: Puts values into the structure that a program takes.
tree_unflatten: Callable[[Any, Any], Any] = require(
    "torch.utils._pytree.tree_unflatten", purpose="gives an exported program its inputs"
)


def list_symbolic_functions() -> tuple[str, ...]:
    """Return the names of functions of sizes that are not fixed; without them a program that uses one is refused."""
    return tuple(find("torch.utils._sympy.functions.__all__") or ())


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
