"""A small ONNX model, and the calls of it that `harming` breaks off."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from harming_calls import Calls, look_at_process
from onnx import helper
from onnx_graphs import F, make_model

from profilerkit_onnx import ComputeEvalMetric, OnnxProfiler

__all__ = ["made"]


class Onnx(Calls):
    """A model with what can be done with it."""

    names = ("static", "timed", "compared", "evaluated", "layers")

    def __init__(self) -> None:
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "v"], ["y"]),
        ]
        self.x = np.ones((2, 4), F)
        self.model = make_model(nodes, {"x": self.x}, {"w": np.ones((4, 8), F), "v": np.ones((8, 3), F)})

    def evaluated(self) -> Any:
        profiler = OnnxProfiler(self.model, {"test": [self.x]})
        profiler.register_profiler_function(ComputeEvalMetric(lambda model, loader: float(self.x.sum())))
        return profiler.compute_status("eval_metric")

    def look(self) -> dict[str, Any]:
        """Return the facts that must come back."""
        return {
            "model": self.model.SerializeToString(deterministic=True),
            "input": self.x.tobytes(),
            **look_at_process(),
        }


def made() -> Onnx:
    warnings.simplefilter("ignore")
    return Onnx()
