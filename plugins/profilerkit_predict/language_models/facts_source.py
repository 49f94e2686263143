"""The sources of the facts of a language model: its code, run on shapes alone, or the header of a GGUF file.

A backend that "follows" a model runs the model's code on shapes, without values: over a prompt, and over one token
after it. Its facts are the passes, the cache and the weights. A GGUF file holds no code; its header gives the same
facts.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from profilerkit.errors import ArgumentError, InputError
from profilerkit.hooks.backends import backend_named
from profilerkit.hooks.infos import LoadedModel
from profilerkit.models.loaders import load_model
from profilerkit.models.recognition import find_backend
from profilerkit.process.collector import objects_aged
from profilerkit.protocols import require_capability

from .facts.cache_growth import find_growth
from .facts.capability import FOLLOWS_LANGUAGE_MODELS, FollowsLanguageModels
from .facts.gguf_models import find_gguf_facts
from .facts.model_cache import CacheBytes, count_cache_bytes
from .facts.prompts import ImageSize, InputEncoder, InputKind, Lengths, choose_lengths, require_context
from .facts.records import GeneratedTokens, ModelFacts

if TYPE_CHECKING:
    from profilerkit.backend import Backend

#: The dtypes that the cache of a GGUF file may have.
_CACHE_DTYPES = ("float16", "bfloat16", "float32")
#: Loading that imported more modules than this has imported a framework: torch alone has more than a thousand.
_MODULES_OF_FRAMEWORK = 300


@dataclass(frozen=True)
class FileSource:
    """A GGUF file, with the methods of a `ModelSource`. Its header gives all facts for all lengths; nothing can run."""

    header: ModelFacts

    def choose_lengths(self, prompt: int | None, new: int | None) -> Lengths:
        return choose_lengths(prompt, new, self.header.sizes.longest_context, self.header.name)

    def find_facts(self, lengths: Lengths) -> ModelFacts:
        return self.header

    def find_encoder(self, kind: InputKind, image_size: ImageSize | None) -> InputEncoder:
        raise InputError(f"{kind}: {self.header.name} is a file of a model of text; leave it out")

    def generate(self, lengths: Lengths, batch: int, repetitions: int) -> GeneratedTokens:
        raise ArgumentError(f"measure=True: {self.header.name} is a file, not a model that can run; leave it out")

    def find_cache(self, context: int, batch: int, block_size: int) -> CacheBytes:
        raise InputError(
            f"{self.header.name} is a file, without a cache that could be looked at; "
            "llm(file).cost.cache_bytes(context, batch) has the bytes of an engine's cache"
        )


@dataclass(frozen=True)
class ModelSource:
    """A model with the backend that runs its code on shapes. Lengths are in tokens of one sequence."""

    #: The model, with its head for language.
    model: Any
    #: The backend of its framework.
    backend: FollowsLanguageModels
    #: The dtype of activations and cache; None for the model's own.
    dtype: str | None
    #: The name in the report; None for the name that the backend finds.
    name: str | None

    @property
    def _title(self) -> str:
        """The name of the model in messages."""
        return self.name or type(self.model).__name__

    def choose_lengths(self, prompt: int | None, new: int | None) -> Lengths:
        """Return the tokens of a prompt and of a generation; for None the usual length that the model takes.

        Raises `InputError` if they are more than the model takes.
        """
        if prompt is None:  # some models take prompts of one length alone: prompts of sound
            prompt = self.backend.find_prompt_length(self.model)
        return choose_lengths(prompt, new, self.backend.longest_context(self.model), self._title)

    def find_facts(self, lengths: Lengths) -> ModelFacts:
        """Return the facts of the model; raises `InputError` for no language model, and for too many tokens."""
        facts = self.backend.language_model(self.model, lengths.prompt, self.dtype, self.name)
        require_context(facts.sizes.longest_context, lengths.prompt + lengths.new, facts.name)
        return facts

    def find_encoder(self, kind: InputKind, image_size: ImageSize | None) -> InputEncoder:
        """Return the encoder's work for one image, or for one clip of sound; raises `InputError` without an encoder."""
        size = image_size if kind is InputKind.IMAGES else None
        return self.backend.find_input_encoder(self.model, kind, self.dtype, size)

    def generate(self, lengths: Lengths, batch: int, repetitions: int) -> GeneratedTokens:
        """Generate tokens for so many random prompts at once, so many times, and return the seconds of each token."""
        return self.backend.generate(
            self.model, prompt=lengths.prompt, new=lengths.new, batch=batch, repetitions=repetitions
        )

    def find_cache(self, context: int, batch: int, block_size: int) -> CacheBytes:
        """Return the bytes of the model's own cache; raises `InputError` if the model takes fewer tokens."""
        require_context(self.backend.longest_context(self.model), context, self._title, "the context = ")
        before, after = self.backend.language_model_cache(self.model, context, batch, self.dtype)
        return count_cache_bytes(before, after, find_growth(before, after), block_size)


#: Where the facts of a model come from.
FactsSource: TypeAlias = FileSource | ModelSource


def open_facts_source(
    model: Any, dtype: str | None, backend: Backend | str | None, name: str | None = None, trust: bool = False
) -> FactsSource:
    """Return the source of the facts of a model, with the ``dtype`` of its activations and its cache.

    See `llm` for the arguments; a GGUF file needs no backend, and a model that is named by a text is loaded first.
    """
    if isinstance(model, (str, Path)) and str(model).endswith(".gguf"):
        if dtype is not None and dtype not in _CACHE_DTYPES:
            raise ArgumentError(f"dtype={dtype!r}: give {', '.join(_CACHE_DTYPES)}, the dtype of the cache")
        return FileSource(find_gguf_facts(Path(model), dtype, name))
    is_text = isinstance(model, str)
    if is_text:
        model = _load_by_text(model, trust)
    if isinstance(model, LoadedModel):
        name = name or model.name
        model = model.model
    named = backend_named(backend) if isinstance(backend, str) else backend or find_backend(model)
    chosen: FollowsLanguageModels = require_capability(named, FollowsLanguageModels, [FOLLOWS_LANGUAGE_MODELS])
    if is_text:
        # A loader may build the bare network without its head. A model of the user's own is taken as it is.
        model = chosen.with_language_head(model)
    return ModelSource(model, chosen, dtype, name)


def _load_by_text(text: str, trust: bool) -> Any:
    """Load the model that a text names; a folder with a configuration is a model of transformers.

    Loading may import a framework, with a million objects that stay. They are aged, so that the garbage collector does
    not visit all of them repeatedly.
    """
    modules_before = len(sys.modules)
    has_configuration = (Path(text) / "config.json").is_file()
    if Path(text).is_dir() and not has_configuration:
        raise InputError(f"the folder {text!r} has no config.json; give a folder that has one, hf:NAME or a GGUF file")
    model = load_model(f"hf:{text}" if has_configuration else text, trust=trust)
    if len(sys.modules) - modules_before > _MODULES_OF_FRAMEWORK:
        objects_aged()
    return model
