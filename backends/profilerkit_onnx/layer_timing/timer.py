"""The seconds of each layer's own operators, as onnxruntime's profiler has them, in several passes."""

from __future__ import annotations

from onnx import ModelProto

from profilerkit import ModelInputs
from profilerkit.backend_kit.ran_nodes import time_layers
from profilerkit.times.layer_times import LayerTime

from ..model.scopes import find_scopes
from ..operator_timing.passes import run_nodes

__all__ = ["layer_times"]


def layer_times(model: ModelProto, inputs: ModelInputs, level: str, device: str, passes: int) -> tuple[LayerTime, ...]:
    """Return the forward seconds of each layer's own operators; those between operators are the model's own.

    An operator that the runtime has fused of several layers is timed in the layer that has the most of its arithmetic.
    Both that layer and the others say so.
    """
    nodes, profiled = run_nodes(model, inputs, level, device, passes)
    scopes = find_scopes(model)
    return time_layers(nodes, [single.seconds for single in profiled], scopes.types, scopes.chains)
