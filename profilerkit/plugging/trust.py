"""The error for a file that may run code when it is loaded, shared by all loaders."""

from __future__ import annotations

from ..errors import InputError

__all__ = ["make_refusal"]


def make_refusal(spec: object, finding: str) -> InputError:
    """Return the error for a file that may run code; ``finding`` says why, such as "holds a pickled model ..."."""
    return InputError(
        f"{spec} {finding}; profilerkit does not load it, since it could run any code. If you trust its author, give "
        "--trust on the command line, or load_model(..., trust=True) in Python"
    )
