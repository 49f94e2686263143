"""Functions with their parameters: `JaxModel`, jitted functions, shapes in place of arrays, pytrees, named scopes."""

from __future__ import annotations

import re
import time
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from jax import nn  # noqa: F401 - a name that other frameworks' modules have too
from jax.numpy import tanh

from profilerkit import ArgumentError, BackendNotFoundError, InputError, ModelInputs, WithoutValuesError, profile
from profilerkit_jax import JaxModel, register_op_cost
from profilerkit_jax.backend import JaxBackend

S = jax.ShapeDtypeStruct


def mlp(params: Any, x: Any) -> Any:
    for layer in params["layers"]:
        x = jax.nn.relu(x @ layer["weight"] + layer["bias"])
    return x


def parameters(*sizes: int) -> Any:
    pairs = pairwise(sizes)
    return {"layers": [{"weight": jnp.ones((m, n)), "bias": jnp.zeros(n)} for m, n in pairs]}


class Transformed(NamedTuple):
    """As Haiku's, of the same name in a module of that package."""

    init: Any
    apply: Any


def tanh_of_rows(x: Any) -> Any:
    return [jnp.tanh(row) for row in x]


def tanh_by_name(x: Any) -> Any:
    return tanh(x)


def tanh_imported_inside(x: Any) -> Any:
    from jax import numpy

    return numpy.tanh(x)


def make_tanh() -> Any:
    inside = jnp.tanh
    return lambda x: inside(x) + 1


def double(x: Any) -> Any:
    return x * 2


PLAIN_FUNCTIONS = {
    "of a module": mlp,
    "in a comprehension": tanh_of_rows,
    "of a name": tanh_by_name,
    "an import in the body": tanh_imported_inside,
    "a closure": make_tanh(),
    "vmap": jax.vmap(double),
    "grad": jax.grad(double),
    "checkpoint": jax.checkpoint(double),
    "lambda": lambda x: jnp.tanh(x) + 1,
}


@pytest.mark.parametrize("name", PLAIN_FUNCTIONS)
def test_a_plain_function_is_said_to_need_jit(name: str) -> None:
    function = PLAIN_FUNCTIONS[name]
    said = re.escape(function.__name__) + r" is a plain function, .* give jax\.jit\(function\), or backend='jax'"
    with pytest.raises(BackendNotFoundError, match=said):
        profile(function, jnp.ones((3, 4)))


def relu_of_another(x: Any) -> Any:
    """Reads an attribute that is called as a variable of this module, which is JAX's."""
    return SimpleNamespace(nn=SimpleNamespace(tanh=abs)).nn.tanh(x)


def make_unset() -> Any:
    if np.ndim(0):
        inside = jnp.tanh
    return lambda x: inside(x) + 1


@pytest.mark.parametrize("function", [double, relu_of_another, make_unset(), lambda x: x + 1])
def test_a_function_without_jax_is_not_said_to_be_of_jax(function: Any) -> None:
    with pytest.raises(BackendNotFoundError, match="no backend recognizes a model of type builtins.function"):
        profile(function, jnp.ones((3, 4)))


def test_a_transformed_function_of_haiku_is_said_to_need_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transformed, "__module__", "haiku._src.transform")
    with pytest.raises(BackendNotFoundError, match=r"JaxModel\(haiku.without_apply_rng\(model\).apply, params\)"):
        profile(Transformed(init=len, apply=len), jnp.ones((3, 4)))


def test_a_function_with_its_parameters() -> None:
    report = profile(JaxModel(mlp, parameters(4, 6, 2)), jnp.ones((3, 4)), metrics=["macs", "flops", "total_params"])
    assert report["macs"] == 3 * (4 * 6 + 6 * 2)
    assert report["flops"] == 2 * report["macs"] + 2 * 3 * (6 + 2)  # biases, and comparisons
    assert report["total_params"] == 4 * 6 + 6 + 6 * 2 + 2


@pytest.mark.parametrize("function", [mlp, jax.jit(mlp), partial(mlp), jax.checkpoint(mlp)])
def test_every_form_of_a_function_counts_alike(function: Any) -> None:
    trace = JaxBackend().trace(JaxModel(function, parameters(4, 2)), ModelInputs(np.ones((3, 4), np.float32)))
    assert (trace.macs, trace.total_params, trace.trainable_params) == (3 * 8, 10, 10)


