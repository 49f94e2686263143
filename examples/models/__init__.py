"""Five published networks in plain torch, written to be read and to be measured.

None of them loads weights; each is built with the layout whose parameter and MAC counts are published, so that a
profiler's numbers can be checked against the literature.
"""

from .lenet import lenet5
from .mobilenet import mobilenet_v2
from .resnet import resnet18, resnet50
from .vit import vit_b_16

__all__ = ["lenet5", "mobilenet_v2", "resnet18", "resnet50", "vit_b_16"]
