"""How much of the time of profiles `profilerkit.join` gives to layers: ten networks, profiled by three profilers here.

    python benchmarks/joined.py [torch] [onnx] [jax]

Each network is profiled with torch.profiler by the script of ``profilerkit trace-script``, with onnxruntime, and, where
there is one of the same family, with ``jax.profiler.trace``. Printed for each: the passes, the share of the kernels'
time without a layer, and whether the sums over layers are the counts of the trace, which they must be exactly.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import profilerkit
from profilerkit import JoinedProfile

PASSES = 5
WIDTH = 64


def torch_networks() -> Mapping[str, tuple[Callable[[], Any], tuple[int, ...]]]:
    """Return ten networks of ten families, each with the shape of a batch."""
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, *layers: nn.Module) -> None:
            super().__init__()
            self.body = nn.Sequential(*layers)

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    class Recurrent(nn.Module):
        def __init__(self, kind: Any) -> None:
            super().__init__()
            self.recurrent = kind(WIDTH, WIDTH, batch_first=True)
            self.head = nn.Linear(WIDTH, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.recurrent(x)[0][:, -1])

    def convolutional(*further: nn.Module) -> nn.Module:
        head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
        return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), *further, *head)

    def block() -> nn.Module:
        return Residual(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 1))

    def separable() -> nn.Module:
        return nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 32, 1), nn.Hardswish())

    def encoder(norm_first: bool) -> nn.Module:
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, norm_first=norm_first)
        return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    image, text = (4, 3, 48, 48), (4, 64, WIDTH)
    return {
        "perceptron": (lambda: nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), (32, 512)),
        "plain CNN": (lambda: convolutional(nn.Conv2d(32, 32, 3), nn.MaxPool2d(2)), image),
        "residual CNN": (lambda: convolutional(block(), block()), image),
        "separable CNN": (lambda: convolutional(separable(), separable()), image),
        "encoder, post norm": (lambda: encoder(False), text),
        "encoder, pre norm": (lambda: encoder(True), text),
        "LSTM": (lambda: Recurrent(nn.LSTM), text),
        "GRU": (lambda: Recurrent(nn.GRU), text),
        "autoencoder": (
            lambda: nn.Sequential(
                nn.Conv2d(3, 16, 3, 2, 1), nn.GELU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Sigmoid()
            ),
            image,
        ),
        "mixer": (
            lambda: nn.Sequential(
                *(Residual(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256), nn.GELU(), nn.Linear(256, WIDTH)) for _ in "ab")
            ),
            text,
        ),
    }


def of_torch(folder: Path) -> Iterator[tuple[str, JoinedProfile]]:
    """Yield the networks by profiles of torch.profiler's: forward passes, and training steps."""
    import torch

    from profilerkit_torch.joining.script import profile_model

    for name, (made, shape) in torch_networks().items():
        model, file = made().eval(), str(folder / "torch.json.gz")
        for training in (False, True):
            profile_model(model, (torch.randn(shape),), output=file, steps=PASSES, training=training)
            yield f"{name}{', training' if training else ''}", profilerkit.join(file, model)