def test_a_function_without_parameters_is_a_model_itself() -> None:
    backend = JaxBackend()
    jitted = jax.jit(lambda x: x @ x)
    for model in (jitted, lambda x: x @ x, JaxModel(jitted)):
        assert backend.accepts(model)
        assert backend.trace(model, ModelInputs(jnp.ones((3, 3)))).macs == 27
    assert profile(jitted, jnp.ones((3, 3)), metrics=["macs"])["macs"] == 27, "a jitted function names its framework"


HELD = jnp.ones((3, 5))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ HELD,
        jax.jit(lambda x: x @ HELD),
        jax.jit(lambda x: jax.jit(lambda y: y @ HELD)(x) + x @ HELD),
        lambda x: jax.lax.cond(x[0, 0] > 0, lambda y: y @ HELD, lambda y: y @ HELD + 1, x),
    ],
)
def test_arrays_that_a_function_holds_are_buffers(function: Any) -> None:
    trace = JaxBackend().trace(function, ModelInputs(jnp.ones((2, 3))))
    assert (trace.total_params, trace.size_bytes) == (0, 60)


def test_arrays_that_stand_in_two_places_are_one_weight() -> None:
    shared = jnp.ones((4, 4))
    tied = JaxModel(lambda p, x: x @ p["a"] @ p["b"], {"a": shared, "b": shared})
    shapes = JaxModel(lambda p, x: x @ p["a"] @ p["b"], dict.fromkeys("ab", S((4, 4), "float32")))
    inputs = ModelInputs(jnp.ones((2, 4)))
    assert JaxBackend().trace(tied, inputs).total_params == 16
    assert JaxBackend().trace(shapes, inputs).total_params == 32, "one shape may stand for many arrays"


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("int8", 21), ("uint4", 21), ("float8_e4m3fn", 21), ("int32", 0), ("uint32", 0), ("bool", 0)],
)
def test_integers_of_a_byte_or_less_are_quantized_weights(dtype: str, expected: int) -> None:
    """Wider ones are counters and random keys."""
    quantized = {"values": jnp.ones((7, 3), dtype), "scale": jnp.ones(3)}

    class Module(eqx.Module):
        held: Any

        def __call__(self, x: Any) -> Any:
            return (x @ self.held["values"].astype("float32")) * self.held["scale"]

    for model in (JaxModel(lambda held, x: Module(held)(x), quantized), Module(quantized)):
        trace = JaxBackend().trace(model, ModelInputs(jnp.ones((2, 7))))
        assert trace.total_params == expected + 3
        assert trace.trainable_params == (expected if dtype.startswith("float") else 0) + 3


@pytest.mark.parametrize("dtype", ["int4", "uint2", "float4_e2m1fn", "float8_e4m3fn", "bool", "bfloat16"])
def test_an_array_has_the_bytes_that_xla_stores(dtype: str) -> None:
    weight, x = jnp.ones((7, 3), dtype), S((5, 9), dtype)
    compiled: Any = jax.jit(lambda w, x: (w, x)).lower(weight, x).compile().memory_analysis()
    trace = JaxBackend().trace(JaxModel(lambda w, x: (w, x), weight), ModelInputs(x))
    assert trace.size_bytes + trace.memory.input_bytes == compiled.argument_size_in_bytes


def test_pytrees_and_options_are_inputs() -> None:
    def function(params: Any, batch: Any, *, twice: bool = False, factor: float = 1.0) -> Any:
        y = batch["x"] @ params + batch["pair"][0]
        return {"y": y @ y.T if twice else y * factor, "name": "result"}

    model, batch = JaxModel(function, jnp.ones((4, 5))), {"x": jnp.ones((3, 4)), "pair": (jnp.ones(5), None)}
    once = JaxBackend().trace(model, ModelInputs(batch))
    twice = JaxBackend().trace(model, ModelInputs(batch, twice=True))
    assert (once.macs, twice.macs) == (3 * 4 * 5, 3 * 4 * 5 + 3 * 3 * 5)
    with JaxBackend().run(model, ModelInputs(batch, twice=True)) as run:
        outputs = run()
    assert outputs["name"] == "result"
    np.testing.assert_allclose(outputs["y"], 5 * 5 * np.ones((3, 3)) * 5)


