"""ResNet: He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2015 (arXiv:1512.03385).

The layout is torchvision's, as in `models.resnet`. ResNet-50 is in ``keras.applications``, in the paper's own layout.
"""

from collections.abc import Sequence
from typing import Any, Literal

import keras
from keras import layers

Stem = Literal["imagenet", "small"]


def basic_block(in_channels: int, width: int, stride: int, name: str) -> Any:
    """Build two 3x3 convolutions and a shortcut: relu(residual(x) + shortcut(x)).

    It maps in_channels to width channels and divides the image's sides by stride.
    """
    x = keras.Input((None, None, in_channels))
    relu = layers.ReLU(name="relu")
    out = relu(batch_norm("bn1")(convolve(x, width, 3, stride, name="conv1")))
    out = batch_norm("bn2")(convolve(out, width, 3, name="conv2"))
    shortcut = x
    if stride > 1 or in_channels != width:
        conv = layers.Conv2D(width, 1, stride, use_bias=False, name="0")
        shortcut = keras.Sequential([conv, batch_norm("1")], name="downsample")(x)
    return keras.Model(x, relu(layers.Add(name="add")([out, shortcut])), name=name)


def convolve(x: Any, channels: int, kernel: int, stride: int = 1, *, name: str) -> Any:
    """Apply a convolution without bias that keeps the image's sides, but for stride.

    The zeros around the image are a layer of their own where it strides: padding="same" would then put them all at the
    bottom and right.
    """
    if stride == 1:
        return layers.Conv2D(channels, kernel, padding="same", use_bias=False, name=name)(x)
    x = layers.ZeroPadding2D(kernel // 2, name=f"{name}_padding")(x)
    return layers.Conv2D(channels, kernel, stride, use_bias=False, name=name)(x)


def batch_norm(name: str) -> Any:
    """Build a batch normalisation with the constants that PyTorch takes; momentum is the share that is kept."""
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=name)


def resnet18(
    num_classes: int = 1000,
    in_channels: int = 3,
    width: int = 64,
    blocks: Sequence[int] = (2, 2, 2, 2),
    stem: Stem = "imagenet",
) -> Any:
    """Build ResNet-18 of He et al. (2015): (N, H, W, in_channels) images -> (N, num_classes) logits.

    width is the channels of the first stage, blocks the depth of each stage. The stem "imagenet" divides the image's
    sides by 4; "small" keeps them, for images of about 32x32. By default: 11,689,512 parameters and 1,814,073,344 MACs
    for a 224x224 image. Raises ValueError for another stem.
    """
    if stem not in ("imagenet", "small"):
        raise ValueError(f"resnet18: stem must be 'imagenet' or 'small', got {stem!r}")
    x = images = keras.Input((None, None, in_channels))
    kernel, stride = (7, 2) if stem == "imagenet" else (3, 1)
    x = convolve(x, width, kernel, stride, name="conv1")
    x = layers.ReLU(name="relu")(batch_norm("bn1")(x))
    if stem == "imagenet":
        # Zeros are as good as nothing around the image: no pixel is below zero after the ReLU.
        x = layers.ZeroPadding2D(1, name="maxpool_padding")(x)
        x = layers.MaxPooling2D(3, strides=2, name="maxpool")(x)
    channels = width
    for index, depth in enumerate(blocks):
        stage = []
        for position in range(depth):
            stride = 2 if index > 0 and position == 0 else 1
            stage.append(basic_block(channels, width << index, stride, name=str(position)))
            channels = width << index
        x = keras.Sequential(stage, name=f"layer{index + 1}")(x)
    x = layers.GlobalAveragePooling2D(name="avgpool")(x)
    return keras.Model(images, layers.Dense(num_classes, name="fc")(x), name="resnet18")
