"""A model that fills caches outside of itself while it is called, each kind of cache by name."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

NAMED: dict[str, Any] = {}
LISTED: list[Any] = []
QUEUED: deque[Any] = deque()
BOUND: Any = None


class Keeper:
    """Has a cache on its class, and another in its slots."""

    __slots__ = ("__secret",)
    store: dict[str, Any] = {}  # noqa: RUF012 - models do keep caches so

    def secret(self, make: Callable[[], Any]) -> Any:
        if not hasattr(self, "_Keeper__secret"):
            self.__secret = make()
        return self.__secret

    @functools.cache  # noqa: B019 - models do keep caches so
    def remember(self, size: int) -> Any:
        return tf.range(size, dtype=tf.float32) * 2.0

    @staticmethod
    @functools.cache
    def remember_statically(size: int) -> Any:
        return tf.range(size, dtype=tf.float32) * 2.0


@functools.cache
def remember(size: int) -> Any:
    return tf.range(size, dtype=tf.float32) * 2.0


@functools.cache
def remember_pair(size: int) -> Any:
    return tf.sin(tf.range(size, dtype=tf.float32)), tf.cos(tf.range(size, dtype=tf.float32))


def table() -> Any:
    return tf.range(4, dtype=tf.float32) * 2.0


def _in(container: Any, make: Callable[[], Any]) -> Any:
    if "table" not in container:
        container["table"] = make()
    return container["table"]


def _first(container: Any, make: Callable[[], Any]) -> Any:
    if not container:
        container.append(make())
    return container[0]


def _bound() -> Any:
    global BOUND  # noqa: PLW0603 - models do keep caches so
    if BOUND is None:
        BOUND = table()
    return BOUND


class Caching(keras.Model):  # type: ignore[misc]
    """Multiplies by a table, which it keeps in a cache of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.keeper = Keeper()
        self.dense = keras.layers.Dense(4)
        self.dense.build((None, 4))
        self.built = True

    def call(self, x: Any) -> Any:
        ways: dict[str, Callable[[], Any]] = {
            "a dict": lambda: _in(NAMED, table),
            "a list": lambda: _first(LISTED, table),
            "a deque": lambda: _first(QUEUED, table),
            "a global": _bound,
            "a class": lambda: _in(Keeper.store, table),
            "a slot": lambda: self.keeper.secret(table),
            "a cached function": lambda: remember(4),
            "a cached pair": lambda: remember_pair(4)[0],
            "a cached method": lambda: self.keeper.remember(4),
            "a cached static method": lambda: self.keeper.remember_statically(4),
        }
        return self.dense(x) * ways[self.kind]()


KINDS = (
    *("a dict", "a list", "a deque", "a global", "a class", "a slot", "a cached function", "a cached pair"),
    *("a cached method", "a cached static method"),
)
