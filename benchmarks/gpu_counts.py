"""A step of ``make gpu``: what is counted of a model on the GPU is what is counted of it on the CPU."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpu_checks import error_result
from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

STEP = "counts"
#: Values that follow from the kernels, which are others on a GPU: a fused one for a whole layer, other saved tensors.
BY_KERNELS = ("training_flops", "training_memory")
FORWARD = ("total_params", "model_size", "macs", "flops", "macs_by_dtype", "attended_macs", "memory_footprint")
TRAINING = ("training_macs", "training_flops", "training_memory")
#: On a CPU a few networks show that the script runs.
_SMALL = ("CNN", "fused attention, causal", "LSTM", "product in float8")


def measure(where: Where, part: int, parts: int) -> Iterator[Result | Skipped]:
    """Yield each network's MACs on both devices, how many of all counts are equal, and the MACs of torch's counter."""
    import torch
    from gpu_networks import NEEDS, NETWORKS

    names = [name for name in NETWORKS if not where.is_small or name in _SMALL]
    for name in names[part::parts]:
        only, reason = NEEDS.get(name, ("", ""))
        if only and only != where.device:
            yield Skipped(STEP, name, reason)
            continue
        torch.manual_seed(0)
        try:
            yield from _network(name, where.device, is_there_alone=bool(only))
        except Exception as error:
            yield error_result(STEP, name, "counted", error)


def _network(name: str, device: str, is_there_alone: bool) -> Iterator[Result]:
    from gpu_networks import BY_DEVICE, NETWORKS, UNKNOWN_TO_TORCH

    model, inputs = NETWORKS[name]()
    model.eval()
    before = {} if is_there_alone else _counts(model, inputs, None)
    # What torch has compiled of a model stays with it: another one goes to the device.
    model, inputs = NETWORKS[name]() if "compiled" in name else (model, inputs)
    model.eval().to(device)
    inputs = tuple(tensor.to(device) for tensor in inputs)
    after = _counts(model, inputs, device)
    macs = float(after["macs"][0] or 0)
    if not is_there_alone:
        yield Result(STEP, name, "macs", macs, float(before["macs"][0] or 0), "the same on the CPU", within=0.0)
        judged = [key for key in before if key not in BY_KERNELS and key not in BY_DEVICE.get(name, ())]
        different = {key: (before[key], after[key]) for key in judged if before[key] != after[key]}
        note = "; ".join(f"{key}: {one} on the CPU, {two} here" for key, (one, two) in different.items())
        equal = len(judged) - len(different)
        yield Result(STEP, name, "equal counts", equal, len(judged), "all of them", within=0.0, note=note[:900])
        for key in (*BY_KERNELS, *BY_DEVICE.get(name, ())):
            one, two = before[key][0], after[key][0]
            if one != two and isinstance(one, int) and isinstance(two, int):
                yield Result(STEP, name, key, two, one, "the same on the CPU", note="by other kernels")
    if name not in UNKNOWN_TO_TORCH and (device != "cpu" or name == "CNN"):  # it knows no attention of the CPU's
        yield Result(STEP, name, "macs by torch", macs, _by_torch(model, inputs), "FlopCounterMode", within=0.0)


def _counts(model: Any, inputs: tuple[Any, ...], device: str | None) -> Mapping[str, tuple[Any, str, str]]:
    """Return each value, how complete it is and what it leaves out; on the device the model also runs."""
    from profilerkit import ModelInputs, profile

    counts = {}
    for keys in (FORWARD, TRAINING):
        metrics = [*keys, "execution_time"] if device is not None and keys is FORWARD else list(keys)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report: Any = profile(copy.copy(model), ModelInputs(*inputs), metrics=metrics, num_iters=2, warmup=0)
        for warning in caught:
            print(f"warning: {warning.message}")
        for key in keys:
            status = report.status(key)
            value = report[key] if status.completeness.value in ("complete", "partial") else None
            shown = dict(value) if isinstance(value, Mapping) else value
            counts[key] = shown, status.completeness.value, " | ".join(status.missing)
            if key == "memory_footprint":  # the workspace of recurrent layers is not known on a GPU alone
                print(f"{key}: {counts[key]}")
                counts[key] = shown, "", ""
    return counts


def _by_torch(model: Any, inputs: tuple[Any, ...]) -> float:
    """Return half of what torch's own counter says of a real pass: it has two for each multiply-accumulate.

    It sees nothing inside fused layers.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    counter, fused = FlopCounterMode(display=False), torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), counter:
            model(*inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
    return float(counter.get_total_flops() / 2)
