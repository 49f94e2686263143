"""Runs: outputs, first calls, devices, training steps, what XLA says, optimizers, evaluation."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

pytest.importorskip("flax")
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from time_limits import run_program

from profilerkit import (
    ArgumentError,
    Device,
    DeviceNotAvailableError,
    InputError,
    ModelFailedError,
    ModelInputs,
    profile,
)
from profilerkit.backend import RunOptions
from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit_jax import EvalLossFunction, JaxModel, compiled_analysis, get_accuracy, get_topk
from profilerkit_jax.backend import JaxBackend
from profilerkit_jax.running.devices import devices_here, resolve_device

BACKEND = JaxBackend()
X = jnp.arange(12.0).reshape(3, 4)


class Linear(nnx.Module):
    def __init__(self) -> None:
        self.kernel = nnx.Param(jnp.eye(4))
        self.calls = nnx.BatchStat(jnp.zeros(()))

    def __call__(self, x: Any) -> Any:
        self.calls[...] = self.calls[...] + 1
        return {"y": x @ self.kernel[...]}


def test_a_run_gives_the_outputs_and_leaves_the_module_as_it_was() -> None:
    model = Linear()
    with BACKEND.run(model, ModelInputs(X)) as run:
        assert run.first_call_seconds is not None
        assert run.first_call_seconds > 0
        np.testing.assert_array_equal(run()["y"], X)
    assert model.calls[...] == 0


def test_a_training_step_runs_too() -> None:
    with BACKEND.run(Linear(), ModelInputs(X), RunOptions(training=True)) as run:
        [outputs] = run()
    np.testing.assert_array_equal(outputs, X)


def test_arrays_that_the_user_donates_are_still_there() -> None:
    donating = jax.jit(lambda weight, x: x @ weight, donate_argnums=(0, 1))
    weight = jnp.eye(4)
    with BACKEND.run(JaxModel(donating, weight), ModelInputs(X)) as run:
        run()
        run()
    assert not weight.is_deleted()
    assert not X.is_deleted()


def test_an_error_in_a_run_is_the_models() -> None:
    with pytest.raises(ModelFailedError, match="dot_general"), BACKEND.run(Linear(), ModelInputs(X.T)):
        pass


def test_devices() -> None:
    if jax.default_backend() != "cpu":
        pytest.skip("JAX takes another device here")
    model = Linear()
    assert BACKEND.resolve_device(model, None) == "cpu"
    assert BACKEND.resolve_device(model, Device.CPU) == "cpu"
    assert BACKEND.resolve_device(model, "cpu:0") == "cpu"
    for missing in ("tpu:3", "gpu:99", "no such device"):
        with pytest.raises(DeviceNotAvailableError, match="the devices of JAX in this process are: cpu"):
            BACKEND.resolve_device(model, missing)


def test_a_process_whose_platforms_leave_out_the_cpu_has_its_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """``JAX_PLATFORMS=cuda``: JAX refuses to list the CPU, and a report still names the devices."""
    gpu = SimpleNamespace(platform="cuda", id=0)

    def local_devices(backend: str | None = None) -> list[Any]:
        if backend == "cpu":
            raise RuntimeError("Unknown backend cpu. Available backends are ['cuda']")
        return [gpu]

    monkeypatch.setattr(jax, "local_devices", local_devices)
    assert devices_here() == {"gpu:0": gpu}
    assert BACKEND.environment()["devices"] == "gpu:0"


def test_devices_are_numbered_in_their_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second process of ``jax.distributed`` JAX gives the first CPU the number 2048, and a GPU the number 8."""
    cpu, gpu = SimpleNamespace(platform="cpu", id=2048), SimpleNamespace(platform="cuda", id=8)
    monkeypatch.setattr(jax, "local_devices", lambda backend=None: [cpu if backend == "cpu" else gpu])
    assert devices_here() == {"cpu": cpu, "gpu:0": gpu}
    assert BACKEND.resolve_device(Linear(), "cpu") == "cpu"
    assert BACKEND.resolve_device(Linear(), None) == "gpu:0"


class FakeDevice(NamedTuple):
    platform: str
    id: int


