"""Keras' layers by what they are: stand-ins with the attributes that formulas read, on an input of 3 x 4."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from formula_cases import Case

from profilerkit.costs import Cost, Shape, keras_layers

__all__ = ["KERAS_LAYERS", "NAMED", "SPELT_OUT"]

N = 12
X = (Shape((3, 4)),)
#: The mean, a difference, a square, an addition and a product for each element.
NORMALIZED = {"ADD": 2 * N, "SUBTRACT": N, "POWER": N, "MULTIPLY": N}
SCALED_AND_SHIFTED = {**NORMALIZED, "ADD": 3 * N, "MULTIPLY": 2 * N}
BOTH: dict[str, Any] = {"scale": True, "center": True}
NEITHER: dict[str, Any] = {"scale": False, "center": False}


def layer_cost(name: str, training: bool = False, *, outputs: Shape = X[0], **attributes: Any) -> Cost | None:
    layer = SimpleNamespace(**attributes)
    return keras_layers.KERAS_LAYER_COSTS[name](layer, X, (outputs,), training)


def case(name: str, training: bool = False, takes: dict[str, int] | None = None, **attributes: Any) -> Case:
    return Case(lambda: layer_cost(name, training, **attributes), 0, takes or {})  # type: ignore[arg-type,return-value]


def _cases() -> list[Case]:
    found = []
    for name in ("BatchNormalization", "SyncBatchNormalization"):
        known = {"MULTIPLY": N, "ADD": N}
        found += [
            case(name, False, known, trainable=True, **BOTH),
            case(name, True, known, trainable=False, **BOTH),
            case(name, True, SCALED_AND_SHIFTED, trainable=True, **BOTH),
            case(name, True, SCALED_AND_SHIFTED, trainable=True, renorm=False, virtual_batch_size=None, **BOTH),
            case(name, True, {**NORMALIZED, "MULTIPLY": 2 * N}, trainable=True, scale=True, center=False),
        ]
    for name in ("LayerNormalization", "GroupNormalization"):
        found += [
            case(name, False, SCALED_AND_SHIFTED, **BOTH),
            case(name, True, NORMALIZED, **NEITHER),
            case(name, False, {**NORMALIZED, "ADD": 3 * N}, scale=False, center=True),
        ]
    found += [
        case("LayerNormalization", False, SCALED_AND_SHIFTED, rms_scaling=False, **BOTH),
        case("LayerNormalization", False, {**NORMALIZED, "MULTIPLY": 2 * N}, rms_scaling=True, **NEITHER),
        case("RMSNormalization", False, {"POWER": N, "ADD": N, "MULTIPLY": 2 * N}),
        case("Dropout", True, {"MULTIPLY": 2 * N}, rate=0.5),
        case("Dropout", True, rate=0),
        case("Dropout", False, rate=0.5),
        case("PReLU", False, {"COMPARE": N, "MULTIPLY": N}),
    ]
    for number in (1, 2, 3):
        # rows as they are, 3 windows of one; 4 columns to 3: windows 0-1, 1-2, 2-3 of two each
        windows = 3 * 6
        average, maximum = (f"Adaptive{kind}Pooling{number}D" for kind in ("Average", "Max"))
        found.append(case(average, False, {"ADD": windows}, outputs=Shape((3, 3))))
        found.append(case(maximum, False, {"COMPARE": windows}, outputs=Shape((3, 3))))
    return found


KERAS_LAYERS = _cases()
#: Layers whose operators are counted after all.
SPELT_OUT: list[Callable[[], Cost | None]] = [
    lambda: layer_cost("BatchNormalization", True, trainable=True, renorm=True, **BOTH),
    lambda: layer_cost("BatchNormalization", True, trainable=True, virtual_batch_size=2, **BOTH),
]
NAMED = {
    *("BatchNormalization", "SyncBatchNormalization", "LayerNormalization", "GroupNormalization"),
    *("RMSNormalization", "Dropout", "PReLU"),
    *(f"Adaptive{kind}Pooling{number}D" for kind in ("Average", "Max") for number in (1, 2, 3)),
}
