"""Each package beside the core is taken away in turn: the rest works, and what is missing is said."""

from __future__ import annotations

import subprocess
import sys

import pytest
from slow_ones import slow_ones
from source_tree import packages
from time_limits import run_program

#: Makes a package one that is not installed.
GONE = """
import sys, warnings

class Gone:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == {gone!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Gone)
warnings.simplefilter("always")
"""

#: Profiles a function of numpy by a backend that is a package of its own, and prints the report.
PROFILE = """
import numpy as np
from profilerkit import profile
from profilerkit_numpy.layers import Sequential, dense

report = profile(Sequential(dense(4, 2)), np.zeros((1, 4), np.float32))
print(report)
"""

OTHERS = sorted(packages().keys() - {"profilerkit"})
#: A plugin with commands, one that draws, the metrics, a backend: the quick tests take these away.
QUICK = {"profilerkit_budgets", "profilerkit_pages", "profilerkit_metrics", "profilerkit_torch"}


def run_without(gone: str, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", GONE.format(gone=gone) + code]
    return run_program(command, check=False)


@pytest.mark.parametrize("gone", slow_ones(OTHERS, set(OTHERS) - QUICK))
def test_a_profile_and_the_help_work_without_a_package(gone: str) -> None:
    code = f"{PROFILE}\nfrom profilerkit.cli import main\nmain(['--help'])"
    done = run_without(gone, code)
    assert done.returncode == 0, done.stderr
    assert "  profile " in done.stdout
    if gone != "profilerkit_metrics":
        assert "MACs" in done.stdout
    assert f"No module named '{gone}" in done.stderr, "the plugin that is left out is named"


@pytest.mark.parametrize(
    ("gone", "name"),
    [
        ("profilerkit_audits", "audit"),
        ("profilerkit_predict", "llm"),
        ("profilerkit_predict", "predict"),
        ("profilerkit_predict", "join"),
    ],
)
def test_a_name_that_a_package_gives_says_what_is_missing(gone: str, name: str) -> None:
    done = run_without(gone, f"from profilerkit import {name}")
    assert (
        f"NotOfferedError: profilerkit.{name} cannot be used: the package {gone} is missing, which comes with "
        "profilerkit; install profilerkit again"
    ) in done.stderr


def test_a_package_takes_along_what_uses_it() -> None:
    """Audits need budgets and pages: their commands say so when they are used, and counts go on."""
    done = run_without("profilerkit_budgets", "from profilerkit import audit")
    assert "the package profilerkit_budgets is missing" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["profilerkit_predict", "profilerkit_pages", "profilerkit_audits"])
def test_torch_is_profiled_without_a_plugin(gone: str) -> None:
    pytest.importorskip("torch")
    code = """
import torch
from profilerkit import profile
report = profile(torch.nn.Linear(8, 2), torch.zeros(1, 8))
assert report["macs"] == 16 and report["total_params"] == 18
assert (report._repr_html_() is None) == ("GONE" == "profilerkit_pages")
"""
    done = run_without(gone, code.replace("GONE", gone))
    assert done.returncode == 0, done.stderr
