"""One rank of a mesh in JAX: its share, its work and its collectives, against hand formulas, and XLA's own counts."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from source_tree import ROOT
from time_limits import run_program

pytest.importorskip("flax")

import jax
import mesh_networks_jax as networks
import mesh_transformer_jax as transformer
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from mesh_networks_jax import BATCH, BLOCKS, INNER, LENGTH, WIDTH

from profilerkit import InputError, ModelInputs, profile
from profilerkit.costs import Cost
from profilerkit_jax import Shardings
from profilerkit_jax.meshes.device_program import DeviceProgram, Exchange
from profilerkit_jax.meshes.exchanges import RankExchange, find_group
from profilerkit_jax.meshes.numbered import number_equations, read_number
from profilerkit_jax.meshes.shardings import list_weight_shardings, make_whole, read_shardings
from profilerkit_jax.meshes.share_walk import ShareWalk
from profilerkit_jax.model.scope_names import EQUATION
from profilerkit_jax.model.subjects import find_subject
from profilerkit_jax.running.devices import list_host_devices
from profilerkit_jax.trace.control_flow import HANDLERS
from profilerkit_jax.trace.frames import Context, Frames
from profilerkit_predict.meshes.records import Message, Purpose, RankTrace, sum_parts

#: Bytes of a float32.
BYTE = 4
#: The bytes of a matrix of a block, and of what goes from block to block on one rank.
MATRIX, HIDDEN = WIDTH * INNER * BYTE, BATCH * LENGTH * WIDTH * BYTE
#: The multiply-accumulates of a matrix for the samples of one rank.
PRODUCT = BATCH * LENGTH * WIDTH * INNER


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, RankTrace], dict[str, Any]]:
    """Return the steps by name, and what XLA says of some: from a process of its own, which has four devices."""
    path = tmp_path_factory.mktemp("steps") / "steps.pickle"
    support = ROOT / "tests/support"
    run_program(
        [sys.executable, support / "mesh_steps_jax.py", path],
        variables={"PYTHONPATH": str(support), **list_host_devices(4)},
    )
    loaded: tuple[dict[str, RankTrace], dict[str, Any]] = pickle.loads(Path(path).read_bytes())
    return loaded


@pytest.fixture(scope="module")
def steps(answers: tuple[dict[str, RankTrace], dict[str, Any]]) -> dict[str, RankTrace]:
    return answers[0]


def sum_up(step: RankTrace) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return calls and bytes by kind, dimension and phase."""
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    for row in step.collectives:
        calls, size = sums.get((row.kind, row.dimension, row.phase), (0, 0))
        sums[row.kind, row.dimension, row.phase] = calls + row.calls, size + row.bytes
    return sums


def count_macs(step: RankTrace, phase: str) -> int:
    return sum(operator.macs for operator in step.trace.operators if operator.phase == phase)


@pytest.mark.parametrize(
    ("name", "share", "work"),
    [
        ("alone", 1, 1),
        ("dp", 1, 1),
        ("tp", 4, 4),
        ("fsdp", 4, 1),
        ("scan", 4, 1),
        ("fsdp x tp", 4, 2),
        ("shard_map", 2, 2),
    ],
)
def test_share_and_work_by_hand(steps: dict[str, RankTrace], name: str, share: int, work: int) -> None:
    step = steps[name]
    weights = BLOCKS * 2 * MATRIX // share
    assert sum(weight.bytes for weight in step.trace.parameters) == step.gradient_bytes == weights
    assert sum_parts(step.peak)["weights"] == sum_parts(step.peak)["gradients"] == weights
    assert sum_parts(step.peak)["inputs"] == HIDDEN
    assert count_macs(step, "forward") == BLOCKS * 2 * PRODUCT // work
    # Each product has two gradients, but that of the input of the first block; a checkpoint computes blocks again.
    again = BLOCKS * PRODUCT if name == "scan" else 0  # the second product of each is not needed for gradients
    first = 0 if name == "scan" else PRODUCT
    assert count_macs(step, "backward") == (BLOCKS * 4 * PRODUCT - first + again) // work
    assert not step.trace.uncounted and not step.unknown


