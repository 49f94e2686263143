"""The shared architectures that a sequence of layers can express, in numpy, as their descriptions say."""

from __future__ import annotations

import numpy as np

from profilerkit.testing.architectures import (
    CLASSES,
    LENET_CHANNELS,
    LENET_HIDDEN,
    LENET_IMAGE,
    MLP_FEATURES,
    MLP_HIDDEN,
)
from profilerkit_numpy.layers import Sequential, activation, conv2d, dense, dropout, flatten, pool2d

#: What the descriptions call the types of layers.
KINDS = {
    "Activation": "activation",
    "Conv2D": "convolution",
    "Dense": "linear",
    "Dropout": "dropout",
    "Flatten": "flatten",
    "Pool2D": "pooling",
}


def mlp() -> Sequential:
    first, second = MLP_HIDDEN
    model = Sequential(
        dense(MLP_FEATURES, first),
        activation(),
        dropout(0.5),
        dense(first, second),
        activation(),
        dense(second, CLASSES),
    )
    model.training = True  # inference mode is the backend's to switch on
    return model


def lenet5() -> Sequential:
    first, second = LENET_CHANNELS
    wide, narrow = LENET_HIDDEN
    return Sequential(
        conv2d(LENET_IMAGE[2], first, 5, padding=2),
        activation(np.tanh),
        pool2d(2, np.mean),
        conv2d(first, second, 5),
        activation(np.tanh),
        pool2d(2, np.mean),
        flatten(),
        dense(5 * 5 * second, wide),
        activation(np.tanh),
        dense(wide, narrow),
        activation(np.tanh),
        dense(narrow, CLASSES),
    )
