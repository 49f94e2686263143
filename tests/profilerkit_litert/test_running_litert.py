"""Runs by the interpreter of LiteRT: outputs, kernels, memory, scores; shapes as the kernels find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from litert_architectures import BUILDERS, build_mlp
from litert_models import GraphBuilder, options, write_model

from profilerkit import ModelInputs, NotOfferedError, ProfilerKitWarning, compare, profile
from profilerkit.backend import RunOptions
from profilerkit_litert import EvalLossFunction, LiteRTBackend, LiteRTModel, get_accuracy

BACKEND = LiteRTBackend()
F = np.float32


def write(builder: GraphBuilder, **outputs: int) -> LiteRTModel:
    return LiteRTModel(write_model([builder], [outputs or {"y": len(builder.graph.tensors) - 1}], {"serving": 0}))


def chain() -> LiteRTModel:
    """Two products of 4 x 4 with ones: each doubles the number of a row of ones, twice."""
    builder = GraphBuilder()
    x, w = builder.input("x", (-1, 4)), builder.constant("w", np.ones((4, 4), F))
    h = builder.add("FULLY_CONNECTED", [x, w, -1], (-1, 4), options=options("FullyConnected"))
    builder.add("FULLY_CONNECTED", [h, w, -1], (-1, 4), options=options("FullyConnected"))
    return write(builder)


@pytest.mark.parametrize("mode", BACKEND.execution_modes)
def test_every_kind_of_kernels_gives_the_same(mode: str) -> None:
    with BACKEND.run(chain(), ModelInputs(np.ones((3, 4), F)), RunOptions(mode=mode, num_threads=1)) as run:
        for _ in range(2):  # the inputs are still there in the second pass
            assert run().tolist() == [[16.0] * 4] * 3
        assert run.first_call_seconds


def test_times_of_a_file() -> None:
    report = profile(
        build_mlp(), metrics=["execution_time", "throughput", "first_call_time"], batch_size=2, num_iters=3
    )
    assert all(report.status(name).completeness.value == "complete" for name in report)
    assert report["execution_time"] > 0
    assert report.environment["ai_edge_litert"]


def test_several_outputs_have_names() -> None:
    model = BUILDERS["dict_in_and_out"]()
    inputs = BACKEND.example_inputs(model, 2)
    assert inputs is not None
    with BACKEND.run(model, inputs) as run:
        assert {name: array.shape for name, array in run().items()} == {"scores": (2, 10), "value": (2, 1)}


def test_the_plan_of_the_memory_by_hand() -> None:
    """Input, hidden and output of 3 rows of 16 bytes: the interpreter keeps its inputs, as the static peak has it."""
    model, inputs = chain(), ModelInputs(np.ones((3, 4), F))
    assert BACKEND.measure_memory(model, inputs) == 3 * 48
    assert BACKEND.trace(model, inputs).memory.peak_bytes(include_weights=False) == 3 * 48


@pytest.mark.parametrize("dtype", [object, str, bytes])
def test_texts_have_no_size(dtype: Any) -> None:
    """Two of four texts, by two int64 of 8 bytes: the texts lie elsewhere, and a shape does not tell their bytes."""
    builder = GraphBuilder()
    texts, places = builder.input("texts", (4,), "string"), builder.input("places", (2,), "int64")
    builder.add("GATHER", [texts, places], (2,), dtype="string", options=options("Gather"))
    inputs = ModelInputs(np.array(["a", "b", "c", "d"], dtype), np.array([0, 3]))
    assert BACKEND.trace(write(builder), inputs).memory.peak_bytes(include_weights=False) == 2 * 8
    with pytest.raises(NotOfferedError, match="no operators of texts"):
        BACKEND.time_nodes(BACKEND.open_model(write(builder)), inputs, "cpu", 1)


def test_bytes_that_are_used_again_count_once() -> None:
    """Of eight values of 4,096 bytes in a row at most three are needed at the same time, the input among them."""
    builder = GraphBuilder()
    x = builder.input("x", (-1, 1024))
    for _ in range(8):
        x = builder.add("TANH", [x], (-1, 1024))
    model, inputs = write(builder), ModelInputs(np.ones((1, 1024), F))
    assert BACKEND.measure_memory(model, inputs) == 3 * 4096
    assert BACKEND.trace(model, inputs).memory.peak_bytes(include_weights=False) == 3 * 4096


def test_an_operator_that_no_kernel_runs_is_named() -> None:
    builder = GraphBuilder()
    builder.add("Attend", [builder.input("x", (-1, 4))], (-1, 4))
    status = profile(write(builder), np.ones((1, 4), F), metrics="execution_time").status("execution_time")
    assert status.completeness.value == "failed"
    assert "Attend" in str(status)
    assert "does LiteRT know its operators?" in str(status)


def test_a_signature_of_another_graph_runs_that_graph() -> None:
    """The main graph would return zeros."""
    first = GraphBuilder()
    first.add("RELU", [first.input("x", (1, 4))], (1, 4))
    second = GraphBuilder(first.buffers, "decode")
    second.add("TANH", [second.input("x", (1, 4))], (1, 4))
    written = write_model([first, second], [{"y": 1}, {"y": 1}], {"prefill": 0, "decode": 1})
    model = LiteRTModel(written).with_signature("decode")
    assert BACKEND.trace(model, ModelInputs(np.ones((1, 4), F))).flops == 4
    x = ModelInputs(-np.ones((1, 4), F))
    with BACKEND.run(model, x) as run:
        assert run() == pytest.approx(np.tanh(-np.ones((1, 4))), abs=1e-5)
    with pytest.raises(NotOfferedError, match="'decode' has a graph of its own: the litert backend measures"):
        BACKEND.measure_memory(model, x)


def test_scores_and_losses_of_a_classifier() -> None:
    """The classifier returns its input: of four samples three have their largest number at the target."""
    builder = GraphBuilder()
    builder.add(
        "FULLY_CONNECTED",
        [builder.input("x", (-1, 3)), builder.constant("w", np.eye(3, dtype=F)), -1],
        (-1, 3),
        options=options("FullyConnected"),
    )
    model = write(builder)
    samples, targets = np.eye(3, dtype=F)[[0, 1, 2, 0]], np.array([0, 1, 2, 2])
    assert get_accuracy(model, [(samples, targets)]) == 75
    loss = EvalLossFunction(lambda output, target: float(np.abs(output).sum()))
    assert loss(model, [(samples, targets)]) == 4.0
    with pytest.raises(Exception, match="give the path of a .tflite file, its bytes, or a LiteRTModel"):
        get_accuracy(object(), [(samples, targets)])


@pytest.mark.parametrize(("reshapes", "weighs"), [(0, False), (1, False), (2, False), (1, True)])
def test_a_linear_layer_gives_logits_unless_it_reads_probabilities(reshapes: int, weighs: bool) -> None:
    """A mean of two sigmoids gives 0.2 and 0.8, as the targets say; of logits, both would be above nought."""
    builder = GraphBuilder()
    sigmoids = builder.add("LOGISTIC", [builder.input("x", (-1, 2))], (-1, 2))
    if weighs:
        sigmoids = builder.add("MUL", [sigmoids, builder.constant("ones", np.ones(2, F))], (-1, 2))
    for _ in range(reshapes):
        sigmoids = builder.add("RESHAPE", [sigmoids, builder.constant("sizes", np.array([-1, 2], np.int32))], (-1, 2))
    weight = builder.constant("w", np.full((1, 2), 0.5, F))
    model = write(builder, y=builder.add("FULLY_CONNECTED", [sigmoids, weight, -1], (-1, 1)))
    odds = np.log(np.array([[0.25, 0.25], [4, 4]], F))
    with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
        assert get_accuracy(model, [(odds, np.array([0, 1]))]) == 100


# Shapes ---------------------------------------------------------------------------------------------------------------

IMAGE, ROWS = (-1, 6, 8, 4), (-1, 5)
POOL = {"strideH": 2, "strideW": 3, "filterHeight": 2, "filterWidth": 2}


def one(operator: str, shape: tuple[int, ...], *further: Any, **chosen: Any) -> Callable[[GraphBuilder], Any]:
    """Return what adds an operator on an input of a shape and further constants; ``name`` is that of its options."""
    name, outputs, dtype = chosen.pop("name", None), chosen.pop("outputs", 1), chosen.pop("dtype", "float32")

    def add(builder: GraphBuilder) -> Any:
        inputs = [
            builder.input("x", shape),
            *(builder.constant(f"c{place}", value) for place, value in enumerate(further)),
        ]
        made = options(name, **chosen) if name else None
        return builder.add(operator, inputs, *[(-1,) * 4] * outputs, dtype=dtype, options=made)

    return add


def i32(*numbers: Any) -> Any:
    return np.asarray(numbers, np.int32)


def bias(channels: int) -> Any:
    return np.zeros(channels, F)


CONV = {"strideH": 2, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 2}
SHAPES: dict[str, Callable[[GraphBuilder], Any]] = {
    "conv same": one("CONV_2D", IMAGE, np.ones((7, 3, 3, 4), F), bias(7), name="Conv2D", padding=0, **CONV),
    "conv valid": one("CONV_2D", IMAGE, np.ones((7, 3, 3, 4), F), bias(7), name="Conv2D", padding=1, **CONV),
    "depthwise": one(
        "DEPTHWISE_CONV_2D",
        IMAGE,
        np.ones((1, 3, 3, 8), F),
        bias(8),
        name="DepthwiseConv2D",
        padding=1,
        depthMultiplier=2,
        **{**CONV, "strideW": 2, "dilationWFactor": 1},
    ),
    "average pool": one("AVERAGE_POOL_2D", IMAGE, name="Pool2D", padding=0, **POOL),
    "max pool": one("MAX_POOL_2D", IMAGE, name="Pool2D", padding=1, **POOL),
    "rows of images": one("FULLY_CONNECTED", IMAGE, np.ones((3, 16), F), bias(3), name="FullyConnected"),
    "kept dimensions": one(
        "FULLY_CONNECTED", IMAGE, np.ones((3, 4), F), bias(3), name="FullyConnected", keepNumDims=True
    ),
    "matrix product": one("BATCH_MATMUL", IMAGE, np.ones((4, 9), F), name="BatchMatMul"),
    "transposed product": one("BATCH_MATMUL", IMAGE, np.ones((9, 4), F), name="BatchMatMul", adjY=True),
    "broadcast": one("ADD", IMAGE, np.ones((6, 1, 4), F), name="Add"),
    "reshape": one("RESHAPE", IMAGE, i32(-1, 16), name="Reshape"),
    "transpose": one("TRANSPOSE", IMAGE, i32(0, 3, 1, 2), name="Transpose"),
    "expand": one("EXPAND_DIMS", ROWS, i32(1), name="ExpandDims"),
    "squeeze": one("SQUEEZE", (-1, 1, 5, 1), name="Squeeze", squeezeDims=[1, 3]),
    "slice": one("SLICE", IMAGE, i32(0, 1, 2, 0), i32(-1, 3, -1, 2), name="Slice"),
    "strided": one(
        "STRIDED_SLICE",
        IMAGE,
        i32(0, 0, 1, 0),
        i32(0, 1, 7, 0),
        i32(1, 1, 3, 1),
        name="StridedSlice",
        beginMask=9,
        endMask=9,
        shrinkAxisMask=2,
    ),
    "strided with an ellipsis": one(
        "STRIDED_SLICE",
        IMAGE,
        i32(0, 0, 2, 0),
        i32(0, 0, 4, 0),
        i32(1, 1, 1, 1),
        name="StridedSlice",
        ellipsisMask=2,
        newAxisMask=1,
        shrinkAxisMask=4,
    ),
    "pad": one("PAD", IMAGE, i32([0, 0], [1, 2], [0, 3], [0, 0]), name="Pad"),
    "mirror": one("MIRROR_PAD", ROWS, i32([0, 0], [1, 2]), name="MirrorPad"),
    "concatenate": one("CONCATENATION", IMAGE, np.ones((3, 6, 8, 2), F), name="Concatenation", axis=3),
    "pack": one("PACK", ROWS, np.ones((3, 5), F), name="Pack", axis=1, valuesCount=2),
    "unpack": one("UNPACK", (-1, 2, 5), name="Unpack", axis=1, num=2, outputs=2),
    "split": lambda builder: builder.add(
        "SPLIT",
        [builder.constant("axis", i32(3)[0]), builder.input("x", IMAGE)],
        (-1,) * 4,
        (-1,) * 4,
        options=options("Split", numSplits=2),
    ),
    "split by sizes": one("SPLIT_V", IMAGE, i32(2, -1), i32(1)[0], name="SplitV", numSplits=2, outputs=2),
    "spectrum": one("RFFT2D", IMAGE, i32(8, 4), dtype="complex64"),
    "scatter": lambda builder: builder.add(
        "SCATTER_ND",
        [builder.constant("at", i32([2], [0], [3])), builder.input("x", ROWS), builder.constant("sizes", i32(4, 5))],
        (-1, 5),
    ),
    "gather": one("GATHER", IMAGE, i32(0, 2, 2), name="Gather", axis=2),
    "tile": one("TILE", IMAGE, i32(1, 2, 1, 3), name="Tile"),
    "mean": one("MEAN", IMAGE, i32(1, 2), name="Reducer"),
    "kept mean": one("MEAN", IMAGE, i32(-1), name="Reducer", keepDims=True),
    "maximum": one("REDUCE_MAX", IMAGE, i32(0), name="Reducer"),
    "arg max": one("ARG_MAX", IMAGE, i32(-1), name="ArgMax", outputType=4, dtype="int64"),
    "bilinear": one("RESIZE_BILINEAR", IMAGE, i32(12, 5), name="ResizeBilinear"),
    "nearest": one("RESIZE_NEAREST_NEIGHBOR", IMAGE, i32(12, 5), name="ResizeNearestNeighbor"),
    "depth to space": one("DEPTH_TO_SPACE", IMAGE, name="DepthToSpace", blockSize=2),
    "space to depth": one("SPACE_TO_DEPTH", IMAGE, name="SpaceToDepth", blockSize=2),
    "space to batch": one("SPACE_TO_BATCH_ND", IMAGE, i32(2, 2), i32([0, 0], [1, 1]), name="SpaceToBatchND"),
    "top": one("TOPK_V2", ROWS, i32(2)[0], name="TopKV2", outputs=2),
    "softmax": one("SOFTMAX", ROWS, name="Softmax", beta=1.0),
    "prelu": one("PRELU", IMAGE, np.ones((1, 1, 4), F)),
    "cumulative": one("CUMSUM", ROWS, i32(1)[0], name="Cumsum"),
    "reverse": one("REVERSE_V2", ROWS, i32(1), name="ReverseV2"),
    "rows by a condition": lambda builder: builder.add(
        "SELECT", [builder.input("choice", (-1,), "bool"), builder.input("x", ROWS), builder.input("y", ROWS)], (-1, -1)
    ),
    "elements by a condition": lambda builder: builder.add(
        "SELECT", [builder.input("choice", ROWS, "bool"), builder.input("x", ROWS), builder.input("y", ROWS)], (-1, -1)
    ),
    "leaky": one("LEAKY_RELU", ROWS, name="LeakyRelu", alpha=0.1),
    "squared difference": one("SQUARED_DIFFERENCE", IMAGE, np.ones(4, F), name="SquaredDifference"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_those_that_the_kernels_find(name: str) -> None:
    builder = GraphBuilder()
    made = SHAPES[name](builder)
    indices = made if isinstance(made, list) else [made]
    if name == "top":
        builder.graph.tensors[indices[1]].type = 2  # indices are of int32
    model = write(builder, **{f"y{place}": index for place, index in enumerate(indices)})
    inputs = BACKEND.example_inputs(model, 3)
    assert inputs is not None
    trace = BACKEND.trace(model, inputs)
    assert (trace.failure, trace.missing) == (None, ())
    with BACKEND.run(model, inputs, RunOptions(mode="builtin")) as run:
        outputs = run()
    arrays = outputs.values() if isinstance(outputs, dict) else [outputs]
    assert [info.shape for info in trace.operators[0].outputs] == [array.shape for array in arrays]


def test_shapes_that_are_computed_follow_the_input() -> None:
    """A flattening as TensorFlow writes it: SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
    builder = GraphBuilder()
    x = builder.input("x", (-1, 2, 3))
    sizes = builder.add("SHAPE", [x], (3,), dtype="int32", options=options("Shape", outType=2))
    bounds = [builder.constant(f"c{place}", i32(number)) for place, number in enumerate((0, 1, 1))]
    batch = builder.add(
        "STRIDED_SLICE", [sizes, *bounds], (), dtype="int32", options=options("StridedSlice", shrinkAxisMask=1)
    )
    shape = builder.add(
        "PACK", [batch, builder.constant("six", i32(6)[0])], (2,), dtype="int32", options=options("Pack", valuesCount=2)
    )
    builder.add("RESHAPE", [x, shape], (-1, 6), options=options("Reshape"))
    trace = BACKEND.trace(write(builder), ModelInputs(np.ones((5, 2, 3), F)))
    assert trace.operators[0].outputs[0].shape == (5, 6)
    assert [op.operator for op in trace.operators] == ["RESHAPE"]
    assert "3 operators of constants and shapes alone" in trace.notes[0]


