"""The OpenVINO backend passes the conformance suite, over graphs that are made by hand."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import pytest

pytest.importorskip("openvino")
import numpy as np
import openvino
from openvino import opset16 as ops
from openvino_architectures import BUILDERS, KINDS, Graph, build_low_precision, build_mlp

from profilerkit import ModelInputs
from profilerkit.backend_kit.numpy_data import bind_inputs
from profilerkit.testing import BackendConformance
from profilerkit_openvino import runs
from profilerkit_openvino.backend import OpenvinoBackend
from profilerkit_openvino.tracing import declare


class Unheard(openvino.Op):  # type: ignore[misc]
    """An operator of nobody's set."""

    class_type_info = openvino.DiscreteTypeInfo("Unheard", "com.example")

    def __init__(self, inputs: Any = None) -> None:
        super().__init__(self, inputs)
        if inputs is not None:
            self.constructor_validate_and_infer_types()

    def validate_and_infer_types(self) -> None:
        self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

    def clone_with_new_inputs(self, inputs: Any) -> Unheard:
        return Unheard(inputs)

    def get_type_info(self) -> Any:
        return Unheard.class_type_info


class TestOpenvino(BackendConformance):
    backend, builders, kinds = OpenvinoBackend(), BUILDERS, KINDS
    data_format = "channels_first"
    compiled: ClassVar[list[weakref.ref[Any]]] = []
    not_expressible: ClassVar[dict[str, str]] = {
        "gru": "a GRU of OpenVINO whose reset gate follows the product has four biases for a unit, not six",
    }

    def call(self, model: Any, inputs: ModelInputs) -> Any:
        """Run the model by OpenVINO's compiled form, without the backend."""
        results = openvino.compile_model(model, "CPU")(bind_inputs(declare(model), inputs))
        if len(model.outputs) == 1:
            return results[0]
        return {output.get_any_name(): results[index] for index, output in enumerate(model.outputs)}

    def snapshot(self, model: Any) -> Any:
        return [
            (node.get_name(), node.get_friendly_name(), repr(node.get_attributes()), list(map(str, node.outputs())))
            + ((node.get_tensor_view().data.tobytes(),) if node.get_type_name() == "Constant" else ())
            for node in model.get_ordered_ops()
        ]

    def change_a_parameter(self, model: Any) -> None:
        node = next(node for node in model.get_ordered_ops() if node.get_friendly_name() == "self.first.weight")
        changed = ops.constant(np.asarray(node.data) + 1, name=node.get_friendly_name())
        for target in node.output(0).get_target_inputs():
            target.replace_source_output(changed.output(0))

    def low_precision_model(self, dtype: str) -> Any:
        return build_low_precision(dtype)

    def threads(self) -> int:
        """Return how many threads the compiled model of an open run may use, as OpenVINO says; else those of any."""
        open_ones = [compiled for reference in self.compiled if (compiled := reference()) is not None]
        compiled = open_ones[-1] if open_ones else openvino.compile_model(build_mlp(), "CPU")
        return int(compiled.get_property("INFERENCE_NUM_THREADS"))

    @pytest.fixture(autouse=True)
    def _remember_compiled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Remember what the backend compiles, as long as it is alive."""

        def compile_model(*arguments: Any, **options: Any) -> Any:
            compiled = compiled_by_backend(*arguments, **options)
            self.compiled.append(weakref.ref(compiled))
            return compiled

        compiled_by_backend = runs.compile_model
        monkeypatch.setattr(runs, "compile_model", compile_model)

    def raising_model(self, message: str) -> Any:
        """Return a model whose last product does not fit a batch of 3; OpenVINO's message has the name of the node."""

        def grow(graph: Graph, x: Any) -> Any:
            unfit = graph.add(ops.add, x, graph.weight("unfit", 4, 1))
            unfit.set_friendly_name(message)
            return unfit

        return build_mlp(grow)

    def uncounted_model(self) -> Any:
        return build_mlp(lambda graph, x: Unheard([x]))
