"""Files of LiteRT as they are read: tensors, weights, signatures, open sizes; damaged and hostile ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
import numpy as np
from litert_architectures import BUILDERS, KINDS, ONLY_COUNTED, build_mlp
from litert_models import GraphBuilder, options, write_model

from profilerkit import ArgumentError, InputError, ModelInputs, profile
from profilerkit.testing import ARCHITECTURES
from profilerkit.testing.architectures import layer_numbers
from profilerkit_litert import LiteRTBackend, LiteRTModel, LiteRTProfiler, open_model
from profilerkit_litert.model.graphs import Quantization, Tensor

BACKEND = LiteRTBackend()
METRICS = ["macs", "flops", "total_params", "model_size", "trainable_params"]
F = np.float32


def product(shape: tuple[int, ...] = (-1, 4), weight: Any = None, **further: Any) -> GraphBuilder:
    """Return ``x @ w.T`` with its output as the last tensor: 4 features, 2 units."""
    builder = GraphBuilder()
    x = builder.input("x", shape)
    w = builder.constant("net_1/dense_1/MatMul", np.ones((2, 4), F) if weight is None else weight, **further)
    builder.add("FULLY_CONNECTED", [x, w, -1], (-1, 2), name="y", options=options("FullyConnected"))
    return builder


def write(builder: GraphBuilder, *others: GraphBuilder) -> bytes:
    graphs = (builder, *others)
    return write_model(graphs, [{"y": len(one.graph.tensors) - 1} for one in graphs], {"serving": 0})


@pytest.mark.parametrize(
    "spell", [str, Path, lambda path: Path(path).read_bytes(), lambda path: bytearray(Path(path).read_bytes())]
)
def test_a_file_or_its_bytes_are_a_model(spell: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(write(product()))
    report = profile(spell(str(path)), metrics=METRICS, batch_size=3)
    assert (report["macs"], report["flops"], report["total_params"], report["model_size"]) == (24, 48, 8, 32)
    assert report.status("trainable_params").completeness.value == "unavailable"
    assert report.backend == "litert"
    assert LiteRTProfiler(spell(str(path)), input_shape=(4,)).compute_status("trace").macs == 8


def test_the_layers_of_a_model_are_those_of_its_source() -> None:
    """Also where a block is called twice, whose weights are there once."""
    architecture = ARCHITECTURES["residual_cnn"]
    model = ONLY_COUNTED["residual_cnn"]()
    trace = BACKEND.trace(model, BACKEND.example_inputs(model, 3))
    assert layer_numbers(trace.table, KINDS) == architecture.layer_numbers(3)
    assert [layer.path for layer in trace.layers][:6] == [
        "",
        "stem",
        "stem_norm",
        "block",
        "block.convolution",
        "block.norm",
    ]
    assert BACKEND.model_name(model) == "net"


def test_layers_of_torch_are_read_from_the_names_of_litert_torch() -> None:
    """Each scope is a class and the last part of a path; of what is fused the last operator comes first."""
    block = "net.Net/torch.nn.modules.container.Sequential_blocks"
    linear, relu = f"{block}/torch.nn.modules.linear.Linear_up_proj;", f"{block}/torch.nn.modules.activation.ReLU_1;"
    builder = GraphBuilder()
    x, w = builder.input("args_0", (2, 4)), builder.constant(f"{relu};{linear}", np.ones((3, 4), F))
    made = [("FULLY_CONNECTED", [x, w, -1], f"{relu};{linear}2"), ("TANH", [2], "net.Net/net._Gate_gate;")]
    for operator, inputs, name in made:
        builder.add(operator, inputs, (2, 3), name=name)
    trace = BACKEND.trace(LiteRTModel(write(builder)), ModelInputs(np.ones((2, 4), F)))
    assert [(layer.path, layer.type) for layer in trace.layers] == [
        ("", "Net"),
        ("blocks", "Module"),
        ("blocks.up_proj", "FULLY_CONNECTED"),
        ("gate", "TANH"),
    ]
    assert trace.layer("blocks.up_proj").parameters[0].count == 12


@pytest.mark.parametrize("name", ONLY_COUNTED)
def test_networks_that_the_runtime_does_not_run_are_counted(name: str) -> None:
    model, architecture = ONLY_COUNTED[name](), ARCHITECTURES[name]
    trace = BACKEND.trace(model, BACKEND.example_inputs(model, 3))
    assert (trace.macs, trace.flops) == (architecture.macs(3), architecture.flops(3))
    assert trace.total_params == architecture.params
    assert trace.missing == ()


def test_quantized_weights_are_the_numbers_that_they_stand_for() -> None:
    """8 elements of a byte; two scales of four bytes and two zero points of eight are stored, and no parameters."""
    model = LiteRTModel(write(product(weight=np.ones((2, 4), np.int8), scales=[0.1, 0.2])))
    trace = BACKEND.trace(model, ModelInputs(np.ones((3, 4), F)))
    assert (trace.total_params, trace.size_bytes, trace.macs) == (8, 8 + 2 * 4 + 2 * 8, 24)
    [weight] = trace.parameters
    assert (weight.dtype, weight.bytes, weight.shape) == ("int8", 8, (2, 4))


def test_weights_of_four_bits_take_half_a_byte() -> None:
    builder = product()
    tensor = builder.graph.tensors[1]
    builder.buffers[tensor.buffer].data = np.zeros(4, np.uint8)
    tensor.type, tensor.quantization = 17, None
    scaled = GraphBuilder().constant("w", np.zeros(1, np.int8), scales=[1.0])
    assert scaled == 0
    tensor.quantization = product(weight=np.ones((2, 4), np.int8), scales=[0.1]).graph.tensors[1].quantization
    trace = BACKEND.trace(LiteRTModel(write(builder)), None)
    assert [(weight.dtype, weight.count, weight.bytes) for weight in trace.parameters] == [("int4", 8, 4)]


@pytest.mark.parametrize(
    ("weight", "dtype"), [(np.ones((2, 4), np.int8), "int8"), (np.ones((2, 4), F), "float32")], ids=["dynamic", "float"]
)
def test_a_kernel_of_dynamic_range_multiplies_integers(weight: Any, dtype: str) -> None:
    """It quantizes its floats while it runs, and returns floats: 3 * 4 * 2 products."""
    scales = [0.1] if weight.dtype == np.int8 else []
    model = LiteRTModel(write(product(weight=weight, scales=scales)))
    report = profile(model, ModelInputs(np.ones((3, 4), F)), metrics=["macs_by_dtype"])
    assert report["macs_by_dtype"] == {dtype: 3 * 4 * 2}


def test_weights_in_half_precision_are_unpacked_before_the_first_run() -> None:
    """The DEQUANTIZE of a constant counts as nothing, and the weight belongs to the layer that multiplies with it."""
    builder = GraphBuilder()
    x = builder.input("x", (-1, 4))
    packed = builder.constant("net_1/dense_1/MatMul", np.ones((2, 4), np.float16))
    weight = builder.add("DEQUANTIZE", [packed], (2, 4), name="net_1/dense_1/MatMul1")
    builder.add("FULLY_CONNECTED", [x, weight, -1], (-1, 2), name="y", options=options("FullyConnected"))
    trace = BACKEND.trace(LiteRTModel(write(builder)), ModelInputs(np.ones((1, 4), F)))
    assert [op.operator for op in trace.operators] == ["FULLY_CONNECTED"]
    assert (trace.size_bytes, trace.macs, trace.missing) == (16, 8, ())
    assert [weight.count for weight in trace.layer("dense").parameters] == [8]
    assert "1 operator of constants" in trace.notes[0]


def test_a_weight_used_both_as_it_is_and_transposed_belongs_to_both_layers() -> None:
    """The matrix of ``tall`` is that of ``wide`` transposed: one weight of 2 * 4 numbers, which each of them uses."""
    builder = GraphBuilder()
    x = builder.input("x", (1, 4))
    weight = builder.constant("net_1/wide_1/MatMul", np.ones((2, 4), F))
    order = builder.constant("order", np.array([1, 0], np.int32))
    fully_connected = options("FullyConnected")
    narrow = builder.add("FULLY_CONNECTED", [x, weight, -1], (1, 2), name="net_1/wide_1/y", options=fully_connected)
    turned = builder.add("TRANSPOSE", [weight, order], (4, 2), name="net_1/tall_1/turned")
    builder.add("FULLY_CONNECTED", [narrow, turned, -1], (1, 4), name="net_1/tall_1/y", options=fully_connected)
    trace = BACKEND.trace(LiteRTModel(write(builder)), ModelInputs(np.ones((1, 4), F)))
    counts = {layer.path: [weight.count for weight in layer.parameters] for layer in trace.layers}
    assert counts == {"": [], "wide": [8], "tall": [8]}
    report = profile(write(builder), np.ones((1, 4), F), metrics=["total_params"])
    assert report["total_params"] == 8


def test_shapes_and_indices_are_no_parameters() -> None:
    model = BUILDERS["lenet5"]()
    trace = BACKEND.trace(model, None)
    assert {weight.dtype for weight in trace.parameters} == {"float32"}
    assert [(weight.dtype, weight.count) for weight in trace.buffers] == [("int32", 2)]  # the shape of the flattening


def test_tied_weights_count_once() -> None:
    builder = GraphBuilder()
    x, w = builder.input("x", (-1, 4)), builder.constant("w", np.ones((4, 4), F))
    h = builder.add("FULLY_CONNECTED", [x, w, -1], (-1, 4), options=options("FullyConnected"))
    builder.add("FULLY_CONNECTED", [h, w, -1], (-1, 4), options=options("FullyConnected"))
    trace = BACKEND.trace(LiteRTModel(write(builder)), ModelInputs(np.ones((1, 4), F)))
    assert (trace.total_params, trace.macs) == (16, 32)


def test_bytes_alive_by_hand() -> None:
    """The input of 16 bytes is the caller's; both outputs of 16 are alive during the second product."""
    builder = GraphBuilder()
    x, w = builder.input("x", (-1, 4)), builder.constant("w", np.ones((4, 4), F))
    h = builder.add("FULLY_CONNECTED", [x, w, -1], (-1, 4), options=options("FullyConnected"))
    sizes = builder.constant("sizes", np.array([-1, 2, 2], np.int32))
    h = builder.add("RESHAPE", [h, sizes], (-1, 2, 2))
    h = builder.add("RESHAPE", [h, builder.constant("back", np.array([-1, 4], np.int32))], (-1, 4))
    builder.add("FULLY_CONNECTED", [h, w, -1], (-1, 4), options=options("FullyConnected"))
    memory = BACKEND.trace(LiteRTModel(write(builder)), ModelInputs(np.ones((1, 4), F))).memory
    assert memory.input_bytes == 16
    assert memory.live_bytes == (32, 32, 32, 48)


