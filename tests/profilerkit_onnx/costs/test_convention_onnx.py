"""One constant of the convention changes every ONNX operator that is made of it, and no other."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx_graphs import F, trace_node

from profilerkit.costs import convention

X = np.ones((3, 4), F)
CONSTANTS = [name for name in vars(convention) if name.isupper()]

#: What one element of each operator takes, read off its definition in the standard.
TAKES: dict[str, dict[str, int]] = {
    "Exp": {"EXP": 1},
    "Log": {"LOG": 1},
    "Sqrt": {"SQRT": 1},
    "Reciprocal": {"DIVIDE": 1},
    "Neg": {"NEGATE": 1},
    "Abs": {"ABSOLUTE": 1},
    "Sign": {"SIGN": 1},
    "Floor": {"ROUND": 1},
    "Erf": {"ERF": 1},
    "Sin": {"SINE": 1},
    "Tan": {"SPECIAL": 1},
    "Tanh": {"TANH": 1},
    "Sigmoid": {"SIGMOID": 1},
    "Relu": {"COMPARE": 1},
    "LeakyRelu": {"COMPARE": 1, "MULTIPLY": 1},
    "Elu": {"COMPARE": 1, "EXP": 1, "SUBTRACT": 1, "MULTIPLY": 1},
    "Softplus": {"EXP": 1, "ADD": 1, "LOG": 1},
    "Softsign": {"ABSOLUTE": 1, "ADD": 1, "DIVIDE": 1},
    "Gelu": {"MULTIPLY": 2, "ADD": 1, "ERF": 1, "DIVIDE": 1},
    "Softmax": {"COMPARE": 1, "SUBTRACT": 1, "EXP": 1, "ADD": 1, "DIVIDE": 1},
    "ReduceL2": {"POWER": 1, "ADD": 1},
    "ReduceProd": {"MULTIPLY": 1},
}


@pytest.mark.parametrize("op", TAKES)
def test_one_constant_changes_what_is_made_of_it(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = trace_node(op, X).flops
    assert before == X.size * sum(TAKES[op].values())
    for constant in CONSTANTS:
        with monkeypatch.context() as changed:
            changed.setattr(convention, constant, getattr(convention, constant) + 1)
            assert trace_node(op, X).flops - before == X.size * TAKES[op].get(constant, 0), f"{constant} one more"
