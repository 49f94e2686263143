"""What a trace takes of a model that is large, long or deep: run by ``static_trace.py``, each in its own process."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from trace_tools import tiny_layers

from profilerkit import ModelInputs
from profilerkit_torch import TorchBackend


def peak_megabytes() -> float:
    """Return the most memory that this process has held; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def fastest(call: Callable[[], object], calls: int = 3) -> float:
    """Return the seconds of processor time of the fastest call."""
    times = []
    for _ in range(calls):
        gc.collect()
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def llama() -> None:
    """Trace a Llama of 70 billion parameters on the meta device, 2,048 words."""
    from transformers import LlamaConfig, LlamaForCausalLM

    imported = peak_megabytes()
    config = LlamaConfig(
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        vocab_size=128256,
    )
    start = time.perf_counter()
    with torch.device("meta"):
        model: nn.Module = LlamaForCausalLM(config)
    model.train(False)
    built = time.perf_counter() - start
    words = ModelInputs(input_ids=torch.zeros(1, 2048, dtype=torch.long))
    start = time.perf_counter()
    trace = TorchBackend().trace(model, words)
    seconds = time.perf_counter() - start
    print(
        f"Llama of {trace.total_params / 1e9:.1f} billion parameters, {len(trace.operators)} operators: built in "
        f"{built:.2f} s, traced in {seconds:.2f} s; at most {peak_megabytes():.0f} MB of memory, {imported:.0f} MB of "
        "them after the imports"
    )


def layers(longest: int = 10_000) -> None:
    """Trace models of more and more layers, one after the other and one inside the other."""
    print("processor time of one trace for each layer, in microseconds:")
    backend, inputs = TorchBackend(), ModelInputs(torch.randn(1, 8))
    number = 100
    while number <= longest:
        model = tiny_layers(number // 2).eval()
        took = fastest(partial(backend.trace, model, inputs))
        print(f"  {number:>6,} layers in a row: {1e6 * took / number:6.1f}")
        number *= 10
    sys.setrecursionlimit(20_000)
    for depth in (100, 500, 1000):
        nested: nn.Module = nn.Linear(8, 8)
        for _ in range(depth):
            nested = nn.Sequential(nested, nn.ReLU())
        nested.eval()
        took = fastest(partial(backend.trace, nested, inputs))
        print(f"  {depth:>6,} levels of layers: {1e6 * took / (2 * depth):6.1f}")


if __name__ == "__main__":
    {"llama": llama, "layers": layers}[sys.argv[1]](*map(int, sys.argv[2:]))
