"""Triton is not imported where that would crash the process: after TensorFlow 2.20 or 2.21.

These versions of TensorFlow put their LLVM where each later library looks for its symbols, and Triton, which CUDA
builds of torch bring, then calls the wrong LLVM: https://github.com/tensorflow/tensorflow/issues/124205
"""

from __future__ import annotations

import ctypes
import sys
from functools import partial

from profilerkit.process.restoring import restored

from ..compat.compiler import find_triton_question, is_compiler_imported

__all__ = ["answer_for_triton"]

#: A function of LLVM that is visible in the process only if a library offers its LLVM to all others.
_SYMBOL = "LLVMContextCreate"


def answer_for_triton() -> None:
    """Let torch note that there is no Triton, if importing it would crash; once it is imported, nothing is done.

    torch asks once in a process, when its compiler is imported, and remembers the answer.
    """
    if is_compiler_imported() or "triton" in sys.modules or not _is_import_crashing():
        return
    has_triton = find_triton_question()
    if has_triton is None:
        return
    with restored(partial(sys.modules.pop, "triton", None)):
        sys.modules["triton"] = None  # type: ignore[assignment]  # an import of it raises ImportError
        has_triton()


def _is_import_crashing() -> bool:
    """Return whether TensorFlow is loaded with an LLVM that Triton would take for its own."""
    return "tensorflow" in sys.modules and sys.platform == "linux" and hasattr(ctypes.CDLL(None), _SYMBOL)
