"""`JaxModel`: a function with its parameters, or a linen module with its variables; importing it imports no jax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profilerkit import ArgumentError
from profilerkit.error_text import shown

__all__ = ["JaxModel"]


@dataclass(frozen=True, eq=False)
class JaxModel:
    """A function with its parameters, as one model: called as ``function(params, *inputs)``.

    Args:
        function: A function, jitted or not, or a module of Flax's linen.
        params: The parameters, any pytree: arrays, or ``jax.ShapeDtypeStruct`` in their place, for a model that is only
            counted. Of a linen module, its variables: ``{"params": ..., "batch_stats": ...}``. None for a function
            without parameters, which is called as ``function(*inputs)``.
        name: The name in reports; if empty, the name of the function, or of the module's class.
        rngs: The random keys with which a linen module is applied, as ``apply`` takes them: by name, for example
            ``{"dropout": key}``, or one key for all.

    Raises `ArgumentError` if ``function`` cannot be called, ``name`` is not a text, ``rngs`` are no keys, or a function
    has them.

    >>> model = JaxModel(lambda params, x: x * params["scale"], {"scale": 2.0})
    >>> model(3.0)
    6.0
    """

    function: Any
    params: Any = None
    name: str = ""
    rngs: Any = None

    def __post_init__(self) -> None:
        if not (callable(self.function) or self.is_linen):
            raise ArgumentError(
                f"function={shown(self.function)} cannot be called; give a function, or a module of Flax's linen"
            )
        if not isinstance(self.name, str):
            raise ArgumentError(f"name={shown(self.name)}: give the name of the model as a text")
        if self.rngs is not None and not self.is_linen:
            raise ArgumentError(
                f"rngs={shown(self.rngs)} are for a module of Flax's linen; give the keys of a function with its inputs"
            )
        if not all(isinstance(name, str) and hasattr(key, "dtype") for name, key in self.keys.items()):
            raise ArgumentError(
                f"rngs={shown(self.rngs)}: give a random key of JAX, or keys by name: {{'dropout': key}}"
            )

    @property
    def is_linen(self) -> bool:
        """Whether the function is a module of Flax's linen, which is applied to variables."""
        return any(cls.__module__.startswith("flax.linen") for cls in type(self.function).__mro__)

    @property
    def keys(self) -> dict[str, Any]:
        """The random keys by name; Flax takes one key for all as that of "params"."""
        if self.rngs is None:
            return {}
        return dict(self.rngs) if isinstance(self.rngs, Mapping) else {"params": self.rngs}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs of the function for inputs."""
        if self.is_linen:
            return self.function.apply(self.params, *args, rngs=self.keys, **kwargs)
        return self.function(*args, **kwargs) if self.params is None else self.function(self.params, *args, **kwargs)
