"""4-bit weights in saved models: their file does not tell how many numbers their bytes hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from slow_ones import slow_ones

from profilerkit import Report, profile

if not hasattr(keras.quantizers, "Int4QuantizationConfig"):
    pytest.skip("Keras before 3.13 has no scales for each channel", allow_module_level=True)

#: Per-channel scales without zero points.
PER_CHANNEL = keras.quantizers.Int4QuantizationConfig(block_size=None)
#: Whether a saved model is in a Keras layer, where the slow tests look.
IN_LAYER = slow_ones([False, True], [True])
NUMBERS, TOKENS = np.ones((2, 16), "float32"), np.ones((2, 4), "int32")


def profile_saved(layer: Any, x: Any, folder: Path, in_layer: bool, mode: str = "int4", **options: Any) -> Report:
    """Return what a quantized layer is in a saved model, or in a Keras layer around that."""
    inputs = layers.Input(x.shape[1:], dtype=x.dtype)
    model = keras.Sequential([inputs, layer])
    layer.quantize(mode, **options)
    model.export(str(folder), verbose=False)
    saved: Any = tf.saved_model.load(str(folder))
    if in_layer:
        saved = keras.Sequential([inputs, layers.TFSMLayer(str(folder), call_endpoint="serve")])
    return profile(saved, tf.constant(x), metrics=["total_params", "model_size"])


@pytest.mark.parametrize("in_layer", IN_LAYER)
@pytest.mark.parametrize(
    ("layer", "x", "stored"),
    [
        (lambda: layers.Dense(9), NUMBERS, 16 * 5 + 9),  # 5 bytes a row for 9 columns, and a bias for each
        (lambda: layers.Embedding(11, 7), TOKENS, 11 * 4),  # 4 bytes a row for 7 columns
    ],
    ids=["dense", "embeddings"],
)
def test_the_bytes_of_a_saved_model_are_a_lower_bound_of_its_numbers(
    layer: Any, x: Any, stored: int, in_layer: bool, tmp_path: Path
) -> None:
    record = profile_saved(layer(), x, tmp_path, in_layer, config=PER_CHANNEL).status("total_params")
    assert (record.value, record.completeness.value) == (stored, "partial")
    (missing,) = record.missing
    assert missing.startswith("the second numbers in the bytes of 1 saved weight (")


@pytest.mark.parametrize("in_layer", IN_LAYER)
@pytest.mark.parametrize(
    ("layer", "x", "params", "size"),
    [
        (lambda: layers.Dense(9), NUMBERS, 16 * 9 + 9, 16 * 9 + 9 * 4 + 9 * 4),
        (lambda: layers.Embedding(11, 7), TOKENS, 11 * 7, 11 * 7 + 11 * 4),
    ],
    ids=["dense", "embeddings"],
)
def test_whole_bytes_are_complete(layer: Any, x: Any, params: int, size: int, in_layer: bool, tmp_path: Path) -> None:
    report = profile_saved(layer(), x, tmp_path, in_layer, "int8")
    assert (report["total_params"], report["model_size"]) == (params, size)
    assert report.status("total_params").missing == ()
