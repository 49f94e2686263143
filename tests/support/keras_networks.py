"""Small networks of many kinds in Keras, for converters: each has layers or an arrangement that the others leave out.

All take a batch of two; images are 16 x 16 pixels unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

pytest.importorskip("tensorflow")  # doctests are looked for here too, in environments that lack it

import keras
from keras import layers, ops

__all__ = ["APPLICATIONS", "NETWORKS", "build"]

#: Networks of ``keras.applications``, with the side of their images.
APPLICATIONS: Mapping[str, int] = {
    **dict.fromkeys(("ConvNeXtTiny", "DenseNet121", "EfficientNetB0", "MobileNet", "MobileNetV2"), 64),
    **dict.fromkeys(("MobileNetV3Small", "ResNet50"), 64),
    "InceptionV3": 96,
}
BATCH, WIDTH, HEADS, STEPS, CHOICES, WORDS = 2, 16, 4, 10, 5, 30


def images(side: int = 16, channels: int = 3) -> Any:
    return keras.Input(batch_shape=(BATCH, side, side, channels))


def steps(width: int = WIDTH, length: int = STEPS) -> Any:
    return keras.Input(batch_shape=(BATCH, length, width))


def words(length: int = STEPS) -> Any:
    return keras.Input(batch_shape=(BATCH, length), dtype="int32")


def chain(x: Any, *parts: Any) -> Any:
    """Return what layers make, one after another."""
    for layer in parts:
        x = layer(x)
    return x


def stack(inputs: Any, *parts: Any) -> Any:
    return keras.Model(inputs, chain(inputs, *parts), name="net")


def convolve(x: Any, channels: int, kernel: Any = 3, *, activation: Any = "relu", **further: Any) -> Any:
    """Return a convolution of the same size, its norm, and an activation."""
    x = layers.Conv2D(channels, kernel, padding="same", use_bias=False, **further)(x)
    return layers.Activation(activation)(layers.BatchNormalization()(x))


def classify(x: Any) -> Any:
    return layers.Dense(CHOICES, activation="softmax")(layers.GlobalAveragePooling2D()(x))


# Images ---------------------------------------------------------------------------------------------------------------


def build_lenet() -> Any:
    return stack(
        images(28, 1),
        *(layers.Conv2D(6, 5, padding="same", activation="tanh"), layers.AveragePooling2D(2)),
        *(layers.Conv2D(16, 5, activation="tanh"), layers.AveragePooling2D(2), layers.Flatten()),
        *(layers.Dense(120, activation="tanh"), layers.Dense(84, activation="tanh"), layers.Dense(10)),
    )


def build_alexnet() -> Any:
    return stack(
        images(35),
        *(layers.Conv2D(8, 11, strides=4, activation="relu"), layers.MaxPooling2D(3, 2)),
        *(layers.Conv2D(12, 5, padding="same", activation="relu"), layers.Conv2D(16, 3, padding="same")),
        *(layers.Flatten(), layers.Dense(32, activation="relu"), layers.Dropout(0.5), layers.Dense(CHOICES)),
    )


def build_network_in_network() -> Any:
    x = images()
    y = chain(x, layers.Conv2D(8, 5), layers.ReLU(), layers.Conv2D(8, 1), layers.ReLU(), layers.Conv2D(CHOICES, 1))
    return keras.Model(x, layers.Softmax()(layers.GlobalAveragePooling2D()(y)), name="net")


def build_residual(bottleneck: bool, groups: int = 1) -> Any:
    x = images()
    y = convolve(x, 16)
    for channels, strides in ((16, 1), (32, 2)):
        if bottleneck:
            inner = convolve(convolve(y, 8, 1), 8, 3, strides=strides, groups=groups)
            inner = convolve(inner, channels, 1, activation="linear")
        else:
            inner = convolve(convolve(y, channels, strides=strides), channels, activation="linear")
        shortcut = y if strides == 1 else convolve(y, channels, 1, activation="linear", strides=strides)
        y = layers.ReLU()(inner + shortcut)
    return keras.Model(x, classify(y), name="net")


def build_dense_net() -> Any:
    x = images()
    y = convolve(x, 8)
    for _ in range(3):
        y = layers.Concatenate()([y, convolve(convolve(y, 16, 1), 4)])
    return keras.Model(x, classify(layers.AveragePooling2D(2)(convolve(y, 8, 1))), name="net")


def build_inception() -> Any:
    x = images()
    pooled = layers.MaxPooling2D(3, 1, padding="same")(x)
    towers = [convolve(x, 4, 1), convolve(convolve(x, 3, 1), 6), convolve(convolve(x, 2, (1, 7)), 4, (7, 1))]
    return keras.Model(x, classify(layers.Concatenate()([*towers, convolve(pooled, 4, 1)])), name="net")


def build_squeeze_net() -> Any:
    x = images()
    small = layers.Conv2D(4, 1, activation="relu")(x)
    wide = [layers.Conv2D(8, kernel, padding="same", activation="relu")(small) for kernel in (1, 3)]
    return keras.Model(x, classify(layers.Concatenate()(wide)), name="net")


def build_depthwise() -> Any:
    return stack(
        images(),
        *(layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2), layers.BatchNormalization(), layers.ReLU(6)),
        *(layers.Conv2D(12, 1), layers.SeparableConv2D(8, 3, strides=2, padding="same"), layers.ReLU()),
        *(layers.GlobalMaxPooling2D(), layers.Dense(CHOICES)),
    )


def build_squeeze_and_excite() -> Any:
    x = images()
    y = convolve(x, 24, 1, activation="swish")
    y = layers.Activation("swish")(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(y)))
    scale = layers.GlobalAveragePooling2D(keepdims=True)(y)
    scale = layers.Conv2D(24, 1, activation="sigmoid")(layers.Conv2D(6, 1, activation="swish")(scale))
    return keras.Model(x, classify(convolve(y * scale, 8, 1, activation="linear")), name="net")


def build_shuffle_net() -> Any:
    x = images()
    y = convolve(convolve(x, 12), 12, 1, groups=3)
    y = layers.Reshape((16, 16, 12))(layers.Permute((1, 2, 4, 3))(layers.Reshape((16, 16, 3, 4))(y)))
    return keras.Model(x, classify(convolve(layers.DepthwiseConv2D(3, padding="same")(y), 12, 1, groups=3)), name="net")


def build_ghost_net() -> Any:
    x = images()
    y = convolve(x, 8, 1)
    cheap = layers.DepthwiseConv2D(3, padding="same", activation="relu")(y)
    return keras.Model(x, classify(layers.Concatenate()([y, cheap])), name="net")


def build_conv_next() -> Any:
    x = images()
    y = layers.LayerNormalization()(layers.Conv2D(12, 4, strides=4)(x))
    inner = layers.LayerNormalization()(layers.DepthwiseConv2D(7, padding="same")(y))
    return keras.Model(x, classify(y + layers.Dense(12)(layers.Dense(48, activation="gelu")(inner))), name="net")


def build_conv_mixer() -> Any:
    x = images()
    y = layers.BatchNormalization()(layers.Conv2D(12, 4, strides=4, activation="gelu")(x))
    y = y + layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same", activation="gelu")(y))
    return keras.Model(x, classify(layers.Conv2D(12, 1, activation="gelu")(y)), name="net")


def split_into_patches(x: Any) -> Any:
    return layers.Reshape((16, WIDTH))(layers.Conv2D(WIDTH, 4, strides=4)(x))


def build_mlp_mixer() -> Any:
    x = images()
    y = split_into_patches(x)
    mixed = layers.Permute((2, 1))(layers.LayerNormalization()(y))
    mixed = layers.Dense(16)(layers.Dense(24, activation="gelu")(mixed))
    y = y + layers.Permute((2, 1))(mixed)
    y = y + layers.Dense(WIDTH)(layers.Dense(32, activation="gelu")(layers.LayerNormalization()(y)))
    return keras.Model(x, layers.Dense(CHOICES)(layers.GlobalAveragePooling1D()(y)), name="net")


def build_gated_mlp() -> Any:
    x = images()
    y = split_into_patches(x)
    left, right = ops.split(layers.Dense(48, activation="gelu")(layers.LayerNormalization()(y)), 2, axis=-1)
    right = layers.Permute((2, 1))(layers.Dense(16)(layers.Permute((2, 1))(layers.LayerNormalization()(right))))
    return keras.Model(x, y + layers.Dense(WIDTH)(left * right), name="net")


def build_vision_transformer() -> Any:
    x = images()
    y = encode(split_into_patches(x))
    return keras.Model(x, layers.Dense(CHOICES)(layers.LayerNormalization()(y)[:, 0]), name="net")


def build_windowed_attention() -> Any:
    """Windows of 4 of the 16 patches: attention among each four alone."""
    x = images()
    y = ops.reshape(split_into_patches(x), (BATCH * 4, 4, WIDTH))
    y = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(y, y)
    return keras.Model(x, layers.Dense(CHOICES)(ops.reshape(y, (BATCH, 16 * WIDTH))), name="net")


def build_u_net() -> Any:
    x = images()
    fine = convolve(x, 8)
    coarse = convolve(layers.MaxPooling2D(2)(fine), 16)
    up = layers.Conv2DTranspose(8, 2, strides=2)(coarse)
    return keras.Model(x, layers.Conv2D(2, 1)(convolve(layers.Concatenate()([fine, up]), 8)), name="net")


def build_fully_convolutional() -> Any:
    x = images()
    y = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(x)
    score = layers.Conv2DTranspose(3, 4, strides=2, padding="same", use_bias=False)(layers.Conv2D(3, 1)(y))
    return keras.Model(x, layers.Softmax()(score), name="net")


def build_dilated() -> Any:
    """Atrous pyramids, as DeepLab has them: dilations of 1, 2 and 4 beside the mean of the picture."""
    x = images()
    y = convolve(x, 8)
    mean = layers.UpSampling2D(16)(convolve(layers.GlobalAveragePooling2D(keepdims=True)(y), 6, 1))
    rates = [convolve(y, 6, 3, dilation_rate=rate) for rate in (1, 2, 4)]
    return keras.Model(x, layers.Conv2D(2, 1)(layers.Concatenate()([*rates, mean])), name="net")


def build_feature_pyramid() -> Any:
    """Three levels, to which one head is applied."""
    x = images()
    fine = convolve(x, 8, strides=2)
    coarse = convolve(fine, 12, strides=2)
    top = layers.Conv2D(8, 1)(coarse)
    below = layers.Conv2D(8, 1)(fine) + layers.UpSampling2D()(top)
    head = layers.Conv2D(6, 3, padding="same")
    scores = [layers.Reshape((-1, 6))(head(level)) for level in (top, below)]
    return keras.Model(x, layers.Concatenate(axis=1)(scores), name="net")


def build_hourglass() -> Any:
    x = images()
    skips, y = [], x
    for channels in (8, 12):
        y = convolve(y, channels)
        skips.append(y)
        y = layers.MaxPooling2D(2)(y)
    for skip in reversed(skips):
        y = layers.UpSampling2D(interpolation="bilinear")(convolve(y, skip.shape[-1], 1)) + skip
        y = convolve(y, 8)
    return keras.Model(x, y, name="net")


def build_super_resolution() -> Any:
    """ESPCN: channels become pixels."""
    x = images(8)
    y = convolve(convolve(x, 16, 5), 8)
    y = ops.reshape(layers.Conv2D(3 * 4, 3, padding="same")(y), (BATCH, 8, 8, 2, 2, 3))
    return keras.Model(x, ops.reshape(ops.transpose(y, (0, 1, 3, 2, 4, 5)), (BATCH, 16, 16, 3)), name="net")


def build_autoencoder() -> Any:
    return stack(
        images(),
        *(layers.Conv2D(8, 3, strides=2, padding="same"), layers.ELU(), layers.Flatten(), layers.Dense(12)),
        *(layers.Dense(8 * 8 * 4), layers.Reshape((8, 8, 4)), layers.LeakyReLU()),
        *(layers.Conv2DTranspose(6, 3, strides=2, padding="same"), layers.Conv2D(3, 3, padding="same")),
    )


def build_variational_autoencoder() -> Any:
    x = images()
    y = layers.Dense(12, activation="relu")(layers.Flatten()(x))
    mean, spread = layers.Dense(4)(y), layers.Dense(4)(y)
    code = mean + ops.exp(0.5 * spread) * keras.random.normal((BATCH, 4), seed=1)
    return keras.Model(x, layers.Dense(16 * 16 * 3, activation="sigmoid")(code), name="net")


def build_generator() -> Any:
    """DCGAN: noise becomes a picture by transposed convolutions."""
    return stack(
        keras.Input(batch_shape=(BATCH, 12)),
        *(layers.Dense(4 * 4 * 8, use_bias=False), layers.BatchNormalization(), layers.ReLU()),
        *(layers.Reshape((4, 4, 8)), layers.Conv2DTranspose(6, 5, strides=2, padding="same", use_bias=False)),
        *(layers.ReLU(), layers.Conv2DTranspose(3, 4, strides=2, padding="same", activation="tanh")),
    )


def build_attention_module() -> Any:
    """CBAM: attention to channels by one network for two poolings, then to pixels."""
    x = images()
    y = convolve(x, 16)
    small, large = layers.Dense(4, activation="relu"), layers.Dense(16)
    pooled = [layers.GlobalAveragePooling2D(keepdims=True)(y), layers.GlobalMaxPooling2D(keepdims=True)(y)]
    y = y * ops.sigmoid(ops.add(*(large(small(value)) for value in pooled)))
    pixels = layers.Concatenate()([ops.mean(y, -1, keepdims=True), ops.max(y, -1, keepdims=True)])
    return keras.Model(x, classify(y * layers.Conv2D(1, 7, padding="same", activation="sigmoid")(pixels)), name="net")


def build_non_local() -> Any:
    x = images(8)
    y = convolve(x, 8)
    query, key, value = (layers.Reshape((64, 4))(layers.Conv2D(4, 1)(y)) for _ in range(3))
    mixed = ops.matmul(ops.softmax(ops.matmul(query, ops.transpose(key, (0, 2, 1)))), value)
    return keras.Model(x, y + layers.Conv2D(8, 1)(layers.Reshape((8, 8, 4))(mixed)), name="net")


def build_detector() -> Any:
    """A head as YOLO has it: three boxes of 5 + 5 numbers for each cell."""
    x = images(32)
    y = x
    for channels in (8, 16):
        y = layers.LeakyReLU(0.1)(layers.BatchNormalization()(layers.Conv2D(channels, 3, strides=2, padding="same")(y)))
    cells = layers.Reshape((8, 8, 3, 10))(layers.Conv2D(30, 1)(y))
    centers, sizes, scores = cells[..., :2], cells[..., 2:4], cells[..., 4:]
    return keras.Model(x, ops.concatenate([ops.sigmoid(centers), ops.exp(sizes), ops.sigmoid(scores)], -1), name="net")


def build_siamese() -> Any:
    first, second = images(), images()
    encoder = keras.Sequential([layers.Conv2D(8, 3, activation="relu"), layers.Flatten(), layers.Dense(12)])
    gap = ops.abs(encoder(first) - encoder(second))
    return keras.Model([first, second], layers.Dense(1, activation="sigmoid")(gap), name="net")


def build_capsules() -> Any:
    """Two rounds of routing between 18 capsules of 8 numbers and five of 6."""
    x = images(8)
    primary = layers.Reshape((18, 8))(layers.Conv2D(16, 3, strides=2)(x))
    predicted = layers.EinsumDense("bni,nijk->bnjk", (18, CHOICES, 6))(primary)
    logits = ops.zeros((BATCH, 18, CHOICES))
    result = predicted
    for _ in range(2):
        result = ops.einsum("bnj,bnjk->bjk", ops.softmax(logits, -1), predicted)
        logits = logits + ops.einsum("bnjk,bjk->bnj", predicted, result)
    return keras.Model(x, result, name="net")


def build_point_net() -> Any:
    """64 points, turned by a matrix that a network finds for them."""
    x = steps(3, 64)
    y = layers.GlobalMaxPooling1D()(layers.Conv1D(16, 1, activation="relu")(x))
    turned = layers.Dot(axes=(2, 1))([x, layers.Reshape((3, 3))(layers.Dense(9)(y))])
    y = layers.GlobalMaxPooling1D()(layers.Conv1D(24, 1, activation="relu")(turned))
    return keras.Model(x, layers.Dense(CHOICES)(y), name="net")


def build_volumes() -> Any:
    return stack(
        keras.Input(batch_shape=(BATCH, 8, 8, 8, 2)),
        *(layers.Conv3D(6, 3, activation="relu"), layers.MaxPooling3D(2), layers.Conv3D(8, 2, padding="same")),
        *(layers.GlobalAveragePooling3D(), layers.Dense(CHOICES)),
    )


def build_volumes_up() -> Any:
    return stack(
        keras.Input(batch_shape=(BATCH, 4, 4, 4, 3)),
        *(layers.Conv3DTranspose(5, 3, strides=2, padding="same"), layers.ReLU(), layers.Conv3D(2, 1)),
    )


def build_highway() -> Any:
    x = keras.Input(batch_shape=(BATCH, WIDTH))
    y = x
    for _ in range(2):
        gate = layers.Dense(WIDTH, activation="sigmoid")(y)
        y = gate * layers.Dense(WIDTH, activation="relu")(y) + (1 - gate) * y
    return keras.Model(x, y, name="net")


# Sequences ------------------------------------------------------------------------------------------------------------


def encode(x: Any, causal: bool = False) -> Any:
    """Return what a block of a transformer makes: attention and two linear layers, each after a norm."""
    y = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(y, y, use_causal_mask=causal)
    return x + layers.Dense(WIDTH)(layers.Dense(40, activation="gelu")(layers.LayerNormalization()(x)))


def embed(x: Any) -> Any:
    return layers.Embedding(WORDS, WIDTH)(x)


def build_text_cnn() -> Any:
    x = words()
    y = embed(x)
    pooled = [layers.GlobalMaxPooling1D()(layers.Conv1D(6, size, activation="relu")(y)) for size in (2, 3, 4)]
    return keras.Model(x, layers.Dense(CHOICES)(layers.Concatenate()(pooled)), name="net")


def stack_recurrent(*makers: Any) -> Callable[[], Any]:
    """Return what builds a network of these recurrent layers, made by functions, and a linear one."""
    return lambda: stack(steps(), *(make() for make in makers), layers.Dense(CHOICES))


def build_conv_lstm() -> Any:
    return stack(
        keras.Input(batch_shape=(BATCH, 4, 8, 8, 3)),
        *(layers.ConvLSTM2D(6, 3, padding="same"), layers.Conv2D(2, 1)),
    )


def build_conv_recurrent() -> Any:
    """CRNN: columns of a picture are the steps."""
    x = images()
    y = layers.MaxPooling2D((2, 1))(convolve(x, 8))
    y = layers.Reshape((16, 8 * 8))(layers.Permute((2, 1, 3))(y))
    y = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(y)
    return keras.Model(x, layers.Dense(CHOICES, activation="softmax")(y), name="net")


def build_sequence_to_sequence() -> Any:
    source, target = words(), words(7)
    encoded, state, cell = layers.LSTM(WIDTH, return_sequences=True, return_state=True)(embed(source))
    decoded = layers.LSTM(WIDTH, return_sequences=True)(embed(target), initial_state=[state, cell])
    context = layers.Attention()([decoded, encoded])
    return keras.Model([source, target], layers.Dense(WORDS)(layers.Concatenate()([decoded, context])), name="net")


def build_additive_attention() -> Any:
    query, value = steps(WIDTH, 7), steps()
    return keras.Model([query, value], layers.AdditiveAttention()([query, value]), name="net")


def build_recurrent_autoencoder() -> Any:
    return stack(
        steps(),
        *(layers.LSTM(8), layers.RepeatVector(STEPS), layers.LSTM(8, return_sequences=True)),
        layers.TimeDistributed(layers.Dense(WIDTH)),
    )


def build_wave_net() -> Any:
    x = steps(1, 32)
    y = layers.Conv1D(8, 2, padding="causal")(x)
    skips = []
    for rate in (1, 2, 4):
        wave = layers.Conv1D(8, 2, padding="causal", dilation_rate=rate, activation="tanh")(y)
        gate = layers.Conv1D(8, 2, padding="causal", dilation_rate=rate, activation="sigmoid")(y)
        skips.append(layers.Conv1D(8, 1)(wave * gate))
        y = y + skips[-1]
    return keras.Model(x, layers.Conv1D(CHOICES, 1)(layers.ReLU()(layers.Add()(skips))), name="net")


def build_temporal() -> Any:
    x = steps(6, 32)
    y = layers.SeparableConv1D(8, 3, padding="same", activation="relu")(x)
    y = layers.DepthwiseConv1D(3, padding="same")(layers.AveragePooling1D(2)(y))
    return keras.Model(x, layers.Conv1DTranspose(4, 3, strides=2, padding="same")(y), name="net")


def build_language_model() -> Any:
    """Causal, with learned positions, and logits by the embedding itself."""
    x = words()
    table = layers.Embedding(WORDS, WIDTH)
    positions = layers.Embedding(STEPS, WIDTH)(ops.arange(STEPS))
    y = layers.LayerNormalization()(encode(table(x) + positions, causal=True))
    return keras.Model(x, layers.Dense(WORDS, use_bias=False)(y), name="net")


def rotate(x: Any) -> Any:
    """Return queries or keys turned by their positions."""
    half = x.shape[-1] // 2
    rates = ops.power(100.0, -ops.arange(half, dtype="float32") / half)
    angles = ops.expand_dims(ops.arange(x.shape[1], dtype="float32"), 1) * rates
    cos, sin = (ops.expand_dims(function(angles), (0, 2)) for function in (ops.cos, ops.sin))
    left, right = x[..., :half], x[..., half:]
    return ops.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


def build_grouped_queries() -> Any:
    """As Llama has it: a norm by the root mean square, rotary positions, four heads on two keys, a gate."""
    x = words()
    y = embed(x)
    z = layers.RMSNormalization()(y)
    query, key = (rotate(layers.Reshape((STEPS, heads, 4))(layers.Dense(heads * 4)(z))) for heads in (4, 2))
    value = layers.Reshape((STEPS, 2, 4))(layers.Dense(8, use_bias=False)(z))
    key, value = (ops.repeat(tensor, 2, 2) for tensor in (key, value))
    scores = ops.einsum("bqhd,bkhd->bhqk", query, key) / 2.0
    mixed = ops.einsum("bhqk,bkhd->bqhd", ops.softmax(scores), value)
    y = y + layers.Dense(WIDTH, use_bias=False)(layers.Reshape((STEPS, 16))(mixed))
    z = layers.RMSNormalization()(y)
    gated = layers.Dense(40, activation="silu", use_bias=False)(z) * layers.Dense(40, use_bias=False)(z)
    return keras.Model(x, y + layers.Dense(WIDTH, use_bias=False)(gated), name="net")


def build_group_query_layer() -> Any:
    x = steps()
    return keras.Model(x, layers.GroupQueryAttention(4, 4, 2)(x, x), name="net")


def build_encoder_and_decoder() -> Any:
    source, target = words(), words(7)
    memory = encode(embed(source))
    y = encode(embed(target), causal=True)
    y = y + layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(y, memory)
    return keras.Model([source, target], layers.Dense(WORDS)(y), name="net")


def build_linear_attention() -> Any:
    """Keys and values first: no scores of steps with steps."""
    x = steps()
    query, key = (ops.elu(layers.Dense(8)(x)) + 1 for _ in range(2))
    context = ops.einsum("btd,bte->bde", key, layers.Dense(12)(x))
    norm = ops.einsum("btd,bd->bt", query, ops.sum(key, 1))
    return keras.Model(x, ops.einsum("btd,bde->bte", query, context) / ops.expand_dims(norm, -1), name="net")


def build_projected_attention() -> Any:
    """Linformer: ten keys and values are projected on four."""
    x = steps()
    short = layers.Permute((2, 1))(layers.Dense(4)(layers.Permute((2, 1))(x)))
    return keras.Model(x, layers.MultiHeadAttention(HEADS, 4)(x, short), name="net")


def build_fourier_mixing() -> Any:
    x = steps()
    real, _ = ops.fft2((x, ops.zeros_like(x)))
    return keras.Model(x, layers.Dense(WIDTH)(x + real), name="net")


def build_mixture_of_experts() -> Any:
    """Three experts, all of which run; a router weighs them."""
    x = steps()
    weights = layers.Dense(3, activation="softmax")(x)
    experts = [layers.Dense(WIDTH)(layers.Dense(32, activation="relu")(x)) for _ in range(3)]
    return keras.Model(x, ops.einsum("bte,bted->btd", weights, ops.stack(experts, 2)), name="net")


def build_learned_queries() -> Any:
    """Four queries that are weights look at the steps: the projection of the queries is one of constants."""
    x = steps()
    queries = layers.Embedding(4, WIDTH)(ops.broadcast_to(ops.arange(4), (BATCH, 4)))
    return keras.Model(x, layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(queries, x), name="net")


def build_spectrogram() -> Any:
    x = steps(1, 256)
    y = layers.STFTSpectrogram(frame_length=32, frame_step=16, fft_length=32)(x)
    return keras.Model(x, layers.Dense(CHOICES)(layers.GlobalAveragePooling1D()(y)), name="net")


# Tables and graphs ----------------------------------------------------------------------------------------------------


def build_factorization_machine() -> Any:
    """DeepFM: pairs of the fields by a difference of squares, and linear layers beside them."""
    x = words(6)
    fields = embed(x)
    pairs = 0.5 * ops.sum(ops.square(ops.sum(fields, 1)) - ops.sum(ops.square(fields), 1), 1, keepdims=True)
    deep = layers.Dense(1)(layers.Dense(16, activation="relu")(layers.Flatten()(fields)))
    return keras.Model(x, ops.sigmoid(pairs + deep), name="net")


def build_wide_and_deep() -> Any:
    numbers, choice = keras.Input(batch_shape=(BATCH, 9)), words(3)
    deep = layers.Concatenate()([layers.Flatten()(embed(choice)), numbers])
    deep = layers.Dense(8, activation="selu")(layers.Dense(16, activation="relu")(deep))
    return keras.Model([numbers, choice], layers.Dense(1)(layers.Concatenate()([deep, numbers])), name="net")


def build_two_towers() -> Any:
    user, item = words(1), words(1)
    towers = [
        layers.Dense(8)(layers.Dense(16, activation="relu")(layers.Flatten()(embed(side)))) for side in (user, item)
    ]
    return keras.Model([user, item], layers.Dot(axes=1, normalize=True)(towers), name="net")


def build_interactions() -> Any:
    """DLRM: products of all pairs of the fields."""
    x = words(6)
    fields = embed(x)
    pairs = layers.Flatten()(ops.matmul(fields, ops.transpose(fields, (0, 2, 1))))
    return keras.Model(x, layers.Dense(1)(layers.Dense(8, activation="relu")(pairs)), name="net")


def build_basis_expansion() -> Any:
    """N-BEATS: blocks that subtract what they explain."""
    x = keras.Input(batch_shape=(BATCH, 20))
    rest, forecasts = x, []
    for _ in range(2):
        y = layers.Dense(16, activation="relu")(rest)
        rest = rest - layers.Dense(20)(layers.Dense(4)(y))
        forecasts.append(layers.Dense(5)(layers.Dense(4)(y)))
    return keras.Model(x, layers.Add()(forecasts), name="net")


def build_graph_convolution() -> Any:
    nodes, edges = steps(6, 12), steps(12, 12)
    y = layers.ReLU()(ops.matmul(edges, layers.Dense(8)(nodes)))
    return keras.Model([nodes, edges], ops.matmul(edges, layers.Dense(CHOICES)(y)), name="net")


def build_graph_attention() -> Any:
    nodes, edges = steps(6, 12), steps(12, 12)
    y = layers.Dense(8, use_bias=False)(nodes)
    scores = layers.Dense(1)(y) + ops.transpose(layers.Dense(1)(y), (0, 2, 1))
    scores = ops.where(edges > 0, ops.leaky_relu(scores), -1e9)
    return keras.Model([nodes, edges], ops.elu(ops.matmul(ops.softmax(scores), y)), name="net")


def build_deep_sets() -> Any:
    x = steps()
    y = ops.sum(layers.Dense(8)(layers.Dense(12, activation="relu")(x)), 1)
    return keras.Model(x, layers.Dense(1)(layers.Dense(8, activation="softplus")(y)), name="net")


def build_maxout() -> Any:
    x = keras.Input(batch_shape=(BATCH, WIDTH))
    return keras.Model(x, layers.Dense(CHOICES)(ops.max(layers.Reshape((8, 3))(layers.Dense(24)(x)), -1)), name="net")


#: What builds each network.
NETWORKS: Mapping[str, Callable[[], Any]] = {
    "LeNet-5": build_lenet,
    "AlexNet": build_alexnet,
    "network in network": build_network_in_network,
    "ResNet": lambda: build_residual(bottleneck=False),
    "ResNet, bottlenecks": lambda: build_residual(bottleneck=True),
    "ResNeXt": lambda: build_residual(bottleneck=True, groups=4),
    "DenseNet": build_dense_net,
    "Inception": build_inception,
    "SqueezeNet": build_squeeze_net,
    "depthwise and separable": build_depthwise,
    "squeeze and excite": build_squeeze_and_excite,
    "ShuffleNet": build_shuffle_net,
    "GhostNet": build_ghost_net,
    "ConvNeXt": build_conv_next,
    "ConvMixer": build_conv_mixer,
    "MLP-Mixer": build_mlp_mixer,
    "gMLP": build_gated_mlp,
    "ViT": build_vision_transformer,
    "windowed attention": build_windowed_attention,
    "U-Net": build_u_net,
    "FCN": build_fully_convolutional,
    "DeepLab": build_dilated,
    "feature pyramid": build_feature_pyramid,
    "hourglass": build_hourglass,
    "ESPCN": build_super_resolution,
    "autoencoder": build_autoencoder,
    "VAE": build_variational_autoencoder,
    "DCGAN": build_generator,
    "CBAM": build_attention_module,
    "non-local": build_non_local,
    "YOLO": build_detector,
    "siamese": build_siamese,
    "capsules": build_capsules,
    "PointNet": build_point_net,
    "3-D convolutions": build_volumes,
    "3-D transposed": build_volumes_up,
    "highway": build_highway,
    "maxout": build_maxout,
    "TextCNN": build_text_cnn,
    "SimpleRNN": stack_recurrent(lambda: layers.SimpleRNN(12)),
    "LSTM": stack_recurrent(lambda: layers.LSTM(12, return_sequences=True), lambda: layers.LSTM(8)),
    "LSTM, unrolled": stack_recurrent(lambda: layers.LSTM(6, unroll=True)),
    "GRU": stack_recurrent(lambda: layers.GRU(12, return_sequences=True), lambda: layers.GRU(8)),
    "GRU, reset before": stack_recurrent(lambda: layers.GRU(12, reset_after=False)),
    "GRU, both ways": stack_recurrent(lambda: layers.Bidirectional(layers.GRU(6))),
    "cells": stack_recurrent(lambda: layers.RNN([layers.LSTMCell(6), layers.GRUCell(5)])),
    "ConvLSTM": build_conv_lstm,
    "CRNN": build_conv_recurrent,
    "seq2seq": build_sequence_to_sequence,
    "additive attention": build_additive_attention,
    "LSTM autoencoder": build_recurrent_autoencoder,
    "WaveNet": build_wave_net,
    "TCN": build_temporal,
    "GPT": build_language_model,
    "Llama": build_grouped_queries,
    "grouped queries": build_group_query_layer,
    "encoder and decoder": build_encoder_and_decoder,
    "linear attention": build_linear_attention,
    "Linformer": build_projected_attention,
    "FNet": build_fourier_mixing,
    "mixture of experts": build_mixture_of_experts,
    "learned queries": build_learned_queries,
    "spectrogram": build_spectrogram,
    "DeepFM": build_factorization_machine,
    "wide and deep": build_wide_and_deep,
    "two towers": build_two_towers,
    "DLRM": build_interactions,
    "N-BEATS": build_basis_expansion,
    "GCN": build_graph_convolution,
    "GAT": build_graph_attention,
    "deep sets": build_deep_sets,
}


def build(name: str) -> Any:
    """Return a network by its name, with an open batch those of ``keras.applications``."""
    if name in NETWORKS:
        return NETWORKS[name]()
    side = APPLICATIONS[name]
    return getattr(keras.applications, name)(weights=None, input_shape=(side, side, 3), classes=10)
