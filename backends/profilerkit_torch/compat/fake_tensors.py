"""Fake tensors of torch, which know their device and have no values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from profilerkit.backend_kit.private_names import find

from .modes import TorchDispatchMode
from .names import find_first, require_class

if TYPE_CHECKING:

    class FakeTensor(torch.Tensor):
        """What type checkers know of the class of fake tensors."""

        fake_device: torch.device
        fake_mode: FakeTensorMode

    class FakeTensorMode(TorchDispatchMode):
        """What type checkers know of the mode in which tensors are fake."""

        cache_enabled: bool

        def __init__(self, *, allow_non_fake_inputs: bool = False) -> None: ...

        def from_tensor(self, tensor: torch.Tensor) -> FakeTensor: ...

else:
    #: Without these a model that cannot run on meta tensors is counted in a real run.
    FakeTensor = find_first("torch._subclasses.fake_tensor.FakeTensor", instead=type("FakeTensor", (), {}))
    FakeTensorMode = require_class(
        "torch._subclasses.fake_tensor.FakeTensorMode", purpose="runs a model on fake tensors"
    )
#: Where others find the class of fake tensors, to ask whether a tensor is one.
FAKE_NAMESPACE: dict[str, Any] = getattr(find("torch._subclasses"), "__dict__", {})
#: The module of the errors and log lines that fake tensors make. Where it has another name, they pass for the model's.
FAKE_MODULE = "torch._subclasses.fake_tensor"


def stands_in(tensor: Any) -> bool:
    """Return whether a tensor has no values of its own."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)