def test_a_signature_names_the_inputs() -> None:
    model = BUILDERS["dict_in_and_out"]()
    assert list(model.signature.inputs) == ["image", "meta"]
    assert list(model.signature.outputs) == ["scores", "value"]
    failure = BACKEND.trace(model, ModelInputs(image=np.ones((1, 8, 6, 3), F))).failure
    assert "the input 'meta' is missing; the model declares the inputs: 'image', 'meta'" in str(failure)
    report = profile(model, input_shape={"image": (8, 6, 3), "meta": (5,)}, batch_size=2, metrics=["macs"])
    assert report["macs"] == ARCHITECTURES["dict_in_and_out"].macs(2)


def test_each_signature_has_a_graph() -> None:
    first = product()
    second = GraphBuilder(first.buffers, "decode")
    x, w = second.input("token", (1, 4)), second.constant("w", np.ones((5, 4), F))
    second.add("FULLY_CONNECTED", [x, w, -1], (1, 5), name="y", options=options("FullyConnected"))
    outputs = [{"y": len(one.graph.tensors) - 1} for one in (first, second)]
    model = LiteRTModel(write_model([first, second], outputs, {"prefill": 0, "decode": 1}), "two.tflite")
    trace = BACKEND.trace(model, BACKEND.example_inputs(model))
    assert (trace.macs, trace.total_params) == (8, 8)
    assert "of the signatures 'prefill', 'decode', 'prefill' is counted" in trace.notes[0]
    decode = model.with_signature("decode")
    assert BACKEND.trace(decode, BACKEND.example_inputs(decode)).macs == 20
    assert model.signature.key == "prefill"
    with pytest.raises(
        ArgumentError, match="key='train': the model has no such signature; its signatures are: 'prefill', 'decode'"
    ):
        model.with_signature("train")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (np.ones((2, 5), F), r"the input 'x' has the shape \(2, 5\), and the model declares \(any, 4\); give an array"),
        (np.ones((2, 4)), "the input 'x' is of float64, and the model declares float32; convert it, or name"),
        ([1.0], "the input 'x' is 1.0; give an array for it"),
    ],
)
def test_inputs_that_do_not_fit(inputs: Any, words: str) -> None:
    trace = BACKEND.trace(LiteRTModel(write(product())), ModelInputs(inputs))
    with pytest.raises(Exception, match=words):
        raise trace.failure or ValueError
    assert trace.total_params == 8


