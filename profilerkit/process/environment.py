"""The machine that a measurement ran on: the facts that a reader needs to repeat it."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path

__all__ = ["machine"]


def machine() -> dict[str, str]:
    """Return host, operating system, processor, cores, memory and Python version, as text.

    ``usable_cores`` is the number of cores that this process may use; it is absent if the system does not report it.
    """
    facts = {
        "host": platform.node(),
        "os": f"{platform.system()} {platform.release()}",
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count() or "unknown"),
        "python": platform.python_version(),
    }
    if hasattr(os, "sched_getaffinity"):  # only on Linux
        facts["usable_cores"] = str(len(os.sched_getaffinity(0)))
    memory = _memory_bytes()
    if memory is not None:
        facts["memory_bytes"] = str(memory)
    return facts


@cache
def _cpu_model() -> str:
    """Return the name of the processor: read once, because reading ``/proc/cpuinfo`` takes as long as a small trace."""
    try:
        model_name = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        model_name = None
    return model_name.group(1).strip() if model_name else platform.processor() or platform.machine()


@cache
def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