def test_what_a_branch_exchanges_counts_with_the_branch(steps: dict[str, RankTrace]) -> None:
    """The side of all blocks is counted; the output of the one block of the other side is reduced in that alone."""
    step = steps["branches"]
    assert count_macs(step, "forward") == BLOCKS * 2 * PRODUCT // 4
    assert sum_up(step)["all-reduce", "tp", "forward"] == (BLOCKS, BLOCKS * HIDDEN)
    assert step.unknown["all-reduce of a branch that is not counted"] >= 1
    assert set(step.unknown) == {"all-reduce of a branch that is not counted"}


def test_layers_make_up_the_peak(steps: dict[str, RankTrace]) -> None:
    """Weights and gradients count for the layers that have them, all else for the model itself."""
    for step in steps.values():
        assert sum(step.peak.values()) == step.trace.memory.peak_bytes()
        assert sum(step.left.values()) == step.trace.memory.weight_bytes + (step.trace.memory.left_bytes or 0)
        for layer in step.trace.layers:
            own = sum(weight.bytes for weight in layer.parameters)
            for part in ("weights", "gradients"):
                assert step.peak.get(Purpose(part, layer.path), 0) == own
    assert len({purpose.layer for purpose in steps["transformer"].peak}) > 8


def test_collectives_by_hand(steps: dict[str, RankTrace]) -> None:
    """Data parallel ranks reduce each gradient; tensor parallel ones the output, and the gradient by the input."""
    weights = BLOCKS * 2 * MATRIX
    assert sum_up(steps["alone"]) == {}
    assert sum_up(steps["dp"]) == {("all-reduce", "dp", "backward"): (2 * BLOCKS, weights)}
    assert sum_up(steps["tp"]) == {
        ("all-reduce", "tp", "forward"): (BLOCKS, BLOCKS * HIDDEN),
        ("all-reduce", "tp", "backward"): (BLOCKS - 1, (BLOCKS - 1) * HIDDEN),  # nobody asks for that by the samples
    }
    assert sum_up(steps["fsdp"]) == {
        ("all-gather", "dp", "forward"): (2 * BLOCKS, weights),  # and kept for the backward pass
        ("reduce-scatter", "dp", "backward"): (2 * BLOCKS, weights),
    }
    assert sum_up(steps["scan"]) == {
        ("all-gather", "dp", "forward"): (2 * BLOCKS, weights),
        ("all-gather", "dp", "backward"): (2 * BLOCKS, weights),  # for what the checkpoint computes again
        ("reduce-scatter", "dp", "backward"): (2 * BLOCKS, weights),
    }
    assert sum_up(steps["shard_map"]) == {
        ("all-reduce", "tp", "forward"): (BLOCKS, BLOCKS * HIDDEN),
        ("all-reduce", "tp", "backward"): (BLOCKS - 1, (BLOCKS - 1) * HIDDEN),
        ("all-reduce", "dp", "backward"): (2 * BLOCKS, weights // 2),
    }


def test_collectives_have_layers_and_what_they_wait_for(steps: dict[str, RankTrace]) -> None:
    assert {row.layer for row in steps["dp"].collectives} == {f"block_{index}" for index in range(BLOCKS)}
    assert Counter(row.layer for row in steps["tp"].collectives) == {"block_0": 1, "block_1": 2, "block_2": 2}
    for name in ("dp", "fsdp", "scan"):
        assert all(row.overlaps for row in steps[name].collectives)
    assert not any(row.overlaps for row in steps["tp"].collectives)
    assert {row.dimension for row in steps["shard_map"].collectives if row.overlaps} == {"dp"}


def test_transformer_by_hand(steps: dict[str, RankTrace]) -> None:
    """Megatron's layout; XLA's partitioner reduces the gradients of q, k and v by their input one by one."""
    net, step = transformer, steps["transformer"]
    positions, split = net.BATCH * net.LENGTH, 2
    matrices = positions * (4 * net.WIDTH**2 + 2 * net.WIDTH * net.INNER) // split
    attention = 2 * net.BATCH * net.HEADS // split * net.LENGTH**2 * (net.WIDTH // net.HEADS)
    assert (
        count_macs(step, "forward") == net.BLOCKS * (matrices + attention) + positions * net.WIDTH * net.WORDS // split
    )
    hidden, numbers = positions * net.WIDTH * BYTE, positions * BYTE
    assert sum_up(step) == {
        # the embedding, two parts of each block; of the loss the maximum, the sum and the score of each word
        ("all-reduce", "tp", "forward"): (1 + 2 * net.BLOCKS + 3, (1 + 2 * net.BLOCKS) * hidden + 3 * numbers),
        ("all-reduce", "dp", "forward"): (1, BYTE),  # the mean
        # q, k, v and up in each block, the head; the loss
        ("all-reduce", "tp", "backward"): (4 * net.BLOCKS + 2, (4 * net.BLOCKS + 1) * hidden + numbers),
        ("all-reduce", "dp", "backward"): (8 * net.BLOCKS + 2, step.gradient_bytes),
    }
    assert not step.trace.uncounted and not step.unknown


def test_narrow_weights_are_exchanged_as_they_are(steps: dict[str, RankTrace]) -> None:
    """A CPU would reduce in float32 what is narrower: that is no part of the program of a mesh of other devices."""
    assert steps["bfloat16"].gradient_bytes == BLOCKS * 2 * MATRIX // 4 // 2
    assert sum_up(steps["bfloat16"]) == sum_up(steps["tp"])  # float32 samples: so are the activations


@pytest.mark.parametrize("name", ["dp", "tp"])
def test_work_and_memory_against_xla(answers: tuple[dict[str, RankTrace], dict[str, Any]], name: str) -> None:
    """XLA counts the same program, as a user writes it: FLOPs within 3 %, as it has some others; and its memory."""
    steps, said = answers
    assert steps[name].trace.flops == pytest.approx(said[name]["flops"], rel=0.03)
    assert sum_parts(steps[name].peak)["temporaries"] == pytest.approx(said[name]["temporaries"], rel=0.01)


@pytest.mark.parametrize(
    ("attributes", "group"),
    [
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}, use_global_device_ids=true", (4, 5)),
        ("replica_groups={}, channel_id=1", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("replica_groups=[4,2]<=[8], dimensions={0}", (4, 5)),
        ("replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}", (1, 3, 5, 7)),
        ("replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_0'}, dimensions={0}", (1, 3, 5, 7)),
        ("replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_1'}", (4, 5)),
        ("replica_groups=mesh['a'=2,'b'=2,'c'=2], device_ids=([4,2]T(1,0)) {'a'}, to_apply=%add", (4, 5)),
        ("replica_groups=mesh['a'=2,'b'=4], device_ids=(0,1,2,3,7,6,5,4) {'b'}", (7, 6, 5, 4)),
        ("replica_groups=mesh['a'=8] {'a':(2)2}", (4, 6)),
        ("replica_groups=mesh['a'=4,'b'=2] {'a':(1)2,'b'}", (0, 1, 4, 5)),
        ("source_target_pairs={{0,1},{5,6},{6,5}}", (5, 6)),
        ("source_target_pairs={{0,1}}", (5,)),
    ],
)
def test_groups_in_each_form(attributes: str, group: tuple[int, ...]) -> None:
    rank = 4 if 4 in group else 5
    assert find_group(attributes, rank, 8) == group


def test_groups_of_an_unknown_form() -> None:
    with pytest.raises(LookupError):
        find_group("replica_groups=of_another_form", 0, 8)


# The walk by the numbers of equations ---------------------------------------------------------------------------------


def make_walk(shapes: Any, waiting: Any) -> ShareWalk:
    return ShareWalk(Frames(), HANDLERS, program=DeviceProgram(shapes=shapes), waiting=waiting)


@pytest.mark.parametrize(
    ("shares", "told", "share"),
    [
        ([(4, 8), (4, 8)], [], (4, 8)),
        ([(4, 8), (8, 8)], [], None),
        ([(8, 8), (4, 8)], [], None),
        ([(8, 4), (4, 8)], [], None),
        ([(8, 8), (4, 8)], [(8, 4)], (8, 4)),
    ],
)
def test_inputs_tell_the_share_of_a_result_if_they_agree_and_xla_does_not_tell_it(
    shares: list[tuple[int, ...]], told: list[tuple[int, ...]], share: tuple[int, ...] | None
) -> None:
    """Otherwise the sum counts as a whole, and this is said."""
    whole = jax.ShapeDtypeStruct((8, 8), "float32")
    numbered = number_equations(jax.make_jaxpr(lambda x, y: x + y)(whole, whole))
    [equation] = numbered.jaxpr.eqns
    number = read_number(equation)
    assert number is not None
    walk = make_walk({(number,): told, (number + 1,): [(2, 2)]}, {})
    inputs = [walk.make_input(whole, jax.ShapeDtypeStruct(shape, "float32")) for shape in shares]
    [total] = walk.walk_equation(equation, inputs, Context())
    assert tuple(total.shape) == (share or (8, 8))
    assert list(walk.unknown) == ([] if share else ["add"])
    assert walk.work.operators[-1].flops == np.prod(share or (8, 8))


def test_results_of_a_shard_map_of_one_shape_are_divided_by_the_spec_of_each() -> None:
    mesh = jax.sharding.AbstractMesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = (P("x"), P(None, "x"), P())
    shared = jax.shard_map(
        lambda x: (x, x.reshape(8, 2), jax.numpy.tile(x, (4, 1))),
        mesh=mesh,
        in_specs=P("x"),
        out_specs=specs,
        check_vma=False,
    )
    whole, share = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((8, 8), (2, 8)))
    [equation] = jax.make_jaxpr(shared)(whole).jaxpr.eqns
    walk = make_walk({}, {})
    results = walk.walk_equation(equation, [walk.make_input(whole, share)], Context())
    assert [tuple(value.shape) for value in results] == [(2, 8), (8, 2), (8, 8)]


