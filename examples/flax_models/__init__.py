"""Networks of `models` again, in Flax's nnx: the same layers, the same counts, images with the channels last.

Layers have the names that they have in `keras_models`. With the same weights, a model here gives the same logits as its
twins (a test holds them to that).
"""

from .lenet import lenet5
from .resnet import resnet18

__all__ = ["lenet5", "resnet18"]
