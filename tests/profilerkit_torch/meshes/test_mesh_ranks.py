"""One rank of a mesh: its share of the weights, its work, its memory and its collectives, against hand formulas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mesh_answers import run_steps

pytest.importorskip("torch.distributed.fsdp", reason="this torch has no fully_shard")

from mesh_networks import BATCH, BLOCKS, HEADS, LENGTH, WIDTH, WORDS

from profilerkit import NotOfferedError
from profilerkit.backend_kit.installed import read_numbers
from profilerkit_predict.meshes.records import Collective, Purpose, RankTrace, sum_parts
from profilerkit_torch.compat import meshes as compat_meshes
from profilerkit_torch.compat import names
from profilerkit_torch.compat.meshes import (
    find_parameter_group,
    find_process_group,
    find_sharding_planner,
    make_fake_store,
    read_group_gradients,
    read_group_path,
    use_given_shapes,
)
from profilerkit_torch.compat.names import VERSION

#: The release of torch.
RELEASE = read_numbers(VERSION)
#: Bytes of a float32.
BYTE = 4
#: The elements of a block's matrices: four of attention, two of the feed-forward part; and of its two norms.
MATRICES, NORMS = 4 * WIDTH**2 + 2 * 4 * WIDTH**2, 2 * WIDTH
#: Those of what is outside the blocks: the embedding, the head, the last norm.
OUTSIDE = 2 * WORDS * WIDTH + WIDTH
#: The bytes of what goes from layer to layer.
HIDDEN = BATCH * LENGTH * WIDTH * BYTE


class Steps(dict[str, RankTrace]):
    """Steps by name: what a process of its own has traced, as ranks need one.

    Those that slow tests alone look at are traced when one does.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(run_steps("steps", folder))
        self._folder = folder

    def __missing__(self, name: str) -> RankTrace:
        self.add_further()
        if name not in self:
            raise KeyError(name)
        return self[name]

    def add_further(self) -> None:
        self.update(run_steps("further steps", self._folder))


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    return Steps(tmp_path_factory.mktemp("steps"))


@pytest.fixture(scope="module")
def peaks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Return the peaks of torch's own tracker by name."""
    tracked: dict[str, int] = run_steps("peaks", tmp_path_factory.mktemp("peaks"))
    return tracked


def count_parameter_bytes(step: RankTrace) -> int:
    return sum(weight.bytes for weight in step.trace.parameters)


def find(step: RankTrace, **facts: str) -> list[Collective]:
    return [
        collective
        for collective in step.collectives
        if all(getattr(collective, name) == value for name, value in facts.items())
    ]


