"""What importing openvino for a profile does to the process: nothing is sent, and nothing is forked."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("openvino", reason="openvino is not installed")

CODE = """
import os, sys

def refuse():
    raise SystemExit("forked")

os.fork = refuse
from profilerkit_openvino.plugin import load
load()
print([name for name in sys.modules if name.startswith("openvino_telemetry")])
"""


def test_nothing_is_sent_over_the_network() -> None:
    """``import openvino`` alone sends an event, by a process that it forks, where openvino_telemetry is installed."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", "and the name is free again for whoever imports it"
