"""Runs `mesh_steps` in a process of its own, as the ranks of a mesh need."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

from source_tree import ROOT
from time_limits import run_program

__all__ = ["run_steps"]


def run_steps(what: str, folder: Path) -> Any:
    """Return what the script answers for "steps", "further steps" or "peaks"."""
    path, support = folder / "steps.pickle", ROOT / "tests/support"
    environment = {**os.environ, "PYTHONPATH": str(support)}
    run_program([sys.executable, support / "mesh_steps.py", what, path], env=environment)
    return pickle.loads(path.read_bytes())
