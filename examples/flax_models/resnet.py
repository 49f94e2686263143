"""ResNet: He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2015 (arXiv:1512.03385).

The layout is torchvision's, as in `models.resnet`.
"""

from collections.abc import Sequence
from typing import Any

import jax
from flax import nnx


def convolution(in_channels: int, channels: int, kernel: int, stride: int, rngs: nnx.Rngs) -> Any:
    """Build a convolution without bias that keeps the image's sides, but for stride; padded alike on all sides."""
    around = kernel // 2
    padding = ((around, around), (around, around))
    size, strides = (kernel, kernel), (stride, stride)
    return nnx.Conv(in_channels, channels, size, strides, padding=padding, use_bias=False, rngs=rngs)


def batch_norm(channels: int, rngs: nnx.Rngs) -> Any:
    """Build a batch normalization with the constants that PyTorch takes; momentum is the share that is kept."""
    return nnx.BatchNorm(channels, momentum=0.9, epsilon=1e-5, use_running_average=True, rngs=rngs)


class BasicBlock(nnx.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, in_channels: int, width: int, stride: int, rngs: nnx.Rngs) -> None:
        """Map in_channels to width channels, dividing the image's sides by stride."""
        self.conv1 = convolution(in_channels, width, 3, stride, rngs)
        self.bn1 = batch_norm(width, rngs)
        self.conv2 = convolution(width, width, 3, 1, rngs)
        self.bn2 = batch_norm(width, rngs)
        if stride > 1 or in_channels != width:
            self.downsample = nnx.List([convolution(in_channels, width, 1, stride, rngs), batch_norm(width, rngs)])

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return relu(residual(x) + shortcut(x))."""
        out = self.bn2(self.conv2(nnx.relu(self.bn1(self.conv1(x)))))
        for layer in getattr(self, "downsample", ()):
            x = layer(x)
        return nnx.relu(out + x)


class ResNet(nnx.Module):
    """A stem, three stages (each twice as wide as the one before), a mean and a linear layer."""

    def __init__(self, num_classes: int, in_channels: int, width: int, blocks: Sequence[int], rngs: nnx.Rngs) -> None:
        """Make the layers; resnet18 explains the arguments."""
        self.conv1 = convolution(in_channels, width, 7, 2, rngs)
        self.bn1 = batch_norm(width, rngs)
        self.stages = len(blocks)
        channels = width
        for index, depth in enumerate(blocks):
            stage = []
            for position in range(depth):
                stride = 2 if index > 0 and position == 0 else 1
                stage.append(BasicBlock(channels, width << index, stride, rngs))
                channels = width << index
            setattr(self, f"layer{index + 1}", nnx.List(stage))
        self.fc = nnx.Linear(channels, num_classes, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the logits."""
        x = nnx.relu(self.bn1(self.conv1(x)))
        x = nnx.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        for index in range(self.stages):
            for block in getattr(self, f"layer{index + 1}"):
                x = block(x)
        logits: jax.Array = self.fc(x.mean((1, 2)))
        return logits


def resnet18(
    num_classes: int = 1000, in_channels: int = 3, width: int = 64, blocks: Sequence[int] = (2, 2, 2, 2)
) -> Any:
    """Build ResNet-18 of He et al. (2015): (N, H, W, in_channels) images -> (N, num_classes) logits.

    width is the channels of the first stage, blocks the depth of each stage. By default: 11,689,512 parameters and
    1,814,073,344 MACs for a 224x224 image.
    """
    return ResNet(num_classes, in_channels, width, blocks, nnx.Rngs(0))
