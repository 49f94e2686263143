"""What tells the facts of a model: a backend that follows it, or the header of its GGUF file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from profilerkit.errors import ArgumentError, InputError
from profilerkit.plugging.backends import backend_named, find_backend
from profilerkit.plugging.extension import LoadedModel
from profilerkit.plugging.loaders import load_model
from profilerkit.process.collector import objects_aged
from profilerkit.protocols import require_capability

from ..capabilities import CAPABILITIES, FollowsLanguageModels
from .caching import CacheBytes, cache_bytes, compute_slope
from .gguf_models import find_gguf_facts
from .growth import find_growth
from .image_sizes import ImageSize
from .lengths import choose_lengths, require_context
from .records import InputEncoder, InputKind, ModelFacts

__all__ = ["FollowedFile", "FollowedModel", "follow"]

#: The dtypes that the cache of a GGUF file may have.
_CACHE_DTYPES = ("float16", "bfloat16", "float32")
#: A library with its dependencies has more modules than this.
_LIBRARY = 300


def follow(
    model: Any, dtype: str | None, backend: Any, name: str | None = None, trust: bool = False
) -> FollowedModel | FollowedFile:
    """Return what tells the facts of a model: a backend that follows it, or the header of its GGUF file."""
    if isinstance(model, (str, Path)) and str(model).endswith(".gguf"):
        return FollowedFile(Path(model), dtype, name)
    return FollowedModel(model, dtype, backend, name, trust)


class FollowedFile:
    """A GGUF file, whose header was read."""

    def __init__(self, path: Path, dtype: str | None, name: str | None) -> None:
        if dtype is not None and dtype not in _CACHE_DTYPES:
            raise ArgumentError(f"dtype={dtype!r}: give {', '.join(_CACHE_DTYPES)}, the dtype of the cache")
        self.header_facts = find_gguf_facts(path, dtype, name)

    def choose_lengths(self, prompt: int | None, new: int | None) -> tuple[int, int]:
        return choose_lengths(prompt, new, self.header_facts.sizes.longest_context, self.header_facts.name)

    def facts(self, prompt: int, new: int) -> ModelFacts:
        return self.header_facts

    def find_encoder(self, kind: InputKind, image_size: ImageSize | None) -> InputEncoder:
        raise InputError(f"{kind}: {self.header_facts.name} is a file of a model of text; leave it out")

    def generate(self, counts: dict[str, int], batch: int) -> Any:
        raise ArgumentError(f"measure=True: {self.header_facts.name} is a file, not a model that can run; leave it out")

    def cache(self, context: int, batch: int, block_size: int) -> tuple[CacheBytes, int]:
        raise InputError(
            f"{self.header_facts.name} is a file, without a cache that could be looked at; "
            "llm(file).cost.cache_bytes(context, batch) has the bytes of an engine's cache"
        )


class FollowedModel:
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

    def find_encoder(self, kind: InputKind, image_size: ImageSize | None) -> InputEncoder:
        size = image_size if kind is InputKind.IMAGES else None
        encoder: InputEncoder = self.backend.find_input_encoder(self.model, kind, self.dtype, size)
        return encoder

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
