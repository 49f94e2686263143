"""What importing openvino for a profile does to the process: nothing is sent, and nothing is forked."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from time_limits import run_python

pytest.importorskip("openvino", reason="openvino is not installed")

import profilerkit_openvino

CODE = """
import os, sys

def refuse():
    raise SystemExit("forked")

os.fork = refuse
{}
assert "openvino" in sys.modules
print([name for name in sys.modules if name.startswith("openvino_telemetry")])
"""


@pytest.mark.parametrize(
    "code",
    [
        "from profilerkit_openvino.plugin import load; load()",
        "from profilerkit_openvino import OpenvinoProfiler",
        "from profilerkit_openvino import get_accuracy",
    ],
)
def test_nothing_is_sent_over_the_network(code: str) -> None:
    """``import openvino`` alone sends an event, by a process that it forks, where openvino_telemetry is installed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("TF_BUILD", "CI", "JENKINS_URL")}
    done = run_python(CODE.format(code), env=environment)
    assert done.stdout.strip() == "[]", "and the name is free again for whoever imports it"


def test_one_module_imports_openvino_for_all_others() -> None:
    importing = re.compile(r"^\s*(import|from) openvino\b", re.MULTILINE)
    modules = Path(profilerkit_openvino.__file__).parent.glob("*.py")
    assert [module.name for module in modules if importing.search(module.read_text("utf-8"))] == ["runtime.py"]