# Shapes in place of weights -------------------------------------------------------------------------------------------


LAYERS, WIDTH, HIDDEN, WORDS, LENGTH = 80, 8192, 28672, 32000, 512


def stack(params: Any, words: Any) -> Any:
    """A decoder's products alone: four projections and three of the feed-forward part in each layer, and the scores."""
    x = params["words"][words]
    for layer in params["layers"]:
        for name in ("query", "key", "value", "output"):
            x = x @ layer[name]
        x = (x @ layer["gate"]) * (x @ layer["up"]) @ layer["down"]
    return x @ params["head"]


def test_seventy_billion_parameters_count_in_seconds() -> None:
    square, up, down = S((WIDTH, WIDTH), "bfloat16"), S((WIDTH, HIDDEN), "bfloat16"), S((HIDDEN, WIDTH), "bfloat16")
    names = ("query", "key", "value", "output")
    layer = {**dict.fromkeys(names, square), "gate": up, "up": up, "down": down}
    words, head = S((WORDS, WIDTH), "bfloat16"), S((WIDTH, WORDS), "bfloat16")
    model = JaxModel(stack, {"words": words, "layers": [layer] * LAYERS, "head": head})
    start = time.process_time()
    trace = JaxBackend().trace(model, ModelInputs(S((1, LENGTH), "int32")))
    assert time.process_time() - start < 60
    number = 4 * WIDTH * WIDTH + 3 * WIDTH * HIDDEN
    assert trace.total_params == LAYERS * number + 2 * WORDS * WIDTH > 70e9
    assert trace.size_bytes == 2 * trace.total_params
    assert trace.macs == LENGTH * (LAYERS * number + WIDTH * WORDS)
    assert trace.flops == 2 * trace.macs + LAYERS * LENGTH * HIDDEN
    assert trace.memory.peak_bytes(include_weights=False) == 4 * LENGTH + 3 * 2 * LENGTH * HIDDEN


def test_a_model_without_values_is_not_run() -> None:
    model = JaxModel(mlp, jax.eval_shape(lambda: parameters(4, 2)))
    with (
        pytest.raises(WithoutValuesError, match="weights of mlp have no values, .* first, 2 of 2: "),
        JaxBackend().run(model, ModelInputs(jnp.ones((3, 4)))),
    ):
        pass
    with pytest.raises(WithoutValuesError, match=r"jax\.ShapeDtypeStruct"):
        JaxBackend().zero_weights(model)


def test_inputs_without_values_are_not_run() -> None:
    with (
        pytest.raises(InputError, match="give arrays"),
        JaxBackend().run(JaxModel(mlp, parameters(4, 2)), ModelInputs(S((3, 4), "float32"))),
    ):
        pass


# Named scopes ---------------------------------------------------------------------------------------------------------


def scoped(params: Any, x: Any) -> Any:
    with jax.named_scope("encoder"):
        for name in ("first", "second"):
            with jax.named_scope(name):
                x = jnp.tanh(x @ params["encoder"][name]["kernel"])
        x = x + 1
    with jax.named_scope("encoder"):
        x = jnp.exp(x)
    return x * 2


@pytest.mark.parametrize(
    ("name", "is_layer"),
    [
        *(("encoder->decoder", True), ("a->b", True), ("ffn", True), ("mm", True), ("kiss", True)),
        *(("ij,jk", False), ("...ij, jk -> ...ik", False)),
        *(("ii", False), ("i i", False), ("ji", False), ("...ba", False), ("aa->", False), ("nn->n", False)),
    ],
)
def test_scopes_of_the_users_are_layers_and_equations_of_einsums_are_none(name: str, is_layer: bool) -> None:
    """JAX opens a scope with the equation of an einsum as its name."""

    def function(x: Any) -> Any:
        if not is_layer:
            return jnp.einsum(name, x @ x, *([x] if "," in name else []))
        with jax.named_scope(name):
            return x @ x

    trace = JaxBackend().trace(jax.jit(function), ModelInputs(jnp.ones((4, 4))))
    assert [row["path"] for row in trace.table] == ["", *([name] if is_layer else [])]


