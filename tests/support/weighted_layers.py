"""Every Keras layer that has weights, and what it costs by closed forms of its constructor's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from keras import config, layers

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A layer, the shapes of its inputs without the batch, what it costs one sample, and the whole batch once.

    Some layers take several inputs one by one (``spread``), not as a list.
    """

    build: Callable[[], Any]
    shapes: tuple[tuple[int, ...], ...]
    macs: int
    params: int
    dtype: str = "float32"
    frozen: int = 0
    once: int = 0
    spread: bool = False


CASES: dict[str, Case] = {}


def case(
    name: str, build: Callable[[], Any], *shapes: Sizes, macs: int, params: int, needs: str = "", **further: Any
) -> None:
    """Add a case, unless this release of Keras lacks the layer or the setting that it ``needs``."""
    assert name not in CASES
    if not needs or hasattr(layers, needs) or hasattr(config, needs):
        CASES[name] = Case(build, shapes, macs, params, **further)


def windows(length: int, kernel: int, stride: int = 1, dilation: int = 1, padding: str = "valid") -> int:
    """How many places a window has along one dimension."""
    if padding != "valid":  # "same" and "causal"
        return math.ceil(length / stride)
    return (length - dilation * (kernel - 1) - 1) // stride + 1


# Products ---------------------------------------------------------------------------------------------------------

case("dense", lambda: layers.Dense(5), (7,), macs=7 * 5, params=7 * 5 + 5)
case("dense without bias", lambda: layers.Dense(5, use_bias=False), (7,), macs=7 * 5, params=7 * 5)
case("dense over steps", lambda: layers.Dense(5, activation="relu"), (3, 7), macs=3 * 7 * 5, params=7 * 5 + 5)
case("dense over pixels", lambda: layers.Dense(5), (4, 3, 7), macs=4 * 3 * 7 * 5, params=7 * 5 + 5)
case(  # the two thin matrices are multiplied once, and added to the kernel
    "dense with lora",
    lambda: layers.Dense(5, lora_rank=2),
    *((7,),),
    macs=7 * 5,
    once=7 * 2 * 5,
    params=7 * 5 + 5 + 2 * (7 + 5),
    frozen=7 * 5,
)
case(
    "einsum dense",
    lambda: layers.EinsumDense("abc,cde->abde", output_shape=(None, 5, 6), bias_axes="de"),
    *((3, 7),),
    macs=3 * 7 * 5 * 6,
    params=7 * 5 * 6 + 5 * 6,
)
case(
    "einsum dense that sums over two axes",
    lambda: layers.EinsumDense("...ab,abc->...c", output_shape=(4,), bias_axes="c"),
    *((5, 6, 3),),
    macs=5 * 6 * 3 * 4,
    params=6 * 3 * 4 + 4,
)
case(
    "einsum dense with lora",
    lambda: layers.EinsumDense("ab,bc->ac", output_shape=5, lora_rank=2),
    *((7,),),
    macs=7 * 5,
    once=7 * 2 * 5,
    params=7 * 5 + 2 * (7 + 5),
    frozen=7 * 5,
)
case("embedding", lambda: layers.Embedding(11, 6), (4,), macs=0, params=66, dtype="int32")
case(
    "embedding with lora",  # the two thin matrices are multiplied as a whole, whatever is looked up
    lambda: layers.Embedding(11, 6, lora_rank=2),
    *((4,),),
    macs=0,
    once=11 * 2 * 6,
    params=66 + 2 * 17,
    dtype="int32",
    frozen=66,
)
case(
    "reversible embedding",
    lambda: layers.ReversibleEmbedding(11, 6),
    *((4,),),
    macs=0,
    params=66,
    dtype="int32",
    needs="ReversibleEmbedding",
)
case(
    "reversible embedding of two matrices",
    lambda: layers.ReversibleEmbedding(11, 6, tie_weights=False),
    *((4,),),
    macs=0,
    params=132,
    dtype="int32",
    needs="ReversibleEmbedding",
)


# Convolutions -----------------------------------------------------------------------------------------------------