def test_images_with_channels_first_are_turned_round() -> None:
    """As PyTorch has them: one comparison takes one input for all of its models."""
    model = BUILDERS["lenet5"]()
    last = profile(model, np.ones((2, 28, 28, 1), F), metrics=["macs"])
    first = profile(model, np.ones((2, 1, 28, 28), F), metrics=["macs"])
    assert first["macs"] == last["macs"] == ARCHITECTURES["lenet5"].macs(2)
    [name] = model.signature.inputs
    [moved] = BACKEND.fit_inputs(model, ModelInputs(**{name: np.ones((2, 1, 28, 28), F)})).leaves()
    assert moved.shape == (2, 28, 28, 1)
    fitting = np.ones((2, 28, 28, 1), F)
    assert BACKEND.fit_inputs(model, ModelInputs(fitting)).args[0] is fitting


@pytest.mark.parametrize(("highest", "dtype"), [(5, "int32"), (2**40, "int64")])
def test_integers_are_as_wide_as_the_file_declares_if_none_changes(highest: int, dtype: str) -> None:
    """litert-torch turns the int64 of tokens into int32."""
    builder = GraphBuilder()
    x = builder.input("tokens", (1, 2), "int32")
    builder.add("CAST", [x], (1, 2), name="y")
    model, tokens = LiteRTModel(write(builder)), np.array([[3, highest]])
    for inputs in (ModelInputs(tokens), ModelInputs(tokens=tokens), ModelInputs([tokens])):
        [fitted] = BACKEND.fit_inputs(model, inputs).leaves()
        assert (fitted.tolist(), str(fitted.dtype)) == ([[3, highest]], dtype)


