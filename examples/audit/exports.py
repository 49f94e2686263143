"""The networks of ``models`` as ONNX: each is exported in the process that profiles it; no file is written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import models

__all__ = ["lenet5_onnx", "mobilenet_v2_onnx", "resnet18_onnx", "resnet50_onnx", "vit_b_16_onnx"]


def export_model(build: Callable[[], Any], *shape: int) -> Any:
    """Return the ``onnx.ModelProto`` that torch's exporter makes of a network for one input of a shape."""
    import torch

    program = torch.onnx.export(build().eval(), (torch.zeros(shape),), dynamo=True, verbose=False)
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    return program.model_proto


def lenet5_onnx() -> Any:
    """Return LeNet-5 for one image of 32 x 32 pixels."""
    return export_model(models.lenet5, 1, 1, 32, 32)


def mobilenet_v2_onnx() -> Any:
    """Return MobileNetV2 for one image."""
    return export_model(models.mobilenet_v2, 1, 3, 224, 224)


def resnet18_onnx() -> Any:
    """Return ResNet-18 for one image."""
    return export_model(models.resnet18, 1, 3, 224, 224)


def resnet50_onnx() -> Any:
    """Return ResNet-50 for one image."""
    return export_model(models.resnet50, 1, 3, 224, 224)


def vit_b_16_onnx() -> Any:
    """Return ViT-B/16 for one image."""
    return export_model(models.vit_b_16, 1, 3, 224, 224)
