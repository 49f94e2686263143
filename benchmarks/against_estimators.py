"""The published measurements beside AIConfigurator's estimates, and caches beside hf-mem's.

Both run without a network in an environment of their own, whose Python is the argument:

    python benchmarks/against_estimators.py ~/estimators/bin/python

It prints the two tables of ``docs/published-measurements.rst`` and takes some minutes. AIConfigurator gets the lengths,
formats and layout of each row. Where requests are in flight it gets the batch that it finds fastest, of those that fit:
sources do not say how many requests ran at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

#: What AIConfigurator calls our devices.
SYSTEMS = {
    "a100-80": "a100_sxm",
    "b200": "b200_sxm",
    "gb200": "gb200",
    "h100-sxm": "h100_sxm",
    "h200": "h200_sxm",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}
#: The models that it has by name; others it reads from a folder with a configuration.
MODELS = {
    "deepseek-r1": "deepseek-ai/DeepSeek-R1",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "llama-4-maverick": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
}
#: Its formats of dense products and of experts, by ours.
FORMATS = {"fp8": ("fp8", "fp8_block"), "nvfp4": ("nvfp4", "nvfp4"), "fp16": ("bfloat16", "bfloat16")}
MXFP4 = {"h100-sxm": "w4a16_mxfp4", "h200": "w4a16_mxfp4"}
#: The engines whose rows it is asked about: those with TensorRT-LLM inside, which is its default.
ENGINES = ("TensorRT-LLM", "NIM")
CACHED_TOKENS = 8192
TITLES = (
    "devices",
    "model",
    "batch",
    "what",
    "published",
    "at least",
    "bound / measured",
    "AIConfigurator",
    "of measured",
)
CACHE_TITLES = ("model", "cache object", "llm", "hf-mem")


def ask(python: str, questions: list[dict[str, Any]]) -> list[Any]:
    """Return the answers of the other tools, asked in their own environment."""
    command = [python, "-W", "ignore", __file__, "--answer"]
    done = subprocess.run(command, input=json.dumps(questions), capture_output=True, text=True, check=True)
    answers: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def answer(question: dict[str, Any]) -> Any:
    """Return what a tool says: seconds or bytes, or a text that says why it says nothing."""
    try:
        return count_cache(question["cache"]) if "cache" in question else estimate(question)
    except Exception as error:  # a tool's errors are of any kind, and each is an answer here
        return f"{type(error).__name__}: {error}"[:200]


def count_cache(config: dict[str, Any]) -> int:
    """Return the bytes of a cache of one sequence by hf-mem; what is None stands in no ``config.json``."""
    from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size

    written = {name: value for name, value in config.items() if value is not None}
    return int(compute_safetensors_kv_cache_size(written, "BF16", CACHED_TOKENS))


def estimate(question: dict[str, Any]) -> float:
    """Return the seconds of a row by AIConfigurator."""
    from aiconfigurator.cli.api import cli_estimate

    what, batch = question.pop("what"), question.pop("batch")
    if what != "in flight":
        mode = "static_ctx" if what == "first token" else "static"
        result = cli_estimate(**question, mode=mode, batch_size=batch)
        milliseconds = {"first token": result.ttft, "token": result.tpot}.get(what, result.raw["request_latency"])
        return float(milliseconds) / 1000
    rates = [0.0]
    for power in range(4, 13):
        try:
            result = cli_estimate(**question, mode="agg", batch_size=2**power)
        except RuntimeError:  # it does not fit
            break
        if result.kv_cache_warning is None:
            rates.append(result.raw["tokens/s"])
    return float(batch * question["osl"] / max(rates))


def make_question(item: Any, folder: Path) -> dict[str, Any]:
    """Return a row as the arguments of AIConfigurator."""
    layout = item.layout
    dense, experts = FORMATS.get(item.weights, ("bfloat16", MXFP4.get(item.device, "w4a8_mxfp4_mxfp8")))
    return {
        "what": item.what,
        "batch": item.batch,
        "model_path": MODELS.get(item.model) or str(folder / item.model),
        "system_name": SYSTEMS[item.device],
        "isl": max(item.prompt, 1),
        "osl": item.new,
        "tp_size": layout.tensor,
        "pp_size": layout.pipeline,
        "attention_dp_size": layout.data,
        "moe_ep_size": layout.expert_devices if layout.has_whole_experts else 1,
        "gemm_quant_mode": dense,
        "moe_quant_mode": experts,
        "kvcache_quant_mode": "fp8" if item.cache == "fp8" else "bfloat16",
    }


def write_configuration(name: str, folder: Path) -> None:
    """Write the configuration of a model as it stands in a checkpoint."""
    from published_measurements import make_configuration

    config = make_configuration(name)
    (folder / name).mkdir(exist_ok=True)
    content = config.to_dict() | {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}
    (folder / name / "config.json").write_text(json.dumps(content), encoding="utf-8")


def list_times(python: str) -> list[tuple[str, ...]]:
    """Return a row for each measurement of a device and a model that AIConfigurator knows."""
    from published_measurements import list_measurements, read, show_devices

    from profilerkit_predict.language_models.report.text_table import show_seconds

    llamas = {name for name, sizes in read()["models"].items() if sizes["class"] == "LlamaConfig"}
    items = [
        item
        for item in list_measurements()
        if not item.lacks and item.device in SYSTEMS and item.model in {*MODELS, *llamas}
        if read()["sources"][item.source]["engine"].startswith(ENGINES)
    ]
    with TemporaryDirectory() as name:
        folder = Path(name)
        for model in llamas:
            write_configuration(model, folder)
        answers = ask(python, [make_question(item, folder) for item in items])
    rows: list[tuple[str, ...]] = []
    for item, seconds in zip(items, answers, strict=True):
        bound = item.compute_bound()
        other = (seconds, "-") if isinstance(seconds, str) else (show_seconds(seconds), f"{seconds / item.seconds:.2f}")
        shown = (show_devices(item), item.model, str(item.batch), item.describe(), item.published, show_seconds(bound))
        rows.append((*shown, f"{bound / item.seconds:.2f}", *other))
    return rows


def list_caches(python: str) -> list[tuple[str, ...]]:
    """Return the bytes of the cache of each model after so many tokens, as its own cache has them and by both tools."""
    from published_measurements import make_configuration, read

    from profilerkit import kv_bytes, llm
    from profilerkit_predict.language_models.report.text_table import show_bytes

    names = list(read()["models"])
    configs = {name: make_configuration(name) for name in names}
    answers = ask(python, [{"cache": config.to_dict()} for config in configs.values()])
    rows: list[tuple[str, ...]] = []
    for name, other in zip(names, answers, strict=True):
        limit = getattr(configs[name], "max_position_embeddings", CACHED_TOKENS)
        configs[name].max_position_embeddings = max(limit, CACHED_TOKENS + 1)
        cached = kv_bytes(configs[name], CACHED_TOKENS, dtype="bf16").logical
        report: Any = llm(configs[name], prompt=64, new=2, dtype="bf16")
        hf_mem = other if isinstance(other, str) else show_bytes(other)
        rows.append((name, show_bytes(cached), show_bytes(report.cost.cache_bytes(CACHED_TOKENS)), hf_mem))
    return rows


def main() -> None:
    """Print both tables, or answer for the other tools."""
    if sys.argv[1:] == ["--answer"]:
        print(json.dumps([answer(question) for question in json.load(sys.stdin)]))
        return
    from published_measurements import print_table

    print_table(TITLES, list_times(sys.argv[1]))
    print()
    print_table(CACHE_TITLES, list_caches(sys.argv[1]))


if __name__ == "__main__":
    main()
