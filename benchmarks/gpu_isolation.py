"""A step of ``make gpu``: models on a GPU in processes of their own, and a GPU whose memory does not suffice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_checks import Check, run_checks
from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

STEP = "isolation"
_THIS = Path(__file__)
_KEYS = ("total_params", "macs", "execution_time", "measured_memory")


# Models, each for a process of its own -------------------------------------------------------------------------------


def fine() -> Any:
    """Make a model of 64 x 64 + 64 weights."""
    import torch
    from torch import nn

    from profilerkit import LoadedModel

    return LoadedModel(nn.Sequential(nn.Linear(64, 64), nn.ReLU()), inputs=torch.randn(8, 64))


def too_large() -> Any:
    """Make a model whose pass asks for more than any GPU has: 2**44 bytes in half."""
    import torch
    from gpu_networks import Call
    from torch import nn

    from profilerkit import LoadedModel

    def forward(self: Any, x: Any) -> Any:
        y = self.layer(x)
        return y.repeat(2**17, 2**17)[:1, :1]

    return LoadedModel(Call(forward, layer=nn.Linear(64, 64)), inputs=torch.randn(8, 64))


def endless() -> Any:
    """Make a model that does not end on the device: the host waits for it."""
    import torch
    from gpu_networks import Call
    from torch import nn

    from profilerkit import LoadedModel

    def forward(self: Any, x: Any) -> Any:
        y = self.layer(x)
        if y.is_cuda or y.device.type == "cpu":
            while True:
                y = torch.relu(y)
        return y

    return LoadedModel(Call(forward, layer=nn.Linear(64, 64)), inputs=torch.randn(8, 64))


def wrong_index() -> Any:
    """Make a model whose kernel fails: after that its process cannot use the GPU any more."""
    import torch
    from torch import nn

    from profilerkit import LoadedModel

    return LoadedModel(nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4)), inputs=torch.full((2, 3), 99))


# What is checked ------------------------------------------------------------------------------------------------------


def measure(where: Where, part: int, parts: int) -> Iterator[Result | Skipped]:
    """Yield what came of each model, in a process of its own."""
    yield from run_checks(STEP, where, _ANYWHERE, _ON_GPU)


def _profile_isolated(name: str, device: str, **settings: Any) -> Any:
    from profilerkit import isolated

    arguments = {"metrics": _KEYS, "device": device, "timeout": 60.0, "num_iters": 3, "warmup": 0, **settings}
    return isolated(f"{_THIS}:{name}", **arguments)


def _all_of_it(report: Any, params: int = 64 * 64 + 64) -> str:
    wrong = [key for key in _KEYS if report.status(key).completeness.value not in ("complete", "partial")]
    if wrong:
        return "; ".join(f"{key}: {' '.join(report.status(key).missing)}" for key in wrong)
    return "" if report["total_params"] == params else f"{report['total_params']} weights"


def _plain(device: str) -> str:
    """A model in a process of its own is measured on the device."""
    return _all_of_it(_profile_isolated("fine", device))


def _profile_within_limit(device: str) -> str:
    """A limit of 8 GiB of the host's memory leaves room for the device's driver."""
    return _all_of_it(_profile_isolated("fine", device, memory="8 GiB"))


def _profile_within_low_limit(device: str) -> str:
    """A limit of 3 GiB of the host's memory leaves room for the device's driver."""
    return _all_of_it(_profile_isolated("fine", device, memory="3 GiB"))


def _require_failure(report: Any, key: str, *words: str) -> str:
    status = report.status(key)
    text = " ".join(status.missing)
    print(f"{key}: {status.completeness.value}: {text}")
    if status.completeness.value not in ("failed", "unavailable"):
        return f"{key} is {status.completeness.value}"
    return "" if any(word in text for word in words) else text


def _out_of_memory(device: str) -> str:
    """A GPU whose memory does not suffice is a reason in the report, and the counts are there."""
    report = _profile_isolated("too_large", device)
    if report.status("macs").completeness.value != "complete":
        return f"macs: {report.status('macs').missing}"
    return _require_failure(report, "execution_time", "out of memory", "OutOfMemoryError")


def _out_of_memory_here(device: str) -> str:
    """The same without a process of its own, after which the GPU can be used."""
    import torch

    from profilerkit import profile

    model = too_large().model.to(device)
    report = profile(model, torch.randn(8, 64, device=device), metrics=list(_KEYS), num_iters=3)
    wrong = _require_failure(report, "execution_time", "out of memory", "OutOfMemoryError")
    return wrong or ("" if float((torch.ones(4, device=device) + 1).sum()) == 8 else "the GPU computes something else")


def _run_out_of_time(device: str) -> str:
    """A model that does not end is ended at its limit of time."""
    return _require_failure(_profile_isolated("endless", device, timeout=25.0), "execution_time", "time limit")


def _broken_kernel(device: str) -> str:
    """A kernel that fails takes its own process along, and no other."""
    report = _profile_isolated("wrong_index", device)
    return _require_failure(report, "execution_time", "assert", "out of range", "index") or _plain(device)


def _refuse_fork(device: str) -> str:
    """A fork server that uses the GPU would not be forked."""
    import torch

    from profilerkit import InputError
    from profilerkit.isolation.forkserver import require_forkable

    torch.ones(1, device=device)
    try:
        require_forkable()
    except InputError:
        return ""
    return "it would be forked"


def _fork_server(device: str) -> str:
    """A fork server that has imported torch starts processes that use the GPU."""
    settings = {"start_method": "forkserver", "preload": ["torch"]}
    return _all_of_it(_profile_isolated("fine", device, **settings)) or _all_of_it(
        _profile_isolated("fine", device, **settings)
    )


_ANYWHERE: tuple[Check, ...] = (_plain,)
_ON_GPU: tuple[Check, ...] = (
    *(
        _profile_within_limit,
        _profile_within_low_limit,
        _out_of_memory,
        _out_of_memory_here,
        _broken_kernel,
        _refuse_fork,
        _fork_server,
    ),
    _run_out_of_time,
)
