"""A step of ``make gpu``: prefill and decode of small language models with random weights beside what is predicted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

STEP = "language models"


def _models(small: bool) -> dict[str, Any]:
    """Return configurations by name."""
    from transformers import GPT2Config, LlamaConfig, Qwen2Config

    if small:
        sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 100}
        heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
        return {"Llama, tiny": LlamaConfig(**sizes, **heads)}
    llama: dict[str, Any] = {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "vocab_size": 128_256,
    }
    qwen: dict[str, Any] = {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "vocab_size": 151_936,
    }
    return {
        "Llama, 1.2 G": LlamaConfig(
            **llama,
            num_attention_heads=32,
            num_key_value_heads=8,
            max_position_embeddings=8192,
            tie_word_embeddings=True,
        ),
        "Qwen2, 0.5 G": Qwen2Config(
            **qwen,
            num_attention_heads=14,
            num_key_value_heads=2,
            max_position_embeddings=8192,
            tie_word_embeddings=True,
        ),
        "GPT-2, 0.35 G": GPT2Config(n_embd=1024, n_layer=24, n_head=16, n_positions=2048),
    }


def measure(where: Where, part: int, parts: int) -> Iterator[Result | Skipped]:
    """Yield predicted and measured seconds of the first token and of each later one."""
    import torch
    import transformers

    from profilerkit.devices import device
    from profilerkit.hooks.backends import backend_named

    logging: Any = transformers.logging
    logging.set_verbosity_error()
    path, data_sheet = where.folder / "calibrated.toml", None
    if not where.is_small:
        data_sheet = device(backend_named("torch").device_info(where.device).name)  # type: ignore[attr-defined]
    calibrated = device(str(path)) if path.exists() else None
    if calibrated is None:
        yield Skipped(STEP, "estimates", "the step that calibrates wrote no file")
    prompt, new = (16, 4) if where.is_small else (1024, 32)
    for name, configuration in _models(where.is_small).items():
        torch.manual_seed(0)
        dtype = torch.float32 if where.is_small else torch.bfloat16
        auto: Any = transformers.AutoModelForCausalLM
        with torch.device(where.device):
            model = auto.from_config(configuration, dtype=dtype).eval()
        yield from _of_model(name, model, prompt, new, calibrated, data_sheet)
        model.cpu()


def _of_model(name: str, model: Any, prompt: int, new: int, calibrated: Any, data_sheet: Any) -> Iterator[Result]:
    from profilerkit import llm

    first: Any = None
    for kind, target in (("by calibration", calibrated), ("by data sheet", data_sheet)):
        if target is None:
            continue
        report: Any = llm(model, prompt=prompt, new=new, device=target, measure=first is None, repetitions=3)
        first = first or report.measured
        measured = first.time_to_first_token.median, first.time_per_output_token.median
        serving = report.serving[0]
        print(kind, report.to_text())
        bounds = serving.time_to_first_token, serving.time_per_output_token
        for metric, bound, taken in zip(("first token", "later token"), bounds, measured, strict=True):
            yield Result(STEP, name, f"{metric}, engine {kind}", bound or 0.0, taken, "measured", "s")
            if kind == "by data sheet":
                is_below = bound is not None and bound <= taken
                yield Result(STEP, name, f"{metric}: bound below measurement", is_below, 1.0, "it must be so", "", 0.0)
        written = report.as_written()
        if written is None or kind == "by data sheet":
            continue
        for metric, predicted, taken in zip(("first token", "later token"), written, measured, strict=True):
            inside = predicted.low <= taken <= (predicted.high or float("inf"))
            ends = f"{predicted.low:.3g} to {predicted.high or 0:.3g} s"
            note = f"{'inside' if inside else 'OUTSIDE'} {ends}, {predicted.binds}"
            yield Result(STEP, name, f"{metric}, as written", predicted.seconds, taken, "measured", "s", None, note)
    if first is not None:
        kept = first.cache_bytes
        counted = report.kv_bytes(prompt + new - 1).logical
        yield Result(STEP, name, "bytes of the cache", counted, kept, "the real cache", "bytes", 0.0)
