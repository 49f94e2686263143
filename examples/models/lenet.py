"""LeNet-5: LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998.

It differs from the paper where everyone's does: the second convolution sees all feature maps, pooling has no weights,
and the output is a plain linear layer.
"""

from collections import OrderedDict

from torch import nn

FIELD = 32  # the side of the square the three convolutions reduce to one pixel


def lenet5(num_classes: int = 10, in_channels: int = 1, image_size: int = FIELD) -> nn.Sequential:
    """Build LeNet-5 of LeCun et al. (1998): (N, in_channels, image_size, image_size) -> (N, num_classes) logits.

    Images smaller than 32x32 are padded with zeros to that size by the first convolution, as the paper pads the 28x28
    digits of MNIST. By default: 61,706 parameters and 416,520 MACs per image.

    Raises:
        ValueError: if image_size is odd, less than 2 or more than 32.

    Example:
        >>> import torch
        >>> lenet5()(torch.zeros(2, 1, 32, 32)).shape
        torch.Size([2, 10])
    """
    if image_size not in range(2, FIELD + 1, 2):
        raise ValueError(f"lenet5: image_size must be an even number from 2 to {FIELD}, got {image_size}")
    features = nn.Sequential(
        nn.Conv2d(in_channels, 6, kernel_size=5, padding=(FIELD - image_size) // 2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, kernel_size=5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(16, 120, kernel_size=5),
        nn.Tanh(),
        nn.Flatten(),
    )
    classifier = nn.Sequential(nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, num_classes))
    return nn.Sequential(OrderedDict(features=features, classifier=classifier))
