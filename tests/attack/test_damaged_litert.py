"""1,000 damaged files of LiteRT: a clear error, the numbers of what the file says now, or a lower bound that says so.

``make test`` takes a sample; ``make attack`` takes all. Most bytes of a model are weights and names: a file whose
weights have changed is a whole model, and has the same numbers; one whose shapes have is another whole model.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
import numpy as np
from attack_sampling import sample
from damaged_onnx import KINDS, damage
from litert_architectures import BUILDERS, ONLY_COUNTED

from profilerkit import profile
from profilerkit.errors import ProfilerKitError
from profilerkit.testing import ARCHITECTURES
from profilerkit_litert import LiteRTModel

NAMES = ("mlp", "lenet5", "lstm", "dict_in_and_out")
COUNT = 1000
METRICS = ["macs", "flops", "total_params", "model_size", "memory_footprint"]
WHOLE_FILES: dict[str, bytes] = {}


def read_whole_file(name: str) -> bytes:
    """Return the file of an architecture, which is built once."""
    if name not in WHOLE_FILES:
        WHOLE_FILES[name] = {**BUILDERS, **ONLY_COUNTED}[name]().content
    return WHOLE_FILES[name]


def list_facts(model: LiteRTModel) -> list[Any]:
    """Return what the counts follow from: operators, options, sizes, dtypes, small constants, and who reads what."""
    facts: list[Any] = [model.signature]
    for graph in model.graphs:
        facts.append((list(graph.inputs), list(graph.outputs)))
        facts += [
            (op.name, op.inputs, op.outputs, str(vars(op.options)) if op.options else "") for op in graph.operators
        ]
        facts += [
            (
                tensor.dtype,
                tensor.shape,
                tensor.buffer,
                tensor.quantization,
                tensor.is_variable,
                tensor.is_sparse,
                tensor.data is None,
            )
            for tensor in graph.tensors
        ]
        facts += [
            tensor.data.tobytes() for tensor in graph.tensors if tensor.data is not None and len(tensor.data) < 64
        ]
    return facts


@pytest.mark.parametrize("seed", sample(range(COUNT), 70))
def test_a_damaged_file_is_an_error_or_has_its_own_numbers(seed: int) -> None:
    name = NAMES[seed // len(KINDS) % len(NAMES)]
    whole = read_whole_file(name)
    try:
        model = LiteRTModel(damage(whole, seed))
        report = profile(model, metrics=METRICS)
    except ProfilerKitError as error:
        assert str(error).strip()
        return
    failures = {key: " ".join(report.status(key).missing) for key in METRICS}
    assert not any("fault of the backend" in words for words in failures.values()), failures
    for key in METRICS:
        assert report.status(key).completeness.value == "complete" or failures[key], key
    if list_facts(model) == list_facts(LiteRTModel(whole)):
        assert (report["macs"], report["flops"]) == (ARCHITECTURES[name].macs(1), ARCHITECTURES[name].flops(1))
        assert report["total_params"] == ARCHITECTURES[name].params


def test_values_of_weights_are_not_read() -> None:
    """Changing every byte of the weights changes no number."""
    model = LiteRTModel(read_whole_file("mlp"))
    longest = max((tensor.data for tensor in model.graphs[0].tensors if tensor.data is not None), key=len)
    start = model.content.index(longest.tobytes())
    changed = model.content[:start] + bytes(255 - byte for byte in longest) + model.content[start + len(longest) :]
    assert profile(changed, metrics="macs")["macs"] == ARCHITECTURES["mlp"].macs(1)
    assert np.any(np.frombuffer(changed, np.uint8) != np.frombuffer(model.content, np.uint8))
