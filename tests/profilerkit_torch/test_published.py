"""Numbers of published networks, as their papers and other tools give them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tiny import trace_complete
from torch import nn

from models import lenet5, mobilenet_v2, resnet18, resnet50, vit_b_16

IMAGE = (3, 224, 224)
PUBLISHED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int]] = {
    "lenet5": (lenet5, (1, 32, 32), 61_706, 416_520),
    "resnet18": (resnet18, IMAGE, 11_689_512, 1_814_073_344),
    "resnet50": (resnet50, IMAGE, 25_557_032, 4_089_184_256),
    "mobilenet_v2": (mobilenet_v2, IMAGE, 3_504_872, 300_774_272),
    "vit_b_16": (vit_b_16, IMAGE, 86_567_656, 17_563_828_224),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_macs(name: str) -> None:
    build, shape, params, macs = PUBLISHED[name]
    with torch.device("meta"):
        model = build()
        found = trace_complete(model, torch.empty(1, *shape))
        assert (found.total_params, found.macs) == (params, macs)
        assert found.size_bytes >= 4 * params  # and the running statistics
        assert sum(row["own_macs"] for row in found.table) == macs
        assert trace_complete(model, torch.empty(2, *shape)).macs == 2 * macs


def test_lenet_layer_by_layer() -> None:
    """Each convolution: outputs * channels * 25; each linear layer: inputs * outputs."""
    macs = [
        28 * 28 * 6 * 25,
        10 * 10 * 16 * 6 * 25,
        400 * 120,
        120 * 84,
        84 * 10,
    ]
    found = trace_complete(lenet5(), torch.ones(1, 1, 32, 32))
    assert [row["own_macs"] for row in found.table if row["own_macs"]] == macs
