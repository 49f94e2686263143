"""The ONNX backend passes the conformance suite, over graphs that are made by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_architectures import BUILDERS, KINDS, Graph, build_low_precision, build_mlp

from profilerkit import ModelInputs
from profilerkit.backend import RunOptions
from profilerkit.testing import BackendConformance
from profilerkit_onnx.backend import OnnxBackend


class TestOnnx(BackendConformance):
    backend, builders, kinds = OnnxBackend(), BUILDERS, KINDS
    data_format = "channels_first"
    others: set[str] | None = None

    def call(self, model: Any, inputs: ModelInputs) -> Any:
        """Run the graph by onnx's reference implementation."""
        names = [value.name for value in model.graph.input]
        feeds = {**dict(zip(names, inputs.args, strict=False)), **inputs.kwargs}
        outputs: Any = ReferenceEvaluator(model).run(None, feeds)
        if len(outputs) == 1:
            return outputs[0]
        return {value.name: output for value, output in zip(model.graph.output, outputs, strict=True)}

    def snapshot(self, model: Any) -> Any:
        return {"bytes": model.SerializeToString(deterministic=True)}

    def change_a_parameter(self, model: Any) -> None:
        tensor = model.graph.initializer[0]
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + 1, tensor.name))

    def low_precision_model(self, dtype: str) -> Any:
        return build_low_precision(dtype)

    def threads(self) -> int:
        """Return one, and what the sessions that are open have started: onnxruntime's pools are threads of theirs."""
        if not sys.platform.startswith("linux"):
            self.skip("threads are counted by /proc")
        if self.others is None:  # onnxruntime starts threads of its own when it is used first
            with self.backend.run(build_mlp(), ModelInputs(np.ones((1, 20), np.float32)), RunOptions(num_threads=1)):
                pass
        now = {path.name for path in Path("/proc/self/task").iterdir()}
        self.others = now if self.others is None else self.others & now
        return 1 + len(now - self.others)

    def raising_model(self, message: str) -> Any:
        """Return a model whose last product does not fit; onnx's message has no place for a text but a node's name."""

        def grow(graph: Graph, x: str) -> str:
            product = graph.add("MatMul", x, graph.weight("unfit", 3, 3))
            graph.nodes[-1].name = message
            return str(product)

        return build_mlp(grow)

    def uncounted_model(self) -> Any:
        model = build_mlp(lambda graph, x: str(graph.add("Unheard", x, domain="com.example")))
        model.opset_import.append(helper.make_opsetid("com.example", 1))
        return model


CHANGES: dict[str, Callable[[ModelProto], Any]] = {
    "a weight": lambda model: setattr(model.graph.initializer[0], "raw_data", bytes(4 * 640)),
    "a node": lambda model: model.graph.node.pop(),
    "a name": lambda model: setattr(model.graph, "name", "another"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_compared_before_and_after_holds_all_of_a_model(what: str) -> None:
    model, suite = build_mlp(), TestOnnx()
    before = suite.snapshot(model)
    assert suite.snapshot(model) == before
    CHANGES[what](model)
    assert suite.snapshot(model) != before


def test_the_reference_runs_what_is_counted() -> None:
    """The hand-made graphs are valid: they give numbers, not only shapes."""
    outputs = TestOnnx().call(BUILDERS["lstm"](), ModelInputs(np.ones((2, 7, 5), np.float32)))
    assert np.isfinite(outputs).all()
