"""Small models for audits: numpy networks with counts worked out by hand, and plans of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profilerkit_audits import Plan

__all__ = ["MACS", "NETS", "PARAMS", "many", "plan", "write_nets"]

#: Of `NETS`' function of that number: dense(4, n) and dense(n, 2) on one sample of 4.
MACS = {number: 4 * number + 2 * number for number in range(1, 100)}
PARAMS = {number: 4 * number + number + 2 * number + 2 for number in range(1, 100)}

NETS = """
import os
import sys
from profilerkit import LoadedModel
from profilerkit_numpy.layers import Layer, Sequential, activation, dense

def net(width):
    return LoadedModel(Sequential(dense(4, width), activation(), dense(width, 2)), input_shape=(4,))
"""


def write_nets(folder: Path, count: int, more: str = "") -> Path:
    """Write ``nets.py`` with the functions ``net_01`` to ``net_COUNT``."""
    functions = "".join(f"\ndef net_{number:02d}():\n    return net({number})\n" for number in range(1, count + 1))
    file = folder / "nets.py"
    file.write_text(NETS + functions + more)
    return file


def plan(folder: Path, *entries: dict[str, Any], **top: Any) -> Plan:
    """Return a plan in a folder, of static counts unless it says otherwise."""
    content = {"metrics": ["macs", "total_params"], "timeout": 60, "models": list(entries), **top}
    return Plan.of(content, folder)


def many(folder: Path, count: int, **top: Any) -> Plan:
    """Return a plan of as many models."""
    write_nets(folder, count)
    return plan(folder, {"spec": "nets.py:net_*"}, **top)
