"""Ask one tool for its number of one model: ``python convention_tools.py thop ResNet-18`` prints JSON.

It needs the tool and torch, not profilerkit: so each tool can run in an environment of its own.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version

import torch
from convention_models import built


def flop_counter_mode(model, image):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(image)
    return counter.get_total_flops()


def fvcore(model, image):
    from fvcore.nn import FlopCountAnalysis

    return FlopCountAnalysis(model, image).total()


def _ptflops(model, image, backend):
    from ptflops import get_model_complexity_info

    shape = tuple(image.shape[1:])
    return get_model_complexity_info(model, shape, as_strings=False, print_per_layer_stat=False, backend=backend)[0]


def ptflops(model, image):
    return _ptflops(model, image, "pytorch")


def ptflops_aten(model, image):
    return _ptflops(model, image, "aten")


def thop(model, image):
    from thop import profile

    return profile(model, (image,), verbose=False)[0]


def torchinfo(model, image):
    from torchinfo import summary

    return summary(model, input_data=image, verbose=0, depth=99).total_mult_adds


def _flops_profiler(model, image):
    from flops_profiler.profiler import get_model_profile

    return get_model_profile(model, args=[image], print_profile=False, detailed=False, as_string=False, warm_up=0)


def flops_profiler(model, image):
    return _flops_profiler(model, image)[0]


def flops_profiler_macs(model, image):
    return _flops_profiler(model, image)[1]


#: What asks each tool, and the package whose version counts.
TOOLS: dict[str, tuple[Callable[..., float], str]] = {
    "FlopCounterMode": (flop_counter_mode, "torch"),
    "fvcore": (fvcore, "fvcore"),
    "ptflops": (ptflops, "ptflops"),
    "ptflops, aten": (ptflops_aten, "ptflops"),
    "thop": (thop, "thop"),
    "torchinfo": (torchinfo, "torchinfo"),
    "flops-profiler": (flops_profiler, "flops-profiler"),
    "flops-profiler, MACs": (flops_profiler_macs, "flops-profiler"),
}


def main() -> None:
    """Print the number that the tool of the first argument has for the model of the second."""
    warnings.simplefilter("ignore")
    ask, package = TOOLS[sys.argv[1]]
    with redirect_stdout(sys.stderr):
        number = ask(*built(sys.argv[2]))
    print(json.dumps({"number": int(number), "version": version(package)}))


if __name__ == "__main__":
    main()