def repeat_by_scan(turns: int, function: Any, x: Any) -> Any:
    return jax.lax.scan(lambda carried, _: (function(carried), None), x, length=turns)[0]


def repeat_by_while(turns: int, function: Any, x: Any) -> Any:
    def step(state: Any) -> Any:
        return state[0] + 1, function(state[1])

    return jax.lax.while_loop(lambda state: state[0] < turns, step, (0, x))[1]


@pytest.mark.parametrize("outer", [repeat_by_scan, repeat_by_while])
@pytest.mark.parametrize("inner", [repeat_by_scan, repeat_by_while])
def test_an_exchange_in_the_body_of_a_loop_runs_in_each_of_its_turns(outer: Any, inner: Any) -> None:
    """Of 3 turns with 5 turns inside each: not as often as the inner body, nor as the condition, which runs 4 times."""
    x = jax.ShapeDtypeStruct((2,), "float32")
    numbered = number_equations(jax.make_jaxpr(lambda x: outer(3, partial(inner, 5, jax.numpy.sin), x))(x))

    def find_loop(jaxpr: Any) -> Any:
        return next(equation for equation in jaxpr.eqns if equation.primitive.name in ("scan", "while"))

    def make_exchange(chain: tuple[int, ...]) -> RankExchange:
        scopes = "/".join(f"{EQUATION}.{number}/while/body" for number in chain)
        instruction = Exchange(chain, scopes, "all-reduce", "", (2,), 2, 8)
        return RankExchange(instruction, Message("all-reduce", (0, 1), 8), Cost(0, 1))

    loop = find_loop(numbered.jaxpr)
    body = loop.params["jaxpr" if loop.primitive.name == "scan" else "body_jaxpr"]
    around = (read_number(loop),)
    chains: Any = [around, (*around, read_number(find_loop(body.jaxpr)))]
    walk = make_walk({}, {chain: [make_exchange(chain)] for chain in chains})
    walk.walk_equations(numbered.jaxpr, [walk.make_input(x, x)], Context())
    times = {exchanged.exchange.instruction.chain: exchanged.by.times for exchanged in walk.exchanged}
    assert times == dict(zip(chains, [3, 15], strict=True))
    assert [exchanged.by.flops for exchanged in walk.exchanged] == [15, 3]  # the inner loop ends first
    assert not walk.waiting