def test_sizes_that_are_split_keep_their_values() -> None:
    """A frame of a signal as TensorFlow cuts it: SHAPE, SPLIT_V into batch and length, and a shape made of these."""
    builder = GraphBuilder()
    x = builder.input("x", (-1, 6))
    sizes = builder.add("SHAPE", [x], (2,), dtype="int32", options=options("Shape", outType=2))
    parts = [builder.constant("parts", i32(1, 1)), builder.constant("axis", i32(0)[0])]
    batch, length = builder.add(
        "SPLIT_V", [sizes, *parts], (1,), (1,), dtype="int32", options=options("SplitV", numSplits=2)
    )
    turned = builder.add(
        "CONCATENATION", [length, batch], (2,), dtype="int32", options=options("Concatenation", axis=0)
    )
    builder.add("RESHAPE", [x, turned], (-1, -1), options=options("Reshape"))
    trace = BACKEND.trace(write(builder), ModelInputs(np.ones((5, 6), F)))
    assert trace.operators[0].outputs[0].shape == (6, 5)


@pytest.mark.parametrize(
    ("operator", "shapes", "words"),
    [
        ("FULLY_CONNECTED", [(-1, 5), (3, 4)], "has no rows of 4 features"),
        ("BATCH_MATMUL", [(-1, 5), (4, 3)], "sums over 5 and 4"),
        ("ADD", [(-1, 5), (4,)], "ADD cannot make 'y' of what it reads"),
    ],
)
def test_what_does_not_fit_is_named(operator: str, shapes: list[tuple[int, ...]], words: str) -> None:
    builder = GraphBuilder()
    inputs = [builder.input("x", shapes[0]), builder.constant("w", np.ones(shapes[1], F))]
    builder.add(operator, inputs, (-1, 3), name="y", options=options("Add") if operator == "ADD" else None)
    assert words in str(BACKEND.trace(write(builder), ModelInputs(np.ones((2, 5), F))).failure)


