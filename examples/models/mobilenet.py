"""MobileNetV2: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018 (arXiv:1801.04381)."""

from torch import Tensor, nn

STAGES = (  # table 2 of the paper: expansion, channels, repeats, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """A 1x1 convolution that widens, a depthwise 3x3, a linear 1x1 that narrows; a shortcut where the shapes agree."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, expansion: int) -> None:
        """Map in_channels to out_channels, dividing the image's sides by stride."""
        super().__init__()
        hidden = in_channels * expansion
        widen = [conv_bn_relu6(in_channels, hidden, kernel=1)] if expansion > 1 else []
        self.conv = nn.Sequential(
            *widen,
            conv_bn_relu6(hidden, hidden, kernel=3, stride=stride, groups=hidden),
            nn.Conv2d(hidden, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.has_shortcut = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        """Return conv(x), plus x where the block has a shortcut."""
        out: Tensor = self.conv(x)
        return x + out if self.has_shortcut else out


class MobileNetV2(nn.Module):
    """A 3x3 convolution, the inverted residuals of STAGES, a 1x1 convolution, a mean, dropout and a linear layer."""

    def __init__(self, num_classes: int, in_channels: int, width_mult: float, dropout: float) -> None:
        """Build the network; mobilenet_v2 explains the arguments."""
        super().__init__()
        channels = round_channels(32 * width_mult)
        # The last convolution is never narrower than the paper's, however small width_mult is.
        last_channels = round_channels(1280 * max(1.0, width_mult))
        layers: list[nn.Module] = [conv_bn_relu6(in_channels, channels, kernel=3, stride=2)]
        for expansion, base_channels, repeats, first_stride in STAGES:
            out_channels = round_channels(base_channels * width_mult)
            for position in range(repeats):
                stride = first_stride if position == 0 else 1
                layers.append(InvertedResidual(channels, out_channels, stride, expansion))
                channels = out_channels
        layers.append(conv_bn_relu6(channels, last_channels, kernel=1))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last_channels, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) images to (N, num_classes) logits."""
        x = self.avgpool(self.features(x)).flatten(1)
        x = self.classifier(x)
        return x


def conv_bn_relu6(in_channels: int, out_channels: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Build a convolution that keeps the image's sides (but for stride), batch normalisation and ReLU6."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU6(inplace=True),
    )


def round_channels(channels: float, divisor: int = 8) -> int:
    """Round to the nearest multiple of divisor, but never below it nor by more than a tenth downwards."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


def mobilenet_v2(
    num_classes: int = 1000, in_channels: int = 3, width_mult: float = 1.0, dropout: float = 0.2
) -> MobileNetV2:
    """Build MobileNetV2 of Sandler et al. (2018): (N, in_channels, H, W) images -> (N, num_classes) logits.

    width_mult scales the channels of every layer; the image's sides are divided by 32. By default: 3,504,872
    parameters and 300,774,272 MACs for a 224x224 image.

    Example:
        >>> import torch
        >>> mobilenet_v2(10, width_mult=0.25)(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 10])
    """
    return MobileNetV2(num_classes, in_channels, width_mult, dropout)
