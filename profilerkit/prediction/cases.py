"""What a backend provides for a calibration: single operators, and small networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..inputs import ModelInputs

__all__ = ["CalibrationCase", "CalibrationNetwork"]


@dataclass(frozen=True)
class CalibrationCase:
    """One operator at one shape.

    Attributes:
        name: What it is, for messages.
        call: Runs it once, and returns when the device is done.
        model: A model that does the same and nothing else: the backend's trace of it tells the kind, sizes and work.
        inputs: What ``model`` is called with.
    """

    name: str
    call: Callable[[], object]
    model: Any
    inputs: ModelInputs


@dataclass(frozen=True)
class CalibrationNetwork:
    """A small network that is both predicted and run, to know how well the tables add up.

    Attributes:
        name: Its name.
        family: Its family: "convolutional", "transformer".
        model: The model.
        inputs: What it is called with.
    """

    name: str
    family: str
    model: Any
    inputs: ModelInputs