def test_tokens_of_64_bits_by_name_are_profiled() -> None:
    """As a tokenizer of transformers gives them: ``profile(path, dict(tokens))``."""
    builder = GraphBuilder()
    x = builder.input("input_ids", (2, 3), "int32")
    builder.add("CAST", [x], (2, 3), name="y")
    report = profile(write(builder), {"input_ids": np.ones((2, 3), np.int64)}, metrics=["total_params", "macs"])
    assert (report["macs"], report.status("macs").missing) == (0, ())


def test_inputs_of_one_name_are_told_apart() -> None:
    """Two graphs of a file that were joined may each have an ``x``: here of 2 x 4 and 4 x 3, whose product is 24."""
    builder = GraphBuilder()
    x, y = builder.input("x", (2, 4)), builder.input("x", (4, 3))
    builder.add("BATCH_MATMUL", [x, y], (2, 3), options=options("BatchMatMul"))
    model = LiteRTModel(write(builder))
    assert model.signature.inputs == {"x": x, "x_1": y}
    report = profile(model, BACKEND.example_inputs(model), metrics=["macs"])
    assert report["macs"] == 24


def test_a_fixed_batch_is_kept() -> None:
    model = LiteRTModel(write(product((2, 4))))
    assert profile(model, metrics=["macs"])["macs"] == 16
    with pytest.raises(InputError, match="for a batch of 2 alone: batch_size=3 does not fit"):
        BACKEND.example_inputs(model, 3)


def test_a_size_that_is_open_is_asked_for() -> None:
    builder = GraphBuilder()
    builder.add("RELU", [builder.input("x", (-1, -1))], (-1, -1), name="y")
    model = LiteRTModel(write(builder))
    with pytest.raises(InputError, match="leaves dimension 1 open; give all sizes but the batch's: input_shape="):
        BACKEND.example_inputs(model)
    assert profile(model, input_shape=(7,), metrics=["flops"])["flops"] == 7


def test_a_custom_operator_is_named() -> None:
    builder = product()
    builder.add("Attend", [2], (-1, 2), name="z")
    status = profile(write(builder), metrics="macs").status("macs")
    assert (status.value, status.completeness.value) == (8, "partial")
    assert "Attend (1 call)" in status.missing


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(Exception, match="device 'cuda' is not there: the litert backend runs models on the CPU"):
        BACKEND.resolve_device(None, "cuda")


# Damaged and hostile files --------------------------------------------------------------------------------------------


def damage(change: Any) -> bytes:
    builder = product()
    change(builder)
    return write(builder)


def set_tensor(index: int, name: str, value: Any) -> Any:
    return lambda builder: setattr(builder.graph.tensors[index], name, value)


