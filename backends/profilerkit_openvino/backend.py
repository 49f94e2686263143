"""The OpenVINO backend: `Backend` for ``openvino.Model`` and ``.xml`` files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, ClassVar

from profilerkit import ModelInputs, ModelTrace, NotOfferedError, Run
from profilerkit.backend import AS_IT_IS, DeviceLike, RunOptions
from profilerkit.backend_kit.array_backend import TimedArrayBackend
from profilerkit.backend_kit.numpy_data import Declared
from profilerkit.backend_kit.operator_costs import OperatorCosts
from profilerkit.backend_kit.ran_nodes import RanGraph
from profilerkit.devices import describe_device, processor
from profilerkit.devices.info import DeviceInfo
from profilerkit.process.contents import list_contents
from profilerkit.protocols import NamesDevices, NoticesTraining, TimesLayers, TimesOperators

from .costs import COSTS, OPERATORS
from .layers import name_model, read_name
from .loaders import open_model
from .nodes import dtype_name, list_inner
from .runs import MODES, open_runtime, prepare_run, resolve_device
from .runtime import openvino
from .timing import time_nodes
from .tracing import declare, trace_model

__all__ = ["OpenvinoBackend"]


class OpenvinoBackend(TimedArrayBackend, NamesDevices, NoticesTraining, TimesLayers, TimesOperators):
    """Profiles ``openvino.Model`` and the paths of ``.xml`` files.

    The execution modes are OpenVINO's hints: to keep the precision of the model, or to compute as fast as it can.
    """

    name: ClassVar[str] = "openvino"
    execution_modes: ClassVar[tuple[str, ...]] = tuple(MODES)
    noun: ClassVar[str] = "an OpenVINO model"
    operators: ClassVar[OperatorCosts] = OPERATORS

    def open_model(self, model: Any) -> Any:
        """Return the model of a path; anything else as it is."""
        return open_model(model)

    def accepts(self, model: Any) -> bool:
        """Return whether the model is an ``openvino.Model``."""
        return isinstance(model, openvino.Model)

    def model_name(self, model: Any) -> str:
        """Return the model's name in its file, or the name of the Keras model; "Model" for a number."""
        return name_model(model)

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return OpenVINO's name of a device in lower case; "cpu" for None."""
        return resolve_device(device)

    def device_info(self, device: DeviceLike = None) -> DeviceInfo:
        """Return the known figures of a device, by OpenVINO's name of it."""
        name = resolve_device(device)
        if name == "cpu":
            return processor()
        kind = "npu" if name.startswith("npu") else "gpu"
        return describe_device(str(open_runtime().get_property(name.upper(), "FULL_DEVICE_NAME")), kind)

    def list_declared(self, model: Any) -> Sequence[Declared]:
        """Return the inputs that the model declares."""
        return declare(model)

    def trace_opened(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Trace the graph on the shapes that OpenVINO infers."""
        return trace_model(model, inputs)

    def run(self, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> AbstractContextManager[Run]:
        """Return the context of a `Run` of the compiled model; the first call is the compilation, and one pass."""
        return prepare_run(model, inputs, resolve_device(options.device), self.mode(options), options.num_threads)

    def time_nodes(
        self, model: Any, inputs: ModelInputs, device: str, passes: int, export: str | PathLike[str] | None = None
    ) -> RanGraph:
        """Return the nodes that OpenVINO ran; it writes no trace of a pass."""
        if export is not None:
            raise NotOfferedError("the openvino backend writes no trace of a pass: OpenVINO counts averages alone")
        return time_nodes(model, inputs, device, self.execution_modes[0], passes)

    def fingerprint(self, model: Any, values: bool = True) -> object:
        """Return a digest of names, nodes and, with ``values``, constants: a model may be changed in place."""
        digest = hashlib.blake2b(read_name(model).encode(), digest_size=16)
        for fact in _list_facts(model.get_ordered_ops(), values):
            digest.update(fact)
        return digest.hexdigest(), list_contents(COSTS.list_added())

    def environment(self) -> Mapping[str, str]:
        """Return the version of openvino, and the devices that it finds."""
        return {"openvino": openvino.__version__, "devices": ", ".join(open_runtime().available_devices)}


def _list_facts(nodes: Sequence[Any], values: bool) -> Iterator[bytes]:
    """Yield the facts of nodes, and with ``values`` the elements of constants; nodes are named by their places."""
    places = {node.get_name(): index for index, node in enumerate(nodes)}
    for node in nodes:
        sources = [(places[source.get_node().get_name()], source.get_index()) for source in node.input_values()]
        outputs = [_describe_output(output) for output in node.outputs()]
        yield repr((node.get_friendly_name(), node.get_type_name(), node.get_attributes(), sources, outputs)).encode()
        if values and node.get_type_name() == "Constant":
            tensor = node.get_tensor_view()
            is_text = dtype_name(tensor.element_type) == "string"
            yield repr(tensor.str_data.tolist()).encode() if is_text else tensor.data.tobytes()
        for body in list_inner(node):
            yield from _list_facts(body.get_ordered_ops(), values)


def _describe_output(output: Any) -> tuple[str, str, list[str]]:
    """Return the shape, the dtype and the names of an output of a node."""
    return str(output.get_partial_shape()), str(output.get_element_type()), sorted(output.get_names())
