"""What a module holds, as plain data: every tensor to its last bit, every attribute, and caches of its file."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["alike", "caches", "content", "snapshot"]

_PLAIN = (int, float, str, bool, complex, type(None), torch.dtype, torch.device, torch.Size)
#: Of `nn.Module`'s own dicts: these are walked as modules, parameters and buffers are.
_OWN = ("_parameters", "_buffers", "_modules")


def content(value: Any) -> Any:
    """Return what a value is: equal for two that nobody could tell apart."""
    return _value(value, False)


def caches(names: dict[str, Any]) -> dict[str, Any]:
    """Return what is in the caches among the names of a file."""
    return {name: _value(held, False) for name, held in names.items() if name.startswith("CACHE_")}


def snapshot(model: nn.Module) -> dict[str, Any]:
    """Return what a model is, by path: with which objects its parameters, buffers and modules are."""
    found = {}
    for path, module in model.named_modules(remove_duplicate=False):
        for name, held in _attributes(module).items():
            found[f"{path}.{name}"] = _value(held, True)
    return found


def _attributes(module: nn.Module) -> dict[str, Any]:
    held = {name: value for name, value in vars(module).items() if name not in _OWN and not name.endswith("_hooks")}
    for name in _OWN:
        held.update(vars(module)[name])
    return held


def _value(value: Any, identity: bool) -> Any:
    if isinstance(value, torch.Tensor):
        return _tensor(value, identity)
    if isinstance(value, nn.Module):
        if identity:
            return id(value)
        return type(value).__name__, {name: _value(held, False) for name, held in _attributes(value).items()}
    if isinstance(value, dict):
        return type(value).__name__, [(_value(key, identity), _value(item, identity)) for key, item in value.items()]
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value).__name__, [_value(item, identity) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    return repr(value) if isinstance(value, _PLAIN) else type(value).__name__


class Bits(bytes):
    """The bytes of a tensor, with the dtype that they are of."""

    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Bits:
        plain = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.clone().flatten())
        bits = cls(plain.view(torch.uint8).numpy().tobytes())
        bits.dtype = tensor.dtype
        return bits

    def close(self, other: Bits) -> bool:
        if self == other or self.dtype != other.dtype or len(self) != len(other):
            return self == other
        ours, theirs = (torch.frombuffer(bytearray(bits), dtype=bits.dtype) for bits in (self, other))
        if not (ours.is_floating_point() or ours.is_complex()):
            return False
        scale = theirs[theirs.isfinite()].abs().max().item() if theirs.isfinite().any() else 1.0
        return torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)


def _tensor(tensor: torch.Tensor, identity: bool) -> Any:
    facts = type(tensor).__name__, tuple(tensor.shape), str(tensor.dtype), str(tensor.device), tensor.requires_grad
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or hasattr(tensor, "fake_mode"):
        return facts
    with torch.no_grad():
        data = Bits.of(tensor)
    grad = _find_gradient(tensor)
    found = None if grad is None else _tensor(grad, identity)
    return (*facts, tensor.stride(), data, found, *((id(tensor), tensor.data_ptr()) if identity else ()))


def _find_gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    try:
        return tensor.grad if tensor.is_leaf else None
    except (
        RuntimeError
    ):  # a view made without gradients whose base was written to with them: torch refuses the question
        return None


def alike(value: Any, expected: Any) -> bool:
    """Tell whether two contents are equal to the last bits, which LAPACK does not compute the same way each time."""
    if isinstance(value, Bits) and isinstance(expected, Bits):
        return value.close(expected)
    if isinstance(value, dict) and isinstance(expected, dict):
        return value.keys() == expected.keys() and all(alike(value[key], expected[key]) for key in value)
    if isinstance(value, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(map(alike, value, expected))
    return bool(value == expected)