def convolution(kind: str, size: Sizes, channels: int, filters: int, kernel: Sizes, **options: Any) -> None:
    """Each output element is a product with one filter over the channels of its group."""
    strides, dilation = (_each(options.get(name, 1), len(size)) for name in ("strides", "dilation_rate"))
    padding, groups = options.get("padding", "valid"), options.get("groups", 1)
    places = [windows(*item, padding) for item in zip(size, kernel, strides, dilation, strict=True)]
    one_filter = math.prod(kernel) * channels // groups
    first = options.get("data_format") == "channels_first"
    case(
        f"{kind} {size} {kernel} {options}",
        lambda: getattr(layers, kind)(filters, kernel, **options),
        (channels, *size) if first else (*size, channels),
        macs=math.prod(places) * filters * one_filter,
        params=one_filter * filters + filters,
    )


def _each(value: Any, dimensions: int) -> Sizes:
    return tuple(value) if isinstance(value, tuple) else (value,) * dimensions


convolution("Conv1D", (9,), 4, 6, (3,))
convolution("Conv1D", (10,), 4, 6, (3,), strides=2)
convolution("Conv1D", (9,), 4, 6, (3,), strides=2, padding="same", groups=2)
convolution("Conv1D", (9,), 4, 6, (3,), padding="causal")
convolution("Conv1D", (9,), 4, 6, (3,), strides=2, padding="causal")
convolution("Conv1D", (9,), 4, 6, (3,), data_format="channels_first")
convolution("Conv2D", (9, 8), 4, 6, (3, 2))
convolution("Conv2D", (9, 8), 4, 6, (3, 2), strides=(2, 3), padding="same")
convolution("Conv2D", (9, 8), 4, 6, (3, 2), groups=2)
convolution("Conv2D", (9, 8), 4, 6, (3, 2), data_format="channels_first", padding="same", strides=2)
convolution("Conv3D", (5, 6, 7), 4, 6, (3, 2, 1))
convolution("Conv3D", (5, 6, 7), 4, 6, (3, 2, 1), strides=(2, 1, 2), padding="same", groups=2)
convolution("Conv3D", (5, 6, 7), 4, 6, (3, 2, 1), data_format="channels_first")
for _padding in ("valid", "same", "causal"):
    convolution("Conv1D", (9,), 4, 6, (3,), dilation_rate=2, padding=_padding)
for _padding in ("valid", "same"):
    convolution("Conv2D", (9, 11), 4, 6, (3, 2), dilation_rate=(2, 3), padding=_padding)
    convolution("Conv3D", (5, 7, 9), 4, 6, (3, 2, 2), dilation_rate=2, padding=_padding)


def transposed(kind: str, size: Sizes, channels: int, filters: int, kernel: Sizes, **options: Any) -> None:
    """Each input element is multiplied with one element of each filter for each place of the kernel."""
    weights = math.prod(kernel) * channels * filters
    first = options.get("data_format") == "channels_first"
    case(
        f"{kind} {size} {kernel} {options}",
        lambda: getattr(layers, kind)(filters, kernel, **options),
        (channels, *size) if first else (*size, channels),
        macs=math.prod(size) * weights,
        params=weights + filters,
    )


transposed("Conv1DTranspose", (5,), 4, 6, (3,))
transposed("Conv1DTranspose", (5,), 4, 6, (3,), strides=2, padding="same")
transposed("Conv1DTranspose", (5,), 4, 6, (3,), strides=2, output_padding=1)
transposed("Conv2DTranspose", (5, 4), 4, 6, (3, 2))
transposed("Conv2DTranspose", (5, 4), 4, 6, (3, 2), strides=2, padding="same")
transposed("Conv2DTranspose", (5, 4), 4, 6, (3, 2), strides=2, data_format="channels_first")
transposed("Conv3DTranspose", (5, 4, 3), 4, 6, (3, 2, 1))
transposed("Conv3DTranspose", (5, 4, 3), 4, 6, (3, 2, 1), strides=(1, 2, 2), padding="same")


def depthwise(kind: str, size: Sizes, channels: int, kernel: int, filters: int = 0, **options: Any) -> None:
    """Each output channel sees one channel; a separable convolution then mixes them at each place."""
    strides, dilation = (_each(options.get(name, 1), len(size)) for name in ("strides", "dilation_rate"))
    padding, between = options.get("padding", "valid"), channels * options.get("depth_multiplier", 1)
    places = math.prod(windows(n, kernel, s, d, padding) for n, s, d in zip(size, strides, dilation, strict=True))
    one_filter = kernel ** len(size)
    arguments = (filters, kernel) if filters else (kernel,)
    first = options.get("data_format") == "channels_first"
    case(
        f"{kind} {size} {kernel} {options}",
        lambda: getattr(layers, kind)(*arguments, **options),
        (channels, *size) if first else (*size, channels),
        macs=places * between * (one_filter + filters),
        params=between * one_filter + between * filters + (filters or between),
    )


