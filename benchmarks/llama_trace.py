"""What a trace of a Llama of 70 billion parameters on the meta device takes, 2,048 words: prints one line of JSON."""

from __future__ import annotations

import json
import resource
import sys
import time

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit_torch import TorchBackend


def peak_megabytes() -> float:
    """Return the most memory that this process has held; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    """Build the model, trace it twice, and print the times and the memory."""
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
    times = []
    for _ in range(2):
        start = time.perf_counter()
        TorchBackend().trace(model, words)
        times.append(time.perf_counter() - start)
    answer = {
        "built": f"{built:.2f} s",
        "traced, the first time": f"{times[0]:.2f} s",
        "traced again": f"{times[1]:.2f} s",
        "memory beyond the imports": f"{peak_megabytes() - imported:.0f} MiB",
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
