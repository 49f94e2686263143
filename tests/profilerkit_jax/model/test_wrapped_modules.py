"""Functions around a module: its arrays are the parameters, whatever compiles, maps, binds or closes over it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("equinox")
pytest.importorskip("flax")
import equinox
import jax
import jax.numpy as jnp
from flax import linen, nnx
from flax.training.train_state import TrainState

from profilerkit import BackendNotFoundError, ModelInputs, ModelTrace, profile
from profilerkit_jax import JaxModel
from profilerkit_jax.backend import JaxBackend
from profilerkit_jax.model.wrapped import replace_modules

optax = pytest.importorskip("optax")

#: One sample of three features, and a batch of two.
ROW, BATCH = jnp.ones(3), jnp.ones((2, 3))
#: 3 to 5 to 4 features: the weights and biases, the products of a sample, and those of its gradients: of both weights,
#: and of what the second layer is given.
PARAMETERS, ONE, BACKWARD = 3 * 5 + 5 + 5 * 4 + 4, 3 * 5 + 5 * 4, 3 * 5 + 2 * 5 * 4


class Network(nnx.Module):
    def __init__(self) -> None:
        self.first = nnx.Linear(3, 5, rngs=nnx.Rngs(0))
        self.second = nnx.Linear(5, 4, rngs=nnx.Rngs(1))

    def __call__(self, x: Any) -> Any:
        return self.second(nnx.relu(self.first(x)))

    def encode(self, x: Any) -> Any:
        return self.first(x)


DENSE = linen.Dense(4)
#: Global, since that is how a function may hold a module; built for the tests, as JAX compiles for each.
MLP: Any = None
NETWORK: Any = None
BOUND: Any = None


@pytest.fixture(scope="module", autouse=True)
def modules() -> None:
    bound = DENSE.bind(DENSE.init(jax.random.key(0), BATCH))
    globals().update(MLP=equinox.nn.MLP(3, 4, 5, 1, key=jax.random.key(0)), NETWORK=Network(), BOUND=bound)


@jax.jit
def with_a_global_module(x: Any) -> Any:
    return NETWORK(x)


def halve(x: Any) -> Any:
    return jnp.concatenate([run_halves(half) for half in jnp.split(x, 2)])


def run_halves(x: Any) -> Any:
    return NETWORK(x) if len(x) == 1 else halve(x)


def count_all(model: Any, x: Any) -> tuple[int, int, int, ModelTrace]:
    """Return parameters, multiply-accumulates of a pass and of a training step, and the trace."""
    backend = JaxBackend()
    trace, step = (trace(model, ModelInputs(x)) for trace in (backend.trace, backend.trace_training))
    assert (trace.failure, step.failure) == (None, None)
    parameters = {weight.identity: weight.count for layer in trace.layers for weight in layer.parameters}
    assert not [weight for layer in trace.layers for weight in layer.buffers]
    assert step.notes == ()
    assert all("they may be one sample" in note for note in trace.notes)  # filter_jit hides the layers that tell
    return sum(parameters.values()), trace.macs, step.macs, trace


def count_layers(trace: ModelTrace) -> dict[str, int]:
    """Return the multiply-accumulates of each layer that has any."""
    return {str(row["path"]): row["macs"] for row in trace.table if row["macs"]}


def in_a_mapping(held: Any) -> Any:
    return lambda x: jax.vmap(held["nets"][0])(x)  # noqa: PLW0108


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # Equinox advises against jax.vmap inside of filter_jit
@pytest.mark.parametrize(
    ("wrap", "x"),
    [
        (jax.jit, ROW),
        (jax.vmap, BATCH),
        (lambda model: jax.jit(jax.vmap(model)), BATCH),
        (lambda model: jax.jit(jax.jit(jax.vmap(model))), BATCH),
        (lambda model: jax.jit(jax.vmap(jax.jit(model))), BATCH),
        (lambda model: jax.jit(functools.partial(jax.vmap(model))), BATCH),
        (lambda model: functools.partial(lambda net, x: jax.vmap(net)(x), model), BATCH),
        (lambda model: functools.partial(lambda x, net: jax.vmap(net)(x), net=model), BATCH),
        (lambda model: lambda x: jax.vmap(model)(x), BATCH),  # noqa: PLW0108
        (lambda model: lambda x, net=model: jax.vmap(net)(x), BATCH),
        (lambda model: lambda x: sum(jax.vmap(net)(x) for net in [model]), BATCH),
        (lambda model: in_a_mapping({"nets": (model,)}), BATCH),
        (lambda model: model.__call__, ROW),
        (lambda model: jax.jit(model.__call__), ROW),
        (equinox.filter_jit, ROW),
        (equinox.filter_vmap, BATCH),
        (lambda model: jax.jit(equinox.filter_vmap(model)), BATCH),
        (lambda model: equinox.filter_jit(jax.vmap(model)), BATCH),
        (lambda model: equinox.filter_jit(equinox.filter_vmap(model)), BATCH),
    ],
)
def test_a_module_of_equinox_inside_of_functions(wrap: Callable[[Any], Any], x: Any) -> None:
    before = jax.tree.leaves(MLP)
    samples = len(x) if x.ndim == 2 else 1
    assert count_all(wrap(MLP), x)[:3] == (PARAMETERS, samples * ONE, samples * (ONE + BACKWARD))
    assert all(one is two for one, two in zip(jax.tree.leaves(MLP), before, strict=True))


@pytest.mark.parametrize(
    "wrap",
    [
        jax.jit,
        nnx.jit,
        jax.vmap,
        nnx.remat,
        lambda model: jax.jit(jax.vmap(model)),
        lambda model: nnx.jit(lambda x: model(x)),  # noqa: PLW0108
        lambda model: nnx.vmap(model, in_axes=0),
        lambda model: nnx.vmap(lambda x: model(x), in_axes=0),  # noqa: PLW0108
        lambda model: with_a_global_module,
    ],
)
def test_a_module_of_nnx_inside_of_functions(wrap: Callable[[Any], Any]) -> None:
    wrapped = wrap(NETWORK)
    parameters, macs, step, trace = count_all(wrapped, BATCH)
    assert (parameters, macs) == (PARAMETERS, 2 * ONE)
    assert step >= 2 * (ONE + BACKWARD)
    assert {"first", "second"} <= {layer.path for layer in trace.layers}
    assert not isinstance(NETWORK.first.kernel[...], jax.core.Tracer)


@pytest.mark.parametrize("wrap", [lambda function: function, jax.jit])
def test_a_function_that_calls_itself_runs_with_the_copy_in_all_calls(wrap: Callable[[Any], Any]) -> None:
    """Two samples, each in a call of its own; through another function, and through the compiled function itself."""
    net = NETWORK
    compiled: Any = wrap(lambda x: net(x) if len(x) == 1 else jnp.concatenate([compiled(x[:1]), compiled(x[1:])]))
    for function in (run_halves, compiled):
        *counts, trace = count_all(function, BATCH)
        assert counts == [PARAMETERS, 2 * ONE, 2 * (ONE + BACKWARD)]
        assert {layer.path: layer.call_count for layer in trace.layers} == {"": 1, "first": 2, "second": 2}


def test_what_a_checkpoint_computes_again_is_counted_again() -> None:
    """The products of the first layer; those of the second are needed for no gradient."""
    counts = count_all(jax.checkpoint(lambda x: jax.vmap(MLP)(x)), BATCH)  # noqa: PLW0108
    assert counts[:3] == (PARAMETERS, 2 * ONE, 2 * (ONE + BACKWARD) + 2 * 3 * 5)


def test_a_method_of_a_module_has_the_parameters_of_the_module() -> None:
    for method in (NETWORK.encode, jax.jit(NETWORK.encode)):
        assert count_all(method, BATCH)[:3] == (PARAMETERS, 2 * 15, 2 * 2 * 15)


def test_a_gradient_is_a_function_around_a_module() -> None:
    """By the input: the product of the first layer, and one with each weight backwards; no output needs the second."""
    gradient = jax.grad(lambda x: MLP(x).sum())
    assert count_all(gradient, ROW)[:2] == (PARAMETERS, 3 * 5 + 4 * 5 + 5 * 3)


def test_a_bound_module_of_linen_inside_of_a_function() -> None:
    for model in (BOUND, jax.jit(lambda x: BOUND(x))):  # noqa: PLW0108
        assert count_all(model, BATCH)[:3] == (3 * 4 + 4, 2 * 12, 2 * 2 * 12)


def test_a_module_that_is_the_default_of_a_named_argument() -> None:
    """A step has the products of its backward pass: the weights that it differentiates by are those of the copy."""

    def run(x: Any, *, net: Any = MLP) -> Any:
        return jax.vmap(net)(x)

    assert count_all(run, BATCH)[:3] == (PARAMETERS, 2 * ONE, 2 * (ONE + BACKWARD))


def test_what_does_not_lead_to_the_module_is_handed_on() -> None:
    for function in (functools.partial(jnp.add, ROW), functools.partial(jnp.sum, axis=0), NETWORK.encode):
        assert replace_modules(function, [(MLP, object())]) is function


def test_two_modules_inside_of_one_function() -> None:
    parameters, macs, step, trace = count_all(jax.jit(lambda x: NETWORK(x) + jax.vmap(MLP)(x)), BATCH)
    assert (parameters, macs, step) == (2 * PARAMETERS, 2 * 2 * ONE, 2 * 2 * (ONE + BACKWARD))
    layers = {
        ("module_0", "first"): 15,
        ("module_0", "second"): 20,
        ("module_1", "layers", "0"): 15,
        ("module_1", "layers", "1"): 20,
    }
    assert {".".join(path): 2 * macs for path, macs in layers.items()}.items() <= count_layers(trace).items()


def test_the_modules_of_a_function_are_replaced_in_one_search() -> None:
    """Each value is taken apart once, however many modules there are: a search for each would be quadratic."""
    taken_apart: list[Any] = []

    class Counted(functools.partial[Any]):
        @property
        def args(self) -> Any:
            taken_apart.append(self)
            return super().args

    layers = [equinox.nn.Linear(3, 3, key=jax.random.key(number)) for number in range(20)]
    counted = Counted(lambda layers, x: sum(layer(x) for layer in layers), layers)
    copies = [(layer, lambda x: x) for layer in layers]
    assert replace_modules(counted, copies)(ROW).tolist() == [20.0] * 3
    assert len(taken_apart) == 1


class Coder(nnx.Module):
    def __init__(self) -> None:
        self.encoder, self.decoder = (nnx.Linear(*sizes, rngs=nnx.Rngs(0)) for sizes in ((3, 5), (5, 3)))

    def encode(self, x: Any) -> Any:
        return self.encoder(x)


class EquinoxCoder(equinox.Module):
    encoder: equinox.nn.Linear
    decoder: equinox.nn.Linear

    def __init__(self) -> None:
        self.encoder, self.decoder = (equinox.nn.Linear(*sizes, key=jax.random.key(0)) for sizes in ((3, 5), (5, 3)))

    def encode(self, x: Any) -> Any:
        return jax.vmap(self.encoder)(x)


@pytest.mark.parametrize("make", [Coder, EquinoxCoder])
def test_a_module_that_is_not_called_itself(make: Callable[[], Any]) -> None:
    coder = make()
    for function in (coder.encode, jax.jit(lambda x: coder.encode(x))):  # noqa: PLW0108
        parameters, macs, _, trace = count_all(function, BATCH)
        assert (parameters, macs, count_layers(trace)["encoder"]) == (3 * 5 + 5 + 5 * 3 + 3, 2 * 15, 2 * 15)
    report = profile(coder, BATCH, call=lambda module, x: module.encode(x), metrics=["total_params", "macs"])
    assert (report["total_params"], report["macs"]) == (3 * 5 + 5 + 5 * 3 + 3, 2 * 15)


def test_an_object_of_nnx_that_is_no_module_is_no_model() -> None:
    """It has no parameters, and zero parameters called complete would be wrong for the model that it belongs to."""
    for value in nnx.Optimizer(NETWORK, optax.adam(1e-3), wrt=nnx.Param), nnx.metrics.Average():
        assert not JaxBackend().accepts(value)
        with pytest.raises(
            BackendNotFoundError, match=f"no backend recognizes a model of type {type(value).__module__}"
        ):
            profile(value, BATCH)


class Trainer:
    """A loop as users write it: its step changes the module, the optimizer, a metric and a generator in place."""

    def __init__(self) -> None:
        self.network, self.rngs, self.losses = Network(), nnx.Rngs(0), nnx.metrics.Average()
        self.optimizer = nnx.Optimizer(self.network, optax.adam(1e-3), wrt=nnx.Param)

    def step(self, x: Any) -> Any:
        loss = take_step(self.network, self.optimizer, x + jax.random.normal(self.rngs(), x.shape))
        self.losses.update(values=loss)
        return loss


@nnx.jit
def take_step(network: Any, optimizer: Any, x: Any) -> Any:
    loss, gradients = nnx.value_and_grad(lambda network: network(x).sum())(network)
    optimizer.update(network, gradients)
    return loss


def test_the_step_of_a_trainer_runs_with_copies_of_all_that_it_changes() -> None:
    """Flax would refuse to change them in a trace, and leave those that it has begun with empty."""
    trainer = Trainer()
    kernel = trainer.network.first.kernel[...]
    trace = JaxBackend().trace(trainer.step, ModelInputs(BATCH))
    assert (trace.failure, trace.total_params, trace.macs) == (None, PARAMETERS, 2 * (ONE + BACKWARD))
    assert count_layers(trace)["first"] == 2 * (15 + 15)
    assert trainer.network.first.kernel[...] is kernel
    counters: list[Any] = [trainer.optimizer.step, trainer.rngs.default.count, trainer.losses.count]
    assert [int(counter[...]) for counter in counters] == [0, 0, 0]


class Equal:
    """Holds a module, in a method that JAX compiles for each object; all of its objects are equal."""

    def __init__(self) -> None:
        self.network = NETWORK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 1

    @functools.partial(jax.jit, static_argnums=0)
    def run(self, x: Any) -> Any:
        return self.network(x)

    def run_twice(self, x: Any) -> Any:
        return self.run(x) + self.run(x)


def test_a_compiled_method_is_not_what_was_compiled_for_an_equal_object() -> None:
    Equal().run(BATCH)
    held = Equal()
    held.run(BATCH)
    timed = profile(held.run_twice, BATCH, backend="jax", metrics=["execution_time"], num_iters=2, warmup=1)
    assert timed["execution_time"].median > 0
    for _ in range(2):
        assert count_all(held.run, BATCH)[:3] == (PARAMETERS, 2 * ONE, 2 * (ONE + BACKWARD))
        assert count_all(held.run_twice, BATCH)[:3] == (PARAMETERS, 2 * 2 * ONE, 2 * 2 * (ONE + BACKWARD))


def test_a_module_that_compiles_its_call_can_be_traced_again() -> None:
    """JAX keeps what it has traced of such a call, with the marks of that trace: its layers would be unknown ones."""

    class Compiled(Network):
        __call__ = nnx.jit(Network.__call__)

    class EquinoxCompiled(EquinoxCoder):
        __call__ = equinox.filter_jit(EquinoxCoder.encode)

    kinds: list[tuple[Any, int]] = [(Compiled, ONE), (EquinoxCompiled, 15)]
    for make, macs in kinds:
        model = make()
        traces = [count_all(model, BATCH) for _ in range(2)]
        assert [counts[1] for counts in traces] == [2 * macs] * 2
        first, second = (count_layers(counts[3]) for counts in traces)
        assert len(first) > 1 and first == second


def test_the_metrics_of_a_wrapped_module_are_those_of_the_module() -> None:
    asked = ["total_params", "trainable_params", "model_size", "macs", "flops"]
    plain = profile(MLP, ROW, metrics=asked)
    wrapped = profile(jax.jit(MLP), ROW, metrics=asked)
    assert [wrapped[name] for name in asked] == [plain[name] for name in asked]
    assert plain["total_params"] == PARAMETERS
    timed = profile(jax.jit(jax.vmap(MLP)), BATCH, metrics=["execution_time"], num_iters=2, warmup=1)
    assert timed["execution_time"].median > 0


def test_a_function_that_holds_arrays_and_no_parameters_says_so() -> None:
    weight = jnp.ones((3, 4))
    variables = DENSE.init(jax.random.key(0), BATCH)
    note = (
        "no parameters: arrays that the function holds itself, {} here, count as buffers and have no gradients; give "
        "JaxModel(function, params) to count them as parameters"
    )
    models = [(jax.jit(lambda x: x @ weight), 1), (functools.partial(DENSE.apply, variables), 2)]
    for model, held in models:
        trace = JaxBackend().trace(model, ModelInputs(BATCH))
        assert note.format(held) in trace.notes
    assert JaxBackend().trace(lambda x: x @ x.T, ModelInputs(BATCH)).notes == ()


def test_a_function_whose_parameters_are_an_input_says_how_to_give_them() -> None:
    """They are data to the function, and zero parameters without a word would be wrong for the model."""
    variables = DENSE.init(jax.random.key(0), BATCH)
    note = (
        "no parameters: the first input counts as data; if it holds the parameters, give JaxModel(function, params), "
        "or JaxModel(module, variables)"
    )
    for function in DENSE.apply, jax.jit(DENSE.apply):
        assert note in JaxBackend().trace(function, ModelInputs(variables, BATCH)).notes
    state = TrainState.create(apply_fn=DENSE.apply, params=variables, tx=optax.adam(1e-3))
    assert note in JaxBackend().trace(lambda state, x: state.apply_fn(state.params, x), ModelInputs(state, BATCH)).notes
    trace = JaxBackend().trace(nnx.jit(lambda network, x: network(x)), ModelInputs(NETWORK, BATCH))
    assert trace.notes == (
        "no parameters: the module among the inputs counts as data; give a function of x that has the module",
    )
    assert JaxBackend().trace(JaxModel(DENSE, variables), ModelInputs(BATCH)).notes == ()
    mapping = {"image": BATCH}  # the only input is data
    assert JaxBackend().trace(lambda batch: batch["image"].sum(), ModelInputs(mapping)).notes == ()
