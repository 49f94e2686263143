"""A step of ``make gpu``: the seconds of operators beside those of the kernels in a session of torch's profiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

STEP = "operators"
_PASSES = 10
#: As many of the slowest operators are compared by name.
_SLOWEST = 4


def measure(where: Where, part: int, parts: int) -> Iterator[Result | Skipped]:
    """Yield the seconds of all kernels and of the slowest operators, forward; and what has no layer."""
    import torch
    from gpu_times import subjects

    if where.is_small:
        yield Skipped(STEP, "kernels in torch.profiler", "there are none on a CPU")
    for name, make in subjects(where.is_small).items():
        torch.manual_seed(0)
        model, inputs = make()
        model, inputs = model.eval().to(where.device), tuple(tensor.to(where.device) for tensor in inputs)
        yield from _network(name, model, inputs, where)


def _network(name: str, model: Any, inputs: tuple[Any, ...], where: Where) -> Iterator[Result]:
    from profilerkit import ModelInputs, profile

    passes = 2 if where.is_small else _PASSES
    report: Any = profile(model, ModelInputs(*inputs), metrics=["operator_table"], passes=passes)
    table, status = report["operator_table"], report.status("operator_table")
    if table is None:
        yield Result(STEP, name, "operator_table", 0.0, 1.0, "a table", "", 0.0, " ".join(status.missing)[:600])
        return
    rows = [row for row in table if row["phase"] == "forward"]
    total = sum(row["seconds"] for row in rows)
    without = sum(row["seconds"] for row in rows if not row["layer"])
    note = f"{status.completeness.value} {' | '.join(status.missing)} {status.note}"[:300]
    yield Result(STEP, name, "seconds without a layer", without, total, "all operators forward", "s", None, note)
    backward = [row for row in table if row["phase"] == "backward"]
    lost = sum(row["seconds"] for row in backward if not row["layer"])
    whole = sum(row["seconds"] for row in backward)
    yield Result(STEP, name, "seconds without a layer", lost, whole, "all operators backward", "s")
    if where.is_small:
        return
    kernels, by_operator = _profile_kernels(model, inputs)
    yield Result(STEP, name, "seconds of operators", total, kernels, "kernels in torch.profiler", "s", 0.05)
    ours = {row["operator"]: row["seconds"] for row in table.by("operator") if row["phase"] == "forward"}
    slowest = sorted(by_operator, key=lambda operator: -by_operator[operator])[:_SLOWEST]
    for operator in slowest:
        if by_operator[operator] < 0.02 * kernels:
            continue
        seconds = sum(taken for shown, taken in ours.items() if shown.removeprefix("aten::") == operator)
        note = "" if seconds else f"named {', '.join(sorted(ours))}"[:200]
        yield Result(
            STEP, name, f"seconds of {operator}", seconds, by_operator[operator], "torch.profiler", "s", None, note
        )


def _profile_kernels(model: Any, inputs: tuple[Any, ...]) -> tuple[float, dict[str, float]]:
    """Return the seconds of all kernels of a pass, and those of each operator that starts them, outermost alone."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    for passes in (3, _PASSES):  # the first session is for warming up
        with torch.no_grad(), profile(activities=both, acc_events=True) as session:
            for _ in range(passes):
                model(*inputs)
            torch.cuda.synchronize()
    events: Any = session.events()
    kernels = sum(event.self_device_time_total for event in events if event.device_type.name == "CUDA")
    outermost: dict[str, float] = {}
    for event in events:
        if event.device_type.name == "CPU" and event.name.startswith("aten::") and event.cpu_parent is None:
            name = event.name.removeprefix("aten::")
            outermost[name] = outermost.get(name, 0.0) + event.device_time_total
    scale = 1e-6 / _PASSES
    return kernels * scale, {name: taken * scale for name, taken in outermost.items()}
