"""Files of TOML, which people write: whatever is wrong with one, the error names it."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

__all__ = ["read_toml"]


def read_toml(path: str | PathLike[str], name: str, make_error: Callable[[str], Exception]) -> dict[str, Any]:
    """Return what a file holds.

    Args:
        path: The file.
        name: What messages call it, as in "the plan night.toml".
        make_error: Makes the error that is raised, of its message, for a file that cannot be read or is no TOML.
    """
    import tomllib

    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise make_error(f"cannot read {name}: {error.strerror or error}") from error
    except RecursionError as error:
        raise make_error(f"{name} is nested too deep to be read") from error
    except ValueError as error:  # no TOML, no UTF-8, or a number of too many digits
        raise make_error(f"{name} is no TOML: {error}") from error