for _kind, _size in (("DepthwiseConv1D", (9,)), ("DepthwiseConv2D", (9, 11))):
    depthwise(_kind, _size, 4, 3)
    depthwise(_kind, _size, 4, 3, strides=2, padding="same", depth_multiplier=2)
    depthwise(_kind, _size, 4, 3, dilation_rate=2)
depthwise("DepthwiseConv2D", (9, 11), 4, 3, data_format="channels_first", dilation_rate=2)
for _kind, _size in (("SeparableConv1D", (9,)), ("SeparableConv2D", (9, 11))):
    depthwise(_kind, _size, 4, 3, 6)
    depthwise(_kind, _size, 4, 3, 6, strides=2, padding="same", depth_multiplier=2)
    depthwise(_kind, _size, 4, 3, 6, dilation_rate=2)


# Recurrent layers -------------------------------------------------------------------------------------------------

GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
BIASES = {"LSTM": 1, "GRU": 2, "SimpleRNN": 1}
STEPS, FEATURES, UNITS = 5, 3, 4


def gates_macs(kind: str, features: int = FEATURES, units: int = UNITS) -> int:
    """One step: each gate multiplies the input and the state."""
    return GATES[kind] * units * (features + units)


def gates_params(kind: str, features: int = FEATURES, units: int = UNITS, biases: int = 1) -> int:
    return gates_macs(kind, features, units) + biases * GATES[kind] * units


def recurrent(name: str, build: Callable[[], Any], macs: int, params: int) -> None:
    case(name, build, (STEPS, FEATURES), macs=STEPS * macs, params=params)


for _kind in GATES:
    recurrent(
        _kind, partial(getattr(layers, _kind), UNITS), gates_macs(_kind), gates_params(_kind, biases=BIASES[_kind])
    )
for _name, _build in {
    "LSTM all steps": lambda: layers.LSTM(UNITS, return_sequences=True),
    "LSTM unrolled": lambda: layers.LSTM(UNITS, unroll=True),
    "LSTM backwards": lambda: layers.LSTM(UNITS, go_backwards=True),
    "LSTM with dropout": lambda: layers.LSTM(UNITS, dropout=0.5, recurrent_dropout=0.5),
    "RNN of an LSTM cell": lambda: layers.RNN(layers.LSTMCell(UNITS)),
}.items():
    recurrent(_name, _build, gates_macs("LSTM"), gates_params("LSTM"))
recurrent(
    "LSTM without bias",
    lambda: layers.LSTM(UNITS, use_bias=False),
    gates_macs("LSTM"),
    gates_params("LSTM", biases=0),
)
recurrent(
    "both ways SimpleRNN",
    lambda: layers.Bidirectional(layers.SimpleRNN(UNITS)),
    2 * gates_macs("SimpleRNN"),
    2 * gates_params("SimpleRNN"),
)
recurrent(
    "stacked GRU cells",
    lambda: layers.RNN(layers.StackedRNNCells([layers.GRUCell(UNITS), layers.GRUCell(6)])),
    gates_macs("GRU") + gates_macs("GRU", UNITS, 6),
    gates_params("GRU", biases=2) + gates_params("GRU", UNITS, 6, 2),
)
recurrent("GRU of one bias", lambda: layers.GRU(UNITS, reset_after=False), gates_macs("GRU"), gates_params("GRU"))
recurrent(
    "both ways, summed",
    lambda: layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True), merge_mode="sum"),
    2 * gates_macs("LSTM"),
    2 * gates_params("LSTM"),
)
case(
    "time distributed",
    lambda: layers.TimeDistributed(layers.Conv2D(6, 3)),
    *((5, 8, 7, 4),),
    macs=5 * 6 * 5 * 6 * 9 * 4,
    params=9 * 4 * 6 + 6,
)
for _image, _padding in (((9,), "valid"), ((9, 8), "valid"), ((9, 8), "same"), ((5, 4, 3), "same")):
    _dimensions = len(_image)
    _places = math.prod(windows(length, 3, padding=_padding) for length in _image)
    case(
        f"ConvLSTM{_dimensions}D {_padding}",  # the state keeps its size whatever the padding
        partial(getattr(layers, f"ConvLSTM{_dimensions}D"), 6, 3, padding=_padding),
        *((STEPS, *_image, 4),),
        macs=STEPS * _places * 3**_dimensions * 4 * 6 * (4 + 6),
        params=3**_dimensions * 4 * 6 * (4 + 6) + 4 * 6,
    )


