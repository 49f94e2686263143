"""Draws the pictures of docs/figures.rst again, from models of examples/ that are measured for it.

Run it as ``OMP_NUM_THREADS=1 python docs/make_figures.py``, with PyTorch and matplotlib: one thread is disturbed least.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "examples"))

KEYS = ("macs", "flops", "total_params", "memory_footprint", "execution_time", "layer_times")


def main() -> None:
    """Write a picture for each kind of figure."""
    import torch

    from models import mobilenet_v2, resnet18
    from profilerkit import compare, profile
    from profilerkit_pages.figures import Ceilings, kinds

    image = torch.zeros(1, 3, 224, 224)
    net = resnet18().eval()
    report = profile(net, image, name="ResNet-18", metrics=KEYS, batch_size=(1, 2, 4, 8, 16), max_seconds=3)
    names = ("ResNet-18", "MobileNetV2")
    both = compare(net, mobilenet_v2().eval(), inputs=image, names=names, metrics=["execution_time"], num_iters=100)
    options = {"layer_bars": {"top": 12}, "roofline": {"ceilings": Ceilings.measure(report)}}
    for kind in kinds():
        result = both if kind == "latency" else report
        result.plot(kind, **options.get(kind, {})).savefig(HERE / "pictures" / f"figures_{kind}.png", dpi=80)


if __name__ == "__main__":
    main()
