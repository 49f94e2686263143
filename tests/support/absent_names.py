"""Profiles three small networks in a process in which a name of the framework is not there.

Run as a script, with names: a dotted path such as ``torch._C._len_torch_function_stack``, or that of an attribute of
objects such as ``_schema``. With an empty one nothing is taken away. The last line that is printed is JSON: by name,
network and metric the value, its completeness, and what is said to be missing; of a network of Keras where that runs
on torch. The tests of the other frameworks have scripts of their own, which share what stands here.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping
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


#: By metric the value, its completeness, and what is said of it.
Outcome = dict[str, list[Any]]


def find_outcome(model: Any, inputs: Any, metrics: Iterable[str], **options: Any) -> Outcome:
    """Return what the report says of each metric, and of the layers; of a model that is refused why."""
    from profilerkit import NotOfferedError, profile

    try:
        report = profile(model, inputs, metrics=[*metrics], **options)
    except NotOfferedError as error:
        return {name: [None, "unavailable", [str(error)]] for name in metrics}
    statuses = {name: report.status(name) for name in metrics}
    outcome = {name: [one.value, one.completeness.value, [*one.missing]] for name, one in statuses.items()}
    rows = [[row["path"], row["macs"], row["calls"]] for row in report.layers or ()]
    return {**outcome, "layers": [rows, *outcome["macs"][1:]]}


def require_outcomes(usual: Mapping[str, Outcome], found: Any, name: str) -> None:
    """Require the numbers of before, or ones that are not called complete and say why, of each network."""
    assert isinstance(found, dict), f"{name}: {found}"
    for network, outcome in found.items():
        for metric, (value, completeness, said) in outcome.items():
            where = f"without {name}, {network}: {metric} is {value}, {completeness}, {said}"
            if completeness == "complete":
                assert value == usual[network][metric][0], where
            elif [value, completeness] != usual[network][metric][:2]:
                assert said, where
            assert "fault of the backend" not in str(said), where


def networks() -> dict[str, tuple[Any, Any]]:
    """Return a convolutional network, an encoder and a GRU, each with its inputs: all their counts are complete."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.out = nn.GRU(8, 8), nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.out(self.gru(x)[0])
            return y

    convolutional = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1)),
        *(nn.Flatten(), nn.Linear(72, 10), nn.Softmax(-1)),
    )
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return {
        "cnn": (convolutional, torch.ones(2, 3, 8, 8)),
        "encoder": (nn.TransformerEncoder(layer, 1), torch.ones(2, 5, 16)),
        "gru": (Recurrent(), torch.ones(4, 2, 8)),
    }


def keras_networks() -> dict[str, tuple[Any, Any]]:
    """Return a network of Keras' with weights, statistics and random numbers, and its input."""
    import keras
    import torch

    layers = keras.layers
    dense = [layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.1), layers.Dense(2)]
    return {"keras": (keras.Sequential([keras.Input((4,)), *dense]), torch.ones(2, 4))}


def profile_all(_: str) -> dict[str, Outcome]:
    """Return what the reports say; of times whether there are any."""
    on_keras = os.environ.get("KERAS_BACKEND") == "torch"
    made = (keras_networks if on_keras else networks)()
    outcomes = {name: find_outcome(model, inputs, METRICS, passes=1) for name, (model, inputs) in made.items()}
    for outcome in outcomes.values():
        outcome["layer_times"][0] = outcome["layer_times"][0] is not None
        outcome["training_memory"][0] = str(outcome["training_memory"][0])
    return outcomes


if __name__ == "__main__":
    import torch._dynamo.convert_frame  # which the backend would load in each fork

    if os.environ.get("KERAS_BACKEND"):
        import keras  # noqa: F401
    sys.stdout.write(json.dumps(each_without(sys.argv[1:], take_away, profile_all)))