def count_forward_macs(split: int) -> int:
    """Return the forward MACs of a rank: blocks split over so many, the head whole; attention is two products."""
    matrices = BATCH * LENGTH * MATRICES // split
    attention = 2 * BATCH * HEADS // split * LENGTH**2 * (WIDTH // HEADS)
    return BLOCKS * (matrices + attention) + BATCH * LENGTH * WIDTH * WORDS


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("alone", OUTSIDE + BLOCKS * (MATRICES + NORMS)),
        ("fsdp2", (OUTSIDE + BLOCKS * (MATRICES + NORMS)) // 4),
        ("tp", OUTSIDE + BLOCKS * (MATRICES // 2 + NORMS)),
        ("tp heads", OUTSIDE + BLOCKS * (MATRICES // 2 + NORMS)),
        ("fsdp2 and tp", (OUTSIDE + BLOCKS * (MATRICES // 2 + NORMS)) // 4),
    ],
)
def test_share_of_weights_and_gradients(steps: dict[str, RankTrace], name: str, elements: int) -> None:
    assert count_parameter_bytes(steps[name]) == elements * BYTE
    assert steps[name].gradient_bytes == elements * BYTE


@pytest.mark.parametrize(
    ("name", "untied", "share", "gradient_share"),
    [
        ("tied alone", "alone", 1, 1),
        ("tied ddp", "ddp", 1, 1),
        ("tied zero1", "zero1", 1, None),
        ("tied zero3", "zero3", 4, 4),
        ("tied fsdp2", "fsdp2", 4, 4),
        ("tied tp", "tp", 1, 1),
    ],
)
def test_tied_weights_are_one(
    steps: dict[str, RankTrace], name: str, untied: str, share: int, gradient_share: int | None
) -> None:
    """A head that is the embedding saves the bytes of one of them, and of its gradient; the work stays.

    In stage 1 the first rank keeps the gradients from the embedding to the first feed-forward part in both cases.
    """
    saved = WORDS * WIDTH * BYTE
    assert count_parameter_bytes(steps[name]) == count_parameter_bytes(steps[untied]) - saved // share
    saved_gradient = 0 if gradient_share is None else saved // gradient_share
    assert steps[name].gradient_bytes == steps[untied].gradient_bytes - saved_gradient
    assert steps[name].trace.macs == steps[untied].trace.macs


def test_last_rank_of_an_uneven_mesh_has_what_is_left(steps: dict[str, RankTrace]) -> None:
    # Rows are dealt out in thirds that are rounded up: of 64 rows the last of three has 64 - 2 * 22, of 128 and 256
    # it has 128 - 2 * 43 and 256 - 2 * 86.
    blocks = BLOCKS * (4 * 20 * WIDTH + 84 * WIDTH + 20 * 4 * WIDTH + 2 * 20)
    outside = 2 * 42 * WIDTH + 20
    assert count_parameter_bytes(steps["last of fsdp2"]) == (blocks + outside) * BYTE


@pytest.mark.parametrize(
    ("name", "split"), [("alone", 1), ("fsdp2", 1), ("tp", 2), ("tp heads", 2), ("fsdp2 and tp", 2)]
)
def test_work_is_that_of_the_rank(steps: dict[str, RankTrace], name: str, split: int) -> None:
    forward = sum(operator.macs for operator in steps[name].trace.operators if operator.phase == "forward")
    assert forward == count_forward_macs(split)
    assert steps[name].trace.macs == 3 * forward  # the gradients of each product are two
    assert not steps[name].trace.uncounted


def test_alone_nothing_is_exchanged(steps: dict[str, RankTrace]) -> None:
    assert steps["alone"].collectives == ()


@pytest.mark.parametrize(("name", "split"), [("fsdp2", 1), ("fsdp2 and tp", 2)])
def test_fully_sharded_weights_are_gathered_and_gradients_scattered(
    steps: dict[str, RankTrace], name: str, split: int
) -> None:
    block, outside = (MATRICES // split + NORMS) * BYTE, OUTSIDE * BYTE
    gathered = [
        (collective.layer, collective.phase, collective.calls, collective.bytes, collective.sent_bytes)
        for collective in find(steps[name], kind="all-gather")
    ]
    scattered = [
        (collective.layer, collective.phase, collective.calls, collective.bytes, collective.sent_bytes)
        for collective in find(steps[name], kind="reduce-scatter")
    ]
    assert gathered == [
        ("", "forward", 1, outside, outside * 3 // 4),  # the root keeps its weights for the backward pass
        ("layers.0", "forward", 1, block, block * 3 // 4),
        ("layers.1", "forward", 1, block, block * 3 // 4),
        ("layers.1", "backward", 1, block, block * 3 // 4),
        ("layers.0", "backward", 1, block, block * 3 // 4),
    ]
    assert scattered == [
        ("layers.1", "backward", 1, block, block * 3 // 4),
        ("layers.0", "backward", 1, block, block * 3 // 4),
        ("", "backward", 1, outside, outside * 3 // 4),
    ]
    assert {collective.dimension for collective in find(steps[name], kind="all-gather")} == {"dp_shard"}


def test_tensor_parallel_layers_are_reduced(steps: dict[str, RankTrace]) -> None:
    reduced = Counter((c.layer, c.phase) for c in find(steps["tp"], kind="all-reduce", dimension="tp"))
    assert reduced == {
        (f"layers.{block}.{layer}", phase): 1
        for block in range(BLOCKS)
        for layer, phase in [
            *(("attn.o", "forward"), ("down", "forward"), ("up", "backward")),
            *((f"attn.{name}", "backward") for name in "qkv"),  # the input of each is made ready by itself
        ]
    }
    assert {collective.bytes for collective in steps["tp"].collectives} == {HIDDEN}
    assert {collective.sent_bytes for collective in steps["tp"].collectives} == {HIDDEN}  # twice a half


@pytest.mark.parametrize("name", ["tp prepared", "tp heads"])
def test_no_collective_that_a_gpu_would_not_make(steps: dict[str, RankTrace], name: str) -> None:
    """An input that is made ready once takes four all-reduces a block; heads that are spread are not gathered."""
    assert [(c.layer, c.kind, c.phase, c.bytes) for c in steps[name].collectives if c.layer.startswith("layers.0")] == [
        ("layers.0.attn.o", "all-reduce", "forward", HIDDEN),
        ("layers.0.down", "all-reduce", "forward", HIDDEN),
        ("layers.0.up", "all-reduce", "backward", HIDDEN),
        ("layers.0.attn", "all-reduce", "backward", HIDDEN),
    ]


def test_loss_on_spread_logits_is_that_of_the_rank(steps: dict[str, RankTrace]) -> None:
    """Torch asks at the shapes of all ranks how a loss is spread: that is no work, and no memory."""
    step = steps["spread loss"]
    of_loss = [operator for operator in step.trace.operators if not operator.layer and operator.phase == "forward"]
    assert any("log" in operator.operator or "exp" in operator.operator for operator in of_loss)
    assert {info.shape[-1] for operator in of_loss for info in operator.outputs if len(info.shape) > 1} <= {
        WORDS // 2,
        1,
    }
    logits = BATCH * LENGTH * WORDS // 2 * BYTE
    assert step.trace.memory.peak_bytes() < steps["alone"].trace.memory.peak_bytes() + 4 * logits


def test_sequence_parallel_gathers_and_scatters_instead_of_reducing(steps: dict[str, RankTrace]) -> None:
    block = [(c.layer, c.kind, c.phase) for c in steps["sequences"].collectives if c.layer.startswith("layers.0")]
    assert [entry for entry in block if entry[2] == "forward"] == [
        ("layers.0.attn", "all-gather", "forward"),
        ("layers.0.attn.o", "reduce-scatter", "forward"),
        ("layers.0.up", "all-gather", "forward"),
        ("layers.0.down", "reduce-scatter", "forward"),
    ]
    sizes = {c.bytes for c in steps["sequences"].collectives if c.kind != "all-reduce"}
    assert sizes == {HIDDEN}
    head = BATCH * LENGTH * WIDTH * WORDS  # which is spread as well
    assert steps["sequences"].trace.macs == 3 * (count_forward_macs(2) - head // 2)
    assert not steps["sequences"].trace.uncounted
    assert steps["sequences"].trace.memory.peak_bytes() < steps["tp"].trace.memory.peak_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("fsdp2", "fsdp2 and tp", "hsdp", "bfloat16", "checkpoints"),
        *("fsdp2 of three passes", "bfloat16 of three passes"),
    ],
)
def test_peak_is_that_of_torch_tracker(steps: dict[str, RankTrace], peaks: dict[str, int], name: str) -> None:
    peak = steps[name].trace.memory.peak_bytes()
    element = 2 if "bfloat16" in name else BYTE
    assert peak == peaks[name] - 2 * element  # the tracker's sum, and its gradient


@pytest.mark.parametrize("name", ["alone", "fsdp2", "tp", "fsdp2 and tp"])
def test_parts_make_up_the_peak(steps: dict[str, RankTrace], name: str) -> None:
    step = steps[name]
    assert sum_parts(step.peak)["inputs"] == BATCH * LENGTH * 8
    assert ("gathered weights" in sum_parts(step.peak)) == ("fsdp2" in name)


@pytest.mark.parametrize("further", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_layers_make_up_the_peak(steps: Steps, further: bool) -> None:
    """To the byte, of all schemes; and what is left after the passes, with the gradients that are kept."""
    if further:
        steps.add_further()
    for name, step in steps.items():
        memory = step.trace.memory
        assert sum(step.peak.values()) == memory.peak_bytes(), name
        assert sum(step.left.values()) == memory.weight_bytes + (memory.left_bytes or 0), name
        assert min(step.peak.values()) > 0 and min(step.left.values()) > 0, name
        layers = {layer for purpose in (*step.peak, *step.left) for layer in purpose.layer.split(", ")}
        assert layers <= {layer.path for layer in step.trace.layers}, name
        if name != "last of fsdp2":  # whose shards are padded
            assert sum_parts(step.left)["gradients"] == step.gradient_bytes, name


def test_what_is_there_in_the_update(steps: dict[str, RankTrace]) -> None:
    """Weights, gradients and inputs; and what stays from step to step: buckets, and small weights of stage 3."""
    whole, inputs = (OUTSIDE + BLOCKS * (MATRICES + NORMS)) * BYTE, BATCH * LENGTH * 8
    assert sum_parts(steps["alone"].left) == {"weights": whole, "gradients": whole, "inputs": inputs}
    assert sum_parts(steps["fsdp2"].left) == {"weights": whole // 4, "gradients": whole // 4, "inputs": inputs}
    assert sum_parts(steps["ddp"].left) == sum_parts(steps["alone"].left) | {"communication": whole}
    assert sum_parts(steps["zero3"].left) == sum_parts(steps["fsdp2"].left) | {
        "gathered weights": whole,
        "communication": BUCKET * BYTE,
    }


def test_peak_by_layer_by_hand(steps: dict[str, RankTrace]) -> None:
    """The peak is where the first block's "up" gives back, in the backward pass: the second block's part of it is over.

    The weights are whole. What norms keep is torch's affair.
    """
    logsumexp = BATCH * HEADS * LENGTH * BYTE
    up = 4 * WIDTH**2 * BYTE
    expected = {
        ("inputs", ""): BATCH * LENGTH * 8,
        ("activations", "emb"): HIDDEN,
        **{("activations", f"layers.0.attn.{name}"): HIDDEN for name in "qkv"},
        ("activations", "layers.0.attn"): HIDDEN + logsumexp,
        ("activations", "layers.0"): HIDDEN,  # the sum behind attention; that of ReLU has been given back
        ("activations", "head"): BATCH * LENGTH * WORDS * BYTE,  # the output
        ("other", "layers.0"): 4 * HIDDEN,  # the gradient of what "up" returned, before ReLU
        ("other", "layers.0.up"): up + HIDDEN,  # the gradients of its weight and of its input
        ("gradients", "layers.0.down"): up,
        ("gradients", "layers.1.down"): up,
        ("gradients", "layers.1.up"): up,
        **{("gradients", f"layers.1.attn.{name}"): WIDTH**2 * BYTE for name in "qkvo"},
        ("gradients", "head"): WORDS * WIDTH * BYTE,
    }
    peak = {
        key: size for key, size in steps["alone"].peak.items() if key.layer.rpartition(".")[2] not in ("n", "n1", "n2")
    }
    assert {tuple(key): size for key, size in peak.items() if key.part != "weights"} == expected
    whole = OUTSIDE - WIDTH + BLOCKS * MATRICES
    assert sum(size for key, size in peak.items() if key.part == "weights") == whole * BYTE
    assert peak[Purpose("weights", "layers.1.up")] == up


def list_totals(step: RankTrace) -> list[tuple[Any, ...]]:
    """Return kind, dimension, phase, calls, bytes and bytes sent, of the model as a whole."""
    totals: dict[tuple[str, str, str], list[int]] = {}
    for collective in step.collectives:
        total = totals.setdefault((collective.kind, collective.dimension, collective.phase), [0, 0, 0])
        for index, number in enumerate((collective.calls, collective.bytes, collective.sent_bytes)):
            total[index] += number
    return [(*key, *total) for key, total in totals.items()]


def test_gradients_of_data_parallel_ranks_are_reduced(steps: dict[str, RankTrace]) -> None:
    whole = (OUTSIDE + BLOCKS * (MATRICES + NORMS)) * BYTE  # 460,032 bytes: less than the first bucket has
    assert list_totals(steps["ddp"]) == [("all-reduce", "dp_replicate", "backward", 1, whole, 2 * whole * 3 // 4)]
    assert count_parameter_bytes(steps["ddp"]) == steps["ddp"].gradient_bytes == whole
    # All is as on a device alone, and buckets as large as the gradients stay beside them.
    assert steps["ddp"].trace.memory.peak_bytes() == steps["alone"].trace.memory.peak_bytes() + whole
    assert steps["ddp"].trace.macs == steps["alone"].trace.macs


def test_buckets_of_gradients(steps: dict[str, RankTrace]) -> None:
    # Gradients come from the end: a layer of 10 MiB fills the first bucket of 1 MiB, the next two and the embedding of
    # 0.5 MiB do not fill one of 25 MiB. Ten numbers are broadcast.
    layer, embedding = 1024 * 2560 * BYTE, WORDS * 1024 * BYTE
    whole = 3 * layer + embedding
    assert list_totals(steps["ddp of wide layers"]) == [
        ("broadcast", "dp_replicate", "forward", 1, 40, 40),
        ("all-reduce", "dp_replicate", "backward", 2, whole, 2 * layer * 3 // 4 + 2 * (whole - layer) * 3 // 4),
    ]


def test_replicas_of_shards_reduce_them(steps: dict[str, RankTrace]) -> None:
    """Each gradient is scattered over four ranks, and the shard reduced over two replicas."""
    block, outside = (MATRICES + NORMS) * BYTE, OUTSIDE * BYTE
    whole = outside + BLOCKS * block
    assert sorted(list_totals(steps["hsdp"])) == [
        ("all-gather", "dp_shard", "backward", BLOCKS, BLOCKS * block, BLOCKS * block * 3 // 4),
        ("all-gather", "dp_shard", "forward", 1 + BLOCKS, whole, whole * 3 // 4),
        ("all-reduce", "dp_replicate", "backward", 1 + BLOCKS, whole // 4, whole // 4),
        ("reduce-scatter", "dp_shard", "backward", 1 + BLOCKS, whole, whole * 3 // 4),
    ]
    assert count_parameter_bytes(steps["hsdp"]) == whole // 4


#: DeepSpeed's bucket of gradients, which is as large for a network of 460,032 bytes.
BUCKET = 500_000_000


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        # The first partition of four has 28,752 elements: the embedding, norms and attention of a block (24,704), and
        # the beginning of "up", which is kept whole.
        ("zero1", WORDS * WIDTH + NORMS + 4 * WIDTH**2 + 4 * WIDTH**2),
        # The last has the head, the last norm, "down" and the end of "up": 8,256 + 16,384 < 28,752 < 41,024.
        ("zero2", WORDS * WIDTH + WIDTH + 2 * 4 * WIDTH**2),
    ],
)
def test_states_are_partitioned(steps: dict[str, RankTrace], name: str, kept: int) -> None:
    elements = OUTSIDE + BLOCKS * (MATRICES + NORMS)
    partition = elements // 4
    whole = elements * BYTE
    step = steps[name]
    assert count_parameter_bytes(step) == whole
    assert step.gradient_bytes == kept * BYTE
    assert step.optimizer_share is not None
    assert [weight.bytes for weight in step.optimizer_share.weights] == [partition * BYTE]
    assert step.optimizer_share.copy_bytes == step.optimizer_share.update_bytes == partition * BYTE
    assert list_totals(step) == [
        ("all-reduce", "dp_shard", "backward", 1, whole, 2 * whole * 3 // 4),
        ("all-gather", "dp_shard", "update", 1, whole, whole * 3 // 4),
    ]
    assert not any(collective.overlaps for collective in step.collectives)
    assert step.trace.macs == steps["alone"].trace.macs
    assert not any("gradient" in note for note in step.trace.notes)


@pytest.mark.parametrize("passes", ["", pytest.param(" of three passes", marks=pytest.mark.slow)])
def test_all_gradients_are_there_in_stage_1(steps: dict[str, RankTrace], passes: str) -> None:
    """All is as on a device alone, and beside it a bucket, which is filled when the backward pass is over."""
    alone = steps[f"alone{passes}"].trace.memory.peak_bytes()
    assert steps[f"zero1{passes}"].trace.memory.peak_bytes() == alone + BUCKET * BYTE


def test_gradients_go_to_the_bucket_in_stage_2(steps: dict[str, RankTrace]) -> None:
    """The peak is at the end of the backward pass: a copy of what the bucket holds, in the order of the partitions."""
    whole = (OUTSIDE + BLOCKS * (MATRICES + NORMS)) * BYTE
    inputs, outputs = BATCH * LENGTH * 8, BATCH * LENGTH * WORDS * BYTE
    assert steps["zero2"].trace.memory.peak_bytes() == whole + inputs + outputs + BUCKET * BYTE + whole


def test_small_weights_stay_whole(steps: dict[str, RankTrace]) -> None:
    elements = OUTSIDE + BLOCKS * (MATRICES + NORMS)  # each weight has fewer than 100,000
    step, whole = steps["zero3"], elements * BYTE
    assert count_parameter_bytes(step) == step.gradient_bytes == whole // 4
    assert sum_parts(step.peak)["gathered weights"] == whole
    weights = 3 + 8 * BLOCKS
    assert list_totals(step) == [
        ("reduce-scatter", "dp_shard", "backward", 1, whole, whole * 3 // 4),
        ("all-gather", "dp_shard", "update", weights, whole, whole * 3 // 4),
    ]


#: The bytes of `Wide`: three layers, an embedding, ten numbers in a buffer.
LAYER, EMBEDDING, SCALE = 1024 * 2560 * BYTE, WORDS * 1024 * BYTE, 10 * BYTE


def test_weights_that_are_needed_again_soon_stay_gathered(steps: dict[str, RankTrace]) -> None:
    """Those of the first layer are gathered, and ahead of their layers all others together."""
    step, whole = steps["zero3 of wide layers"], 3 * LAYER + EMBEDDING
    assert [(c.layer, c.kind, c.phase, c.calls, c.bytes) for c in step.collectives] == [
        ("emb", "all-gather", "forward", 1, EMBEDDING),
        ("layers.0", "all-gather", "forward", 1, 3 * LAYER),
        ("", "reduce-scatter", "backward", 1, whole),
    ]
    assert count_parameter_bytes(step) == whole // 4
    assert sum_parts(step.peak)["weights"] == whole // 4 + SCALE
    # What is gathered together is copied into a tensor of each weight: for a moment there are both.
    assert sum_parts(step.peak)["gathered weights"] == whole + 3 * LAYER
    assert sum_parts(step.peak)["gradients"] == whole // 4


@pytest.mark.slow
def test_weights_are_gathered_for_each_layer(steps: dict[str, RankTrace]) -> None:
    step = steps["zero3 without reuse"]
    gathered = [(c.layer, c.phase, c.calls, c.bytes, c.sent_bytes) for c in find(step, kind="all-gather")]
    layers = [("layers.0", LAYER), ("back", LAYER), ("last", LAYER)]
    assert gathered == [
        (layer, phase, 1, size, size * 3 // 4)
        for phase, order in (
            ("forward", [("emb", EMBEDDING), *layers]),
            ("backward", [*reversed(layers), ("emb", EMBEDDING)]),
        )
        for layer, size in order
    ]
    # One layer is whole at a time; gradients leave for the bucket one by one.
    assert sum_parts(step.peak)["gathered weights"] <= LAYER
    assert sum_parts(step.peak)["communication"] == BUCKET * BYTE + 3 * LAYER + EMBEDDING
    assert step.trace.macs == steps["ddp of wide layers"].trace.macs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "calls"),
    [
        # Gradients come from the end. One layer fills a small bucket; the last one to come and the embedding fit.
        ("zero2 in small buckets", "all-reduce", 3),
        ("zero3 in small buckets", "reduce-scatter", 3),
        # A layer of 2,621,440 elements is larger than a tiny bucket, and goes alone. Each rank has 1,998,848 of all
        # elements: "last" has 622,592 in one part and the rest in another, reduced together, as the first are few;
        # "back" has 1,245,184 and 1,376,256, "layers.0" 1,867,776 and 753,664, each reduced by itself.
        ("zero2 in tiny buckets", "all-reduce", 1 + 2 + 2 + 1),
        ("zero3 in tiny buckets", "reduce-scatter", 4),
    ],
)
def test_full_buckets_are_exchanged(steps: dict[str, RankTrace], name: str, kind: str, calls: int) -> None:
    (row,) = find(steps[name], kind=kind)
    assert (row.layer, row.calls, row.bytes) == ("", calls, 3 * LAYER + EMBEDDING)
    assert steps[name].gradient_bytes == (LAYER if "zero2" in name else (3 * LAYER + EMBEDDING) // 4)


@pytest.mark.slow
def test_gradient_larger_than_the_bucket_is_scattered_from_its_place(steps: dict[str, RankTrace]) -> None:
    assert sum_parts(steps["zero3 in tiny buckets"].peak)["communication"] == 1_000_000 * BYTE


@pytest.mark.slow
def test_partitions_in_bfloat16_have_copies(steps: dict[str, RankTrace]) -> None:
    # Of 1024 * 2560 and of 128 * 1024 elements each of three ranks has a third, rounded up.
    partition = 3 * 873_814 + 43_691
    step = steps["zero3 in bfloat16"]
    assert count_parameter_bytes(step) == step.gradient_bytes == partition * 2
    assert step.optimizer_share is not None
    assert step.optimizer_share.copy_bytes == step.optimizer_share.update_bytes == partition * BYTE
    assert sum(c.bytes for c in find(step, kind="reduce-scatter")) == 3 * partition * 2


#: The bytes that go from stage to stage for a microbatch of one sample, and the elements of the first and last stage.
PASSED = LENGTH * WIDTH * BYTE
STAGES = (WORDS * WIDTH + MATRICES + NORMS, WORDS * WIDTH + WIDTH + MATRICES + NORMS)


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        *(("pipeline", 0), ("end of pipeline", 1)),
        *(pytest.param(name, stage, marks=pytest.mark.slow) for name, stage in (("1f1b", 0), ("end of 1f1b", 1))),
    ],
)
def test_stages_pass_microbatches_on(steps: dict[str, RankTrace], name: str, stage: int) -> None:
    step, whole = steps[name], 4 * PASSED
    assert count_parameter_bytes(step) == step.gradient_bytes == STAGES[stage] * BYTE
    passed = {(c.kind, c.phase): (c.dimension, c.calls, c.bytes, c.sent_bytes) for c in step.collectives}
    sends, receives = ("forward", "backward") if stage == 0 else ("backward", "forward")
    assert passed == {("send", sends): ("pp", 4, whole, whole), ("receive", receives): ("pp", 4, whole, 0)}
    block = 4 * LENGTH * MATRICES + 4 * 2 * HEADS * LENGTH**2 * (WIDTH // HEADS)
    assert step.trace.macs == 3 * (block + (4 * LENGTH * WIDTH * WORDS if stage else 0))
    assert {operator.phase for operator in step.trace.operators} == {"forward", "backward"}
    assert not step.trace.uncounted
    layers = {layer.path for layer in step.trace.layers if layer.calls}
    assert "layers.0.attn.q" in layers
    assert step.trace.memory.parts["inputs"] == 4 * LENGTH * 8  # the words, or the target


@pytest.mark.skipif(RELEASE < (2, 11), reason="its schedules keep more of a microbatch")
@pytest.mark.slow
def test_schedules_keep_activations_of_as_many_microbatches(steps: dict[str, RankTrace]) -> None:
    """The peak is in the second backward pass, when all gradients are there: the first microbatch is gone then.

    Of four microbatches GPipe has the other three, 1F1B two, as the third forward pass comes before; of two, one.
    """
    whole, short, alternating = (
        sum_parts(steps[name].peak)["activations"] for name in ("pipeline", "short pipeline", "1f1b")
    )
    microbatch = whole - alternating
    assert microbatch > 0
    # The gradient of each microbatch has a buffer to be received in: from the beginning, from torch 2.15 on when it is.
    buffers = 2 * PASSED if RELEASE < (2, 15) else 0
    assert whole - short == 2 * microbatch + buffers
    assert steps["end of 1f1b"].trace.memory.peak_bytes() < steps["end of pipeline"].trace.memory.peak_bytes()


def test_mixed_precision_gathers_half_the_bytes(steps: dict[str, RankTrace]) -> None:
    whole = (OUTSIDE + BLOCKS * (MATRICES + NORMS)) * BYTE
    totals = {(kind, phase): size for kind, _, phase, _, size, _ in list_totals(steps["bfloat16"])}
    assert totals["all-gather", "forward"] == whole // 2
    assert totals["reduce-scatter", "backward"] == whole  # in float32, as the policy says
    assert count_parameter_bytes(steps["bfloat16"]) == steps["bfloat16"].gradient_bytes == whole // 4
    assert steps["bfloat16"].trace.macs == steps["fsdp2"].trace.macs


def test_checkpoints_compute_blocks_again(steps: dict[str, RankTrace]) -> None:
    # Of each block all but the last product, whose output nothing needs; the head is in no block.
    head, last = BATCH * LENGTH * WIDTH * WORDS, BATCH * LENGTH * WIDTH * 4 * WIDTH
    again = sum(operator.macs for operator in steps["checkpoints"].trace.operators if operator.recomputed)
    assert again == count_forward_macs(1) - head - BLOCKS * last
    assert steps["checkpoints"].trace.macs == 3 * count_forward_macs(1) + again
    assert steps["checkpoints"].trace.memory.peak_bytes() < steps["fsdp2"].trace.memory.peak_bytes()


@pytest.mark.parametrize(
    ("look", "name"),
    [
        (make_fake_store, "FakeStore"),
        (lambda: find_process_group("0"), "_resolve_process_group"),
        (find_sharding_planner, "ShardingPropagator.propagate_op_sharding_non_cached"),
        (find_parameter_group, "FSDPParamGroup"),
        (lambda: read_group_path(object()), "_module_fqn"),
        (lambda: list(read_group_gradients(object())), "fsdp_params"),
    ],
)
def test_release_without_a_private_name_is_refused(
    look: Callable[[], object], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "find", lambda path: None)
    with pytest.raises(NotOfferedError, match=name):
        look()


@pytest.mark.parametrize("absent", ["_user_meta", "_inference_mode"])
def test_stage_without_a_private_name_is_refused(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would ask ranks that are not there, or count what it was not told."""
    mode = SimpleNamespace(STATIC="static", needs_dynamic=lambda told, stage_has_backward: False)
    monkeypatch.setattr(compat_meshes, "find", lambda path: mode)
    stage = SimpleNamespace(_user_meta=None, _inference_mode=None)
    delattr(stage, absent)
    with pytest.raises(NotOfferedError, match=f"has no PipelineStage.{absent}"):
        use_given_shapes(stage, SimpleNamespace(_warmup_p2p=None))


@pytest.mark.skipif(RELEASE < (2, 9), reason="torch mixed up the groups of several meshes in one process")
def test_dimension_over_which_nothing_is_exchanged_is_named(steps: dict[str, RankTrace]) -> None:
    assert not any("nothing is exchanged" in note for note in steps["fsdp2 and tp"].trace.notes)
    assert any("nothing is exchanged over dp_replicate" in note for note in steps["idle"].trace.notes)


def test_layers_are_those_of_the_model(steps: dict[str, RankTrace]) -> None:
    types = {layer.path: layer.type for layer in steps["fsdp2"].trace.layers}
    assert types[""] == "Net"
    assert types["layers.0"] == "Block"
    assert types["layers.0.attn.q"] == "Linear"


# Passes whose gradients are added up ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "element"),
    [("fsdp2 of three passes", BYTE), pytest.param("bfloat16 of three passes", 2, marks=pytest.mark.slow)],
)
def test_gradients_of_three_passes_are_scattered_once(steps: dict[str, RankTrace], name: str, element: int) -> None:
    step, blocks = steps[name], BLOCKS * (MATRICES + NORMS)
    whole = OUTSIDE + blocks
    back, forward = 3 * blocks * element, 3 * whole * element
    assert sorted(list_totals(step)) == [
        ("all-gather", "dp_shard", "backward", 3 * BLOCKS, back, back * 3 // 4),
        ("all-gather", "dp_shard", "forward", 3 * (1 + BLOCKS), forward, forward * 3 // 4),
        ("reduce-scatter", "dp_shard", "backward", 1 + BLOCKS, whole * BYTE, whole * BYTE * 3 // 4),
    ]
    assert step.gradient_bytes == whole * BYTE // 4
    assert step.trace.macs == 3 * steps["fsdp2"].trace.macs
    # Those of the passes before are whole; in bfloat16 those of the head and its norm are there before they are added,
    # which torch 2.15 no longer has at the peak.
    added = 0 if element == BYTE or RELEASE >= (2, 15) else (WORDS * WIDTH + WIDTH) * element
    assert sum_parts(step.peak)["gradients"] == whole * BYTE + added
    assert "in a step of 3 passes" in step.trace.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "times"), [("ddp", 1), ("zero1", 1), ("tp", 3)])
def test_gradients_of_three_passes_are_reduced_once_and_tensors_in_each(
    steps: dict[str, RankTrace], name: str, times: int
) -> None:
    """In stage 1 they are added up whole in the weights, and reduced as those of one pass."""
    step, one = steps[f"{name} of three passes"], steps[name]
    assert list_totals(step) == [
        (*key, times * calls, times * size, times * sent) for *key, calls, size, sent in list_totals(one)
    ]
    assert step.trace.macs == 3 * one.trace.macs
    assert sum_parts(step.left)["gradients"] == step.gradient_bytes == one.gradient_bytes


@pytest.mark.slow
def test_gradients_of_three_passes_are_reduced_in_each_in_stage_2(steps: dict[str, RankTrace]) -> None:
    step, one = steps["zero2 of three passes"], steps["zero2"]
    whole = (OUTSIDE + BLOCKS * (MATRICES + NORMS)) * BYTE
    assert list_totals(step) == [
        ("all-reduce", "dp_shard", "backward", 3, 3 * whole, 3 * 2 * whole * 3 // 4),
        ("all-gather", "dp_shard", "update", 1, whole, whole * 3 // 4),
    ]
    # Those that are kept are there already when the next are reduced.
    assert step.trace.memory.peak_bytes() == one.trace.memory.peak_bytes() + step.gradient_bytes


@pytest.mark.slow
def test_weights_are_gathered_and_gradients_scattered_in_each_pass_in_stage_3(steps: dict[str, RankTrace]) -> None:
    """But those of the embedding once: nobody sees that its backward pass is over, as words have no gradients."""
    step, whole = steps["zero3 of wide layers in three passes"], 3 * LAYER + EMBEDDING
    gathered = EMBEDDING + 3 * 3 * LAYER
    assert list_totals(step) == [
        ("all-gather", "dp_shard", "forward", 1 + 3, gathered, gathered * 3 // 4),
        ("reduce-scatter", "dp_shard", "backward", 3, 3 * whole, 3 * whole * 3 // 4),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "single"),
    [
        ("zero3 of three passes", "zero3"),
        ("zero3 of wide layers in three passes", "zero3 of wide layers"),
        ("zero2 of three passes", "zero2"),
    ],
)
def test_kept_gradients_are_added_up(steps: dict[str, RankTrace], name: str, single: str) -> None:
    """Those of the second and the third pass: an addition for each element."""
    flops = [sum(operator.flops for operator in steps[key].trace.operators) for key in (name, single)]
    assert flops[0] - 3 * flops[1] == 2 * steps[name].gradient_bytes // BYTE
    assert steps[name].gradient_bytes == steps[single].gradient_bytes


# Positions and experts ------------------------------------------------------------------------------------------------


def test_keys_and_values_of_other_positions_are_gathered(steps: dict[str, RankTrace]) -> None:
    """Each of two ranks has half of 2 * LENGTH positions, and gathers keys and values of the other half."""
    step, whole = steps["positions"], 2 * HIDDEN
    assert [(c.layer, c.kind, c.dimension, c.phase, c.calls, c.bytes, c.sent_bytes) for c in step.collectives] == [
        (f"layers.{block}.attn", kind, "cp", phase, 2, 2 * whole, whole)
        for kind, phase, order in (("all-gather", "forward", (0, 1)), ("reduce-scatter", "backward", (1, 0)))
        for block in order
    ]
    attention = 2 * BATCH * HEADS * LENGTH * (2 * LENGTH) * (WIDTH // HEADS)
    matrices = BATCH * LENGTH * (BLOCKS * MATRICES + WIDTH * WORDS)
    assert step.trace.macs == 3 * (matrices + BLOCKS * attention)


def test_positions_go_to_their_experts_and_back(steps: dict[str, RankTrace]) -> None:
    step = steps["experts"]
    assert count_parameter_bytes(step) == (OUTSIDE + BLOCKS * 8 * WIDTH**2) * BYTE  # one expert of four in each block
    assert [(c.layer, c.kind, c.dimension, c.phase, c.calls, c.bytes, c.sent_bytes) for c in step.collectives] == [
        (f"layers.{block}", "all-to-all", "ep", phase, 2, 2 * HIDDEN, 2 * HIDDEN * 3 // 4)
        for phase, order in (("forward", (0, 1)), ("backward", (1, 0)))
        for block in order
    ]
    assert step.trace.macs == 3 * BATCH * LENGTH * (BLOCKS * 8 * WIDTH**2 + WIDTH * WORDS)


# Faults of a plan -----------------------------------------------------------------------------------------------------


def find_note(step: RankTrace, beginning: str) -> str:
    return next((note for note in step.trace.notes if note.startswith(beginning)), "")


def test_gradient_that_is_reduced_for_each_layer_is_a_fault(steps: dict[str, RankTrace]) -> None:
    layers = "layers.1.attn.k, layers.1.attn.q, layers.1.attn.v"
    beginning = "the gradient of one tensor is reduced"
    assert find_note(steps["tp"], beginning).startswith(f"{beginning} 3 times, for {layers}: once is enough")
    for name in ("tp prepared", "tp heads", "sequences", "fsdp2"):
        assert not find_note(steps[name], beginning)


def test_weight_that_is_not_spread_is_a_fault(steps: dict[str, RankTrace]) -> None:
    beginning = "not spread over tp, so that each of its ranks has the same"
    assert find_note(steps["tp"], beginning) == f"{beginning}: emb.weight (32 KiB), head.weight (32 KiB)"
    assert not find_note(steps["sequences"], beginning)  # which leaves whole no more than norms
    assert not find_note(steps["fsdp2"], "not spread over")


# Plans of transformers ------------------------------------------------------------------------------------------------

#: The elements of the small Llama's block, which has a gate too.
LLAMA = MATRICES + 4 * WIDTH**2 + NORMS
#: The bytes of its weights, and of its logits.
LLAMAS, LOGITS = (OUTSIDE + BLOCKS * LLAMA) * BYTE, BATCH * LENGTH * WORDS * BYTE


@pytest.mark.slow
def test_plan_of_transformers_spreads_tensors(steps: dict[str, RankTrace]) -> None:
    """Its layers make their inputs ready each by itself: seven all-reduces in a block where four are enough."""
    pytest.importorskip("transformers.distributed")
    step, whole = steps["transformers in tensors"], (1 + 2 * BLOCKS) * WIDTH * BYTE  # the norms
    assert count_parameter_bytes(step) == (LLAMAS - whole) // 2 + whole
    forward, backward = 1 + 2 * BLOCKS, 1 + 5 * BLOCKS  # of the embedding and of the head once each
    assert list_totals(step) == [
        ("all-reduce", "tp", "forward", forward, forward * HIDDEN, forward * HIDDEN),
        ("all-gather", "tp", "forward", 1, LOGITS, LOGITS // 2),
        ("all-reduce", "tp", "backward", backward, backward * HIDDEN, backward * HIDDEN),
    ]
    gate, head = BATCH * LENGTH * 4 * WIDTH**2, BATCH * LENGTH * WIDTH * WORDS
    assert step.trace.macs == 3 * (count_forward_macs(2) + BLOCKS * gate // 2 - head // 2)
    assert "is reduced 3 times" in find_note(step, "the gradient of one tensor")


@pytest.mark.slow
def test_plan_of_transformers_shards(steps: dict[str, RankTrace]) -> None:
    pytest.importorskip("transformers.distributed")
    step, head = steps["transformers in shards"], (WORDS * WIDTH + WIDTH) * BYTE
    assert count_parameter_bytes(step) == step.gradient_bytes == LLAMAS // 4
    # The last norm and the head stay gathered for the backward pass.
    assert sorted(list_totals(step)) == [
        ("all-gather", "dp_shard", "backward", 1 + BLOCKS, LLAMAS - head, (LLAMAS - head) * 3 // 4),
        ("all-gather", "dp_shard", "forward", 2 + BLOCKS, LLAMAS, LLAMAS * 3 // 4),
        ("reduce-scatter", "dp_shard", "backward", 2 + BLOCKS, LLAMAS, LLAMAS * 3 // 4),
    ]