# What users give -----------------------------------------------------------------------------------------------------


def find_specs(params: Any) -> list[Any]:
    leaves = find_subject(networks.build()).leaves
    return [sharding.spec for sharding in list_weight_shardings(Shardings(params=params), leaves, make_mesh())]


def make_mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("dp", "tp"))


def test_specs_as_trees_and_their_outer_parts() -> None:
    down, up = P("tp"), P(None, "tp")  # in the order of the keys
    assert find_specs([{"up": up, "down": down}] * BLOCKS) == [down, up] * BLOCKS
    assert find_specs([{"up": up}, up]) == [P(), up, up, up, P(), P()]
    assert find_specs(P("dp")) == [P("dp")] * 2 * BLOCKS
    assert find_specs(P()) == [P()] * 2 * BLOCKS


def test_inputs_of_all_ranks_together() -> None:
    """Each rank of four gets two samples: all get eight."""
    mesh = jax.sharding.AbstractMesh((4, 2), ("dp", "tp"))
    inputs = ModelInputs(np.zeros((2, 6)), scale=np.zeros(3))

    def find_shapes(specs: Any) -> list[Any]:
        whole, _ = make_whole(Shardings(inputs=specs), inputs, mesh)  # type: ignore[arg-type]
        return [whole.args[0].shape, whole.kwargs["scale"].shape]

    assert find_shapes((P("dp"),)) == [(8, 6), (3,)]
    assert find_shapes((P(None, ("dp", "tp")),)) == [(2, 48), (3,)]
    assert find_shapes({"scale": P("tp")}) == [(2, 6), (6,)]
    assert find_shapes(P("tp")) == [(4, 6), (6,)]


