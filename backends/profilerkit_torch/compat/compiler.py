"""Torch's compiler: whether it is imported, whether a model is compiled, and the results that it keeps.

It is imported only when a model is compiled, because the import takes a second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from profilerkit.backend_kit.private_names import field, find

from .modules import COMPILED_CALL
from .names import find_first

#: Torch's compiler, which is imported when a model is compiled, and then looks for Triton.
COMPILER = "torch._dynamo"


def is_compiler_imported() -> bool:
    """Return whether torch's compiler is imported."""
    return COMPILER in sys.modules


def is_compiled_model(model: Any) -> bool:
    """Return whether a model is a result of ``torch.compile``."""
    kind = getattr(sys.modules.get("torch._dynamo"), "OptimizedModule", None)
    return (kind is not None and isinstance(model, kind)) or getattr(model, COMPILED_CALL, None) is not None


def runs_compiled(module: Any) -> bool:
    """Return whether the calls of a module, or its forward pass alone, are compiled; else its layers are not seen."""
    return is_compiled_model(module) or hasattr(module.forward, field("_torchdynamo_orig_callable"))


def save_stance() -> Callable[[], None]:
    """Return a function that restores the stance of compiled code; without the private name it sets the default."""
    module, name = find("torch._dynamo.eval_frame"), field("_stance")
    if hasattr(module, name):
        return partial(setattr, module, name, getattr(module, name))
    return partial(torch.compiler.set_stance, "default")


def list_compiled_codes() -> list[Any]:
    """Return the lists of code objects that the compiler keeps."""
    module = find("torch._dynamo.convert_frame")
    return [getattr(module, name, None) for name in ("input_codes", "output_codes")]


def read_compiled_states() -> dict[Any, Any]:
    """Return the compiler's notes of the shapes that each function was called with."""
    states: dict[Any, Any] | None = getattr(find("torch._dynamo.pgo"), "_CODE_STATE", None)
    return {} if states is None else states


#: Forgets the compiled form of some code; without it the compiled code stays, which only costs memory.
forget_code: Callable[[Any], None] = find_first("torch._C._dynamo.eval_frame.reset_code", instead=lambda code: None)


def find_triton_question() -> Any:
    """Return the function that looks for Triton; None if torch cannot be kept from an import of Triton that crashes."""
    return find("torch.utils._triton.has_triton_package")
