"""Memory of one pass as the runtime's arena tells it: bytes that its operators had requested and not given back."""

from __future__ import annotations

from onnx import ModelProto

from profilerkit import ModelInputs, NotOfferedError

from .profiled import profile_passes, switch_profiler_on
from .runs import make_feeds
from .sessions import make_options, make_session

__all__ = ["measure_memory"]

#: What the profiler calls the bytes in use after an operator, and how many more these are than before it.
_IN_USE, _ADDED = "mem_bytes_requested_in_use", "mem_requested_in_use_delta"


def measure_memory(model: ModelProto, inputs: ModelInputs, level: str, device: str) -> int:
    """Return the most bytes in use after an operator: what the arena had given out, and the inputs of the caller.

    The weights, which the arena holds from the beginning, are taken off. What an operator requests and gives back
    inside is not seen. The arena plans nothing ahead here, which would give all of it out at once. Raises
    `NotOfferedError` where the profiler of the runtime does not tell what its arena has given out.
    """
    feeds = make_feeds(model, inputs)
    options = make_options(level)
    options.enable_mem_pattern = False
    with switch_profiler_on(options):
        [single] = profile_passes(make_session(model, options, device, inputs), feeds, 1, device, inputs)
    usage = [kernel.facts for kernel in single.kernels]
    if not usage or any(_IN_USE not in facts or _ADDED not in facts for facts in usage):
        raise NotOfferedError(
            "the profiler of the installed onnxruntime does not tell what its arena has given out; a newer one does"
        )
    before = int(usage[0][_IN_USE]) - int(usage[0][_ADDED])
    most = max(int(facts[_IN_USE]) for facts in usage)
    return most - before + sum(int(array.nbytes) for array in feeds.values())