def test_shardings_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="params of Shardings has a spec for 0.left, which the model does not have"):
        find_specs([{"left": P("dp")}])
    with pytest.raises(InputError, match="params of Shardings holds a str; give jax.sharding.PartitionSpec"):
        find_specs("dp")
    with pytest.raises(InputError, match="an input of shape .3,. has the spec .*, which is of more dimensions"):
        make_whole(Shardings(inputs=P(None, "dp")), ModelInputs(np.zeros(3)), make_mesh())
    with pytest.raises(InputError, match=r"parallelize returned a \w+; for a model of JAX return the specs"):
        read_shardings(P("dp"))


@pytest.mark.slow
def test_rank_by_profile() -> None:
    def profile_strictly(parallelize: Any, **arguments: Any) -> Any:
        return profile(
            networks.build,
            networks.samples(),
            mesh={"dp": 4},
            parallelize=parallelize,
            backend="jax",
            metrics=["rank_optimizer_bytes", "rank_peak_memory", "collective_bytes", "macs"],
            strict=True,
            **arguments,
        )

    report = profile_strictly(networks.replicate, optimizer="adamw", rank=3)
    assert report["rank_optimizer_bytes"] == 2 * BLOCKS * 2 * MATRIX
    assert report["collective_bytes"] == 2 * 3 / 4 * BLOCKS * 2 * MATRIX
    assert "Rank 3 of 4 (dp=4)" in str(report)
    assert "by its own sizes for a CPU" in str(report)
    with pytest.raises(
        InputError, match="parallelize='fsdp2' is a scheme of torch; for a model of JAX give a function"
    ):
        profile_strictly("fsdp2")
    with pytest.raises(InputError, match="leave out gradient_accumulation_steps, and give a model that has the loop"):
        profile_strictly(networks.replicate, gradient_accumulation_steps=2)
