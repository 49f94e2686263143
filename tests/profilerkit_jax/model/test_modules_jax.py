"""Modules of Flax and Equinox: their layers by paths, their weights, and one network in four spellings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import pytest

pytest.importorskip("flax")
pytest.importorskip("equinox")
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

from profilerkit import InputError, ModelInputs, ModelTrace
from profilerkit.trace.bounds import Bounds
from profilerkit_jax import JaxModel
from profilerkit_jax.backend import JaxBackend

WIDTH, HIDDEN, BATCH = 4, 6, 3
INPUTS = ModelInputs(jnp.ones((BATCH, WIDTH)))
#: Two blocks: layer norm (7 operations an element), linear, ReLU, linear, and the sum with the block's input.
MACS = 2 * BATCH * 2 * WIDTH * HIDDEN
FLOPS = 2 * MACS + 2 * BATCH * (7 * WIDTH + HIDDEN + HIDDEN + WIDTH + WIDTH)
PARAMS = 2 * (2 * WIDTH + WIDTH * HIDDEN + HIDDEN + HIDDEN * WIDTH + WIDTH)


class NnxBlock(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, HIDDEN, rngs=rngs)
        self.down = nnx.Linear(HIDDEN, WIDTH, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return x + self.down(nnx.relu(self.up(self.norm(x))))


class NnxNetwork(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([NnxBlock(rngs), NnxBlock(rngs)])

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


class LinenBlock(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        hidden = linen.Dense(HIDDEN, name="up")(linen.LayerNorm(name="norm")(x))
        return x + linen.Dense(WIDTH, name="down")(linen.relu(hidden))


class LinenNetwork(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        for index in range(2):
            x = LinenBlock(name=f"blocks_{index}")(x)
        return x


class EquinoxBlock(eqx.Module):
    norm: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        self.norm = eqx.nn.LayerNorm(WIDTH)
        self.up, self.down = eqx.nn.Linear(WIDTH, HIDDEN, key=key), eqx.nn.Linear(HIDDEN, WIDTH, key=key)

    def __call__(self, x: Any) -> Any:
        return x + self.down(jax.nn.relu(self.up(self.norm(x))))


class EquinoxNetwork(eqx.Module):
    blocks: list[EquinoxBlock]

    def __init__(self, key: Any) -> None:
        self.blocks = [EquinoxBlock(key), EquinoxBlock(key)]

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x = jax.vmap(block)(x)
        return x


def linen_model() -> JaxModel:
    module = LinenNetwork()
    return JaxModel(module, module.init(jax.random.key(0), jnp.ones((1, WIDTH))))


def linen_of_shapes() -> JaxModel:
    module = LinenNetwork()
    return JaxModel(module, jax.eval_shape(module.init, jax.random.key(0), jnp.ones((1, WIDTH))))


MODELS: dict[str, Callable[[], Any]] = {
    "nnx": lambda: NnxNetwork(nnx.Rngs(0)),
    "nnx of shapes": lambda: nnx.eval_shape(lambda: NnxNetwork(nnx.Rngs(0))),
    "linen": linen_model,
    "linen of shapes": linen_of_shapes,
    "linen, bound": lambda: LinenNetwork().bind(linen_model().params),
    "equinox": lambda: EquinoxNetwork(jax.random.key(0)),
    "equinox of shapes": lambda: eqx.filter_eval_shape(EquinoxNetwork, jax.random.key(0)),
}


def trace_module(model: Any, inputs: ModelInputs = INPUTS) -> ModelTrace:
    trace = JaxBackend().trace(model, inputs)
    assert trace.failure is None, trace.failure
    return trace


@pytest.mark.parametrize("name", MODELS)
def test_one_network_in_every_library(name: str) -> None:
    """The whole, and the work and weights that its layers have of their own."""
    trace = trace_module(MODELS[name]())
    assert (trace.macs, trace.flops, trace.total_params, trace.trainable_params) == (MACS, FLOPS, PARAMS, PARAMS)
    assert not trace.uncounted
    table = trace.table
    first = "blocks_0" if "linen" in name else "blocks.0"
    paths = [row["path"] for row in table if row["path"].startswith(first)]
    assert paths == [first, f"{first}.norm", f"{first}.up", f"{first}.down"]
    rows = {row["path"].removeprefix(first): row for row in table if row["path"].startswith(first)}
    assert rows[".norm"]["type"] == "LayerNorm"
    assert [rows[path]["params"] for path in (".norm", ".up", ".down")] == [8, 4 * 6 + 6, 6 * 4 + 4]
    assert [rows[path]["own_flops"] for path in ("", ".norm")] == [BATCH * (HIDDEN + WIDTH), BATCH * 7 * WIDTH]
    assert rows[".up"]["own_macs"] == BATCH * WIDTH * HIDDEN
    assert {row["calls"] for row in rows.values()} == {1}
    assert trace.layers[0].type.endswith("Network")


@pytest.mark.parametrize("name", ["nnx", "linen", "equinox"])
def test_without_inputs_there_are_the_layers_with_their_weights(name: str) -> None:
    trace = JaxBackend().trace(MODELS[name](), None)
    assert (trace.total_params, len(trace.operators)) == (PARAMS, 0)


def test_a_linen_module_needs_its_variables() -> None:
    with pytest.raises(InputError, match=r"LinenNetwork has no variables; give JaxModel\(module, variables\)"):
        JaxBackend().trace(LinenNetwork(), INPUTS)
    with pytest.raises(InputError, match="params=3 for the linen module LinenNetwork: give its variables"):
        JaxBackend().trace(JaxModel(LinenNetwork(), 3), INPUTS)


# Calls ----------------------------------------------------------------------------------------------------------------


class Shared(nnx.Module):
    """One layer that is called three times, the first two directly after one another."""

    def __init__(self) -> None:
        self.layer = nnx.Linear(WIDTH, WIDTH, use_bias=False, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        return self.layer(jnp.tanh(self.layer(self.layer(x))))


def test_a_shared_layer_is_called_as_often_as_it_is() -> None:
    trace = trace_module(Shared())
    row = trace.table["layer"]
    assert (row["calls"], row["macs"], row["params"]) == (3, 3 * BATCH * 16, 16)
    assert [call.outputs[0].shape for call in trace.layer("layer").calls] == [(BATCH, WIDTH)] * 3


class Remat(nnx.Module):
    def __init__(self) -> None:
        self.layer = nnx.Linear(WIDTH, WIDTH, use_bias=False, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        return nnx.remat(lambda layer, y: layer(y))(self.layer, x)


class Jitted(Remat):
    def __call__(self, x: Any) -> Any:
        call = nnx.jit(lambda layer, y: layer(y))
        return call(self.layer, call(self.layer, x))


@pytest.mark.parametrize(("kind", "calls"), [(Remat, 1), (Jitted, 2)])
def test_layers_inside_transformations_keep_their_paths(kind: Callable[[], Any], calls: int) -> None:
    row = trace_module(kind()).table["layer"]
    assert (row["calls"], row["own_macs"]) == (calls, calls * BATCH * 16)


@pytest.mark.parametrize("wrap", [lambda call: call, nnx.remat, nnx.jit])
def test_weights_that_pass_through_a_function_in_a_scan_are_held_once(wrap: Callable[[Any], Any]) -> None:
    """The three stacked matrices, the input, the product and its hyperbolic tangent."""

    class Stacked(nnx.Module):
        def __init__(self) -> None:
            make = nnx.vmap(lambda rngs: nnx.Linear(WIDTH, WIDTH, use_bias=False, rngs=rngs))
            split: Any = nnx.split_rngs(splits=3)
            self.layers = split(make)(nnx.Rngs(0))

        def __call__(self, x: Any) -> Any:
            call = wrap(lambda layer, y: jnp.tanh(layer(y)))
            return nnx.scan(call, in_axes=(0, nnx.Carry), out_axes=nnx.Carry)(self.layers, x)

    assert trace_module(Stacked()).memory.peak_bytes() == 4 * (3 * WIDTH * WIDTH + 3 * BATCH * WIDTH)


class EquinoxRemat(eqx.Module):
    layer: Any

    def __call__(self, x: Any) -> Any:
        return eqx.filter_checkpoint(lambda layer, y: jax.vmap(layer)(y))(self.layer, x)


def test_layers_of_equinox_inside_transformations_keep_their_paths() -> None:
    model = EquinoxRemat(eqx.nn.Linear(WIDTH, WIDTH, use_bias=False, key=jax.random.key(0)))
    assert trace_module(model).table["layer"]["own_macs"] == BATCH * 16


@pytest.mark.parametrize(("kind", "turns"), [("lax", 5), ("checkpointed", 5), ("bounded", 16)])
def test_loops_of_equinox_are_counted(kind: str, turns: int) -> None:
    """A bounded one is a scan of 16 turns, of which those after the end of the loop are skipped."""

    class Loop(eqx.Module):
        layer: eqx.nn.Linear

        def __call__(self, x: jax.Array) -> Any:
            def turn(carried: tuple[jax.Array, int]) -> tuple[jax.Array, int]:
                return self.layer(carried[0]), carried[1] + 1

            options: dict[str, Any] = {"kind": kind, **({} if kind == "lax" else {"max_steps": 5})}
            return eqx.internal.while_loop(lambda carried: carried[1] < 5, turn, (x, 0), **options)[0]

    model = Loop(eqx.nn.Linear(WIDTH, WIDTH, use_bias=False, key=jax.random.key(0)))
    trace = JaxBackend().trace(model, ModelInputs(jnp.ones(WIDTH)))
    assert (trace.macs, trace.missing) == (turns * WIDTH**2, ())
    assert trace.bounds("macs") == Bounds(0 if kind == "bounded" else trace.macs, trace.macs)


class Compared(eqx.Module):
    """Adds the weights of two layers up, which needs layers of one class."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __call__(self, x: Any) -> Any:
        return jax.vmap(jax.tree.map(jnp.add, self.first, self.second))(x)


