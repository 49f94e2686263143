"""ResNet: He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2015 (arXiv:1512.03385).

The layout and the names of the parameters are torchvision's "v1.5": a bottleneck strides in its 3x3 convolution, where
the paper strides in the first 1x1.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn

Stem = Literal["imagenet", "small"]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion: ClassVar[int] = 1

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        """Map in_channels to width channels, dividing the image's sides by stride."""
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(in_channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(residual(x) + shortcut(x))."""
        out: Tensor = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out = self.relu(out + self.downsample(x))
        return out


class Bottleneck(nn.Module):
    """A 1x1 convolution that narrows, a 3x3, a 1x1 that widens, and a shortcut."""

    expansion: ClassVar[int] = 4

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        """Map in_channels to 4 * width channels, dividing the image's sides by stride."""
        super().__init__()
        out_channels = width * self.expansion
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(in_channels, out_channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(residual(x) + shortcut(x))."""
        out: Tensor = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out = self.relu(out + self.downsample(x))
        return out


def shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Module:
    """Build a block's shortcut: nothing where the shapes agree, else a strided 1x1 convolution."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    conv = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out_channels))


class ResNet(nn.Sequential):
    """A stem, one stage for each entry of blocks (each twice as wide as the one before), a mean and a linear layer."""

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        num_classes: int,
        in_channels: int,
        width: int,
        blocks: Sequence[int],
        stem: Stem,
    ) -> None:
        """Build the network; resnet18 and resnet50 explain the arguments."""
        if stem not in ("imagenet", "small"):
            raise ValueError(f"ResNet: stem must be 'imagenet' or 'small', got {stem!r}")
        kernel, stride = (7, 2) if stem == "imagenet" else (3, 1)
        layers: dict[str, nn.Module] = {
            "conv1": nn.Conv2d(in_channels, width, kernel, stride, padding=kernel // 2, bias=False),
            "bn1": nn.BatchNorm2d(width),
            "relu": nn.ReLU(inplace=True),
        }
        if stem == "imagenet":
            layers["maxpool"] = nn.MaxPool2d(3, stride=2, padding=1)
        channels = width
        for index, depth in enumerate(blocks):
            stage = nn.Sequential()
            for position in range(depth):
                stage.append(block(channels, width << index, stride=2 if index > 0 and position == 0 else 1))
                channels = (width << index) * block.expansion
            layers[f"layer{index + 1}"] = stage
        layers["avgpool"] = nn.AdaptiveAvgPool2d(1)
        layers["flatten"] = nn.Flatten()
        layers["fc"] = nn.Linear(channels, num_classes)
        super().__init__(OrderedDict(layers))


def resnet18(
    num_classes: int = 1000,
    in_channels: int = 3,
    width: int = 64,
    blocks: Sequence[int] = (2, 2, 2, 2),
    stem: Stem = "imagenet",
) -> ResNet:
    """Build ResNet-18 of He et al. (2015): (N, in_channels, H, W) images -> (N, num_classes) logits.

    width is the channels of the first stage, blocks the depth of each stage. The stem "imagenet" divides the image's
    sides by 4; "small" keeps them, for images of about 32x32. By default: 11,689,512 parameters and 1,814,073,344 MACs
    for a 224x224 image. Raises ValueError for another stem.

    Example:
        >>> import torch
        >>> resnet18(10, in_channels=1, width=8, blocks=(1, 1), stem="small")(torch.zeros(2, 1, 32, 32)).shape
        torch.Size([2, 10])
    """
    return ResNet(BasicBlock, num_classes, in_channels, width, blocks, stem)


def resnet50(
    num_classes: int = 1000,
    in_channels: int = 3,
    width: int = 64,
    blocks: Sequence[int] = (3, 4, 6, 3),
    stem: Stem = "imagenet",
) -> ResNet:
    """Build ResNet-50 of He et al. (2015), of bottlenecks; the arguments and shapes are those of resnet18.

    By default: 25,557,032 parameters and 4,089,184,256 MACs for a 224x224 image.
    """
    return ResNet(Bottleneck, num_classes, in_channels, width, blocks, stem)
