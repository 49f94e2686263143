"""What of torch's a plugin can have: a class from a module of torch's that it names more exactly."""

from __future__ import annotations

from typing import Any

import torch
from plugin_fixtures import add_entry_point, make_offering

from profilerkit import BackendInfo
from profilerkit.models.recognition import find_backend
from profilerkit.testing import FakeBackend


def test_a_plugin_can_have_the_programs_of_torch_onnx(install: Any, entry_points: Any) -> None:
    class Programs(FakeBackend):
        name = "onnx"

        def accepts(self, model: Any) -> bool:
            return isinstance(model, torch.onnx.ONNXProgram)

    program = object.__new__(torch.onnx.ONNXProgram)
    add_entry_point(entry_points, "torch", "profilerkit_torch.plugin", "profilerkit", "0.1")
    install("onnx", "my-onnx", backends=make_offering(BackendInfo("onnx", ("torch.onnx",), Programs, "my-onnx")))
    assert find_backend(program).name == "onnx"
    assert find_backend(torch.nn.Linear(2, 3)).name == "torch"
