"""Models that change the process around them while they run, and do not put it back."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import torch

from .subjects import behaviour

__all__: list[str] = []


@behaviour()
def switches_settings(self: Any, x: Any, y: Any) -> None:
    """What else there is to switch is in ``test_switched_settings.py``."""
    torch.set_grad_enabled(not torch.is_grad_enabled())
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta" if y.is_meta else "cpu")
    torch.set_num_threads(1 if torch.get_num_threads() > 1 else 2)
    torch.set_flush_denormal(True)
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True
    torch.backends.mha.set_fastpath_enabled(False)
    torch.autocast("cpu", dtype=torch.bfloat16).__enter__()


@behaviour()
def seeds_everything(self: Any, x: Any, y: Any) -> Any:
    torch.manual_seed(7), random.seed(7), np.random.seed(7)
    return y + torch.rand(4, device=y.device)


@behaviour()
def starts_threads(self: Any, x: Any, y: Any) -> Any:
    thread = threading.Thread(target=lambda: torch.rand(4))
    thread.start()
    thread.join()
    return y * 2


@behaviour()
def runs_its_layers_in_threads(self: Any, x: Any, y: Any) -> Any:
    outputs: list[Any] = []
    thread = threading.Thread(target=lambda: outputs.append(self.linear(x)))
    thread.start()
    thread.join()
    return y + (outputs[0] if outputs else 0)


class Counting(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@behaviour()
def leaves_a_function_mode(self: Any, x: Any, y: Any) -> None:
    Counting().__enter__()  # type: ignore[no-untyped-call]
