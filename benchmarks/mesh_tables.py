"""The tables of ``docs/meshes.rst``: four models, and what others published beside ours.

``python benchmarks/mesh_tables.py`` prints both; it takes some minutes. Times are bounds by the data sheet of an H100,
or of an A100 for the oldest figure, and a network of 400 Gbit/s for each device.

Sources:

- torchtitan: ``benchmarks/llama3_h100_202412_torchtitan.md`` at github.com/pytorch/torchtitan, tables 1, 3 and 4,
  without torch.compile where there is such a row; and the text of commit 2887250 there, of June 2025, for the tokens
  of 70 billion parameters in bfloat16.
- Llama 3: slides of its authors as in glennklockwood.com/garden/llama-3.1: 430 TFLOP/s on each of 8,192 GPUs.
- Megatron-LM: ``README.md`` at github.com/NVIDIA/Megatron-LM, commit 2e90a34: MFU 41.5 % of 22 billion parameters.
"""

from __future__ import annotations

import resource
import time
from functools import cache
from math import prod
from typing import Any, NamedTuple

import mesh_models as models
import torch

from profilerkit import profile

GIB = 2**30
#: FLOP/s of dense products in bfloat16, by the data sheets.
PEAKS = {"h100": 989.4e12, "a100-80": 312e12}
METRICS = (
    *("rank_parameter_bytes", "rank_optimizer_bytes", "rank_peak_memory", "rank_peak_parts", "collective_bytes"),
    *("rank_step_time", "exposed_time"),
)


class Case(NamedTuple):
    """A model on a mesh: the samples that a rank gets in a pass, and how many ranks get the same ones."""

    title: str
    build: Any
    parallelize: Any
    sizes: models.Sizes
    mesh: str
    samples: int
    alike: int = 1
    passes: int = 1
    device: str = "h100"
    optimizer: str | None = "adamw"


class Figures(NamedTuple):
    """What a rank needs; seconds of a step at least, the MFU that this is, and what tracing took."""

    states: float
    peak: float
    largest: str
    sent: float
    seconds: float
    exposed: float
    mfu: float
    wall: float
    busy: float
    memory: float


LLAMA_8B = Case("Llama 3.1 8B", models.llama_8b, models.shard_selectively, models.LLAMA_8B, "dp_shard=8", 2)
LLAMA_8B_128 = LLAMA_8B._replace(mesh="dp_shard=128")
LLAMA_70B = Case(
    "Llama 3.1 70B", models.llama_70b, models.spread_and_shard, models.LLAMA_70B, "dp_shard=32,tp=8", 16, alike=8
)
LLAMA_405B = Case(
    "Llama 3.1 405B",
    models.llama_405b,
    models.spread_and_shard,
    models.LLAMA_405B,
    "dp_shard=128,tp=8",
    1,
    alike=8,
)
MIXTRAL = Case("Mixtral 8x7B", models.mixtral, models.spread_experts, models.MIXTRAL, "ep=8,dp_shard=8", 4)
STAGE = Case(
    "Llama 3 405B, a stage of 16",
    models.stage_of_405b,
    models.spread_stage,
    models.LLAMA_405B,
    "dp_shard=64,tp=8",
    1,
    alike=8,
    passes=32,
)
GPT_22B = Case("GPT 22B", models.gpt_22b, models.spread_tensors, models.GPT_22B, "tp=8", 4, alike=8, device="a100-80")


@cache
def trace(case: Case) -> Figures:
    words = torch.zeros(case.samples, case.sizes.length, dtype=torch.long)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    report = profile(
        case.build,
        words,
        mesh=case.mesh,
        parallelize=case.parallelize,
        gradient_accumulation_steps=case.passes,
        optimizer=case.optimizer,
        on=case.device,
        network=50e9,
        metrics=METRICS,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    parts = report["rank_peak_parts"]
    largest = max(parts, key=lambda part: parts[part])
    share = 8 / case.sizes.layers if case is STAGE else 1.0
    flops = case.passes * case.samples * case.sizes.length * case.sizes.flops_of_token / case.alike * share
    return Figures(
        (report["rank_parameter_bytes"] + report["rank_optimizer_bytes"]) / GIB,
        report["rank_peak_memory"] / GIB,
        f"{largest} {parts[largest] / sum(parts.values()):.0%}",
        report["collective_bytes"] / GIB,
        report["rank_step_time"],
        report["exposed_time"],
        flops / (report["rank_step_time"] * PEAKS[case.device]),
        wall,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        after.ru_maxrss / 2**20,
    )


def print_models() -> None:
    print(
        "model | mesh | weights, states | peak | of it | sent | step at least | waits | MFU at most | traced in | with"
    )
    for case in (LLAMA_8B, LLAMA_70B, LLAMA_405B, MIXTRAL):
        row = trace(case)
        print(
            f"{case.title} | {case.mesh} | {row.states:.2f} GiB | {row.peak:.1f} GiB | {row.largest} | "
            f"{row.sent:.1f} GiB | {row.seconds:.3f} s | {row.exposed:.3f} s | {row.mfu:.0%} | "
            f"{row.wall:.0f} s ({row.busy:.0f} s of a core) | {row.memory:.2f} GiB",
            flush=True,
        )


def print_published() -> None:
    """Print published figures beside ours: GiB, seconds of a step, MFU."""
    tokens = 2 * 8192
    print("case | what | published | ours | ours / published")
    for case, memory, seconds in (
        (LLAMA_8B, 82.4, tokens / 5762),
        (LLAMA_8B_128, 67.0, tokens / 5605),
        (LLAMA_70B, 71.9, 16 * 8192 / 8 / 597.3),
    ):
        row = trace(case)
        _print_row(case, "memory, GiB", memory, row.peak)
        _print_row(case, "step, s", seconds, row.seconds)
    _print_row(STAGE, "MFU", 0.43, trace(STAGE).mfu)
    _print_row(GPT_22B, "MFU", 0.415, trace(GPT_22B).mfu)


def _print_row(case: Case, what: str, published: float, ours: float) -> None:
    ranks = prod(int(part.partition("=")[2]) for part in case.mesh.split(","))
    print(f"{case.title}, {ranks} | {what} | {published:.3g} | {ours:.3g} | {ours / published:.0%}", flush=True)


if __name__ == "__main__":
    print_models()
    print_published()
