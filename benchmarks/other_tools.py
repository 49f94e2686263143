"""What tools for PyTorch count for six small networks, and what they leave in a model: ``docs/other-tools.rst``.

``python benchmarks/other_tools.py [TOOL]`` prints a line for each tool that is installed; it needs torch, and not
profilerkit. A number is a ratio to the MACs that are worked out by hand below: 1 is all of them, or half of the FLOPs
where a tool counts those. Each tool gets a network of its own.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Attention alone, of 4 heads, 32 positions and 16 features."""

    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.unused = nn.Parameter(torch.zeros(1))  # two of the tools ask for the device of a parameter

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=self.causal)


class Shared(nn.Module):
    """One layer that is called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.linear(self.linear(x)))  # type: ignore[no-any-return]


class Case(NamedTuple):
    """A network, the shape of its input, and its MACs."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    macs: int


CASES = {
    # Scores and their product with the values: each 4 heads of 32 x 32 x 16.
    "attention": Case(Attention, (1, 4, 32, 16), 2 * 4 * 32 * 32 * 16),
    # The same as a dense square; up to the diagonal it is 33/64 of it.
    "causal": Case(lambda: Attention(causal=True), (1, 4, 32, 16), 2 * 4 * 32 * 32 * 16),
    # 10 steps of 4 gates, each 32 x (16 + 32).
    "LSTM": Case(lambda: nn.LSTM(16, 32, batch_first=True), (1, 10, 16), 10 * 4 * 32 * (16 + 32)),
    # For 32 positions of 64 features: q, k, v and the output; scores and their product; two layers of 64 x 128.
    "encoder": Case(
        lambda: nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval(),
        (1, 32, 64),
        32 * 64 * 4 * 64 + 2 * 32 * 32 * 64 + 2 * 32 * 64 * 128,
    ),
    # Each of 3 x 8 x 8 inputs times 4 channels of 4 x 4.
    "transposed": Case(lambda: nn.ConvTranspose2d(3, 4, 4, 2, 1), (1, 3, 8, 8), 3 * 8 * 8 * 4 * 4 * 4),
    "shared": Case(Shared, (1, 16), 3 * 16 * 16),
}


def flop_counter_mode(model: nn.Module, x: Tensor) -> Any:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    return counter.get_total_flops() / 2


def fvcore(model: nn.Module, x: Tensor) -> Any:
    from fvcore.nn import FlopCountAnalysis

    with torch.no_grad():
        return FlopCountAnalysis(model, x).unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


def _ptflops(model: nn.Module, x: Tensor, backend: str) -> Any:
    from ptflops import get_model_complexity_info

    settings = {"as_strings": False, "print_per_layer_stat": False, "input_constructor": lambda _: x}
    return get_model_complexity_info(model, tuple(x.shape), backend=backend, **settings)[0]


def ptflops(model: nn.Module, x: Tensor) -> Any:
    return _ptflops(model, x, "pytorch")


def ptflops_aten(model: nn.Module, x: Tensor) -> Any:
    return _ptflops(model, x, "aten")


def thop(model: nn.Module, x: Tensor) -> Any:
    from thop import profile

    return profile(model, (x,), verbose=False)[0]


def torchinfo(model: nn.Module, x: Tensor) -> Any:
    from torchinfo import summary

    return summary(model, input_data=x, verbose=0, depth=9).total_mult_adds


def flops_profiler(model: nn.Module, x: Tensor) -> Any:
    from flops_profiler.profiler import get_model_profile

    return get_model_profile(model, args=[x], print_profile=False, detailed=False, as_string=False, warm_up=0)[1]


def calflops(model: nn.Module, x: Tensor) -> Any:
    from calflops import calculate_flops

    return calculate_flops(model, args=[x], print_results=False, print_detailed=False, output_as_string=False)[1]


def torchscan(model: nn.Module, x: Tensor) -> Any:
    from torchscan import crawl_module

    total = crawl_module(model, args=(x,))["totals"]["operator_flops"]
    if total["status"] != "complete":
        return f"{total['status']}, {(total['known_value'] or 0) / 2:,.0f} MACs known"
    return total["value"] / 2


def torchlens(model: nn.Module, x: Tensor) -> Any:
    import torchlens as lens

    return lens.trace(model, x).total_flops_forward / 2


#: What asks each tool, and the package whose version counts.
TOOLS: dict[str, tuple[Callable[[nn.Module, Tensor], Any], str]] = {
    "FlopCounterMode": (flop_counter_mode, "torch"),
    "fvcore": (fvcore, "fvcore"),
    "ptflops": (ptflops, "ptflops"),
    "ptflops, aten": (ptflops_aten, "ptflops"),
    "thop": (thop, "thop"),
    "torchinfo": (torchinfo, "torchinfo"),
    "flops-profiler": (flops_profiler, "flops-profiler"),
    "calflops": (calflops, "calflops"),
    "torchscan": (torchscan, "torchscan"),
    "torchlens": (torchlens, "torchlens"),
}


def describe(model: nn.Module) -> dict[str, object]:
    """Return what a tool must give back as it was: modes, hooks, buffers, methods on the instance."""
    modules = list(model.modules())
    return {
        "modes": [module.training for module in modules],
        "hooks": [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in modules],
        "buffers": sorted(model.state_dict()),
        "attributes": [sorted(vars(module)) for module in modules],
    }


def count(tool: str, case: Case) -> str:
    """Return the share of the MACs that a tool counts, or its error in short."""
    ask, _ = TOOLS[tool]
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            counted = ask(case.build(), torch.zeros(case.shape))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:60]
    return f"{float(counted) / case.macs:.3g}" if isinstance(counted, int | float) else str(counted)


def leave(tool: str, failing: bool) -> str:
    """Return what of a frozen model in training mode is not as before, also after an error inside it."""
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16 + failing, 16)).train()
    model[1].eval()
    before = describe(model)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            TOOLS[tool][0](model, torch.zeros(2, 16))
    except Exception as error:
        if not failing:
            return f"{type(error).__name__}"
    after = describe(model)
    return ", ".join(name for name in before if before[name] != after[name]) or "nothing"


def describe_tool(tool: str) -> None:
    """Print what a tool counts, and what it leaves behind."""
    warnings.simplefilter("ignore")
    try:
        print(f"{tool} {version(TOOLS[tool][1])}")
    except PackageNotFoundError:
        print(f"{tool}: not installed")
        return
    for name, case in CASES.items():
        print(f"  {name}: {count(tool, case)}")
    print(f"  leaves behind: {leave(tool, failing=False)}; after an error: {leave(tool, failing=True)}")


def main() -> None:
    """Describe the tools of the command line, or all, each in a process of its own: some leave torch changed."""
    if sys.argv[1:]:
        describe_tool(sys.argv[1])
        return
    for tool in TOOLS:
        subprocess.run([sys.executable, __file__, tool], check=False)


if __name__ == "__main__":
    main()
