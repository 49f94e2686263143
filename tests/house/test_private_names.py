"""The private names of a framework stand in one place of its backend, ``compat``, and nowhere else.

Those of Keras that several backends need stand in one file of the core.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from private_names import list_segments, private_uses
from source_tree import packages

#: By package the file or folder with the private names of frameworks. The core has those of Keras that all need.
PLACES = {
    **dict.fromkeys(("profilerkit_jax", "profilerkit_onnx"), "compat.py"),
    **dict.fromkeys(("profilerkit_tensorflow", "profilerkit_torch"), "compat"),
    "profilerkit": "backend_kit/keras_layers.py",
}


@pytest.mark.parametrize(("package", "place"), PLACES.items())
def test_private_names_stand_in_one_place(package: str, place: str) -> None:
    folder = packages()[package]
    names = sorted((folder / place).glob("*.py")) or [folder / place]
    banned = frozenset().union(*(list_segments(path) for path in names if path.exists()))
    uses = {
        path.relative_to(folder).as_posix(): private_uses(path, banned)
        for path in sorted(folder.rglob("*.py"))
        if path not in names
    }
    assert {name: found for name, found in uses.items() if found} == {}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import torch\ntorch._C._get_tracing_state()", "torch._C._get_tracing_state"),
        ("from torch.fx import _symbolic_trace", "torch.fx._symbolic_trace"),
        ("import keras.src.backend", "keras.src.backend"),
        ("from importlib import import_module\nimport_module('torch._dynamo')", "torch._dynamo"),
        ("def f(module):\n    return module._no_name_of_ours", "?._no_name_of_ours"),
        ("def f(module):\n    return getattr(module, '_no_name_of_ours', None)", "?._no_name_of_ours"),
        ("def f(module):\n    return module._banned", "?._banned"),
        ("import torch\ntorch.ops.aten._softmax.default, torch.nn.Linear.__init__", ""),
        ("class A:\n    def f(self):\n        'A text about torch._C.'\n        return self._own", ""),
    ],
)
def test_a_private_name_is_found(tmp_path: Path, code: str, name: str) -> None:
    path = tmp_path / "code.py"
    path.write_text(code)
    uses = {use.name for use in private_uses(path, frozenset({"_banned"}))}
    assert name in uses if name else not uses
