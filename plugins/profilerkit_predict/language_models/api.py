"""``llm``: the memory and time to serve a language model, and the bytes of its cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from profilerkit.arguments.checks import FLAG, at_least, between
from profilerkit.backend import Backend
from profilerkit.devices import DeviceInfo
from profilerkit.devices import device as device_of
from profilerkit.errors import ArgumentError, InputError
from profilerkit.process.collector import collector_paused

from ..checkpoints.formats import find_weight_format
from .engine.adapters import read_adapters
from .engine.engines import find_engine
from .engine.fitting import DeviceMemory
from .engine.layout import read_layout
from .engine.queueing import RATE, predict_requests
from .engine.serving import predict_serving
from .engine.speculation import Speculation, add_drafter, find_drafter, read_speculation
from .engine.step_cost import StepCost
from .facts.model_cache import CacheBytes
from .facts.prompts import EncodedInputs, InputKind, Lengths, read_image_size
from .facts.records import ModelFacts
from .facts_source import open_facts_source
from .report.report import LanguageModelComparison, LanguageModelReport

#: The short names of dtypes.
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "half": "float16", "float": "float32"}

#: A number of tokens, sequences, devices and the like.
_COUNT = at_least(1)
#: The share of memory that stays free: all but the whole.
_RESERVE = between(0, math.nextafter(1, 0), "the share of memory that is left free, from 0 to below 1")


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
    draft: Any = None,
    rate: float | None = None,
    images: int | None = None,
    image_size: str | None = None,
    audio: int | None = None,
    devices: int = 1,
    parallel: str | None = None,
    shared_prefix: int | None = None,
    lora_rank: int | None = None,
    lora_adapters: int | None = None,
    lora_targets: str | Iterable[str] | None = None,
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
    """Return the memory and work of serving language models, and lower bounds of the times on devices.

    One model on one device in one format gives a `LanguageModelReport`; several models, devices or formats give a
    `LanguageModelComparison` of all combinations. Models are models of transformers, on torch.

    Args:
        *models: Models, configurations, texts such as ``"hf:llama"`` that a model loader takes, folders with a
            configuration, or GGUF files, for which no framework is needed.
        prompt: The tokens of each prompt. Default: 2,048, or less if the model takes fewer.
        new: The tokens that are generated for each prompt. Default: 256, or less if the model takes fewer.
        batch: The number of sequences at the same time; several numbers give a row each, the smallest first.
        device: A name of `profilerkit.devices`, a `DeviceInfo`, or several; None for counts alone.
        dtype: The dtype of activations and cache, such as "bf16". Default: the dtype of the model.
        weights: The format of the weight matrices, such as "int4" or "fp8", or several. Default: the format of the
            checkpoint according to the configuration, otherwise the format of the model.
        cache_dtype: The format of the keys and values in the cache, such as "fp8", "int8" or "nvfp4". Default: the
            dtype of the activations.
        draft_tokens: The tokens that a draft model, or further heads, propose for each step, with ``acceptance``.
        acceptance: The probability that a drafted token is accepted if all drafted tokens before it were.
        draft: The drafter of these tokens, one after the other: a model as above, "mtp" for layers of the model itself
            that its configuration names, or the number of parameters that draft one token. Default: not counted.
        rate: The requests that arrive in a second, at random. Default: all prompts of a batch arrive at once.
        images: The images that each prompt has besides its text. Their tokens come on top of ``prompt``, and the
            prefill runs their encoder.
        image_size: Their width and height in pixels, such as "1024x768", before the image processor of the model.
            Default: the size that the configuration names.
        audio: The clips of sound that each prompt has besides, each as long as the encoder takes at once.
        devices: The number of devices that share the model; without ``parallel`` by tensor parallelism.
        parallel: How they share it, such as "tp8", "tp4,pp2" or "dp8,ep8": the devices of tensor (tp), pipeline (pp)
            and expert parallelism (ep), and the replicas of attention (dp).
        shared_prefix: The tokens at the start of all prompts that are equal and in the cache already, such as a system
            prompt.
        lora_rank: The rank of adapters (LoRA) that are resident beside the weights, in the dtype of activations.
        lora_adapters: The number of adapters. The sequences of a batch use as many different adapters as they can, and
            a step reads each used adapter once. Default: 1.
        lora_targets: The names of the matrices that adapters change, such as "q_proj,v_proj". Default: all matrices of
            linear layers and of experts, without the head.
        engine: The engine whose rules for windows and latents in the cache hold, and whose defaults for ``block_size``
            and ``reserve``: "vllm", "sglang" or "tensorrt-llm".
        block_size: The tokens in a block of the paged cache. Default: the engine's, otherwise 16.
        prefill_tokens: The largest number of tokens in one pass over prompts; it sets the bytes of activations.
        reserve: The share of a device's memory that stays free. Default: the engine's, otherwise a tenth.
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
    prompt, new = _COUNT.or_none()("prompt", prompt), _COUNT.or_none()("new", new)
    requested = {InputKind.IMAGES: images, InputKind.AUDIO: audio}
    counts = {kind: _COUNT(kind, count) for kind, count in requested.items() if count is not None}
    size = read_image_size(image_size, images)
    batches = sorted({_COUNT("batch", size) for size in _read_values("batch", batch)})
    on_devices = _read_values("device", device, device_of)
    formats = _read_values("weights", weights, find_weight_format)
    in_engine = {
        "layout": read_layout(_COUNT("devices", devices), parallel),
        "block_size": _COUNT("block_size", rule.block_size if block_size is None else block_size),
        "cache_format": None if cache_dtype is None else find_weight_format(cache_dtype, "cache_dtype", "the cache"),
        "shared_prefix": _COUNT.or_none()("shared_prefix", shared_prefix) or 0,
        "engine": rule,
    }
    limits = {
        "prefill_tokens": _COUNT("prefill_tokens", prefill_tokens),
        "reserve": _RESERVE("reserve", rule.usual_reserve if reserve is None else reserve),
    }
    rate = RATE("rate", rate)
    speculation = read_speculation(draft_tokens, acceptance, draft)
    repetitions = _COUNT("repetitions", repetitions) if FLAG("measure", measure) else 0

    def make_reports(model: Any, kind: str | None) -> Iterator[LanguageModelReport]:
        """Yield the report of a model with a dtype, for each device and each format of its weights."""
        open_source = partial(open_facts_source, dtype=kind, backend=backend, trust=trust)
        with collector_paused():  # it would go through all objects many times while modules are imported
            source = open_source(model, name=name)
            lengths = source.choose_lengths(prompt, new)
            inputs = tuple(EncodedInputs(source.find_encoder(kind, size), count) for kind, count in counts.items())
            lengths = lengths._replace(prompt=lengths.prompt + sum(encoded.tokens for encoded in inputs))
            facts = source.find_facts(lengths)
        adapters = read_adapters(facts, lora_rank, lora_adapters, lora_targets)
        cost = StepCost(facts, adapters=adapters, inputs=inputs, **in_engine)
        _require_possible(cost, lengths, speculation)

        def follow(drafter: Any) -> ModelFacts:
            of_drafter = open_source(drafter)
            return of_drafter.find_facts(of_drafter.choose_lengths(sum(lengths) - 1, 1))

        drafter = find_drafter(draft, facts, follow)
        measured = source.generate(lengths, batches[0], repetitions) if repetitions else None
        find_cache = partial(source.find_cache, block_size=cost.block_size)
        for target, form in product(on_devices, formats):
            if form is None and facts.unknown_storage:
                raise InputError(facts.unknown_storage)
            on_device = replace(cost, device=target, weights=form)
            drafting = add_drafter(speculation, on_device, drafter)
            memory = DeviceMemory(on_device, speculation=drafting, **limits)
            has_memory = target is not None and target.memory is not None
            yield LanguageModelReport(
                on_device,
                *lengths,
                serving=tuple(predict_serving(on_device, size, *lengths, drafting) for size in batches),
                fits=tuple(memory.fit(size, sum(lengths)) for size in batches) if has_memory else (),
                measured=measured,
                speculation=drafting,
                rate=rate,
                arrivals=None if rate is None else predict_requests(on_device, rate, *lengths, drafting),
                cache_after=find_cache,
            )

    kinds = _read_values("dtype", dtype, _name_dtype)
    reports = [one for model, kind in product(models, kinds) for one in make_reports(model, kind)]
    return reports[0] if len(reports) == 1 else LanguageModelComparison(tuple(reports))


