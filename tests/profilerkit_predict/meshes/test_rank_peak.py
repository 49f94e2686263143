"""What the bytes at a rank's peak are for, by layer: of records made by hand."""

from __future__ import annotations

from profilerkit import ModelTrace
from profilerkit.trace.records import LayerRecord
from profilerkit_predict.meshes.metrics import find_peak, list_layer_rows
from profilerkit_predict.meshes.records import Purpose, RankTrace

LAYERS = (
    LayerRecord("", "Net", 0),
    LayerRecord("blocks", "ModuleList", 1),
    LayerRecord("blocks.0", "Block", 2),
    LayerRecord("blocks.1", "Block", 2),
)
STEP = RankTrace(
    ModelTrace(LAYERS),
    peak={
        Purpose("weights", "blocks.0"): 10,
        Purpose("weights", "blocks.1"): 10,
        Purpose("activations", "blocks.0"): 30,
        Purpose("gathered weights", "blocks.1.inner"): 40,  # of a layer that is not shown
        Purpose("communication", "blocks.0, blocks.1"): 3,  # of two that are reduced together
        Purpose("inputs", ""): 5,
    },
    left={Purpose("weights", "blocks.0"): 10, Purpose("weights", "blocks.1"): 10, Purpose("gradients", "blocks"): 20},
)


def test_peak_of_the_passes_has_the_state_of_the_optimizer() -> None:
    peak = find_peak(STEP, 54, {"blocks.0": 20, "blocks.1": 20})
    assert peak.total() == 98 + 40  # 94 bytes are there in the update: 40 and the 54 that it takes for a while
    assert peak[Purpose("optimizer", "blocks.1")] == 20
    assert Purpose("update", "") not in peak


def test_peak_may_be_in_the_update() -> None:
    peak = find_peak(STEP, 59, {"": 7})
    assert peak == {**STEP.left, Purpose("update", ""): 59, Purpose("optimizer", ""): 7}


def test_layers_have_those_inside_and_their_own() -> None:
    rows = list(list_layer_rows(LAYERS, find_peak(STEP, 0, {})))
    assert [(row["path"], row["peak_bytes"], row["own_peak_bytes"]) for row in rows] == [
        ("", 98, 5),
        ("blocks", 93, 3),
        ("blocks.0", 40, 40),
        ("blocks.1", 50, 50),
    ]
    assert [row["is_leaf"] for row in rows] == [False, False, True, True]
    # The columns stand in the order of the model's bytes: 40, 30, 20, 5 and 3.
    parts = ["gathered_weights_bytes", "activations_bytes", "weights_bytes", "inputs_bytes", "communication_bytes"]
    assert [name for name in rows[0] if name in parts] == parts
    assert [rows[1][name] for name in parts] == [40, 30, 20, 0, 3]
    assert [rows[1][f"own_{name}"] for name in parts] == [0, 0, 0, 0, 3]
