"""Prefill and decode of Llama 3.1 405B without its weights, in a process of its own.

Asked for: less than 3 s and 1 GiB, imports included.

Each part is timed, so that what profilerkit takes stands apart from what importing torch and transformers takes.
Run it on a machine that does nothing else; the seconds of a shared one are upper bounds.
"""

import json
import subprocess
import sys

REPETITIONS = 3

CODE = """
import json, resource, sys, time
start = time.perf_counter()
import torch
torch_seconds = time.perf_counter() - start
from transformers import LlamaConfig, LlamaForCausalLM
library = time.perf_counter() - start - torch_seconds
from profilerkit import llm
report = llm(
    LlamaConfig(
        vocab_size=128256, hidden_size=16384, intermediate_size=53248, num_hidden_layers=126,
        num_attention_heads=128, num_key_value_heads=8, max_position_embeddings=131072,
    ),
    prompt=2048, new=256, dtype="bf16", device="h100", devices=16,
)
total = time.perf_counter() - start
print(json.dumps({
    "import torch": torch_seconds,
    "import transformers": library,
    "profilerkit: model, both traces, predictions": total - torch_seconds - library,
    "in all": total,
    "processor seconds": time.process_time(),
    "resident MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
    "prefill MACs": report.facts.prefill.macs,
    "decode MACs": report.facts.decode.macs,
}))
"""


def main() -> None:
    """Run it several times, and print the smallest and the largest of each number."""
    runs = []
    for _ in range(REPETITIONS):
        done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    for name in runs[0]:
        values = [run[name] for run in runs]
        print(f"{name:<46} {min(values):>24,.2f} {max(values):>24,.2f}")


if __name__ == "__main__":
    main()