def _require_possible(cost: StepCost, lengths: Lengths, speculation: Speculation) -> None:
    """Raise an error for options that have no meaning for a model, or for prompts of these lengths."""
    facts, prefix = cost.facts, cost.shared_prefix
    cost.layout.require_layers(facts.sizes.layers, facts.name)
    if facts.is_encoder_decoder and (speculation.draft_tokens or prefix):
        option = f"shared_prefix={prefix}" if prefix else f"draft_tokens={speculation.draft_tokens}"
        raise InputError(f"{option}: {facts.name} is an encoder-decoder; leave it out")
    if prefix >= lengths.prompt:
        raise ArgumentError(
            f"shared_prefix={prefix} (--shared-prefix) of prompts of {lengths.prompt:,} tokens: give fewer tokens than "
            "a prompt has"
        )


def _read_values(name: str, value: Any, read: Callable[[Any], Any] = lambda item: item) -> list[Any]:
    """Return the values of an argument that takes one or several, as ``read`` returns them; None stays.

    Raises `ArgumentError` for none.
    """
    is_single = isinstance(value, (str, DeviceInfo)) or not isinstance(value, Iterable)
    values = [value] if is_single else list(value)
    if not values:
        raise ArgumentError(f"{name} is empty: give one value or several, or leave it out")
    return [None if item is None else read(item) for item in values]


def _name_dtype(dtype: Any) -> str:
    """Return the full name of a dtype that was given as a text, or as a dtype of torch."""
    name = str(dtype).removeprefix("torch.")
    return _DTYPES.get(name, name)


def kv_bytes(
    model: Any, context: int, batch: int = 1, *, dtype: Any = None, block_size: int = 16, backend: Any = None
) -> CacheBytes:
    """Return the bytes of the cache that a model returns after so many tokens of so many sequences.

    Of an encoder-decoder, ``context`` are the tokens of the prompt, and the decoder has seen one.
    """
    source = open_facts_source(model, None if dtype is None else _name_dtype(dtype), backend)
    return source.find_cache(
        _COUNT("context", context), batch=_COUNT("batch", batch), block_size=_COUNT("block_size", block_size)
    )


def kv_bytes_per_token(model: Any, context: int, *, dtype: Any = None, backend: Any = None) -> int:
    """Return the bytes that the next token of one sequence adds to the cache, after so many tokens.

    It is the slope at that length: 0 for a state-space model, and less if windows are full.
    """
    return kv_bytes(model, context, dtype=dtype, backend=backend).bytes_per_token
