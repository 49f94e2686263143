"""A small transformer of Flax for tests of meshes, with its loss, and how it is spread over "dp" and "tp"."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import PartitionSpec as P

from profilerkit_jax import Shardings

#: The words, the width outside and inside of the feed-forward part, the heads, the blocks; the samples of a rank, and
#: the positions of each.
WORDS, WIDTH, INNER, HEADS, BLOCKS, BATCH, LENGTH = 128, 64, 256, 4, 2, 2, 16


def words() -> np.ndarray:
    return np.zeros((BATCH, LENGTH), np.int32)


class Block(nnx.Module):
    """Attention and a feed-forward part, each after a norm; no layer has a bias."""

    def __init__(self, rngs: Any) -> None:
        def layer(size: int, outputs: int) -> nnx.Linear:
            return nnx.Linear(size, outputs, use_bias=False, rngs=rngs)

        self.n1, self.n2 = nnx.RMSNorm(WIDTH, rngs=rngs), nnx.RMSNorm(WIDTH, rngs=rngs)
        self.q, self.k, self.v, self.o = (layer(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = layer(WIDTH, INNER), layer(INNER, WIDTH)

    def __call__(self, x: Any) -> Any:
        normed = self.n1(x)
        heads = (*x.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = (layer(normed).reshape(heads) for layer in (self.q, self.k, self.v))
        x = x + self.o(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))
        return x + self.down(jax.nn.silu(self.up(self.n2(x))))


class Net(nnx.Module):
    """The blocks between an embedding and a head; it returns the loss for words that stay as they are."""

    def __init__(self, rngs: Any) -> None:
        self.emb = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(BLOCKS)])
        self.head = nnx.Linear(WIDTH, WORDS, use_bias=False, rngs=rngs)

    def __call__(self, ids: Any) -> Any:
        x = self.emb(ids)
        for block in self.blocks:
            x = block(x)
        scores = jax.nn.log_softmax(self.head(x))
        return -jnp.take_along_axis(scores, ids[..., None], -1).mean()


def build() -> Any:
    return nnx.eval_shape(lambda: Net(nnx.Rngs(0)))


def shard(model: Any, mesh: Any) -> Shardings:
    """Spread heads, the feed-forward part and words over "tp"; samples over "dp"."""
    columns, rows = {"kernel": P(None, "tp")}, {"kernel": P("tp", None)}
    block = {"q": columns, "k": columns, "v": columns, "o": rows, "up": columns, "down": rows}
    params = {"emb": {"embedding": P("tp", None)}, "blocks": [block] * BLOCKS, "head": columns}
    return Shardings(params=params, inputs=P("dp"))
