"""``llm``: what a language model needs to be served, and the bytes of its cache."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from profilerkit.arguments.checks import BATCH_SIZE, FLAG, at_least
from profilerkit.backend import Backend
from profilerkit.devices import DeviceInfo
from profilerkit.devices import device as device_of
from profilerkit.errors import ArgumentError, InputError
from profilerkit.plugging.backends import backend_named, find_backend
from profilerkit.plugging.extension import LoadedModel
from profilerkit.plugging.loaders import load_model
from profilerkit.process.collector import collector_paused, objects_aged
from profilerkit.protocols import require_capability

from ..capabilities import CAPABILITIES, FollowsLanguageModels
from ..checkpoints.formats import WeightFormat, list_product_dtypes, weight_format
from .caching import CacheBytes, cache_bytes, compute_slope
from .comparison import LanguageModelComparison
from .engines import find_engine
from .fitting import fit
from .gguf_models import find_gguf_facts
from .growth import find_growth
from .layout import read_layout
from .lengths import choose_lengths, require_context
from .records import ModelFacts
from .report import LanguageModelReport
from .serving import predict_serving
from .speculation import Speculation, read_speculation
from .step_cost import StepCost

__all__ = ["kv_bytes", "kv_bytes_per_token", "llm"]

#: The short names of dtypes.
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "half": "float16", "float": "float32"}
#: The dtypes that the cache of a GGUF file may have.
_CACHE_DTYPES = ("float16", "bfloat16", "float32")
#: A library with its dependencies has more modules than this.
_LIBRARY = 300


def llm(
    *models: Any,
    prompt: int | None = None,
    new: int | None = None,
    batch: int | Iterable[int] = 1,
    device: Any = None,
    dtype: Any = None,
    weights: Any = None,
    cache_dtype: str | None = None,
    draft_tokens: int | None = None,
    acceptance: float | None = None,
    devices: int = 1,
    parallel: str | None = None,
    shared_prefix: int | None = None,
    engine: str | None = None,
    block_size: int | None = None,
    prefill_tokens: int = 8192,
    reserve: float | None = None,
    measure: bool = False,
    repetitions: int = 3,
    backend: Backend | str | None = None,
    name: str | None = None,
    trust: bool = False,
) -> LanguageModelReport | LanguageModelComparison:
    """Return what serving language models needs, and lower bounds of the times on devices.

    One model on one device in one format gives a `LanguageModelReport`, several of anything a
    `LanguageModelComparison` of all combinations. Models are those of transformers, on torch.

    Args:
        *models: Models, configurations, texts such as ``"hf:llama"`` that a model loader takes, folders with a
            configuration, or GGUF files, for which no framework is needed.
        prompt: The tokens of each prompt. Default: 2,048, or less where the model takes fewer.
        new: The tokens that are generated for each prompt. Default: 256, or less where the model takes fewer.
        batch: The number of sequences at the same time; several numbers give a row each.
        device: A name of `profilerkit.devices`, a `DeviceInfo`, or several; None for counts alone.
        dtype: The dtype of activations and cache, such as "bf16". Default: the dtype of the model.
        weights: The format of the weight matrices, such as "int4" or "fp8", or several. Default: the one that the
            configuration says the checkpoint has, otherwise that of the model.
        cache_dtype: The format of the keys and values in the cache, such as "fp8", "int8" or "nvfp4". Default: the
            dtype of the activations.
        draft_tokens: The tokens that a draft model, or further heads, propose for each step, with ``acceptance``.
        acceptance: The share of drafted tokens that is accepted, where all before them were. What drafts them is not
            counted.
        devices: The number of devices that share the model; without ``parallel`` by tensor parallelism.
        parallel: How they share it, such as "tp8", "tp4,pp2" or "dp8,ep8": the devices of tensor (tp), pipeline (pp)
            and expert parallelism (ep), and the replicas of attention (dp).
        shared_prefix: The tokens at the start of all prompts that are the same and in the cache already, such as those
            of a system prompt.
        engine: The engine whose defaults hold for the two below, such as "vllm" or "tensorrt-llm".
        block_size: The tokens in a block of the paged cache. Default: 16, or that of the engine.
        prefill_tokens: The largest number of tokens in one pass; it sets the bytes of activations.
        reserve: The share of a device's memory that stays free. Default: a tenth, or that of the engine.
        measure: If True, also generate tokens with the model, and measure the time of each. The model needs its
            weights.
        repetitions: The number of repetitions of this measurement.
        backend: A backend or its name. Default: the backend of the model's framework.
        name: The name of the model in the report; only for a single model.
        trust: If True, also load files that may run code.

    Raises:
        InputError: The model is not a language model, is an encoder or has no cache, or the context is too long for it.
        ArgumentError: An argument has a wrong type or value.
    """
    if not models:
        raise ArgumentError("llm() needs a model: llm('hf:llama', prompt=2048, new=256)")
    if name is not None and len(models) > 1:
        raise ArgumentError(f"name={name!r} was given for {len(models)} models; leave it out")
    rule = find_engine(engine)
    numbers = {"devices": devices, "prefill_tokens": prefill_tokens}
    numbers["block_size"] = rule.block_size if block_size is None else block_size
    numbers["repetitions"] = repetitions
    lengths_requested = {"prompt": prompt, "new": new, "shared_prefix": shared_prefix}
    numbers |= {key: value for key, value in lengths_requested.items() if value is not None}
    requested = {key: at_least(1)(key, value) for key, value in numbers.items()}
    share, batches = _share(rule.reserve if reserve is None else reserve), BATCH_SIZE("batch_size", batch)
    batches = batches if isinstance(batches, tuple) else (batches,)
    formats = [None if item is None else weight_format(str(item)) for item in _list_values(weights)]
    speculation = read_speculation(draft_tokens, acceptance)
    layout = read_layout(requested["devices"], parallel)
    stored = None if cache_dtype is None else weight_format(str(cache_dtype), "cache_dtype")
    targets = [None if item is None else device_of(item) for item in _list_values(device)]
    reports: list[LanguageModelReport] = []
    for model, kind in product(models, _list_values(dtype)):
        with collector_paused():  # it would go through all objects many times while modules are imported
            followed = _follow(model, _dtype(kind), backend, name, trust)
            lengths = followed.choose_lengths(requested.get("prompt"), requested.get("new"))
            counts = {**requested, "prompt": lengths[0], "new": lengths[1]}
            facts = followed.facts(*lengths)
        _require_decoder_alone(facts, draft_tokens=draft_tokens, shared_prefix=shared_prefix)
        prefix = requested.get("shared_prefix", 0)
        if prefix >= lengths[0]:
            raise ArgumentError(
                f"shared_prefix={shared_prefix} (--shared-prefix) of prompts of {lengths[0]:,} tokens: give fewer "
                "tokens than a prompt has"
            )
        measured = followed.generate(counts, batches[0]) if FLAG("measure", measure) else None
        for target, weight in product(targets, formats):
            if weight is None and facts.unknown_storage:
                raise InputError(facts.unknown_storage)
            peak = _peak_dtype(facts, target, weight, stored)
            cost = StepCost(facts, target, weight, peak, layout, counts["block_size"], stored, shared_prefix=prefix)
            report = _report(facts, cost, counts, batches, share, speculation)
            cache = partial(followed.cache, block_size=counts["block_size"])
            reports.append(replace(report, measured=measured, cache_after=cache, engine=rule))
    return reports[0] if len(reports) == 1 else LanguageModelComparison(tuple(reports))


def kv_bytes(
    model: Any, context: int, batch: int = 1, *, dtype: Any = None, block_size: int = 16, backend: Any = None
) -> CacheBytes:
    """Return the bytes of the cache that a model returns after so many tokens of so many sequences.

    Of an encoder-decoder, ``context`` are the tokens of the prompt, and the decoder has seen one.
    """
    followed = _follow(model, _dtype(dtype), backend)
    sizes = {"context": context, "batch": batch, "block_size": block_size}
    return followed.cache(**{key: at_least(1)(key, value) for key, value in sizes.items()})[0]


def kv_bytes_per_token(model: Any, context: int, *, dtype: Any = None, backend: Any = None) -> int:
    """Return the bytes that the next token of one sequence adds to the cache, after so many tokens.

    It is the slope at that length: 0 for a state-space model, and less where windows are full.
    """
    followed = _follow(model, _dtype(dtype), backend)
    return followed.cache(at_least(1)("context", context), 1, 1)[1]


def _follow(
    model: Any, dtype: str | None, backend: Any, name: str | None = None, trust: bool = False
) -> _Followed | _FollowedFile:
    """Return what tells the facts of a model: a backend that follows it, or the header of its GGUF file."""
    if isinstance(model, (str, Path)) and str(model).endswith(".gguf"):
        return _FollowedFile(Path(model), dtype, name)
    return _Followed(model, dtype, backend, name, trust)


class _FollowedFile:
    """A GGUF file, whose header was read."""

    def __init__(self, path: Path, dtype: str | None, name: str | None) -> None:
        if dtype is not None and dtype not in _CACHE_DTYPES:
            raise ArgumentError(f"dtype={dtype!r}: give {', '.join(_CACHE_DTYPES)}, the dtype of the cache")
        self.header_facts = find_gguf_facts(path, dtype, name)

    def choose_lengths(self, prompt: int | None, new: int | None) -> tuple[int, int]:
        return choose_lengths(prompt, new, self.header_facts.sizes.longest_context, self.header_facts.name)

    def facts(self, prompt: int, new: int) -> ModelFacts:
        return self.header_facts

    def generate(self, counts: dict[str, int], batch: int) -> Any:
        raise ArgumentError(f"measure=True: {self.header_facts.name} is a file, not a model that can run; leave it out")

    def cache(self, context: int, batch: int, block_size: int) -> tuple[CacheBytes, int]:
        raise InputError(
            f"{self.header_facts.name} is a file, without a cache that could be looked at; "
            "llm(file).cost.cache_bytes(context, batch) has the bytes of an engine's cache"
        )


class _Followed:
    """A model that was loaded, with the backend that follows it."""

    def __init__(self, model: Any, dtype: str | None, backend: Any, name: str | None, trust: bool) -> None:
        self.name, is_loaded, imported_before = name, isinstance(model, str), len(sys.modules)
        if is_loaded:
            is_folder = (Path(model) / "config.json").is_file()
            model = load_model(f"hf:{model}" if is_folder else model, trust=trust)
            if len(sys.modules) - imported_before > _LIBRARY:
                objects_aged()  # what was imported stays
        if isinstance(model, LoadedModel):
            self.name = name or model.name
            model = model.model
        chosen = backend_named(backend) if isinstance(backend, str) else backend or find_backend(model)
        self.backend: FollowsLanguageModels = require_capability(chosen, FollowsLanguageModels, CAPABILITIES)
        self.model, self.dtype = self.backend.with_language_head(model) if is_loaded else model, dtype

    def choose_lengths(self, prompt: int | None, new: int | None) -> tuple[int, int]:
        usual = self.backend.find_prompt_length(self.model) if prompt is None else None
        return choose_lengths(prompt or usual, new, self.backend.longest_context(self.model), self._title)

    def facts(self, prompt: int, new: int) -> ModelFacts:
        facts: ModelFacts = self.backend.language_model(self.model, prompt, self.dtype, self.name)
        require_context(facts.sizes.longest_context, prompt + new, facts.name)
        return facts

    @property
    def _title(self) -> str:
        return self.name or type(self.model).__name__

    def generate(self, counts: dict[str, int], batch: int) -> Any:
        sizes = {name: counts[name] for name in ("prompt", "new", "repetitions")}
        return self.backend.generate(self.model, batch=batch, **sizes)

    def cache(self, context: int, batch: int, block_size: int) -> tuple[CacheBytes, int]:
        require_context(self.backend.longest_context(self.model), context, self._title, "the context = ")
        before, after = self.backend.language_model_cache(self.model, context, batch, self.dtype)
        return cache_bytes(before, find_growth(before, after), block_size), compute_slope(before, after)


def _report(
    facts: ModelFacts,
    cost: StepCost,
    counts: dict[str, int],
    batches: tuple[int, ...],
    reserve: float,
    speculation: Speculation | None,
) -> LanguageModelReport:
    prompt, new = counts["prompt"], counts["new"]
    has_memory = cost.device is not None and cost.device.memory is not None
    fits = [fit(cost, batch, prompt + new, counts["prefill_tokens"], reserve) for batch in batches if has_memory]
    needed = [one_fit.needed_devices for one_fit in fits] or [None] * len(batches)
    rows = [
        predict_serving(cost, size, prompt, new, count, speculation)
        for size, count in zip(batches, needed, strict=True)
    ]
    weights = _name_weights(cost)
    return LanguageModelReport(
        facts.name, facts, cost, prompt, new, weights, tuple(rows), tuple(fits), speculation=speculation
    )


def _name_weights(cost: StepCost) -> str:
    """Return the format of the weights that was requested, or those that the checkpoint has beside the plain dtype."""
    if cost.weights is not None:
        return cost.weights.name
    return " + ".join(name for name in cost.facts.storage_formats if name != cost.facts.dtype) or cost.facts.dtype


def _list_values(value: Any) -> list[Any]:
    single = value is None or isinstance(value, (str, DeviceInfo)) or not isinstance(value, Iterable)
    return [value] if single else list(value)


def _dtype(dtype: Any) -> str | None:
    name = None if dtype is None else str(dtype).removeprefix("torch.")
    return None if name is None else _DTYPES.get(name, name)


def _peak_dtype(
    facts: ModelFacts, device: DeviceInfo | None, weights: WeightFormat | None, cache: WeightFormat | None
) -> str:
    """Return the dtype whose peak bounds the products: the fastest that an engine may multiply in."""
    if device is None:
        return facts.dtype
    names = list(facts.storage_formats) if weights is None else [weights.name]
    names += [cache.name] if cache is not None else []
    dtypes = [facts.dtype, *(dtype for name in names for dtype in list_product_dtypes(name))]
    return max(dtypes, key=lambda dtype: device.peak(dtype) or 0.0)


def _require_decoder_alone(facts: ModelFacts, **options: int | None) -> None:
    """Raise `InputError` for an option that was given and has no meaning for an encoder-decoder."""
    for name, value in options.items():
        if value is not None and facts.is_encoder_decoder:
            raise InputError(f"{name}={value}: {facts.name} is an encoder-decoder; leave it out")


def _share(reserve: Any) -> float:
    is_number = isinstance(reserve, (int, float)) and not isinstance(reserve, bool)
    if not is_number or not 0 <= reserve < 1:
        raise ArgumentError(f"reserve={reserve!r}: give the share of memory that is left free, from 0 to below 1")
    return float(reserve)
