"""4-bit weights in saved models: parameters count the numbers where the file tells how many, else a lower bound."""

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
from profilerkit_tensorflow.model.saved_packing import read_packing

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
    ("layer", "x", "options", "params", "size"),
    [
        # 5 bytes a row for 9 columns, a float scale and a byte of zero a column, a float for each row; floats of bias
        (lambda: layers.Dense(9), NUMBERS, {}, 16 * 9 + 9, 16 * 5 + 9 * 4 + 9 + 16 * 4 + 9 * 4),
        (lambda: layers.Dense(9), NUMBERS, {"config": PER_CHANNEL}, 16 * 9 + 9, 16 * 5 + 9 * 4 + 9 * 4),
        (lambda: layers.Dense(1), NUMBERS, {"config": PER_CHANNEL}, 16 + 1, 16 + 4 + 4),
        (
            lambda: layers.EinsumDense("ab,bcd->acd", output_shape=(3, 5)),
            NUMBERS,
            {"config": PER_CHANNEL},
            16 * 15,
            16 * 8 + 15 * 4,
        ),
        # 4 bytes a row for 7 columns, a float scale and a byte of zero a row, a float for each column
        (lambda: layers.Embedding(11, 7), TOKENS, {}, 11 * 7, 11 * 4 + 11 * 4 + 11 + 7 * 4),
    ],
    ids=["blocks", "channels", "one column", "einsum", "embeddings"],
)
def test_numbers_are_counted_where_the_scales_tell_how_many(
    layer: Any, x: Any, options: dict[str, Any], params: int, size: int, in_layer: bool, tmp_path: Path
) -> None:
    report = profile_saved(layer(), x, tmp_path, in_layer, **options)
    assert (report["total_params"], report["model_size"]) == (params, size)
    assert report.status("total_params").missing == ()
    assert any("two numbers to a byte" in note for note in report.notes)


@pytest.mark.parametrize("in_layer", IN_LAYER)
def test_where_nothing_tells_the_numbers_are_a_lower_bound(in_layer: bool, tmp_path: Path) -> None:
    """7 columns and 8 are both 4 bytes: 11 rows have 77 numbers or 88, and 44 bytes are all that is known."""
    record = profile_saved(layers.Embedding(11, 7), TOKENS, tmp_path, in_layer, config=PER_CHANNEL).status(
        "total_params"
    )
    assert (record.value, record.completeness.value) == (11 * 4, "partial")
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


@pytest.mark.parametrize(
    ("dtype", "stored", "scales", "numbers"),
    [
        (tf.uint8, (5, 16), (9, 2), 9 * 16),  # GPTQ and AWQ: 9 units, 16 inputs in 2 groups
        (tf.uint8, (9, 16), (9, 2), None),  # GPTQ of 8 bits
        (tf.int8, (16, 5), (2, 9), 16 * 9),
        (tf.int8, (8, 9), (9,), None),  # Keras 3.9 packed the inputs: 15 or 16 of them
    ],
)
def test_kernels_are_unpacked_along_the_axis_of_their_channels(
    dtype: Any, stored: tuple[int, ...], scales: tuple[int, ...], numbers: int | None
) -> None:
    kernel = tf.Variable(tf.zeros(stored, dtype), name="dense/kernel")
    packing = read_packing([("", None)], [kernel, tf.Variable(tf.ones(scales), name="dense/kernel_scale")])
    assert list(packing.counts.values()) == ([] if numbers is None else [numbers])
    assert bool(packing.describe_unknown(["BitwiseAnd"])) == (numbers is None)
    assert packing.describe_unknown(["MatMul"]) == ""
