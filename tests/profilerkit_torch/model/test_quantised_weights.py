"""Quantised and packed weights: how many numbers they stand for, and the bytes they are stored in, as two values.

None of the libraries that pack need be here: the classes below have the attributes of theirs.
"""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones, trace_complete, trace_complete_step
from torch import nn

from profilerkit import ModelInputs, profile
from profilerkit_torch import Cost, register_op_cost
from profilerkit_torch.costs import scoped_costs
from profilerkit_torch.model.programs import make_layered

IN, OUT = 64, 32
WEIGHTS = IN * OUT
MACS = 2 * WEIGHTS  # for two samples
OLD_QUANTISATION = pytest.mark.filterwarnings(
    "ignore:.*torch.ao.quantization", "ignore:.*torch.jit", "ignore:torch.quantize_per_tensor", "ignore:TypedStorage"
)


def x() -> torch.Tensor:
    return ones(2, IN)


class Params4bit(nn.Parameter):
    """As bitsandbytes has it: two numbers in a byte, in one column; shape and scales beside them."""

    def __new__(cls, storage: torch.dtype = torch.uint8) -> Any:
        data = torch.zeros(WEIGHTS // 2, dtype=torch.uint8).view(storage).unsqueeze(1)
        return torch.Tensor._make_subclass(cls, data, False)

    def __init__(self, storage: torch.dtype = torch.uint8) -> None:
        nested = types.SimpleNamespace(absmax=ones(1), code=ones(256))
        self.quant_state = types.SimpleNamespace(
            shape=torch.Size((OUT, IN)),
            absmax=torch.zeros(WEIGHTS // 64, dtype=torch.uint8),
            code=ones(16),
            offset=torch.tensor(0.5),
            state2=nested,
            nested=True,
        )


#: A byte for a block of 64, the 16 values of a 4-bit number, an offset, and the same again for the blocks' scales.
STATE = WEIGHTS // 64 + 16 * 4 + 4 + 1 * 4 + 256 * 4


class Linear4bit(nn.Linear):
    """Makes the weight for each call anew."""

    def __init__(self, storage: torch.dtype = torch.uint8) -> None:
        super().__init__(IN, OUT)
        self.weight = Params4bit(storage)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = self.weight.quant_state.shape  # type: ignore[attr-defined]
        halves = self.weight.flatten().view(torch.uint8).repeat(2).reshape(shape)
        return nn.functional.linear(x, halves.to(x.dtype), self.bias)


@pytest.mark.parametrize("storage", [torch.uint8, torch.bfloat16])
def test_4_bit_parameters_count_as_what_they_stand_for(storage: torch.dtype) -> None:
    found = trace_complete(Linear4bit(storage), x())
    assert found.total_params == WEIGHTS + OUT
    assert found.size_bytes == WEIGHTS // 2 + OUT * 4 + STATE
    assert found.memory.weight_bytes == found.size_bytes
    assert (found.macs, found.notes) == (MACS, ())


def test_a_kernel_on_packed_weights_counts_by_its_formula() -> None:
    """As bitsandbytes' gemv_4bit: one sample and the packed weight with its shape."""

    def gemv(x: torch.Tensor, packed: torch.Tensor, shape: list[int]) -> torch.Tensor:
        return x.new_empty(*x.shape[:-1], shape[0])

    library = torch.library.Library("packedkit", "DEF")
    library.define("gemv_4bit(Tensor x, Tensor packed, int[] shape) -> Tensor")
    library.impl("gemv_4bit", gemv, "CompositeExplicitAutograd")

    class Kernel(Linear4bit):
        def forward(self, x: torch.Tensor) -> Any:
            shape = self.weight.quant_state.shape  # type: ignore[attr-defined]
            return torch.ops.packedkit.gemv_4bit(x, self.weight, list(shape))

    with scoped_costs():
        register_op_cost("packedkit::gemv_4bit", lambda x, packed, shape, *, out: Cost.of_macs(x.numel * shape[0]))
        assert trace_complete(Kernel(), x()).macs == MACS


def test_8_bit_parameters_keep_a_scale_for_each_row() -> None:
    layer = nn.Linear(IN, OUT, bias=False)
    layer.weight = nn.Parameter(torch.zeros(OUT, IN, dtype=torch.int8), requires_grad=False)
    layer.weight.__dict__.update(CB=layer.weight.data, SCB=ones(OUT))
    found = trace_complete(Call(lambda self, x: x @ self.layer.weight.to(x.dtype).t(), layer=layer), x())
    assert (found.total_params, found.trainable_params) == (WEIGHTS, 0)
    assert found.size_bytes == WEIGHTS + OUT * 4  # CB is the weight itself
    assert found.macs == MACS


def make_packed_linear(features: tuple[str, str], bias: bool) -> Call:
    """As GPTQ and AWQ have it: eight numbers in an int32, scales and zeros for each group, all of them buffers."""

    def run(self: Any, x: torch.Tensor) -> Any:
        shifts = torch.arange(0, 32, 4, dtype=torch.int32).reshape(1, 8, 1)
        unpacked = self.qweight.unsqueeze(1).bitwise_right_shift(shifts).bitwise_and(15).reshape(IN, OUT)
        return x @ unpacked.to(x.dtype)

    layer = Call(run, bits=4, group_size=32, **dict(zip(features, (IN, OUT), strict=True)))
    layer.register_buffer("qweight", torch.zeros(IN // 8, OUT, dtype=torch.int32))
    layer.register_buffer("qzeros", torch.zeros(IN // 32, OUT // 8, dtype=torch.int32))
    layer.register_buffer("scales", torch.zeros(IN // 32, OUT, dtype=torch.float16))
    layer.register_buffer("bias", torch.zeros(OUT, dtype=torch.float16) if bias else None)
    return layer


@pytest.mark.parametrize("features", [("in_features", "out_features"), ("infeatures", "outfeatures")])
@pytest.mark.parametrize("bias", [True, False])
def test_buffers_that_stand_for_a_weight_are_parameters(features: tuple[str, str], bias: bool) -> None:
    found = trace_complete(make_packed_linear(features, bias), x())
    assert (found.total_params, found.trainable_params) == (WEIGHTS + bias * OUT, 0)
    beside = (IN // 32) * (OUT // 8) * 4 + (IN // 32) * OUT * 2
    assert found.size_bytes == WEIGHTS // 2 + beside + bias * OUT * 2
    assert (found.macs, found.notes) == (MACS, ())
    assert {weight.name for weight in found.buffers} == {"qzeros", "scales"}


class Beside(nn.Module):
    """A weight of 4 bits by one name, and what is beside it."""

    def __init__(self, name: str, **beside: torch.Tensor) -> None:
        super().__init__()
        self.in_features, self.out_features, self.name = IN, OUT, name
        self.register_parameter(name, nn.Parameter(torch.zeros(IN // 2, OUT, dtype=torch.uint8), requires_grad=False))
        for other, tensor in beside.items():
            self.register_parameter(other, nn.Parameter(tensor, requires_grad=tensor.requires_grad))

    def forward(self, x: torch.Tensor) -> Any:
        return x @ getattr(self, self.name).repeat(2, 1).to(x.dtype)


def test_a_layer_of_hqq_keeps_bias_and_scales_as_plain_attributes() -> None:
    layer = Beside("W_q")
    layer.bias = ones(OUT)
    layer.__dict__["meta"] = {
        "nbits": 4,
        "scale": ones(32, 1),
        "zero": ones(32, 1),
        "meta_scale": {"scale": ones(4, 1)},
    }
    found = trace_complete(layer, x())
    assert found.total_params == WEIGHTS + OUT
    assert found.size_bytes == found.memory.weight_bytes == WEIGHTS // 2 + 4 * (OUT + 32 + 32 + 4)
    assert {weight.name for weight in found.buffers} == {"meta.0", "meta.1", "meta.2"}


def test_a_layer_of_bitsandbytes_keeps_its_scales_in_an_object() -> None:
    """The integers there are those of the weight."""
    layer = nn.Linear(IN, OUT, bias=False)
    layer.weight = nn.Parameter(torch.zeros(OUT, IN, dtype=torch.int8), requires_grad=False)
    layer.__dict__["state"] = types.SimpleNamespace(CB=layer.weight.data, SCB=ones(OUT))
    found = trace_complete(Call(lambda self, x: x @ self.layer.weight.to(x.dtype).t(), layer=layer), x())
    assert (found.total_params, found.size_bytes, found.memory.weight_bytes) == (WEIGHTS, *2 * [WEIGHTS + OUT * 4])


def test_scales_beside_a_packed_weight_are_no_parameters() -> None:
    """As compressed-tensors registers them; a layer may be trained beside them all the same."""
    scales, shape = ones(OUT, 2), torch.nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)
    layer = Beside("weight_packed", bias=ones(OUT), weight_scale=scales, weight_shape=shape)
    layer.gain = nn.Parameter(ones(3))
    found = trace_complete(layer, x())
    assert (found.total_params, found.trainable_params) == (WEIGHTS + OUT + 3, 3)
    assert found.size_bytes == WEIGHTS // 2 + 4 * (OUT + 2 * OUT + 3) + 2 * 8


def test_a_training_step_keeps_what_a_weight_has_as_attributes() -> None:
    """In a real run too: bitsandbytes' layers of 8 bits ask their weight for its scales."""

    def multiply(self: Any, x: torch.Tensor) -> Any:
        scales = self.layer.weight.SCB * (1 + int(x.sum().item() > 1e9))
        return x * self.gain @ (self.layer.weight.to(x.dtype) * scales).t()

    layer = nn.Linear(IN, OUT, bias=False)
    layer.weight = nn.Parameter(torch.zeros(OUT, IN, dtype=torch.int8), requires_grad=False)
    layer.weight.__dict__.update(SCB=ones(OUT, 1))
    model = Call(multiply, layer=layer)
    model.gain = nn.Parameter(ones(IN))
    found = trace_complete_step(model, x())
    assert (found.macs, found.method) == (2 * MACS, "a real run")


def test_buffers_of_layers_that_say_no_sizes_stay_buffers() -> None:
    layer = nn.Module()
    layer.register_buffer("qweight", torch.zeros(4, 4, dtype=torch.int32))
    found = trace_complete(Call(lambda self, x: x, layer=layer), x())
    assert (found.total_params, found.size_bytes) == (0, 64)


#: Where the inputs of products are that `Scaled` has been asked for.
devices: set[str] = set()


class Scaled(torch.Tensor):
    """As torchao's tensors: a shape of its own, integers and scales inside, a product that makes the weight anew."""

    @staticmethod
    def __new__(cls, data: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (OUT, IN), dtype=torch.float32)

    def __init__(self, data: torch.Tensor, scale: torch.Tensor) -> None:
        self.data_, self.scale = data, scale

    def __tensor_flatten__(self) -> Any:
        return ["data_", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, *_: Any) -> Any:
        return cls(inner["data_"], inner["scale"])

    def dequantize(self) -> torch.Tensor:
        return self.data_ * self.scale

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.linear:
            given, weight, *bias = args
            devices.add(given.device.type)
            values = weight.data_.repeat(1, IN // weight.data_.shape[1]) * weight.scale
            return nn.functional.linear(given, values, *bias)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func is torch.ops.aten.detach.default:
            return cls(args[0].data_, args[0].scale)
        raise NotImplementedError(f"{func}")


@pytest.mark.parametrize(("columns", "dtype"), [(IN, torch.int8), (IN // 2, torch.uint8), (IN, torch.float8_e4m3fn)])
def test_tensors_that_wrap_others_have_their_own_count_and_the_others_bytes(columns: int, dtype: torch.dtype) -> None:
    layer = nn.Linear(IN, OUT)
    wrapped = Scaled(torch.zeros(OUT, columns, dtype=dtype), ones(OUT, 1))
    layer.weight = nn.Parameter(wrapped, requires_grad=False)
    if dtype.is_floating_point:  # which torch cannot multiply by floats
        layer.forward = lambda input: input @ ones(IN, OUT) + layer.bias  # type: ignore[method-assign]
    found = trace_complete(layer, x())
    assert found.total_params == WEIGHTS + OUT
    assert found.size_bytes == OUT * columns + OUT * 4 + OUT * 4
    assert found.macs == MACS


def test_narrow_floats_take_their_bytes_and_two_may_share_one() -> None:
    layer = nn.Module()
    for name, dtype in {"a": torch.bfloat16, "b": torch.float8_e4m3fn, "c": torch.float64}.items():
        setattr(layer, name, nn.Parameter(torch.zeros(10, dtype=dtype), requires_grad=False))
    pairs = getattr(torch, "float4_e2m1fn_x2", None)  # torch 2.8 and newer
    if pairs is not None:
        layer.pairs = nn.Parameter(torch.empty(10, dtype=pairs), requires_grad=False)
    found = trace_complete(Call(lambda self, x: x, layer=layer), x())
    assert found.total_params == 10 + 10 + 10 + (20 if pairs else 0)
    assert found.size_bytes == 10 * 2 + 10 * 1 + 10 * 8 + (10 if pairs else 0)


@OLD_QUANTISATION
def test_layers_that_torch_quantises_keep_their_counts() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 4, 5)).eval()
    model = nn.Sequential(torch.ao.quantization.QuantStub(), model, torch.ao.quantization.DeQuantStub())
    model.qconfig = torch.ao.quantization.default_qconfig  # type: ignore[assignment]
    prepared = torch.ao.quantization.prepare(model)
    prepared(ones(1, 3, 4, 4))
    found = trace_complete(torch.ao.quantization.convert(prepared), ones(1, 3, 4, 4))
    weights, biases = 8 * 3 * 9 + 5 * 32, 8 + 5
    assert found.total_params == weights + biases
    assert {op.product_dtype for op in found.operators if op.macs} == {"int8"}
    settings = 4 * 4 + 4 * 8  # scale and zero point of the stub (float, int64) and of the two layers, as numbers
    assert weights + 4 * biases <= found.size_bytes <= weights + 4 * biases + settings
    assert found.macs == 4 * 8 * 27 + 5 * 32


@OLD_QUANTISATION
def test_recurrent_layers_that_torch_quantises_keep_their_counts() -> None:
    layer = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.LSTM(6, 4)), {nn.LSTM})
    found = trace_complete(Call(lambda self, x: self.layer(x)[0], layer=layer), ones(3, 2, 6))
    weights, biases = 4 * 4 * (6 + 4), 2 * 4 * 4
    assert found.total_params == weights + biases
    assert found.size_bytes == weights + 4 * biases
    assert found.macs == 3 * 2 * weights


@OLD_QUANTISATION
@pytest.mark.parametrize("bits", [8, 4])
def test_each_channel_has_a_scale_and_a_zero_point(bits: int) -> None:
    """Of an embedding both are float32: 8 bytes for each of 1000 rows of 64 numbers."""
    qconfigs = torch.ao.quantization
    rows = nn.Sequential(nn.EmbeddingBag(1000, 64))
    rows.qconfig = {  # type: ignore[assignment]
        8: qconfigs.float_qparams_weight_only_qconfig,
        4: qconfigs.float_qparams_weight_only_qconfig_4bit,
    }[bits]
    found = trace_complete(qconfigs.convert(qconfigs.prepare(rows)), torch.zeros(1, 5, dtype=torch.long))
    assert found.total_params == 64_000
    assert found.size_bytes == 64_000 * bits // 8 + 1000 * 8


def quantise_dynamically(layer: nn.Module, dtype: torch.dtype = torch.qint8) -> Any:
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(layer), {type(layer)}, dtype=dtype).eval()


@OLD_QUANTISATION
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("as_script", [torch.jit.trace, lambda model, x: torch.jit.script(model)])
@pytest.mark.parametrize("kind", [nn.Linear, nn.LSTM, nn.LSTMCell, nn.GRUCell])
def test_scripts_of_layers_that_torch_quantises_keep_their_counts(as_script: Any, kind: Any) -> None:
    x = ones(3, 2, 6) if kind is nn.LSTM else ones(2, 6)
    found = trace_complete(as_script(quantise_dynamically(kind(6, 4)), x), x)
    gates = {nn.Linear: 1, nn.GRUCell: 3}.get(kind, 4)
    weights, biases = (24, 4) if kind is nn.Linear else (gates * 4 * (6 + 4), 2 * gates * 4)
    assert found.total_params == weights + biases
    assert found.size_bytes == weights + 4 * biases
    assert found.memory.weight_bytes == found.size_bytes
    assert found.macs == (6 if kind is nn.LSTM else 2) * weights
    assert {op.product_dtype for op in found.operators if op.macs} == {"int8"}


@OLD_QUANTISATION
def test_halves_of_float16_are_unpacked_before_they_are_multiplied() -> None:
    report = profile(quantise_dynamically(nn.Linear(IN, OUT), torch.float16), x(), metrics=["macs_by_dtype"])
    assert report["macs_by_dtype"] == {"float32": MACS}


# Wrappers: their work is that of the tensors inside -------------------------------------------------------------------


def make_wrapped(values: torch.Tensor, sums: bool = False) -> nn.Module:
    layer = nn.Linear(IN, OUT, bias=False)
    layer.weight = nn.Parameter(Scaled(values, ones(OUT, 1)), requires_grad=False)
    return Call(lambda self, x: self.layer(x if not sums or x.sum().item() else 2 * x), layer=layer)


@pytest.mark.parametrize("sums", [False, True])  # with a question that only a real run can answer
def test_a_weight_that_is_unpacked_takes_its_bytes_while_it_is_multiplied(sums: bool) -> None:
    """Integers, a copy of them, this copy as floats, and the product of these and the scales."""
    model = make_wrapped(torch.zeros(OUT, IN, dtype=torch.int8), sums)
    memory = trace_complete(model, x()).memory
    stored, copy, floats = WEIGHTS + OUT * 4, WEIGHTS, 4 * WEIGHTS
    assert memory.weight_bytes == stored
    assert memory.peak_bytes() == stored + 2 * IN * 4 + copy + floats + floats
    with torch.no_grad():
        measured = BACKEND.measure_memory(model, ModelInputs(x()))
    assert memory.peak_bytes(include_weights=False) == pytest.approx(measured, abs=16)


def test_the_zeros_of_a_wrapper_are_those_of_the_numbers_it_stands_for() -> None:
    values = ones(OUT, IN, dtype=torch.int8)
    values[: OUT // 4] = 0
    report = profile(make_wrapped(values), x(), metrics=["sparsity", "effective_macs"])
    assert (report["sparsity"], report["effective_macs"]) == (0.25, MACS * 3 // 4)


def test_the_code_of_a_wrapper_is_told_the_device_of_a_run() -> None:
    devices.clear()
    found = trace_complete(make_wrapped(ones(OUT, IN)), x())
    assert (devices, found.method) == ({"cpu"}, "meta tensors")


def test_an_exported_program_has_its_wrapped_weights_and_its_layers() -> None:
    """Torch notes no layer for the operators that take the parts of such a weight."""
    layer = make_wrapped(ones(OUT, IN)).layer
    try:
        program = torch.export.export(nn.Sequential(layer), (x(),))  # type: ignore[arg-type]
    except AssertionError as error:  # torch 2.6
        pytest.skip(f"this torch does not export such weights: {error}")
    found = trace_complete(make_layered(program), x())
    assert (found.total_params, found.size_bytes, found.macs) == (WEIGHTS, WEIGHTS * 4 + OUT * 4, MACS)
    assert {row["path"]: row["macs"] for row in found.table} == {"": MACS, "0": MACS}