def test_a_model_whose_layers_cannot_be_marked_is_counted_as_a_whole() -> None:
    layers = [eqx.nn.Linear(WIDTH, WIDTH, use_bias=False, key=jax.random.key(seed)) for seed in (0, 1)]
    trace = trace_module(Compared(*layers))
    assert trace.macs == BATCH * 16
    assert trace.table[""]["own_macs"] == trace.macs
    assert any("layers could not be told apart" in note for note in trace.notes)


class NnxOuter(nnx.Module):
    def __init__(self, inner: Any) -> None:
        self.inner = inner


class EquinoxOuter(eqx.Module):
    inner: Any

    def __call__(self, x: Any) -> Any:
        return jax.vmap(self.inner)(x)


def call_inner(self: Any, x: Any) -> Any:
    return self.inner(x)


def call_inner_twice(self: Any, x: Any) -> Any:
    return self.inner(self.inner(x))


def make_nnx_outer() -> tuple[type, Any]:
    class Inner(NnxOuter):
        __call__ = call_inner

    class Outer(NnxOuter):
        __call__ = call_inner

    return Inner, Outer(Inner(nnx.Linear(WIDTH, WIDTH, use_bias=False, rngs=nnx.Rngs(0))))


def make_equinox_outer() -> tuple[type, Any]:
    class Inner(eqx.Module):
        inner: Any
        __call__ = call_inner

    return Inner, EquinoxOuter(Inner(eqx.nn.Linear(WIDTH, WIDTH, use_bias=False, key=jax.random.key(0))))


