"""Traces ranks of small networks of JAX in one process of four devices, and writes all steps to a file.

With them stands what XLA itself says of the same steps, as a user would write them: an independent count.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mesh_networks_jax as networks
import mesh_transformer_jax as transformer
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from profilerkit import ModelInputs
from profilerkit_jax.meshes.ranks import trace_rank
from profilerkit_predict.meshes.layout import RankModel

#: By name: what builds the model, the mesh, how it is spread.
STEPS: Mapping[str, tuple[Callable[[], Any], Mapping[str, int], Any]] = {
    "alone": (networks.build, {"dp": 1, "tp": 4}, None),
    "dp": (networks.build, {"dp": 4}, networks.replicate),
    "tp": (networks.build, {"tp": 4}, networks.shard_tensors),
    "branches": (networks.build_branched, {"tp": 4}, networks.shard_tensors),
    "fsdp": (networks.build_spread, {"dp": 4}, networks.shard_fully),
    "scan": (networks.build_scanned, {"dp": 4}, networks.shard_layers_of_scan),
    "fsdp x tp": (networks.build, {"dp": 2, "tp": 2}, networks.shard_both),
    "shard_map": (networks.build, {"dp": 2, "tp": 2}, networks.map_shards),
    "transformer": (transformer.build, {"dp": 2, "tp": 2}, transformer.shard),
    "bfloat16": (networks.build_in_bfloat16, {"tp": 4}, networks.shard_tensors),
}


def ask_xla(whole: int, specs: Any, mesh: Mesh) -> dict[str, float]:
    """Return XLA's FLOPs and bytes of one device, for a step over so many samples together."""

    def step(weights: Any, x: Any) -> Any:
        outputs, backward = jax.vjp(lambda weights: networks.run(weights, x), weights)
        return outputs, backward(jnp.ones_like(outputs))[0]

    weights = networks.build().params
    params = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda value: isinstance(value, P))
    x = jax.ShapeDtypeStruct((whole, networks.LENGTH, networks.WIDTH), jnp.float32)
    inputs = NamedSharding(mesh, P("dp") if whole > networks.BATCH else P())
    compiled = jax.jit(step, in_shardings=(params, inputs), out_shardings=(None, params)).lower(weights, x).compile()
    sizes: Any = compiled.memory_analysis()
    costs: Any = compiled.cost_analysis()
    return {"flops": costs["flops"], "temporaries": sizes.temp_size_in_bytes}


def main(path: Path) -> None:
    def trace(name: str) -> Any:
        build, mesh, parallelize = STEPS[name]
        inputs = transformer.words() if name == "transformer" else networks.samples()
        return trace_rank(RankModel(build, mesh, parallelize, 1), ModelInputs(inputs))

    devices = np.array(jax.devices())
    replicated = [{"up": P(), "down": P()}] * networks.BLOCKS
    said = {
        "dp": ask_xla(4 * networks.BATCH, replicated, Mesh(devices, ("dp",))),
        "tp": ask_xla(networks.BATCH, networks.shard_tensors(None, None).params, Mesh(devices, ("tp",))),
    }
    path.write_bytes(pickle.dumps(({name: trace(name) for name in STEPS}, said)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
