"""LeNet-5: LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998.

It differs from the paper where everyone's does: the second convolution sees all feature maps, pooling has no weights,
and the output is a plain linear layer.
"""

from typing import Any

import jax
from flax import nnx


def lenet5(num_classes: int = 10, in_channels: int = 1) -> Any:
    """Build LeNet-5 of LeCun et al. (1998): (N, 32, 32, in_channels) -> (N, num_classes) logits.

    By default: 61,706 parameters and 416,520 MACs per image.
    """
    return LeNet5(num_classes, in_channels, nnx.Rngs(0))


def halve(x: jax.Array) -> jax.Array:
    """Return the means of squares of 2 x 2 pixels: (N, H, W, C) -> (N, H / 2, W / 2, C)."""
    means: jax.Array = nnx.avg_pool(x, (2, 2), (2, 2))
    return means


class Features(nnx.Module):
    """Three convolutions and two poolings: (N, 32, 32, in_channels) -> (N, 120)."""

    def __init__(self, in_channels: int, rngs: nnx.Rngs) -> None:
        """Make the layers."""
        self.conv1 = nnx.Conv(in_channels, 6, (5, 5), padding="VALID", rngs=rngs)
        self.conv2 = nnx.Conv(6, 16, (5, 5), padding="VALID", rngs=rngs)
        self.conv3 = nnx.Conv(16, 120, (5, 5), padding="VALID", rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the features of each image."""
        x = halve(nnx.tanh(self.conv1(x)))
        x = halve(nnx.tanh(self.conv2(x)))
        return nnx.tanh(self.conv3(x)).reshape(len(x), -1)


class Classifier(nnx.Module):
    """Two linear layers: (N, 120) -> (N, num_classes)."""

    def __init__(self, num_classes: int, rngs: nnx.Rngs) -> None:
        """Make the layers."""
        self.fc1 = nnx.Linear(120, 84, rngs=rngs)
        self.fc2 = nnx.Linear(84, num_classes, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the logits."""
        logits: jax.Array = self.fc2(nnx.tanh(self.fc1(x)))
        return logits


class LeNet5(nnx.Module):
    """The whole network."""

    def __init__(self, num_classes: int, in_channels: int, rngs: nnx.Rngs) -> None:
        """Make the layers."""
        self.features = Features(in_channels, rngs)
        self.classifier = Classifier(num_classes, rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the logits."""
        logits: jax.Array = self.classifier(self.features(x))
        return logits
