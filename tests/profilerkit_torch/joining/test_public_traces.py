"""Public profiles of GPUs, joined with the models that they are of, which are rebuilt here from their architectures.

The files are not in this repository. The folder that ``PROFILERKIT_TRACES`` names has them under the names below, as
they are at their addresses; without it these tests are skipped. ``test_operator_order.py`` has the same forms.
Shares and times below were read from the events by hand: kernels between two calls of the model by their ``dur``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import profilerkit

_HTA = "https://github.com/facebookresearch/HolisticTraceAnalysis, MIT license, commit f4d0062c382f: tests/data/"
#: The file, the first digits of its SHA-256, and where it is.
SOURCES = {
    "alexnet-a100.json.gz": (
        "b9febb1abc8cc729",
        f"{_HTA}critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    ),
    "linear-mi250.json.gz": ("39fdab670f9e80a0", f"{_HTA}amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz"),
    "resnet50-v100.json.gz": (
        "a91798b500ce9d6e",
        "https://github.com/pytorch/kineto, BSD license, commit be239c044d2f: "
        "tb_plugin/samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    ),
}


def public(name: str) -> Path:
    """Return the path of a public profile; skip the test without it."""
    folder = os.environ.get("PROFILERKIT_TRACES")
    digest, address = SOURCES[name]
    if folder is None or not (Path(folder) / name).exists():
        pytest.skip(f"PROFILERKIT_TRACES names no folder with {name}, which is at {address}")
    path = Path(folder) / name
    assert hashlib.sha256(path.read_bytes()).hexdigest().startswith(digest), "another file than the one at the address"
    return path


def kernel_seconds(path: Path) -> float:
    """Return the seconds of all that ran on the device."""
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()), strict=False)["traceEvents"]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
    return sum(float(event["dur"]) for event in events if event.get("cat") in kinds and "dur" in event) / 1e6


class AlexNet(nn.Module):
    """The network of "One weird trick for parallelizing convolutional neural networks", as torchvision has it."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1), (256, 256, 3, 1, 1)]
        features: list[nn.Module] = []
        for index, (channels, out, kernel, stride, padding) in enumerate(sizes):
            features += [nn.Conv2d(channels, out, kernel, stride, padding), nn.ReLU(inplace=True)]
            features += [nn.MaxPool2d(3, 2)] if index in (0, 1, 4) else []
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        linear = (nn.Linear(9216, 4096), nn.Linear(4096, 4096), nn.Linear(4096, 1000))
        relu = nn.ReLU, {"inplace": True}
        self.classifier = nn.Sequential(
            *(nn.Dropout(), linear[0], relu[0](**relu[1]), nn.Dropout(), linear[1], relu[0](**relu[1]), linear[2])
        )

    def forward(self, x: torch.Tensor) -> Any:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int, first: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        skip = (nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        self.downsample = nn.Sequential(*skip) if first else None

    def forward(self, x: torch.Tensor) -> Any:
        y = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


def resnet50() -> nn.Sequential:
    """Return ResNet-50 as one sequence: its operators have the order of torchvision's."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers, channels = [*layers, nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for index in range(count):
            layers.append(Bottleneck(channels, width, 2 if stage and not index else 1, not index))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def test_alexnet_on_an_a100() -> None:
    """Two passes of 128 images; 27.7 ms of copies and two kernels of random numbers made the model ready before."""
    path = public("alexnet-a100.json.gz")
    with torch.device("meta"):
        model = AlexNet()
    result = profilerkit.join(path, model, input_shape=(3, 224, 224), batch_size=128, skip=1)
    assert result.recording.on_device
    assert result.recording.device.startswith("NVIDIA A100")
    assert len(result.recording.passes) == 1
    microseconds = {row["path"]: row["own_seconds"] * 1e6 for row in result.layers}
    # The kernels of the second pass: offsets, product, bias; four of a transform to frequencies, bias; one; one.
    assert microseconds["features.0"] == pytest.approx(4 + 1034 + 187)
    assert microseconds["features.3"] == pytest.approx(73 + 67 + 323 + 146 + 136)
    assert microseconds["avgpool"] == pytest.approx(136)
    assert microseconds["classifier.6"] == pytest.approx(97 + 5 + 2, abs=3)
    # The two kernels of dropout, 10 and 7 µs, are not in the trace of an evaluation.
    assert result.unattributed_seconds == pytest.approx(17e-6)
    assert sum(row["own_macs"] for row in result.layers) == result.trace.macs == 128 * 714_188_480


def test_resnet_50_trained_on_a_v100() -> None:
    """Six steps of 32 images: every convolution and every norm has time forward and backward, none above the peak."""
    path = public("resnet50-v100.json.gz")
    with torch.device("meta"):
        model = resnet50()
    result = profilerkit.join(path, model, input_shape=(3, 224, 224), batch_size=32)
    assert result.phase == "training"
    assert len(result.recording.passes) == 6
    for row in result.layers:
        if row["is_leaf"] and row["type"] in ("Conv2d", "BatchNorm2d", "Linear"):
            assert row["own_forward_seconds"] > 0, row["path"]
            assert row["own_backward_seconds"] > 0, row["path"]
            # A V100's peak in float32; Winograd's algorithm needs 1 of 2.25 products of a 3 x 3 convolution.
            assert row["flops_per_second"] < 15.7e12 * (2.25 if row["path"].endswith("conv2") else 1), row["path"]
    assert sum(row["own_macs"] for row in result.layers) == result.trace.macs
    # What is left: copies of the images, the optimizer, and sums of gradients at the residual connections.
    assert result.unattributed_share < 0.07
    assert {row["around"] for row in result.unattributed[:3]} == {"aten::add", "aten::to", "Optimizer.step#SGD.step"}
    outside = kernel_seconds(path) - 6 * result.seconds
    assert outside == pytest.approx(0, abs=0.01 * kernel_seconds(path))


def test_a_layer_trained_on_an_mi250() -> None:
    """ROCm's profiler has the same form: a linear layer of 128 and a ReLU, five rows, one step of two recorded."""
    path = public("linear-mi250.json.gz")
    model = nn.Sequential(nn.Linear(128, 128), nn.ReLU())
    result = profilerkit.join(path, model, input_shape=(128,), batch_size=5)
    assert result.phase == "training"
    # Forward, and the gradient of the weight; the input needs none.
    assert sum(row["own_macs"] for row in result.layers) == result.trace.macs == 2 * 5 * 128 * 128
    assert all(result.layers[path]["own_backward_seconds"] > 0 for path in ("0", "1"))
    with pytest.raises(profilerkit.ProfileFileError, match=r"makes \(5, 128\) in the profile, \(6, 128\) in the trace"):
        profilerkit.join(path, model, input_shape=(128,), batch_size=6)