@pytest.mark.parametrize("make", [make_nnx_outer, make_equinox_outer])
def test_a_call_that_is_replaced_between_two_traces_is_followed(make: Callable[[], tuple[type, Any]]) -> None:
    inner, model = make()
    assert trace_module(model).macs == BATCH * WIDTH**2
    type.__setattr__(inner, "__call__", call_inner_twice)
    trace = trace_module(model)
    assert trace.macs == 2 * BATCH * WIDTH**2
    assert trace.table["inner.inner"]["calls"] == 2


Element = TypeVar("Element")


class NnxGeneric(nnx.Module, Generic[Element]):
    def __init__(self) -> None:
        self.inner = nnx.Linear(WIDTH, WIDTH, use_bias=False, rngs=nnx.Rngs(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.inner(x)


class EquinoxGeneric(eqx.Module, Generic[Element]):
    inner: eqx.nn.Linear

    def __call__(self, x: jax.Array) -> jax.Array:
        return jax.vmap(self.inner)(x)


@pytest.mark.parametrize(
    "make",
    [NnxGeneric, lambda: EquinoxGeneric(eqx.nn.Linear(WIDTH, WIDTH, use_bias=False, key=jax.random.key(0)))],
)
def test_generic_layers_are_told_apart(make: Callable[[], Any]) -> None:
    trace = trace_module(make())
    assert (trace.table["inner"]["own_macs"], trace.table[""]["own_macs"]) == (BATCH * WIDTH**2, 0)


class Register:
    made: ClassVar[list[type]] = []

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.made.append(cls)


class NnxRegistered(Register, nnx.Module):
    pass


class EquinoxRegistered(Register, eqx.Module):
    pass


#: The bases of a layer: the register stands before, behind, or between the classes of the library.
NNX_BASES = [(NnxRegistered,), (nnx.Module, Register), (nnx.Sequential, NnxRegistered)]
EQUINOX_BASES = [(EquinoxRegistered,), (eqx.Module, Register), (eqx.nn.Lambda, EquinoxRegistered)]


def require_counted_as_a_whole(trace: ModelTrace, made: list[type]) -> None:
    """The layers are not told apart, a note says why, and the register has no class of ours."""
    assert (trace.macs, trace.table[""]["own_macs"]) == (WIDTH**2, WIDTH**2)
    assert any("TypeError was raised: Register has a __init_subclass__" in note for note in trace.notes)
    assert Register.made == made


@pytest.mark.parametrize("bases", NNX_BASES)
def test_a_register_of_nnx_modules_gets_none_of_ours(bases: tuple[type, ...]) -> None:
    def __init__(self: Any) -> None:
        self.inner = nnx.Linear(WIDTH, WIDTH, use_bias=False, rngs=nnx.Rngs(0))

    layer = type(bases[0])("Layer", bases, {"__init__": __init__, "__call__": call_inner})
    made = list(Register.made)
    assert layer in made
    require_counted_as_a_whole(trace_module(layer(), ModelInputs(jnp.ones((1, WIDTH)))), made)


@pytest.mark.parametrize("bases", EQUINOX_BASES)
def test_a_register_of_equinox_modules_gets_none_of_ours(bases: tuple[type, ...]) -> None:
    inner = eqx.nn.Linear(WIDTH, WIDTH, use_bias=False, key=jax.random.key(0))
    namespace = {"__module__": __name__, "__annotations__": {"inner": Any}, "__call__": call_inner}
    layer: Any = type(bases[0])("Layer", bases, namespace)
    made = list(Register.made)
    assert layer in made
    model = layer(inner=inner) if bases[0] is not eqx.nn.Lambda else layer(jnp.tanh, inner=inner)
    require_counted_as_a_whole(trace_module(model, ModelInputs(jnp.ones(WIDTH))), made)


def test_a_layer_in_a_static_field_stays_as_it_is() -> None:
    """It is no part of the copy that is traced: its work counts for the layer around."""

    class Bend(eqx.Module):
        def __call__(self, x: Any) -> Any:
            return jnp.tanh(x)

    class Model(eqx.Module):
        linear: eqx.nn.Linear
        bend: Bend = eqx.field(static=True)

        def __call__(self, x: Any) -> Any:
            return self.bend(self.linear(x))

    model = Model(eqx.nn.Linear(WIDTH, WIDTH, use_bias=False, key=jax.random.key(0)), Bend())
    rows = {row["path"]: row["own_flops"] for row in trace_module(model, ModelInputs(jnp.ones(WIDTH))).table}
    assert type(model.bend) is Bend
    assert (rows[""], rows["linear"]) == (WIDTH, 2 * WIDTH**2)


def spell_out(x: Any) -> Any:
    return jnp.exp(jnp.tanh(x) + 1.0)


def test_layers_of_the_users_count_as_they_are_written_whatever_their_names() -> None:
    """Three operations for each element, where a normalization of the library takes more."""

    class GroupNorm(nnx.Module):
        def __call__(self, x: Any) -> Any:
            return spell_out(x)

    class LayerNorm(linen.Module):
        def __call__(self, x: Any) -> Any:
            return spell_out(x)

    class RMSNorm(eqx.Module):
        def __call__(self, x: Any) -> Any:
            return spell_out(x)

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return LayerNorm()(x)

    class Outer(NnxOuter):
        __call__ = call_inner

    for model in (Outer(GroupNorm()), EquinoxOuter(RMSNorm()), JaxModel(Network(), {})):
        assert trace_module(model).flops == 3 * BATCH * WIDTH


class Step(linen.Module):
    @linen.compact
    def __call__(self, x: Any, _: Any) -> Any:
        return jnp.tanh(linen.Dense(WIDTH, use_bias=False, name="dense")(x)), None


class Scanned(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        lifted = linen.scan(Step, variable_axes={"params": 0}, split_rngs={"params": True}, length=5)
        return linen.remat(linen.Dense)(WIDTH, name="last")(lifted(name="steps")(x, None)[0])


@pytest.mark.slow
def test_layers_of_linen_inside_transformations_keep_their_paths() -> None:
    module = Scanned()
    table = trace_module(JaxModel(module, module.init(jax.random.key(0), jnp.ones((1, WIDTH))))).table
    assert [row["path"] for row in table] == ["", "steps", "steps.dense", "last"]
    rows = {row["path"]: row for row in table}
    assert (rows["steps.dense"]["own_macs"], rows["steps.dense"]["params"]) == (5 * BATCH * 16, 5 * 16)
    assert rows["steps"]["own_flops"] == 5 * BATCH * WIDTH
    assert rows["last"]["own_macs"] == BATCH * 16


def test_a_recurrent_layer_of_linen_has_the_work_of_its_cell() -> None:
    module = linen.RNN(linen.GRUCell(5))
    inputs = jnp.ones((2, 7, WIDTH))
    table = trace_module(JaxModel(module, module.init(jax.random.key(0), inputs)), ModelInputs(inputs)).table
    assert "named_scope" not in {row["type"] for row in table}
    assert table[""]["macs"] == 2 * 7 * 3 * (WIDTH * 5 + 5 * 5)


class WithState(linen.Module):
    """A layer that makes its own initial state in a method, as Flax's example of sentiments does."""

    @linen.compact
    def __call__(self, state: Any, x: Any) -> Any:
        return linen.Dense(WIDTH, name="dense")(x + state)

    def make_state(self) -> Any:
        return jnp.zeros((BATCH, WIDTH))


class Stateful(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        layer = WithState(name="layer")
        return layer(layer.make_state(), x)


def test_a_call_in_which_all_is_known_before_the_run_is_no_call() -> None:
    module = Stateful()
    trace = trace_module(JaxModel(module, module.init(jax.random.key(0), jnp.ones((BATCH, WIDTH)))))
    assert {layer.path: len(layer.calls) for layer in trace.layers} == {"": 1, "layer": 1, "layer.dense": 1}
    assert trace.layer("layer.dense").calls[0].caller == ("layer", 0)
    assert trace.macs == BATCH * WIDTH * WIDTH


class Branching(nnx.Module):
    """Two blocks around one layer: a branch calls the block once, the other one twice."""

    def __init__(self, branches: Callable[[Any], tuple[Any, Any]]) -> None:
        self.block, self.branches = NnxBlock(nnx.Rngs(0)), branches

    def __call__(self, x: Any) -> Any:
        return jax.lax.cond(x[0, 0] > 0, *self.branches(self.block), x)


@pytest.mark.parametrize(
    "branches", [lambda block: (block, lambda x: block(block(x))), lambda block: (lambda x: block(block(x)), block)]
)
def test_the_calls_of_the_branch_that_is_counted_are_numbered_from_the_first(branches: Any) -> None:
    trace = trace_module(Branching(branches), ModelInputs(jax.ShapeDtypeStruct((BATCH, WIDTH), "float32")))
    assert trace.macs == MACS
    callers = {layer.path: [call.caller for call in layer.calls] for layer in trace.layers}
    assert callers["block"] == [("", 0), ("", 0)]
    assert callers["block.up"] == [("block", 0), ("block", 1)]


class Scoped(nnx.Module):
    """Three operations of each element in a scope of the user's, and a layer."""

    def __init__(self) -> None:
        self.last = nnx.Linear(WIDTH, 4, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        with jax.named_scope("scaling"):
            x = jnp.exp(jnp.tanh(x) * 2.0)
        return self.last(x)


def test_a_scope_of_the_users_inside_a_module_is_one_call() -> None:
    trace = trace_module(Scoped())
    calls = {layer.path: len(layer.calls) for layer in trace.layers}
    assert calls == {"": 1, "scaling": 1, "last": 1}


class Stacked(nnx.Module):
    """Four layers as one, with stacked weights, which a scan goes through."""

    def __init__(self) -> None:
        make: Any = nnx.vmap(lambda rngs: nnx.Linear(WIDTH, WIDTH, use_bias=False, rngs=rngs), in_axes=0)
        stacked: Any = nnx.split_rngs(splits=4)
        self.layers = stacked(make)(nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        call: Any = nnx.scan(lambda carry, layer: layer(carry), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        return call(x, self.layers)


def test_stacked_layers_of_nnx_count_for_each_turn() -> None:
    row = trace_module(Stacked()).table["layers"]
    assert (row["own_macs"], row["params"]) == (4 * BATCH * 16, 4 * 16)


class Recurrent(nnx.Module):
    """Normalizes a state of zeros in each of three turns, which change the state."""

    def __init__(self, loop: str) -> None:
        self.norm, self.loop = nnx.LayerNorm(WIDTH, rngs=nnx.Rngs(0)), loop

    def __call__(self, x: Any) -> Any:
        zeros = jnp.zeros((BATCH, WIDTH))
        if self.loop == "scan":
            return jax.lax.scan(lambda state, _: (self.norm(state) + x, None), zeros, None, length=3)[0]
        return jax.lax.fori_loop(0, 3, lambda turn, state: self.norm(state) + x, zeros)


@pytest.mark.parametrize("loop", ["scan", "while"])
def test_a_layer_that_reads_a_state_of_zeros_is_counted_as_one_layer(loop: str) -> None:
    """7 operations an element, and the sum with the input, in each turn."""
    trace = trace_module(Recurrent(loop))
    assert trace.flops == 3 * BATCH * WIDTH * (7 + 1)
    [call] = trace.layer("norm").calls
    assert ([info.shape for info in call.inputs], call.times) == ([(BATCH, WIDTH)], 3)


class DroppingBlock(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.linear, self.dropout = nnx.Linear(WIDTH, WIDTH, rngs=rngs), nnx.Sequential(nnx.Dropout(0.5, rngs=rngs))

    def __call__(self, x: Any) -> Any:
        return self.dropout(self.linear(x))


class Dropping(nnx.Module):
    """Calls a block by itself, in a scan of five turns, and twice in a function that is compiled and traced once."""

    def __init__(self) -> None:
        self.block = DroppingBlock()

    def __call__(self, x: Any) -> Any:
        x, _ = jax.lax.scan(lambda x, _: (self.block(x), None), self.block(x), None, length=5)
        compiled = jax.jit(self.run_block)
        return compiled(compiled(x))

    def run_block(self, x: Any) -> Any:
        return self.block(x)


@pytest.mark.parametrize("path", ["linear", "dropout", "dropout.layers.0"])
def test_a_layer_without_equations_is_called_as_often_as_the_layer_around_it(path: str) -> None:
    trace = trace_module(Dropping())
    caller = f"block.{path}".removesuffix(".layers.0") if path.endswith(".0") else "block"
    calls = trace.layer(f"block.{path}").calls
    assert [(call.caller, call.times) for call in calls] == [
        ((caller, n), times) for n, times in enumerate((1, 5, 1, 1))
    ]


# Modes and state ------------------------------------------------------------------------------------------------------


class Normalized(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.norm, self.dropout = nnx.BatchNorm(WIDTH, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.dropout(self.norm(x))


def test_models_are_counted_in_inference_mode_and_stay_in_theirs() -> None:
    model = Normalized()
    trace = trace_module(model)
    assert trace.flops == 2 * BATCH * WIDTH, "a scale and a shift, and no dropout"
    assert (model.dropout.deterministic, model.norm.use_running_average) == (False, False)
    assert [weight.name for weight in trace.layer("norm").buffers] == ["mean", "var"]
    assert (trace.total_params, trace.size_bytes) == (8, 4 * 16)
    assert type(model.norm) is nnx.BatchNorm


@pytest.mark.filterwarnings("ignore::UserWarning")  # of Equinox, about the mode of a batch norm
def test_a_state_of_layers_of_equinox_is_no_parameter() -> None:
    """Of the norm a mean, a variance and a counter; of the linear layer two vectors. All else is trained.

    A module may hold the states with which its layers begin, or the state that they have come to.
    """

    class Network(eqx.Module):
        norm: eqx.nn.BatchNorm
        linear: eqx.nn.SpectralNorm[Any]

        def __init__(self) -> None:
            keys = jax.random.split(jax.random.key(0))
            self.norm = eqx.nn.BatchNorm(WIDTH, axis_name="batch", mode="batch")
            self.linear = eqx.nn.SpectralNorm(eqx.nn.Linear(WIDTH, HIDDEN, key=keys[0]), "weight", key=keys[1])

        def __call__(self, x: Any, state: Any) -> Any:
            return self.linear(*self.norm(x, state))

    make: Any = eqx.nn.make_with_state(Network)
    without_state, state = make()
    states = [1, WIDTH, WIDTH, WIDTH, HIDDEN]
    for model, held in ((Network(), states), (without_state, []), (eqx.Partial(without_state, state=state), states)):
        trace = JaxBackend().trace(model, None)
        assert trace.total_params == 2 * WIDTH + WIDTH * HIDDEN + HIDDEN
        assert sorted(weight.count for weight in trace.buffers) == held


def test_evaluation_mode_ends_with_the_call() -> None:
    model = Normalized()
    modes = JaxBackend().evaluate(model, lambda: (model.dropout.deterministic, model.norm.use_running_average))
    assert modes == (True, True)
    with pytest.raises(KeyError):
        JaxBackend().evaluate(model, lambda: vars(model)["missing"])
    assert (model.dropout.deterministic, model.norm.use_running_average) == (False, False)
    dropout = eqx.nn.Dropout(0.5)
    assert JaxBackend().evaluate(dropout, lambda: dropout.inference)
    assert not dropout.inference


def test_what_a_block_does_to_a_module_is_put_back() -> None:
    model = Normalized()
    before = np.asarray(model.norm.mean[...])
    with pytest.raises(KeyError), JaxBackend().preserve(model):
        object.__setattr__(model.dropout, "deterministic", True)
        model.norm.mean[...] = model.norm.mean[...] + 1
        raise KeyError
    assert not model.dropout.deterministic
    np.testing.assert_array_equal(model.norm.mean[...], before)


@pytest.mark.parametrize("width", [1, WIDTH])
def test_a_normalization_of_linen_has_its_scale_and_shift_whatever_its_width(width: int) -> None:
    """Five operations for each element, and one each for scale and shift."""
    x = jnp.ones((BATCH, width))
    for module, operations in (
        (linen.LayerNorm(), 7),
        (linen.GroupNorm(1), 7),
        (linen.BatchNorm(use_running_average=False), 7),
        (linen.LayerNorm(use_bias=False), 6),
        (linen.LayerNorm(use_bias=False, use_scale=False), 5),
    ):
        model = JaxModel(module, module.init(jax.random.key(0), x))
        assert trace_module(model, ModelInputs(x)).flops == operations * BATCH * width


@pytest.mark.parametrize(
    ("layer", "operations"),
    [
        (eqx.nn.RMSNorm(WIDTH), 3 + 2),  # scale and shift
        (eqx.nn.RMSNorm(WIDTH, use_bias=False), 3 + 1),
        (eqx.nn.RMSNorm(WIDTH, use_weight=False, use_bias=False), 3),
        (nnx.RMSNorm(WIDTH, rngs=nnx.Rngs(0)), 3 + 1),
        (eqx.nn.PReLU(), 2),  # a comparison and a product
        (nnx.PReLU(), 2),
    ],
)
def test_what_else_counts_as_a_whole(layer: Any, operations: int) -> None:
    assert trace_module(layer, ModelInputs(jnp.ones(WIDTH))).flops == operations * WIDTH


class Statistics(linen.Module):
    @linen.compact
    def __call__(self, x: Any, train: bool = False) -> Any:
        return linen.BatchNorm(use_running_average=not train)(x)


def test_a_linen_module_runs_as_its_arguments_say() -> None:
    module = Statistics()
    model = JaxModel(module, module.init(jax.random.key(0), jnp.ones((1, WIDTH))))
    elements = BATCH * WIDTH
    assert trace_module(model).flops == 2 * elements
    assert trace_module(model, ModelInputs(jnp.ones((BATCH, WIDTH)), train=True)).flops == 7 * elements
    assert (trace_module(model).total_params, len(trace_module(model).buffers)) == (2 * WIDTH, 2)
    np.testing.assert_allclose(model(jnp.ones((BATCH, WIDTH))), np.ones((BATCH, WIDTH)), rtol=1e-4)


def test_a_module_of_nnx_with_several_names_is_one_layer() -> None:
    """It has the first of its names, as in nnx's state: before, another stood beside it, with nothing in it."""

    class Shared(nnx.Module):
        def __init__(self) -> None:
            self.zeta = nnx.Linear(6, 6, rngs=nnx.Rngs(0))
            self.alpha = self.zeta
            self.more = nnx.List([self.zeta, nnx.Linear(6, 2, rngs=nnx.Rngs(0))])

        def __call__(self, x: Any) -> Any:
            return self.more[1](self.alpha(self.zeta(x)))

    backend, x = JaxBackend(), jnp.ones((2, 6))
    for inputs in (ModelInputs(x), None):
        table = backend.trace(Shared(), inputs).table
        assert [(row["path"], row["own_params"]) for row in table if row["own_params"]] == [
            ("alpha", 42),
            ("more.1", 14),
        ]
        assert sorted(row["path"] for row in table) == ["", "alpha", "more", "more.1"]
    called = {row["path"]: (row["calls"], row["own_macs"]) for row in backend.trace(Shared(), ModelInputs(x)).table}
    assert called["alpha"] == (2, 2 * 2 * 36)
    assert called["more.1"] == (1, 2 * 12)


class Choosing(nnx.Module):
    """Calls one of two layers; the second one twice, and with it a layer that runs nothing."""

    def __init__(self) -> None:
        self.one, self.two = (nnx.Linear(WIDTH, WIDTH, rngs=nnx.Rngs(0)) for _ in range(2))
        self.nothing = nnx.Dropout(0.5)

    def __call__(self, x: Any) -> Any:
        return jax.lax.cond(jnp.sum(x) > 0, self.one, lambda x: self.two(self.nothing(self.two(x))), x)


@pytest.mark.parametrize(
    ("x", "calls"),
    [
        (jnp.ones((BATCH, WIDTH)), (1, 0)),
        (-jnp.ones((BATCH, WIDTH)), (0, 2)),
        (jax.ShapeDtypeStruct((BATCH, WIDTH), "float32"), (0, 2)),
    ],
)
def test_layers_in_branches_that_do_not_run_are_not_called(x: Any, calls: tuple[int, int]) -> None:
    """The input decides, or the dearer branch is counted."""
    trace = trace_module(Choosing(), ModelInputs(x))
    assert (trace.layer("one").call_count, trace.layer("two").call_count) == calls
    assert trace.macs == sum(calls) * BATCH * WIDTH * WIDTH
