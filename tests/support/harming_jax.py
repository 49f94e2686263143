"""A small module of Flax on JAX, and the calls of it that `harming` breaks off."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from harming_calls import Calls, look_at_process

from profilerkit_jax import ComputeEvalMetric, JaxProfiler

__all__ = ["made"]


class Small(nnx.Module):
    """Weights, statistics and a dropout."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.head = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.head(self.dropout(self.norm(self.first(x))))


class Jax(Calls):
    """A model with what can be done with it."""

    names = ("static", "training", "timed", "compared", "evaluated")

    def __init__(self) -> None:
        self.model = Small(nnx.Rngs(0))
        self.x = jnp.ones((2, 4))

    def evaluated(self) -> Any:
        profiler = JaxProfiler(self.model, {"test": [self.x]})
        profiler.register_profiler_function(ComputeEvalMetric(lambda model, loader: float(model(self.x).sum())))
        return profiler.compute_status("eval_metric")

    def look(self) -> dict[str, Any]:
        """Return the facts that must come back."""
        facts: dict[str, Any] = {}
        for path, module in nnx.iter_modules(self.model):
            facts[f"{path} type"] = type(module)
            for name, value in vars(module).items():
                if isinstance(value, (bool, int, str)):
                    facts[f"{path} {name}"] = value
        for place, leaf in jax.tree_util.tree_leaves_with_path(nnx.state(self.model)):
            values = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
            facts[f"variable {place}"] = np.asarray(values).tobytes()
        facts |= {
            "process device": jax.config.values["jax_default_device"],
        }
        return {**facts, **look_at_process()}


def made() -> Jax:
    warnings.simplefilter("ignore")
    return Jax()
