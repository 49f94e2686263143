"""A small ONNX model, and the calls of it that `harming` breaks off."""

from __future__ import annotations

import random
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from harming_calls import Calls
from onnx import helper
from onnx_graphs import F, make_model

from profilerkit import profile
from profilerkit_onnx import ComputeEvalMetric, OnnxProfiler

__all__ = ["made"]


class Onnx(Calls):
    """A model with what can be done with it."""

    def __init__(self) -> None:
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "v"], ["y"]),
        ]
        self.x = np.ones((2, 4), F)
        self.model = make_model(nodes, {"x": self.x}, {"w": np.ones((4, 8), F), "v": np.ones((8, 3), F)})
        names = ("static", "timed", "compared", "evaluated", "layers")
        self.calls: dict[str, Callable[[], Any]] = {name: getattr(self, name) for name in names}

    def evaluated(self) -> Any:
        profiler = OnnxProfiler(self.model, {"test": [self.x]})
        profiler.register_profiler_function(ComputeEvalMetric(lambda model, loader: float(self.x.sum())))
        return profiler.compute_status("eval_metric")

    def layers(self) -> Any:
        return profile(self.model, self.x, strict=True, metrics=["layer_times"], passes=1)["layer_times"] is not None

    def look(self) -> dict[str, Any]:
        """Return the facts that must come back."""
        return {
            "model": self.model.SerializeToString(deterministic=True),
            "input": self.x.tobytes(),
            "process numbers": (random.getstate(), str(np.random.get_state())),
            "process interrupts": signal.getsignal(signal.SIGINT),
            "process warnings": list(warnings.filters),
            "process recursion": sys.getrecursionlimit(),
        }


def made() -> Onnx:
    warnings.simplefilter("ignore")
    return Onnx()
