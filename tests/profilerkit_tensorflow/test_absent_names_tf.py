"""The next release of TensorFlow cannot break a call: each private name is taken away in a process of its own.

Then the numbers are those of before, or a number is partial or unavailable and says why.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

pytest.importorskip("keras")

from absent_names import names_in
from source_tree import ROOT, SUPPORT

COMPAT = ROOT / "backends" / "profilerkit_tensorflow" / "compat.py"
#: What that file reads of what it finds.
FURTHER = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable", "_numpy", "_id")


@cache
def said_without(name: str) -> Any:
    """Return what the reports say without a name; with all of them for an empty text."""
    command = [sys.executable, "-W", "ignore", str(SUPPORT / "absent_names_tf.py"), *filter(None, [name])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def check(name: str) -> None:
    usual, said = said_without(""), said_without(name)
    assert usual["deciding"]["macs"][:2] == [2 * 4 * 4, "complete"]
    assert usual["leaving"]["macs"][:2] == [2 * 4 * 4, "partial"]
    # Without a name nobody can say that nothing has left a run that cannot be traced.
    assert said["deciding"]["macs"][:2] == [2 * 4 * 4, "partial"]
    assert said["cnn"] == usual["cnn"], "a graph needs none of them"
    for network, metrics in usual.items():
        for metric, before in metrics.items():
            now = said[network][metric]
            if now[1] == "complete":
                assert now == before, f"{network}: another {metric} is called complete"
            else:
                assert now == before or (now[1] in ("partial", "unavailable") and now[2]), f"{network}: {metric}: {now}"


def test_the_file_names_what_it_looks_for() -> None:
    assert names_in(COMPAT) == ["tensorflow.python.framework.ops._EagerTensorBase", "tensorflow.python.pywrap_tfe"]
    assert all(f'"{name}"' in COMPAT.read_text(encoding="utf-8") for name in FURTHER)


@pytest.mark.parametrize("name", ["tensorflow.python.pywrap_tfe", "_id"])
def test_a_name_that_is_gone(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tensorflow.python.framework.ops._EagerTensorBase", *FURTHER[:4]])
def test_any_name_that_is_gone(name: str) -> None:
    check(name)