def quantized(scale: float, zero_point: int) -> LiteRTModel:
    """A file that returns its input, a row of four numbers for which integers of eight bits stand."""
    builder = GraphBuilder()
    rule = schema.QuantizationParametersT()
    rule.scale, rule.zeroPoint = [scale], [zero_point]
    x = builder.input("x", (-1, 4), "int8")
    y = builder.add("RESHAPE", [x, builder.constant("shape", np.array([-1, 4], np.int32))], (-1, 4), dtype="int8")
    for index in (x, y):
        builder.graph.tensors[index].quantization = rule
    return write(builder)


def test_integers_of_quantized_inputs_and_outputs_stand_for_numbers() -> None:
    """By hand, of scale 1/2 and zero point 3: 0.2 becomes 0, 0.25 and 0.6 become 1/2, and -65.5 is the least of all."""
    x = np.array([[0.2, 0.25, 0.6, -99.0]], F)
    inputs = BACKEND.fit_inputs(quantized(0.5, 3), ModelInputs(x))
    assert inputs.args[0].tolist() == [[3, 4, 4, -128]]
    with BACKEND.run(quantized(0.5, 3), inputs) as run:
        assert run().tolist() == [[3, 4, 4, -128]]
        assert run.read_outputs(run()).tolist() == [[0.0, 0.5, 0.5, -65.5]]


def test_scores_of_a_quantized_file_are_those_of_its_numbers() -> None:
    """Integers alone would give a loss of 3 + 4 + 4 - 128."""
    loader = [(np.array([[0.2, 0.25, 0.6, -99.0]], F), np.zeros((1, 4), F))]
    evaluate = EvalLossFunction(lambda output, target: float((output - target).sum()))
    assert evaluate(quantized(0.5, 3), loader) == 0.0 + 0.5 + 0.5 - 65.5


def test_a_quantized_file_is_compared_by_its_numbers() -> None:
    """Steps of 1/2 are at most 1/4 away; the second file has steps of 1/8, and the numbers are those of the first."""
    x = np.array([[0.25, 1.0, -2.5, 3.0]], F)
    compared = compare(quantized(0.5, 3), quantized(0.125, 0), inputs=x, metrics=["output_difference"])
    assert list(compared["output_difference"].values()) == [0.0, 0.0]


def test_a_quantized_file_keeps_that_its_inputs_were_made_up() -> None:
    compared = compare(quantized(0.5, 3), quantized(0.125, 0), input_shape=(4,), metrics=["output_difference"])
    assert "compared on inputs that were made up" in str(compared)
