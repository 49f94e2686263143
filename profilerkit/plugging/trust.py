"""Files that may run code when they are loaded: what the refusal of one says, in every loader's words."""

from __future__ import annotations

from ..errors import InputError

__all__ = ["refused"]


def refused(spec: object, found: str) -> InputError:
    """Return the error for a file in which something is ``found`` that may run code: "holds a pickled model ..."."""
    return InputError(
        f"{spec} {found}; profilerkit does not load it, for it could run any code. If you trust who made it, give "
        "--trust on the command line, or load_model(..., trust=True) in Python"
    )