def set_operator(name: str, value: Any) -> Any:
    return lambda builder: setattr(builder.graph.operators[0], name, value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda: b"", "is no file of LiteRT: it does not begin as one; convert the model again"),
        (lambda: b"\x1c\x00\x00\x00TFL3", "is damaged: .*; convert the model again"),
        (lambda: damage(set_tensor(1, "shape", [3, 4])), r"of shape \(3, 4\) has 32 bytes of values"),
        (lambda: damage(set_tensor(1, "shape", [-3, 4])), "'net_1/dense_1/MatMul' has a size below zero"),
        (lambda: damage(set_tensor(1, "type", 99)), "has the unknown dtype 99"),
        (lambda: damage(set_tensor(1, "buffer", 99)), "it has no buffer 99"),
        (lambda: damage(set_operator("inputs", [0, 77])), "it has no tensor 77"),
        (lambda: damage(set_operator("outputs", [-5])), "it has no tensor -5"),
        (lambda: damage(set_operator("opcodeIndex", 5)), "it has no operator code 5"),
        (lambda: write_model([], []), "it holds no graph"),
    ],
)
def test_damage_is_an_error_with_what_to_do(content: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        profile(LiteRTModel(content(), "net.tflite"))


def test_what_nothing_makes_is_named() -> None:
    builder = GraphBuilder()
    x, ghost = builder.input("x", (-1, 4)), builder.tensor("ghost", (2, 4))
    builder.add("FULLY_CONNECTED", [x, ghost, -1], (-1, 2), options=options("FullyConnected"))
    failure = BACKEND.trace(LiteRTModel(write(builder)), ModelInputs(np.ones((1, 4), F))).failure
    words = "the graph cannot be followed: FULLY_CONNECTED reads the tensor 'ghost', which nothing before it makes"
    assert words in str(failure)


@pytest.mark.parametrize("offset", range(4))
def test_a_vector_of_two_thousand_million_entries_ends_at_once(offset: int) -> None:
    """The length of any vector is replaced: an error, or the same numbers, in less than the time of a test."""
    content = write(product())
    for position in range(offset, len(content) - 4, 4):
        changed = content[:position] + (2**31 - 1).to_bytes(4, "little") + content[position + 4 :]
        try:
            trace = BACKEND.trace(LiteRTModel(changed), ModelInputs(np.ones((1, 4), F)))
        except InputError:
            continue
        assert "fault of the backend" not in str(trace.failure)


def test_entries_that_are_shared_by_many_tables_are_refused() -> None:
    """A thousand graphs of one table each have a thousand operators, in a file of some kilobytes."""
    import struct

    builder = product()
    for _ in range(1000):
        builder.add("RELU", [2], (-1, 2))
    content = bytearray(write(builder))
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(bytes(content), 0)
    vector = model._tab.Vector(model._tab.Offset(8))
    target = model._tab.Indirect(vector)
    end = len(content) + (-len(content)) % 4
    content.extend(bytes(end - len(content)) + struct.pack("<I", 1000))
    for index in range(1000):
        content.extend(struct.pack("<I", (target - (end + 4 + 4 * index)) & 0xFFFFFFFF))
    field = model._tab.Pos + model._tab.Offset(8)
    content[field : field + 4] = struct.pack("<I", end - field)
    with pytest.raises(InputError, match="damaged"):
        LiteRTModel(bytes(content))


def test_a_path_where_no_file_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist or is no file; give the path of a .tflite file"):
        profile(tmp_path / "none.tflite")
    assert open_model(model := build_mlp()) is model


def test_a_file_is_not_followed_beyond_its_end() -> None:
    """The data of files above 2 GB lie behind the flatbuffer, at an offset that the file names."""
    content = write(product())
    values = np.arange(8, dtype=F).tobytes()

    def move(builder: GraphBuilder, offset: int) -> None:
        buffer = builder.buffers[builder.graph.tensors[1].buffer]
        buffer.data, buffer.offset, buffer.size = None, offset, len(values)

    behind = damage(lambda builder: move(builder, len(content) + 1000))
    with pytest.raises(InputError, match="ends behind the end of the file"):
        LiteRTModel(behind)
    whole = behind + bytes(len(content) + 1000 - len(behind)) + values
    assert BACKEND.trace(LiteRTModel(whole), None).total_params == 8


def test_constants_of_bfloat16_are_read_whatever_is_imported() -> None:
    """Only a package such as ml_dtypes adds the dtype to numpy; without it, a product with 1 would cost FLOPs."""
    bits = np.array([0x3F80, 0xC000], np.uint16)  # 1 and -2
    data = np.frombuffer(bits.tobytes(), np.uint8)
    tensor = Tensor("factor", "bfloat16", (2,), 0, data, Quantization((), ()), is_variable=False, is_sparse=False)
    assert tensor.array is not None
    assert (tensor.array.dtype, tensor.array.tolist()) == (np.float32, [1, -2])
