"""Profiles three small networks in a process in which a name of the framework is not there.

Run as a script, with names: a dotted path such as ``torch._C._len_torch_function_stack``, or that of an attribute of
objects such as ``_schema``. With an empty one nothing is taken away. The last line that is printed is JSON: by name,
network and metric the value, its completeness, and what the report says besides; of a network of Keras where that runs
on torch.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from time_limits import wait_for_child

from profilerkit.backend_kit import private_names

METRICS = ("total_params", "macs", "flops", "memory_footprint", "training_memory", "layer_times")


def names_in(path: Path) -> list[str]:
    """Return the names that ``compat`` looks for, a file or a folder: paths, and attributes of objects."""
    names: dict[str, None] = {}
    files = sorted(path.glob("*.py")) if path.is_dir() else [path]
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LOOKING:
            texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            names.update(dict.fromkeys(f"{_LOOKING[node.func.id]}{text}" for text in texts if isinstance(text, str)))
    return list(names)


#: What looks for a name in ``compat``, and what goes before the text that it gets.
_LOOKING = {
    **dict.fromkeys(("find", "find_first", "find_all", "require", "require_class", "field"), ""),
    "find_tag": "torch.Tag.",
    "find_operator": "torch.ops.",
    "find_dtype": "torch.",
}


def each_without(
    names: Iterable[str], take_away: Callable[[str], object], said: Callable[[str], Any]
) -> dict[str, Any]:
    """Return what is said without each of these names, each in a fork of this process: it imports a framework once.

    Nothing of the framework may have run yet, so that it has no threads. A name without which the fork raises has the
    text of that as its answer.
    """
    gc.freeze()  # what is imported is not searched again and again
    answers = {}
    for name in names:
        with tempfile.NamedTemporaryFile("r") as file:
            child = os.fork()
            if not child:
                try:
                    take_away(name)
                    answer = said(name)
                except BaseException:
                    answer = traceback.format_exc()
                Path(file.name).write_text(json.dumps(answer))
                os._exit(0)
            wait_for_child(child)
            answers[name] = json.loads(file.read() or '"The process ended."')
    return answers


def take_away(absent: str) -> None:
    """Have the backend not find a name: before it is imported."""
    find = private_names.find
    private_names.find = lambda path: None if path == absent else find(path)
    private_names.field = lambda name: f"{name}_taken_away" if name == absent else name


def networks() -> dict[str, tuple[Any, Any]]:
    """Return a convolutional network, an encoder and an LSTM, each with its inputs."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.out = nn.LSTM(8, 8), nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.out(self.lstm(x)[0])
            return y

    convolutional = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1)),
        *(nn.Flatten(), nn.Linear(72, 10), nn.Softmax(-1)),
    )
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return {
        "cnn": (convolutional, torch.ones(2, 3, 8, 8)),
        "encoder": (nn.TransformerEncoder(layer, 1), torch.ones(2, 5, 16)),
        "lstm": (Recurrent(), torch.ones(4, 2, 8)),
    }


def keras_networks() -> dict[str, tuple[Any, Any]]:
    """Return a network of Keras' with weights, statistics and random numbers, and its input."""
    import keras
    import torch

    layers = keras.layers
    dense = [layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.1), layers.Dense(2)]
    return {"keras": (keras.Sequential([keras.Input((4,)), *dense]), torch.ones(2, 4))}


def profile_all() -> dict[str, Any]:
    """Return what the reports say."""
    from profilerkit import NotOfferedError, profile

    said: dict[str, Any] = {}
    on_keras = os.environ.get("KERAS_BACKEND") == "torch"
    for name, (model, inputs) in (keras_networks if on_keras else networks)().items():
        try:
            report = profile(model, inputs, metrics=METRICS, passes=1)
        except NotOfferedError as error:
            said[name] = {"refused": str(error)}
            continue
        values = {
            key: (
                str(status.value) if key != "layer_times" else status.value is not None,
                status.completeness.value,
                status.missing,
            )
            for key, status in report.statuses.items()
            if key in METRICS
        }
        said[name] = {"values": values, "notes": [note for note in report.notes if "noisy" not in note.lower()]}
    return said


if __name__ == "__main__":
    import torch._dynamo.convert_frame  # which the backend would load in each fork

    if os.environ.get("KERAS_BACKEND"):
        import keras  # noqa: F401
    sys.stdout.write(json.dumps(each_without(sys.argv[1:], take_away, lambda name: profile_all())))
