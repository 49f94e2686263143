"""1,000 damaged ONNX files: a clear error, the numbers of what the file says now, or a lower bound that says so.

``make test`` takes a sample; ``make attack`` takes all. Most bytes of a model are weights, names and shapes: a file
whose weights have changed is a whole model, and has the same numbers; one whose shapes have is another whole model.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("onnx")
import numpy as np
import onnx
from attack_sampling import sample
from damaged_onnx import KINDS, damage
from google.protobuf.message import DecodeError
from onnx_architectures import BUILDERS

from profilerkit import profile
from profilerkit.errors import ProfilerKitError
from profilerkit.testing import ARCHITECTURES

NAMES = ("mlp", "lenet5", "lstm", "transformer_encoder")
COUNT = 1000
METRICS = ["macs", "flops", "total_params", "model_size", "sparsity"]
WHOLE_FILES = {name: BUILDERS[name]().SerializeToString() for name in NAMES}


def product_sizes(model: onnx.ModelProto) -> Counter[tuple[object, ...]]:
    """Return what the counts follow from: operators, attributes, shapes of weights and inputs, and small constants."""
    facts: Counter[tuple[object, ...]] = Counter()
    facts.update(
        (
            node.op_type,
            node.domain,
            tuple(attribute.SerializeToString() for attribute in node.attribute),
            tuple(node.input),
        )
        for node in model.graph.node
    )
    facts.update((tensor.name, tuple(tensor.dims), tensor.data_type) for tensor in model.graph.initializer)
    facts.update((value.name, value.type.SerializeToString()) for value in model.graph.input)
    facts.update((value.name,) for value in model.graph.output)
    facts.update((entry.domain, entry.version) for entry in model.opset_import)
    facts.update(
        ("of a number", tensor.name, tensor.raw_data) for tensor in model.graph.initializer if _is_small(tensor)
    )
    return facts


def _is_small(tensor: onnx.TensorProto) -> bool:
    return int(np.prod(tensor.dims, dtype=np.int64)) <= 16


@pytest.mark.parametrize("seed", sample(range(COUNT), 70))
def test_a_damaged_file_is_an_error_or_has_its_own_numbers(seed: int, tmp_path: Path) -> None:
    name = NAMES[seed // len(KINDS) % len(NAMES)]
    path = tmp_path / "damaged.onnx"
    path.write_bytes(damage(WHOLE_FILES[name], seed))
    try:
        report = profile(path, metrics=METRICS)
    except ProfilerKitError as error:
        assert str(error).strip()
        return
    failures = {key: " ".join(report.status(key).missing) for key in METRICS}
    assert not any("fault of the backend" in words for words in failures.values()), failures
    for key in METRICS:
        assert report.status(key).completeness.value == "complete" or failures[key], key
    if report.status("sparsity").completeness.value == "complete":
        assert 0 <= report["sparsity"] <= 1
    if is_unchanged(path, name) and report.status("macs").completeness.value == "complete":
        assert (report["macs"], report["flops"]) == (ARCHITECTURES[name].macs(1), ARCHITECTURES[name].flops(1))


def is_unchanged(path: Path, name: str) -> bool:
    """Say whether what is counted is still the same: the damage lies in weights or names alone."""
    whole = onnx.ModelProto.FromString(WHOLE_FILES[name])
    try:
        return product_sizes(onnx.load(path)) == product_sizes(whole)
    except (DecodeError, ValueError):
        return False
