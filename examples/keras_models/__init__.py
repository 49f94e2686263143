"""Networks of `models` again, in Keras 3: the same layers, the same counts, images with the channels last.

Layers have the names they have there where those are words or places in a list, so that two layer tables can be read
side by side. With the same weights, a model here gives the same logits as its twin (a test holds them to that).
"""

from .lenet import lenet5
from .resnet import resnet18

__all__ = ["lenet5", "resnet18"]