def of_onnxruntime(folder: Path) -> Iterator[tuple[str, JoinedProfile]]:
    """Yield the networks by profiles of onnxruntime's."""
    import numpy as np
    import onnxruntime
    import torch

    for name, (made, shape) in torch_networks().items():
        file = str(folder / "network.onnx")
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(made().eval(), (torch.randn(shape),), file, dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
        session = onnxruntime.InferenceSession(file, options)
        for _ in range(PASSES + 1):
            session.run(None, {session.get_inputs()[0].name: np.ones(shape, np.float32)})
        yield name, profilerkit.join(session.end_profiling(), file, skip=1)


def jax_networks() -> Mapping[str, tuple[Callable[[], Any], tuple[int, ...]]]:
    """Return networks of Flax's nnx."""
    import jax
    from flax import nnx

    def network(*made: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: nnx.Sequential(*(item() for item in made))

    def rngs() -> Any:
        return nnx.Rngs(0)

    def dense(inputs: int, outputs: int) -> Any:
        return lambda: nnx.Linear(inputs, outputs, rngs=rngs())

    def conv(inputs: int, outputs: int, groups: int = 1) -> Any:
        return lambda: nnx.Conv(inputs, outputs, (3, 3), feature_group_count=groups, rngs=rngs())

    def norm(width: int) -> Any:
        return lambda: nnx.LayerNorm(width, rngs=rngs())

    def attention() -> Any:
        return lambda: nnx.MultiHeadAttention(4, WIDTH, decode=False, rngs=rngs())

    relu, gelu, tanh, silu = jax.nn.relu, jax.nn.gelu, jax.numpy.tanh, jax.nn.silu
    image, text = (4, 48, 48, 3), (4, 64, WIDTH)
    named = {"relu": relu, "gelu": gelu, "tanh": tanh, "silu": silu}
    layers = {name: partial(_Activation, function) for name, function in named.items()}
    return {
        "perceptron": (network(dense(512, 512), layers["relu"], dense(512, 10)), (32, 512)),
        "deep perceptron": (network(*(dense(256, 256), layers["tanh"]) * 4), (64, 256)),
        "normed perceptron": (network(*(norm(256), dense(256, 256), layers["silu"]) * 3), (64, 256)),
        "plain CNN": (network(conv(3, 32), layers["relu"], conv(32, 32), layers["relu"]), image),
        "wide CNN": (network(conv(3, 64), layers["gelu"], conv(64, 64)), image),
        "separable CNN": (network(conv(3, 32), conv(32, 32, 32), layers["silu"], conv(32, 8)), image),
        "normed CNN": (network(conv(3, 32), norm(32), layers["relu"], conv(32, 16)), image),
        "attention": (network(attention(), norm(WIDTH)), text),
        "attention, two": (network(attention(), attention(), dense(WIDTH, 10)), text),
        "mixer": (network(*(norm(WIDTH), dense(WIDTH, 256), layers["gelu"], dense(256, WIDTH)) * 2), text),
    }


class _Activation:
    """An activation as a layer of a sequence."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, x: Any) -> Any:
        return self.function(x)


def of_jax(folder: Path) -> Iterator[tuple[str, JoinedProfile]]:
    """Yield the networks of JAX by profiles of its own."""
    import jax
    from flax import nnx

    for index, (name, (made, shape)) in enumerate(jax_networks().items()):
        model, x = made(), jax.numpy.ones(shape)
        definition, state = nnx.split(model)
        call = jax.jit(lambda state, x, definition=definition: nnx.merge(definition, state)(x))
        jax.block_until_ready(call(state, x))
        target = folder / f"jax{index}"
        with jax.profiler.trace(str(target)):
            for _ in range(PASSES):
                jax.block_until_ready(call(state, x))
        yield name, profilerkit.join(target, model, x)


PROFILERS = {"torch": of_torch, "onnx": of_onnxruntime, "jax": of_jax}


def main() -> None:
    """Print a row for each network and profiler."""
    for kind in sys.argv[1:] or PROFILERS:
        shares = []
        with tempfile.TemporaryDirectory() as folder:
            for name, joined in PROFILERS[kind](Path(folder)):
                exact = all(
                    sum(row[f"own_{column}"] for row in joined.layers) == getattr(joined.trace, column)
                    for column in ("macs", "flops")
                )
                shares.append(joined.unattributed_share)
                print(
                    f"{kind:6} {name:28} {len(joined.recording.passes)} passes  "
                    f"{joined.unattributed_share:7.2%} without a layer  sums {'exact' if exact else 'DIFFER'}",
                    flush=True,
                )
        print(f"{kind:6} most: {max(shares):.2%} of {len(shares)} profiles")


if __name__ == "__main__":
    main()
