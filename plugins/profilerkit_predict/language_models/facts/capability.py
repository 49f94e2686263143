"""The capability that `llm` asks of a backend: it follows language models."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

from profilerkit.protocols import Capability

from .model_cache import CacheContents
from .prompts import ImageSize, InputEncoder, InputKind
from .records import GeneratedTokens, ModelFacts


@runtime_checkable
class FollowsLanguageModels(Protocol):
    """Follows language models through prefill and decode, by their own cache."""

    @abstractmethod
    def with_language_head(self, model: Any) -> Any:
        """Return a model that a loader built without values, with the head for language that the model lacks."""

    @abstractmethod
    def longest_context(self, model: Any) -> int | None:
        """Return the most tokens that a model takes; None if it has no maximum, or it is not known."""

    @abstractmethod
    def find_prompt_length(self, model: Any) -> int | None:
        """Return the length that all prompts of a model have, for example prompts of sound; None for other models."""

    @abstractmethod
    def language_model(self, model: Any, prompt: int, dtype: str | None = None, name: str | None = None) -> ModelFacts:
        """Return the facts of a model, from one pass over a prompt and one token after it, on shapes alone.

        ``dtype`` is the dtype of activations and cache; the model's dtype by default. Raises `InputError` for a model
        that generates no tokens, or returns no cache.
        """

    @abstractmethod
    def find_input_encoder(
        self, model: Any, kind: InputKind, dtype: str | None = None, image_size: ImageSize | None = None
    ) -> InputEncoder:
        """Return the work of a model's encoder for one image, or for one clip of sound, on shapes alone.

        The image has the given size, else the size in the configuration. Raises `InputError` for a model without such
        an encoder, or if the size of the encoder's input is unknown.
        """

    @abstractmethod
    def language_model_cache(
        self, model: Any, context: int, batch: int, dtype: str | None = None
    ) -> tuple[CacheContents, CacheContents]:
        """Return the contents of the model's cache after ``context`` tokens of each sequence, and one token later."""

    @abstractmethod
    def generate(self, model: Any, prompt: int, new: int, batch: int, repetitions: int) -> GeneratedTokens:
        """Generate tokens for random prompts with the model's own cache, and return the time of each token.

        Raises `WithoutValuesError` if the weights have no values.
        """


FOLLOWS_LANGUAGE_MODELS = Capability(
    FollowsLanguageModels, "language models, through their own cache", "does not follow language models"
)
