"""Ctrl-C and failing allocations: no harm, no interrupt lost, no wrong number; `harming` has the ways.

A sample is broken off in each run; ``make attack`` has the thousands.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from attack_sampling import WHOLE
from source_tree import SUPPORT
from time_limits import run_program

_CHANGING = (
    "untouched/,process/containers,process/restoring,process/interrupts,"
    "trace/layers,hidden_modes,trace/attempt,trace/static_pass,trace/questions,trace/conversion"
)


thousands = pytest.mark.skipif(not WHOLE, reason="make attack breaks off thousands of calls")


def break_off(*arguments: str) -> dict[str, Any]:
    """Break calls off in a process of their own, and return what came of them; a failure shows what it wrote too."""
    done = run_program(
        [sys.executable, str(SUPPORT / "harming.py"), *arguments], seconds=3000, variables={"TF_CPP_MIN_LOG_LEVEL": "3"}
    )
    answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{\n") :])
    assert not answer["problems"], "\n".join([*answer["problems"], done.stderr])  # an interrupt that is lost is there
    return answer


@pytest.mark.parametrize(
    ("backend", "call", "way"),
    [
        ("torch", "static", "sigint"),
        pytest.param("torch", "static", "async", marks=pytest.mark.slow),
        pytest.param("torch", "timed", "several", marks=pytest.mark.slow),
        pytest.param("torch", "training", "alarm", marks=pytest.mark.slow),
        pytest.param("torch", "layers", "main", marks=pytest.mark.slow),
        pytest.param("jax", "evaluated", "sigint", marks=pytest.mark.slow),
    ],
)
def test_calls_broken_off_at_random_moments(backend: str, call: str, way: str) -> None:
    answer = break_off(backend, call, way, "25")
    assert answer["tried"] == 25


@pytest.mark.slow
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "MemoryError"])
def test_lines_that_change_and_put_back(error: str) -> None:
    answer = break_off("torch", "static", error, "0.05", _CHANGING)
    assert answer["tried"] > 20


@thousands
@pytest.mark.parametrize("way", ["sigint", "several", "alarm", "async"])
@pytest.mark.parametrize("call", ["static", "training", "timed", "compared", "evaluated", "layers", "operators"])
def test_thousands_of_calls_broken_off(call: str, way: str) -> None:
    break_off("torch", call, way, "5000" if way == "sigint" else "500")


@thousands
@pytest.mark.parametrize("call", ["static", "training", "timed", "compared", "evaluated"])
def test_a_large_model_broken_off(call: str) -> None:
    break_off("torch_large", call, "sigint", "500")


@thousands
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "onnx"])
@pytest.mark.parametrize("call", ["static", "training", "timed", "compared", "evaluated"])
def test_calls_of_other_backends_broken_off(backend: str, call: str) -> None:
    if (backend, call) != ("onnx", "training"):  # nothing trains an ONNX file
        break_off(backend, call, "sigint", "500")


@thousands
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "MemoryError"])
@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
@pytest.mark.parametrize("call", ["static", "training", "timed", "evaluated"])
def test_each_line_that_changes_and_puts_back(backend: str, call: str, error: str) -> None:
    break_off(backend, call, error, "1", _CHANGING)


@thousands
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "MemoryError"])
@pytest.mark.parametrize("call", ["static", "timed", "evaluated", "layers"])
def test_each_line_of_a_call_of_an_onnx_model(call: str, error: str) -> None:
    """A file is never changed, so that there are no lines for it alone: each line of the call is one."""
    break_off("onnx", call, error, "1")
