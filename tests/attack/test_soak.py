"""Profile after profile, of classes that nobody had before: nothing of them is left, and nothing grows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from attack_sampling import WHOLE
from source_tree import SUPPORT
from time_limits import run_program

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process holds is read in /proc")


@pytest.mark.slow
def test_nothing_is_left_of_what_was_profiled(tmp_path: Path) -> None:
    """In a process of its own, with one thread: models, their classes, weights and inputs, descriptors and threads."""
    pytest.importorskip("torch")
    count = 10_000 if WHOLE else 24
    done = run_program(
        [sys.executable, "-W", "error", str(SUPPORT / "soak.py"), str(count), str(tmp_path)],
        variables={"OMP_NUM_THREADS": "1"},
    )
    states = [json.loads(line) for line in done.stdout.splitlines()]
    first, last = states[0], states[-1]
    assert last["profiles"] == first["profiles"] + count
    assert last["alive"] == 0, "something keeps what was profiled alive"
    for what in ("descriptors", "threads", "classes"):
        assert last[what] == first[what], what
    # Less than an object for four profiles, and than half a kibibyte for each.
    assert last["objects"] - first["objects"] <= 200 + count // 4
    assert last["kibibytes"] - first["kibibytes"] <= 30_000 + count // 2
