"""Prefill and decode of Llama 3.1 405B without its weights, in a process of its own, from a folder with a config.json.

Asked for: less than 3 s and 1 GiB, imports included. The process begins with ``from profilerkit import llm``, as the
command line does: torch and transformers are imported by it. What importing them alone takes stands beside it.
Modules are read from bytecode, as those of an installed package are: the first processes write it, and do not count.
Run it on a machine that does nothing else; the seconds of a shared one are upper bounds.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPETITIONS = 3
#: The numbers of https://huggingface.co/meta-llama/Llama-3.1-405B.
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_hidden_layers": 126,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}

IMPORTS = """
import json, time
start = time.perf_counter()
import torch
from transformers import LlamaForCausalLM
print(json.dumps({
    "imports of torch and transformers alone: wall": time.perf_counter() - start,
    "imports of torch and transformers alone: processor": time.process_time(),
}))
"""
CODE = """
import json, resource, sys, time
start = time.perf_counter()
from profilerkit import llm
report = llm(sys.argv[1], prompt=2048, new=256, dtype="bf16", device="h100", devices=16)
print(json.dumps({
    "all, imports included: wall": time.perf_counter() - start,
    "all, imports included: processor": time.process_time(),
    "resident MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
    "prefill MACs": report.facts.traced.prefill.macs,
    "decode MACs": report.facts.traced.decode.macs,
}))
"""


def run(bytecode: Path, code: str, *arguments: str) -> dict[str, float]:
    """Return what code printed last, in a process of its own that keeps the bytecode of modules in a folder."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**variables, "PYTHONPYCACHEPREFIX": str(bytecode)},
    )
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def main() -> None:
    """Run it several times, and print the smallest and the largest of each number."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        bytecode = Path(folder) / "bytecode"
        runs = [run(bytecode, IMPORTS) | run(bytecode, CODE, f"hf:{folder}") for _ in range(1 + REPETITIONS)][1:]
    for name in runs[0]:
        values = [one_run[name] for one_run in runs]
        print(f"{name:<52} {min(values):>24,.2f} {max(values):>24,.2f}")


if __name__ == "__main__":
    main()