# Normalisation and the rest ---------------------------------------------------------------------------------------

case("batch norm", layers.BatchNormalization, (3, 3, 4), macs=0, params=16, frozen=8)
case("batch norm without scale", lambda: layers.BatchNormalization(scale=False), (4,), macs=0, params=12, frozen=8)
case("layer norm", layers.LayerNormalization, (3, 4), macs=0, params=8)
case("layer norm over two axes", lambda: layers.LayerNormalization((1, 2)), (3, 4), macs=0, params=24)
case("group norm", lambda: layers.GroupNormalization(2), (3, 3, 4), macs=0, params=8)
case("rms norm", lambda: layers.RMSNormalization(), (3, 4), macs=0, params=4, needs="RMSNormalization")  # noqa: PLW0108
case("unit norm", layers.UnitNormalization, (3, 4), macs=0, params=0)
case("normalization", layers.Normalization, (3, 4), macs=0, params=4 + 4 + 1, frozen=9)
case("prelu", layers.PReLU, (3, 4), macs=0, params=12)
case("prelu shared over steps", lambda: layers.PReLU(shared_axes=[1]), (3, 4), macs=0, params=4)
case(  # the vector u of the power iteration has an element for each output
    "spectral norm", lambda: layers.SpectralNormalization(layers.Dense(5)), (7,), macs=35, params=40 + 5, frozen=5
)
case(  # real and imaginary part of each frame: (32 - 8) / 4 + 1 of them, 16 / 2 + 1 frequencies of 8 samples
    "spectrogram",
    lambda: layers.STFTSpectrogram(frame_length=8, frame_step=4, fft_length=16, expand_dims=False),
    *((32, 1),),
    macs=2 * 7 * 9 * 8,
    params=2 * 8 * 9,
    needs="STFTSpectrogram",
)


# Attention --------------------------------------------------------------------------------------------------------


def attention_macs(query: Sizes, value: Sizes, heads: int, key_dim: int, value_dim: int, kv_heads: int = 0) -> int:
    (queries, width), (keys, depth) = query, value
    kv_heads = kv_heads or heads
    projections = queries * width * heads * (key_dim + value_dim) + keys * depth * kv_heads * (key_dim + value_dim)
    return projections + heads * queries * keys * (key_dim + value_dim)


def attention_params(width: int, depth: int, heads: int, key_dim: int, value_dim: int, kv_heads: int = 0) -> int:
    kv_heads = kv_heads or heads
    matrices = width * heads * (key_dim + value_dim) + depth * kv_heads * (key_dim + value_dim)
    return matrices + heads * key_dim + kv_heads * (key_dim + value_dim) + width


_ATTENTION_OPTIONS: dict[str, dict[str, Any]] = {"": {}, " without flash": {"flash_attention": False}}
for _name, _options in _ATTENTION_OPTIONS.items():
    case(
        f"attention of heads{_name}",
        partial(layers.MultiHeadAttention, 2, 4, value_dim=3, **_options),
        *((5, 6), (7, 8)),
        macs=attention_macs((5, 6), (7, 8), 2, 4, 3),
        params=attention_params(6, 8, 2, 4, 3),
        spread=True,
        needs="disable_flash_attention",
    )
    case(
        f"attention of groups{_name}",
        partial(layers.GroupQueryAttention, 4, 6, 2, **_options),
        *((5, 6), (7, 6)),
        macs=attention_macs((5, 6), (7, 6), 6, 4, 4, 2),
        params=attention_params(6, 6, 6, 4, 4, 2),
        spread=True,
        needs="disable_flash_attention",
    )
case("attention", layers.Attention, (5, 6), (7, 6), macs=5 * 7 * (6 + 6), params=0)
case("attention with a scale", lambda: layers.Attention(use_scale=True), (5, 6), (7, 6), macs=5 * 7 * 12, params=1)
case(  # scores by adding, so that only the values are multiplied
    "attention that adds", lambda: layers.Attention(score_mode="concat"), (5, 6), (7, 6), macs=5 * 7 * 6, params=1
)
case("additive attention", layers.AdditiveAttention, (5, 6), (7, 6), macs=5 * 7 * 6, params=6)
