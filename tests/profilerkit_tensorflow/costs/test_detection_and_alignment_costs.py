"""Boxes, alignments and smooth resampling: closed forms written out. Each elementary function is one operation."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
import tensorflow as tf
from calls import cost, raw_cost, spec

from profilerkit_tensorflow.costs.registry import OPERATORS

#: The overlap of two boxes: six comparisons, three differences, a product, a sum and a ratio. An area is three.
PAIR, AREA = 6 + 3 + 1 + 1 + 1, 3


def boxes(number: int) -> int:
    return number * (number - 1) // 2 * PAIR + number * AREA


@pytest.mark.parametrize("version", ["", "V2", "V3", "V4", "V5"])
def test_boxes_that_overlap(version: str) -> None:
    soft = {"soft_nms_sigma": 0.0} if version == "V5" else {}
    thresholds = {} if not version else {"iou_threshold": 0.5}
    scores = {} if version in ("", "V2") else {"score_threshold": 0.1}
    found = raw_cost(
        f"NonMaxSuppression{version}",
        boxes=spec(10, 4),
        scores=spec(10),
        max_output_size=3,
        **thresholds,
        **scores,
        **soft,
    )
    assert found == (0, boxes(10))


def test_soft_scores_are_not_counted() -> None:
    assert (
        raw_cost(
            "NonMaxSuppressionV5",
            boxes=spec(10, 4),
            scores=spec(10),
            max_output_size=3,
            iou_threshold=0.5,
            score_threshold=0.1,
            soft_nms_sigma=0.5,
        )
        is None
    )


def test_boxes_of_each_image_and_class() -> None:
    found = cost(
        "CombinedNonMaxSuppression",
        lambda b, s: tf.image.combined_non_max_suppression(b, s, 3, 3),
        spec(2, 10, 1, 4),
        spec(2, 10, 5),
    )
    assert found == (0, 2 * 5 * boxes(10))


def test_alignments() -> None:
    """5 steps, 2 samples, 6 classes, and 7 labels: 2 * 7 + 2 states, each of 13 operations, its gradient of 13 + 9."""
    found = raw_cost(
        "CTCLoss",
        inputs=spec(5, 2, 6),
        labels_indices=spec(7, 2, dtype="int64"),
        labels_values=spec(7, dtype="int32"),
        sequence_length=spec(2, dtype="int32"),
    )
    states, probabilities = 5 * (2 * 7 + 2), 5 * 2 * 6
    assert found == (0, probabilities * 5 + states * 13 + states * (13 + 9) + probabilities * (2 + 1 + 2 + 1))


def pixels_under(length: int, resized: int) -> list[int]:
    """How many input pixels each output pixel lies on, whole or in part, by their exact edges."""
    edges = [Fraction(index * length, resized) for index in range(resized + 1)]
    return [sum(start < pixel + 1 and end > pixel for pixel in range(length)) for start, end in pairwise(edges)]


@pytest.mark.parametrize(("height", "width"), [(4, 5), (3, 10), (8, 10), (16, 20), (12, 10), (5, 7), (1, 1), (9, 3)])
def test_areas(height: int, width: int) -> None:
    """From (8, 10) to that size, two images of three channels: one pixel is moved, others are weighted and added."""
    found = cost("ResizeArea", lambda x: tf.image.resize(x, (height, width), "area"), spec(2, 8, 10, 3))
    windows = [rows * columns for rows in pixels_under(8, height) for columns in pixels_under(10, width)]
    assert found == (0, 2 * 3 * sum(2 * pixels - 1 for pixels in windows if pixels > 1))


def test_areas_with_aligned_corners_have_no_formula() -> None:
    """Their pixels lie elsewhere: the trace says that the operator is not counted."""
    resize = tf.compat.v1.image.resize_area
    assert cost("ResizeArea", lambda x: resize(x, (3, 5), align_corners=True), spec(2, 8, 10, 3)) is None


@pytest.mark.parametrize(("method", "reach"), [("lanczos3", 6), ("lanczos5", 10), ("gaussian", 3), ("bilinear", 2)])
@pytest.mark.parametrize("antialias", [True, False])
def test_smooth_resampling(method: str, reach: int, antialias: bool) -> None:
    """From (8, 10) to (4, 20) of three channels: antialiased, the kernel reaches twice as far along the height."""
    if method == "bilinear" and not antialias:
        pytest.skip("that is ResizeBilinear")
    found = cost(
        "ScaleAndTranslate", lambda x: tf.image.resize(x, (4, 20), method, antialias=antialias), spec(2, 8, 10, 3)
    )
    tall = min(8, reach * (2 if antialias else 1))  # of 8 rows
    assert found == (0, 2 * 4 * 10 * 3 * (2 * tall - 1) + 2 * 4 * 20 * 3 * (2 * reach - 1))


#: Operators that TensorFlow's converter for Lite registers where a test before has converted a model.
OF_THE_CONVERTER = {"TFLite_Detection_PostProcess", "UnidirectionalSequenceLstm", "UnidirectionalSequenceRnn"}
WITHOUT_FORMULA = Path(__file__).parents[2] / "support" / "tensorflow_without_formula.txt"


def reasons() -> dict[str, str]:
    """The operators without a formula, and why: each line of the file is a reason and, after a colon, names."""
    lines = (line.split(": ", 1) for line in WITHOUT_FORMULA.read_text().splitlines() if line)
    return {name: reason for reason, names in lines for name in names.split()}


@pytest.mark.skipif(not tf.__version__.startswith("2.21."), reason="other releases have other operators")
def test_every_registered_operator_has_a_formula_or_a_reason_to_have_none() -> None:
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    registered = op_def_pb2.OpList()
    registered.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    runnable = {operator.name for operator in registered.op if not operator.deprecation.version}
    without = {name for name in runnable if not OPERATORS.is_known(name)}
    assert without - OF_THE_CONVERTER == reasons().keys()