def test_named_scopes_are_layers_and_hold_the_parameters_of_their_paths() -> None:
    params = {"encoder": {name: {"kernel": jnp.ones((4, 4))} for name in ("first", "second")}}
    table = JaxBackend().trace(JaxModel(scoped, params), ModelInputs(jnp.ones((3, 4)))).table
    assert [row["path"] for row in table] == ["", "encoder", "encoder.first", "encoder.second"]
    rows = {row["path"]: row for row in table}
    assert {row["type"] for path, row in rows.items() if path} == {"named_scope"}
    assert (rows["encoder.first"]["own_macs"], rows["encoder.first"]["params"]) == (48, 16)
    assert (rows["encoder"]["params"], rows["encoder"]["macs"]) == (32, 96)
    assert rows["encoder"]["own_flops"] == 12 + 12
    assert rows[""]["own_flops"] == 12


def test_the_scope_of_an_einsum_is_no_layer() -> None:
    trace = JaxBackend().trace(lambda x: jnp.einsum("ij,kj->ik", x, x), ModelInputs(jnp.ones((3, 4))))
    assert [layer.path for layer in trace.layers] == [""]


# Mistakes -------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_called_is_no_function() -> None:
    with pytest.raises(ArgumentError, match="function=3 cannot be called; give a function"):
        JaxModel(3)
    with pytest.raises(ArgumentError, match="name=3: give the name of the model as a text"):
        JaxModel(mlp, name=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="cannot be called"):
        JaxModel(SimpleNamespace(init=mlp, apply=mlp), {})  # as Haiku has its models


def test_random_keys_of_a_function_are_not_ignored() -> None:
    with pytest.raises(ArgumentError, match="rngs=.* are for a module of Flax's linen"):
        JaxModel(mlp, {}, rngs={"dropout": jax.random.key(0)})


class Dropping(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dropout(0.5, deterministic=False)(linen.Dense(3)(x))


KEY = jax.random.key(0)


@pytest.mark.parametrize("rngs", [{"dropout": KEY}, {"dropout": jax.random.PRNGKey(0)}, KEY, jax.random.PRNGKey(0)])
def test_a_linen_module_takes_the_keys_that_apply_takes(rngs: Any) -> None:
    x = jnp.ones((2, 4))
    variables = Dropping().init({"params": KEY, "dropout": KEY}, x)
    model = JaxModel(Dropping(), variables, rngs=rngs)
    expected: Any = Dropping().apply(variables, x, rngs=rngs)
    assert jnp.array_equal(model(x), expected)
    assert profile(model, x, metrics=["macs"])["macs"] == 2 * 4 * 3


@pytest.mark.parametrize("rngs", [5, "dropout", [KEY], {"dropout": 5}, {"dropout": None}, {1: KEY}])
def test_what_is_no_key_is_refused_when_the_model_is_made(rngs: Any) -> None:
    with pytest.raises(ArgumentError, match="rngs=.*: give a random key of JAX, or keys by name"):
        JaxModel(Dropping(), {}, rngs=rngs)


def test_a_model_that_raises_is_quoted() -> None:
    trace = JaxBackend().trace(JaxModel(mlp, parameters(4, 2)), ModelInputs(jnp.ones((3, 5))))
    assert "dot_general" in str(trace.failure)
    assert trace.total_params == 10


def test_a_formula_of_the_users_own() -> None:
    from profilerkit.costs import Cost
    from profilerkit_jax.costs import scoped_costs

    def tanh(call: Any) -> Cost:
        return Cost(0, 7 * call.outputs[0].numel)

    with scoped_costs():
        register_op_cost("tanh", tanh)
        trace = JaxBackend().trace(jnp.tanh, ModelInputs(jnp.ones(3)))
    assert (trace.flops, trace.conditions) == (21, ("your own cost formulas for tanh",))
    trace = JaxBackend().trace(jnp.tanh, ModelInputs(jnp.ones(3)))
    assert (trace.flops, trace.conditions) == (3, ())
    with pytest.raises(ArgumentError, match="give the type of an operator, such as 'dot_general'"):
        register_op_cost("", tanh)
    with scoped_costs():
        register_op_cost("tanh", lambda call: 7)  # type: ignore[type-var]
        failure = JaxBackend().trace(jnp.tanh, ModelInputs(jnp.ones(3))).failure
    assert str(failure) == "the cost formula of tanh returned 7, which is no Cost"
