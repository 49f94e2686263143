"""Models of JAX for processes of their own: one that works, one that leaves the process, and one of a function."""

from __future__ import annotations

import os
from typing import Any

import jax.numpy as jnp
from flax import nnx

from profilerkit import LoadedModel
from profilerkit_jax import JaxModel

__all__ = ["MACS", "PARAMS", "Net", "fine", "leaves", "product"]

#: Of `Net`, for one sample.
MACS, PARAMS = 4 * 8 + 8 * 2, 4 * 8 + 8 + 8 * 2 + 2


class Net(nnx.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        self.first, self.second = (nnx.Linear(*sizes, rngs=nnx.Rngs(0)) for sizes in ((4, 8), (8, 2)))

    def __call__(self, x: Any) -> Any:
        return self.second(nnx.relu(self.first(x)))


def fine() -> LoadedModel:
    return LoadedModel(Net(), input_shape=(4,))


def leaves() -> LoadedModel:
    def trap(params: Any, x: Any) -> Any:
        os._exit(7)

    return LoadedModel(JaxModel(trap, {"weight": jnp.ones((4, 3))}), input_shape=(4,))


def product(params: Any, x: Any) -> Any:
    return x @ params["weight"]
