"""The capabilities that predictions ask of backends: a protocol for each, like in `profilerkit.protocols`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend import DeviceLike
from profilerkit.protocols import Capability

if TYPE_CHECKING:
    from .joining.reading import ProfileFile
    from .joining.records import Recording
    from .language_models.model_cache import CacheContents
    from .language_models.prompts import ImageSize, InputEncoder, InputKind
    from .language_models.records import GeneratedTokens, ModelFacts
    from .meshes.layout import RankModel
    from .meshes.records import RankTrace
    from .prediction.cases import CalibrationCase, CalibrationNetwork, HostSeconds


@runtime_checkable
class Calibrates(Protocol):
    """Provides the measurements of a device from which times on the device are predicted."""

    @abstractmethod
    def calibration_cases(self, device: DeviceLike, dtype: str) -> Iterable[CalibrationCase]:
        """Yield single operators over many shapes in a dtype ("float32"): products, and traffic of each family."""

    @abstractmethod
    def calibration_networks(self, device: DeviceLike) -> Iterable[CalibrationNetwork]:
        """Yield small networks of several families, to be predicted and run."""

    @abstractmethod
    def use_threads(self, num_threads: int | None) -> AbstractContextManager[int]:
        """Return a context in which cases run on so many threads, or as they are for None; it yields the number."""

    @abstractmethod
    def host_seconds(self, device: DeviceLike, compiled: bool, seconds: float) -> HostSeconds:
        """Return the seconds of the host besides operators: layer calls, views, gradients; ``compiled`` adds graphs.

        ``seconds`` is the approximate limit of the measurement; compiling takes longer.
        """


@runtime_checkable
class JoinsProfiles(Protocol):
    """Joins profiles that were made on any machine with the layers of a model."""

    @abstractmethod
    def read_recording(
        self, profile: ProfileFile, model: Any, inputs: ModelInputs | None, trace: ModelTrace, skip: int = 0
    ) -> Recording:
        """Return the passes in a profile without the first ``skip``, with the layer of each kernel.

        Raises `ProfileFileError` for a profile of another framework, or of another model.
        """

    @abstractmethod
    def profile_script(self) -> str:
        """Return a script of one file that makes a profile if nothing but the framework is installed.

        Raises `NotOfferedError` if there is none.
        """


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


@runtime_checkable
class TracesRanks(Protocol):
    """Traces a training step of one rank of a mesh, without the other ranks."""

    @abstractmethod
    def list_rank_variables(self, ranks: int) -> Mapping[str, str]:
        """Return the environment variables of the process in which a rank of so many is traced, beside this one's."""

    @abstractmethod
    def trace_rank(self, model: RankModel, inputs: ModelInputs) -> RankTrace:
        """Return a step of a rank with the inputs that it gets.

        Neither ``model.build`` nor ``model.parallelize`` is the text of a function: that was loaded. The process
        belongs to this call: it is not used for anything else afterwards.
        """


#: The capabilities, as ``profilerkit doctor`` lists them.
CAPABILITIES = (
    Capability(Calibrates, "calibration of a device", "provides nothing to calibrate a device with"),
    Capability(JoinsProfiles, "profiles from elsewhere, by layer", "does not join profiles from elsewhere"),
    Capability(FollowsLanguageModels, "language models, through their own cache", "does not follow language models"),
    Capability(TracesRanks, "one rank of a mesh", "does not trace ranks of a mesh"),
)
