"""A profiler notices every change of a model: profile, change, profile again, and it says what a new profiler says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flax")
pytest.importorskip("equinox")
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx
from structure_changes import StructureChanges

from profilerkit.costs import Cost
from profilerkit_jax import JaxModel, JaxProfiler, register_op_cost
from profilerkit_jax.backend import JaxBackend
from profilerkit_jax.costs.registry import scoped_costs
from profilerkit_jax.model.structure import read_structure

BACKEND = JaxBackend()
CHANGES_OF = StructureChanges(
    JaxProfiler,
    lambda text: [{"SAME": "VALID", "VALID": "SAME"}[text]] if text in ("SAME", "VALID") else [],
    raised=(Exception,),
    refused=(Exception,),
)
X = jnp.ones((2, 8))
RNGS = nnx.Rngs(0)

#: Layers of nnx that have attributes, with the shape of their input.
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "Conv": (partial(nnx.Conv, 3, 4, (3, 3), rngs=RNGS), (1, 8, 8, 3)),
    "ConvTranspose": (partial(nnx.ConvTranspose, 3, 4, (3, 3), rngs=RNGS), (1, 8, 8, 3)),
    "Linear": (partial(nnx.Linear, 8, 4, rngs=RNGS), (2, 8)),
    "Einsum": (partial(nnx.Einsum, "ab,bc->ac", (8, 4), rngs=RNGS), (2, 8)),
    "LayerNorm": (partial(nnx.LayerNorm, 8, rngs=RNGS), (2, 8)),
    "GroupNorm": (partial(nnx.GroupNorm, 8, 4, rngs=RNGS), (2, 8)),
    "BatchNorm": (partial(nnx.BatchNorm, 8, rngs=RNGS), (2, 8)),
    "Dropout": (partial(nnx.Dropout, 0.5, rngs=RNGS), (2, 8)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_every_plain_attribute_of_every_layer(name: str) -> None:
    make, shape = LAYERS[name]
    counting = CHANGES_OF.attributes_that_count(make, np.ones(shape, "float32"))
    assert counting or name not in ("Conv", "ConvTranspose"), "their strides change counts"


class Net(nnx.Module):
    scale = 1

    def __init__(self) -> None:
        self.body = nnx.Linear(8, 8, rngs=RNGS)
        self.act: Any = jax.nn.relu
        self.again = 0
        self.repeats = nnx.List([1])
        self.config = nnx.static(SimpleNamespace(again=0))

    def __call__(self, x: Any) -> Any:
        for _ in range(sum(self.repeats) + self.again + self.config.again):
            x = self.act(self.body(x))
        return x * 2 if self.scale > 1 else x


class Equinox(eqx.Module):
    body: eqx.nn.Linear
    config: Any = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        for _ in range(self.config["again"]):
            x = jax.vmap(self.body)(x)
        return x


class Linen(linen.Module):
    config: Any

    @linen.compact
    def __call__(self, x: Any) -> Any:
        for _ in range(self.config.again):
            x = jax.nn.softmax(x)
        return x


class Plain:
    def __init__(self) -> None:
        self.again = 1

    def call(self, x: Any) -> Any:
        for _ in range(self.again):
            x = x * 2
        return x


def class_attribute(net: Any) -> None:
    type(net).scale = 2


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    Net.scale = 1
    GLOBAL["again"] = 1


CHANGES: dict[str, Callable[[Any], Any]] = {
    "an attribute": lambda net: setattr(net, "again", 3),
    "an activation replaced": lambda net: setattr(net, "act", jax.nn.softmax),
    "a layer replaced": lambda net: setattr(net, "body", nnx.Linear(8, 8, use_bias=False, rngs=RNGS)),
    "an attribute of a layer": lambda net: setattr(net.body, "bias", None),
    "a list changed in place": lambda net: net.repeats.append(2),
    "an attribute of an object": lambda net: setattr(net.config, "again", 3),
    "an attribute of the class": class_attribute,
    "a call replaced on an attribute": lambda net: setattr(net, "body", lambda x: x @ jnp.ones((8, 8))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_module_of_nnx(change: str) -> None:
    CHANGES_OF.assert_noticed(Net(), X, CHANGES[change])


GLOBAL = {"again": 1}


def reads_global(x: Any) -> Any:
    return inner(x)


def inner(x: Any) -> Any:
    for _ in range(GLOBAL["again"]):
        x = x * 2
    return x


def close_over(held: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for _ in range(held["again"]):
            x = x * 2
        return x

    return function


def models() -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """Return a model of each kind, and a change made in place of what it reads."""
    held: dict[str, Any] = {"again": 1}
    space = SimpleNamespace(again=1)
    plain = Plain()
    deep = {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"again": 1}}}}}}}}

    def more(_: Any) -> None:
        held["again"] = 3

    def deeper(model: Any) -> None:
        model.params["a"]["b"]["c"]["d"]["e"]["f"]["g"]["again"] = 3

    def reads_deep(params: Any, x: Any) -> Any:
        return close_over(params["a"]["b"]["c"]["d"]["e"]["f"]["g"])(x)

    equinox = Equinox(eqx.nn.Linear(8, 8, key=jax.random.key(0)), held)
    net = Net()
    return {
        "a closure": (close_over(held), more),
        "a closure that is bound": (partial(close_over(held)), more),
        "a closure in a JaxModel": (JaxModel(close_over(held)), more),
        "a global variable of a function inside": (reads_global, lambda _: GLOBAL.update(again=3)),
        "an object of a method": (plain.call, lambda _: setattr(plain, "again", 3)),
        "a static field of Equinox": (equinox, more),
        "an object in a module of linen": (JaxModel(Linen(space), {}), lambda _: setattr(space, "again", 3)),
        "a module that a function closes over": (lambda x: net(x) + 1, lambda _: setattr(net, "again", 3)),
        "an array that a function closes over": (
            lambda x: x @ held.get("weight", jnp.ones((8, 8))),
            lambda _: held.update(weight=jnp.ones((8, 4))),
        ),
        "a number deep among the parameters": (JaxModel(reads_deep, deep), deeper),
        "a shape among the parameters": (
            JaxModel(lambda params, x: x @ params["w"], {"w": jax.ShapeDtypeStruct((8, 8), "float32")}),
            lambda model: model.params.update(w=jax.ShapeDtypeStruct((8, 4), "float32")),
        ),
    }


@pytest.mark.parametrize("name", models())
def test_a_change_of_what_a_model_reads(name: str) -> None:
    model, change = models()[name]
    CHANGES_OF.assert_noticed(model, X, change)


@pytest.mark.parametrize("make", [Net, lambda: reads_global, lambda: models()["a static field of Equinox"][0]])
def test_what_did_not_change_is_remembered(make: Callable[[], Any]) -> None:
    CHANGES_OF.assert_remembered(make(), X, lambda model: model(X))


def test_a_registered_formula_is_noticed() -> None:
    with scoped_costs():
        profiler = CHANGES_OF.make_profiler(jnp.tanh, X)
        before = CHANGES_OF.counts(profiler)
        register_op_cost("tanh", lambda call: Cost(0, 1000), override=True)
        assert CHANGES_OF.counts(profiler)[1] == 1000 != before[1]


def test_a_structure_is_one_walk() -> None:
    """Counted in values written down: linear in the arrays, and no more than some dozens for each."""

    class Many(nnx.Module):
        def __init__(self, number: int) -> None:
            self.layers = nnx.List([nnx.Linear(2, 2, rngs=RNGS) for _ in range(number)])

        def __call__(self, x: Any) -> Any:
            return x

    lengths = [len(read_structure(Many(number))) for number in (100, 200, 400)]
    assert lengths[2] - lengths[1] == 2 * (lengths[1] - lengths[0])
    assert lengths[0] < 100 * 200
