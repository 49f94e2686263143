"""LeNet-5: LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998.

It differs from the paper where everyone's does: the second convolution sees all feature maps, pooling has no weights,
and the output is a plain linear layer.
"""

from typing import Any

import keras
from keras import layers

FIELD = 32  # the side of the square the three convolutions reduce to one pixel


def lenet5(num_classes: int = 10, in_channels: int = 1, image_size: int = FIELD) -> Any:
    """Build LeNet-5 of LeCun et al. (1998): (N, image_size, image_size, in_channels) -> (N, num_classes) logits.

    Images smaller than 32x32 are padded with zeros to that size, as the paper pads the 28x28 digits of MNIST. By
    default: 61,706 parameters and 416,520 MACs per image.

    Raises:
        ValueError: if image_size is odd, less than 2 or more than 32.
    """
    if image_size not in range(2, FIELD + 1, 2):
        raise ValueError(f"lenet5: image_size must be an even number from 2 to {FIELD}, got {image_size}")
    features = [
        layers.ZeroPadding2D((FIELD - image_size) // 2, name="padding"),
        layers.Conv2D(6, kernel_size=5, name="conv1"),
        layers.Activation("tanh", name="tanh1"),
        layers.AveragePooling2D(2, name="pool1"),
        layers.Conv2D(16, kernel_size=5, name="conv2"),
        layers.Activation("tanh", name="tanh2"),
        layers.AveragePooling2D(2, name="pool2"),
        layers.Conv2D(120, kernel_size=5, name="conv3"),
        layers.Activation("tanh", name="tanh3"),
        layers.Flatten(name="flatten"),
    ]
    classifier = [
        layers.Dense(84, name="fc1"),
        layers.Activation("tanh", name="tanh4"),
        layers.Dense(num_classes, name="fc2"),
    ]
    return keras.Sequential(
        [
            keras.Input((image_size, image_size, in_channels)),
            keras.Sequential(features if image_size < FIELD else features[1:], name="features"),
            keras.Sequential(classifier, name="classifier"),
        ],
        name="lenet5",
    )
