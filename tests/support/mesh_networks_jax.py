"""Small networks of JAX for tests of meshes, and how they are spread: blocks of two matrices with a ReLU between."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from profilerkit_jax import JaxModel, Shardings

#: The blocks, the width outside and inside of them, the samples of a rank, and the positions of each.
BLOCKS, WIDTH, INNER, BATCH, LENGTH = 3, 64, 256, 4, 8


def samples() -> np.ndarray:
    return np.zeros((BATCH, LENGTH, WIDTH), np.float32)


def run_block(weights: Any, x: Any, spec: Any = None) -> Any:
    """Run a block; with a spec its activations are spread so, as users of FSDP in JAX say it."""

    def keep(y: Any) -> Any:
        return y if spec is None else jax.lax.with_sharding_constraint(y, spec)

    inner = keep(x @ weights["up"])
    return keep(x + keep(jax.nn.relu(inner) @ weights["down"]))


def run(weights: Any, x: Any) -> Any:
    for index, block in enumerate(weights):
        with jax.named_scope(f"block_{index}"):
            x = run_block(block, x)
    return x


def run_spread(weights: Any, x: Any) -> Any:
    for index, block in enumerate(weights):
        with jax.named_scope(f"block_{index}"):
            x = run_block(block, x, P("dp"))
    return x


def run_scanned(weights: Any, x: Any) -> Any:
    def body(x: Any, block: Any) -> tuple[Any, None]:
        return run_block(block, x, P("dp")), None

    return jax.lax.scan(jax.checkpoint(body), x, weights)[0]


def run_branched(weights: Any, x: Any) -> Any:
    """Run the first block, or all of them, as the values say."""
    return jax.lax.cond(x.sum() > 0, lambda x: run_block(weights[0], x), lambda x: run(weights, x), x)


def make_weights(*stack: int) -> Any:
    shapes = {"up": (*stack, WIDTH, INNER), "down": (*stack, INNER, WIDTH)}
    return {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}


def build() -> JaxModel:
    return JaxModel(run, [make_weights() for _ in range(BLOCKS)])


def build_branched() -> JaxModel:
    return JaxModel(run_branched, build().params)


def build_spread() -> JaxModel:
    return JaxModel(run_spread, [make_weights() for _ in range(BLOCKS)])


def build_scanned() -> JaxModel:
    return JaxModel(run_scanned, make_weights(BLOCKS))


def build_in_bfloat16() -> JaxModel:
    weights = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.bfloat16), build().params)
    return JaxModel(run, weights)


def replicate(model: Any, mesh: Any) -> Shardings:
    return Shardings(inputs=P("dp"))


def shard_tensors(model: Any, mesh: Any) -> Shardings:
    """Megatron's layout: the first matrix by columns, the second by rows."""
    return Shardings(params=[{"up": P(None, "tp"), "down": P("tp", None)}] * BLOCKS)


def shard_fully(model: Any, mesh: Any) -> Shardings:
    return Shardings(params=P("dp"), inputs=P("dp"))


def shard_layers_of_scan(model: Any, mesh: Any) -> Shardings:
    return Shardings(params=P(None, "dp"), inputs=P("dp"))


def shard_both(model: Any, mesh: Any) -> Shardings:
    return Shardings(params=[{"up": P("dp", "tp"), "down": P("tp", "dp")}] * BLOCKS, inputs=(P("dp"),))


def map_shards(model: Any, mesh: Any) -> Shardings:
    """Spread the blocks by hand, in a function of one device: its sums are ``psum``."""

    def run_share(weights: Any, x: Any) -> Any:
        for index, block in enumerate(weights):
            with jax.named_scope(f"block_{index}"):
                x = x + jax.lax.psum(jax.nn.relu(x @ block["up"]) @ block["down"], "tp")
        return x

    specs = [{"up": P(None, "tp"), "down": P("tp", None)}] * BLOCKS
    spread = jax.shard_map(run_share, mesh=mesh, in_specs=(specs, P("dp")), out_specs=P("dp"))
    return Shardings(params=specs, inputs=P("dp"), model=JaxModel(spread, model.params, name="run_share"))
