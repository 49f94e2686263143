"""The capability to follow language models: one of `profilerkit.protocols`, and imported from there."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .language_models.records import CacheContents, GeneratedTokens, ModelFacts

__all__ = ["FollowsLanguageModels"]


@runtime_checkable
class FollowsLanguageModels(Protocol):
    """Follows language models through prefill and decode, by their own cache."""

    @abstractmethod
    def with_language_head(self, model: Any) -> Any:
        """Return a model that a loader built without values of its own, with the head for language that it lacks."""

    @abstractmethod
    def longest_context(self, model: Any) -> int | None:
        """Return the most tokens that a model takes; None if it has no maximum, or it is not known."""

    @abstractmethod
    def language_model(self, model: Any, prompt: int, dtype: str | None = None, name: str | None = None) -> ModelFacts:
        """Return what one pass over a prompt and one token after it show, on shapes alone.

        ``dtype`` is that of activations and cache; the model's own by default. Raises `InputError` for a model that
        generates no tokens, or returns no cache.
        """

    @abstractmethod
    def language_model_cache(
        self, model: Any, context: int, batch: int, dtype: str | None = None
    ) -> tuple[CacheContents, CacheContents]:
        """Return what the model's own cache holds after so many tokens of so many sequences, and one token later."""

    @abstractmethod
    def generate(self, model: Any, prompt: int, new: int, batch: int, repetitions: int) -> GeneratedTokens:
        """Generate tokens for random prompts with the model's own cache, and return the time of each token.

        Raises `WithoutValuesError` if the weights have no values.
        """