def test_weights_on_devices_of_two_platforms_are_named_by_both() -> None:
    spread = {FakeDevice("cuda", 0), FakeDevice("cuda", 1), FakeDevice("cpu", 0)}
    subject: Any = SimpleNamespace(values=[SimpleNamespace(committed=True, devices=lambda: spread)])
    assert resolve_device(subject, None) == "1 x cpu, 2 x gpu"


@pytest.mark.parametrize(("chosen", "name"), [(None, "gpu:0"), ("cpu", "cpu")])
def test_weights_that_are_bound_to_no_device_run_on_the_default(
    chosen: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default is a platform by its name, if one is chosen; the first GPU, if there is one, otherwise."""

    def list_devices(backend: str | None = None) -> list[SimpleNamespace]:
        return [SimpleNamespace(platform=backend or "cuda", id=0)]

    with jax.default_device(chosen):
        model = Linear()
        monkeypatch.setattr(jax, "local_devices", list_devices)
        assert BACKEND.resolve_device(model, None) == name


#: Runs a model on four devices: weights that are spread, inputs that are, and a `shard_map` over weights on no device.
SPREAD = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
from profilerkit import ModelInputs
from profilerkit_jax import JaxModel, get_accuracy
from profilerkit import profile
from profilerkit.backend import RunOptions
from profilerkit.render.summary import describe_inputs
from profilerkit_jax.backend import JaxBackend
from profilerkit_jax.running.devices import devices_here

mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
weight, x = jnp.ones((8, 4)), jnp.ones((12, 8))
multiply = lambda weight, x: x @ weight
mapped = jax.shard_map(lambda w, x: jax.lax.psum(x @ w, "d"), mesh=mesh, in_specs=(P("d"), P(None, "d")), out_specs=P())
spread = lambda array, *spec: jax.device_put(array, NamedSharding(mesh, P(*spec)))

def count_devices(function, weight, x, training=False, **options):
    with JaxBackend().run(JaxModel(function, weight), ModelInputs(x), RunOptions(training=training, **options)) as run:
        (output,) = jax.tree.leaves(run())
    return len(output.devices())

print(
    count_devices(multiply, spread(weight, None, "d"), x),
    count_devices(multiply, spread(weight, None, "d"), x, training=True),
    count_devices(multiply, weight, spread(x, "d")),
    count_devices(mapped, weight, x),
    count_devices(multiply, weight, x),
    count_devices(multiply, jax.device_put(weight, jax.devices()[2]), x),
    count_devices(multiply, spread(weight, None, "d"), x, device="cpu:2"),
)
model = JaxModel(multiply, spread(weight, None, "d"))
print(get_accuracy(model, [(x, jnp.zeros(12, int))]))
print(describe_inputs(profile(model, x, metrics=["execution_time"], num_iters=1)))
"""


def test_a_model_that_is_spread_over_devices_runs_on_all_of_them() -> None:
    """As in the user's own call: before, all arrays were gathered on one device, and ``shard_map`` failed."""
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
    done = run_program([sys.executable, "-W", "ignore", "-c", SPREAD], env=environment)
    *numbers, accuracy, heading = done.stdout.splitlines()
    assert numbers == ["4 4 4 4 1 1 1"]
    assert float(accuracy) == 100  # all four scores of a row are equal, and the first of the greatest is class 0
    assert heading == "Input: ArrayImpl(12, 8), float32, 4 x cpu"


def test_what_xla_says_stands_beside_the_counts() -> None:
    """XLA counts a loop once however often it runs; profilerkit counts it for each turn."""

    def looped(x: Any) -> Any:
        return jax.lax.scan(lambda carry, _: (carry @ carry, None), x, None, length=10)[0]

    once = compiled_analysis(lambda x: x @ x, jnp.ones((8, 8)))
    assert once.flops == 2 * 8**3
    assert (once.argument_bytes, once.output_bytes) == (256, 256)
    looping = compiled_analysis(looped, jnp.ones((8, 8)))
    assert BACKEND.trace(looped, ModelInputs(jnp.ones((8, 8)))).flops == 10 * 2 * 8**3
    assert looping.flops is not None
    assert looping.flops < 2 * 2 * 8**3


def test_what_xla_says_needs_no_values() -> None:
    model = JaxModel(lambda p, x: x @ p, jax.ShapeDtypeStruct((4, 5), "float32"))
    analysis = compiled_analysis(model, jax.ShapeDtypeStruct((3, 4), "float32"))
    assert analysis.argument_bytes == 4 * (20 + 12)
    with pytest.raises(ModelFailedError):
        compiled_analysis(model, jax.ShapeDtypeStruct((3, 5), "float32"))


def test_zeros_among_the_weights() -> None:
    assert BACKEND.zero_weights(Linear()) == (12, 16)


def test_a_fingerprint_changes_with_a_weight() -> None:
    model, of_numpy = Linear(), JaxModel(lambda p, x: x, {"w": np.ones(3)})
    before, structure = BACKEND.fingerprint(model), BACKEND.fingerprint(model, values=False)
    assert BACKEND.fingerprint(model) == before
    model.kernel[...] = model.kernel[...] * 2
    assert BACKEND.fingerprint(model) != before
    assert BACKEND.fingerprint(model, values=False) == structure
    before, structure = BACKEND.fingerprint(of_numpy), BACKEND.fingerprint(of_numpy, values=False)
    of_numpy.params["w"][0] = 2
    assert BACKEND.fingerprint(of_numpy) != before
    assert BACKEND.fingerprint(of_numpy, values=False) == structure


def test_the_state_of_an_optimizer_of_optax() -> None:
    optax = pytest.importorskip("optax")
    weights = BACKEND.trace(Linear(), None).parameters
    assert BACKEND.optimizer_bytes(optax.adam(1e-3), weights) == OptimizerBytes(2 * 64 + 4, 0)  # and a count of steps
    assert BACKEND.optimizer_bytes(optax.sgd(1e-3), weights) == OptimizerBytes(0, 0)
    assert "no optimizer of optax" in str(BACKEND.optimizer_bytes(object(), weights))


# Evaluation -----------------------------------------------------------------------------------------------------------


def scores(x: Any) -> Any:
    return x


BATCHES = [(np.eye(4, dtype=np.float32), np.arange(4)), (np.eye(4, dtype=np.float32)[:2], np.array([0, 3]))]


def test_accuracy_over_batches_of_two_sizes() -> None:
    """Five of six samples are right."""
    assert get_accuracy(JaxModel(scores), BATCHES) == pytest.approx(100 * 5 / 6)
    assert list(get_topk(JaxModel(scores), BATCHES, topk=4).values()) == [100]


def test_a_loss_is_the_mean_over_samples() -> None:
    loss = EvalLossFunction(lambda output, target: np.mean((output.argmax(-1) - target) ** 2))
    assert loss(JaxModel(scores), BATCHES) == pytest.approx((4 * 0 + 2 * (4 / 2)) / 6)


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_the_parts_of_a_target_are_no_samples(parts: int) -> None:
    """A loss of 8 for four samples, and of 5 for two: (4 * 8 + 2 * 5) / 6."""
    loss = EvalLossFunction(lambda output, target: 8.0 if len(output) == 4 else 5.0)
    batches = [(inputs, [np.zeros(5)[0]] * parts) for inputs, _ in BATCHES]
    assert loss(JaxModel(scores), batches) == pytest.approx(7)


def test_mistakes_of_evaluation_are_named() -> None:
    with pytest.raises(ArgumentError, match="give a function, a module of Flax or Equinox, a Keras model on JAX, or"):
        get_accuracy(3, BATCHES)
    with pytest.raises(InputError, match="not one array with a score for each sample"):
        get_accuracy(JaxModel(lambda x: (x, x)), BATCHES)


@pytest.mark.parametrize("metric", ["layer_times", "operator_table"])
def test_times_of_single_layers_and_operators_do_not_apply_and_the_reason_says_what_does(metric: str) -> None:
    status = profile(Linear(), X, metrics=[metric]).status(metric)
    assert (status.value, status.completeness.value) == (None, "unavailable")
    [reason] = status.missing
    assert reason.startswith("does not apply to this model: XLA fuses operators, across layers too")
    assert "record a profile with jax.profiler.trace and give it to profilerkit join" in reason


def test_a_profile_has_times_and_counts() -> None:
    report = profile(Linear(), X, metrics=["macs", "execution_time", "first_call_time"])
    assert report["macs"] == 3 * 16
    assert "layer_times" not in report
