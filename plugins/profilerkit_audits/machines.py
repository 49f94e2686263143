"""Where, when and of what a row was measured: the kind of machine, how busy it was, the moment, and the commit."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from profilerkit.process.environment import machine

__all__ = [
    "Busyness",
    "digest_machine",
    "find_commit",
    "read_clock",
    "read_machine",
    "read_stated_machine",
    "shorten_commit",
    "shorten_moment",
]

#: What makes a machine one of a kind: neither its name nor the version of its kernel.
_KIND = ("system", "architecture", "cpu", "cores", "usable_cores", "memory_bytes")
#: Seconds that git may take.
PATIENCE = 10


def read_machine() -> dict[str, str]:
    """Return the facts that times depend on, as text; the machine's name is not among them."""
    facts = {"system": platform.system(), "architecture": platform.machine(), **machine()}
    return {name: facts[name] for name in _KIND if name in facts}


def read_stated_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of the machine that a report states in its environment; empty if it states none.

    They are those of this machine, with the architecture, which no report states, if it is of that kind.
    """
    facts = {name: environment[name] for name in _KIND if name in environment}
    if "os" in environment:
        facts["system"] = environment["os"].partition(" ")[0]
    here = read_machine()
    return here if facts and facts.items() <= here.items() else facts


def digest_machine(facts: Mapping[str, str]) -> str:
    """Return the digest of a kind of machine: equal facts have an equal one.

    >>> digest_machine({"cpu": "A", "cores": "2"}) == digest_machine({"cores": "2", "cpu": "A"})
    True
    """
    return hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode()).hexdigest()[:16]


def _read_load() -> float | None:
    """Return the load of the machine over the last minute; None where the system does not tell."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _read_busy_seconds() -> float | None:
    """Return the processor time that all processes of the machine have taken since it was started."""
    try:
        numbers = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:]
        user, nice, system, _idle, _iowait, *others = map(int, numbers)
        interrupts = sum(others[:2])  # of the hardware and of software; what follows are virtual machines
        return (user + nice + system + interrupts) / float(os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return None


@dataclass
class Busyness:
    """How busy the machine was between two moments, by others than one model.

    ``cpu_seconds`` of the model itself is subtracted from what all processes together took.
    """

    start: float = field(default_factory=time.monotonic)
    load_before: float | None = field(default_factory=_read_load)
    _busy_before: float | None = field(default_factory=_read_busy_seconds)

    def conditions(self, cpu_seconds: float | None, beside: int) -> dict[str, Any]:
        """Return the conditions of a row; ``beside`` is how many models of the audit ran at the same time.

        ``busy`` is the share of all cores that others took, from 0 to 1; None where the system does not tell, or where
        the model's own processor time is not known.
        """
        cores = os.cpu_count() or 1
        after = _read_busy_seconds()
        busy = None
        elapsed = time.monotonic() - self.start
        if after is not None and self._busy_before is not None and cpu_seconds is not None and elapsed > 0:
            others = after - self._busy_before - cpu_seconds
            busy = round(min(1.0, max(0.0, others / (elapsed * cores))), 3)
        loads = {"load_before": self.load_before, "load_after": _read_load()}
        return {**loads, "cores": cores, "busy": busy, "beside": beside}


def find_commit(folder: Path) -> str:
    """Return the commit of the repository that a folder lies in; "+" follows it if tracked files were changed since.

    Empty if there is no repository, no commit or no git.
    """
    commit = _call_git(folder, "rev-parse", "HEAD")
    changed = commit and _call_git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+" if changed else commit


def shorten_commit(commit: str, length: int = 12) -> str:
    """Return a commit as it is written in short; a "+" at its end, for files that were changed since, stays.

    >>> shorten_commit("0123456789abcdef+"), shorten_commit("0123+")
    ('0123456789ab+', '0123+')
    """
    is_cut_off = len(commit) > length and commit.endswith("+")
    return f"{commit[:length]}+" if is_cut_off else commit[:length]


def read_clock() -> str:
    """Return the moment as ISO 8601 in UTC, with microseconds, so that texts sort as moments do."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def shorten_moment(moment: str, length: int = 19) -> str:
    """Return a moment as it is written in short: with 19 characters to the second, with 16 to the minute."""
    return moment[:length].replace("T", " ")


def _call_git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
