"""The part of the backend for `profilerkit_predict`, which has a protocol for each room in its ``capability.py``.

Each method imports the modules that it needs: a profile without predictions loads none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend import DeviceLike

from .data import as_tensor
from .running.devices import resolve_device
from .untouched.caller_context import apart

if TYPE_CHECKING:
    from profilerkit_predict.joining.reading import ProfileFile
    from profilerkit_predict.joining.records import Recording
    from profilerkit_predict.language_models.facts.model_cache import CacheContents
    from profilerkit_predict.language_models.facts.prompts import ImageSize, InputEncoder, InputKind
    from profilerkit_predict.language_models.facts.records import GeneratedTokens, ModelFacts
    from profilerkit_predict.meshes.layout import RankModel
    from profilerkit_predict.meshes.records import RankTrace
    from profilerkit_predict.prediction.cases import CalibrationCase, CalibrationNetwork, HostSeconds

__all__ = ["Predictions"]

#: Stands for a model if a device is resolved without one: on the CPU, if no device is named.
_NO_MODEL = torch.nn.Module()


class Predictions:
    """The part of the backend that predictions use."""

    # Language models --------------------------------------------------------------------------------------------------

    def with_language_head(self, model: Any) -> Any:
        """Return a model of transformers with the head for language that it lacks; any other model as it is."""
        from .language_models.models import add_head

        return add_head(model)

    def longest_context(self, model: Any) -> int | None:
        """Return the most tokens that a model or configuration of transformers takes, if it has a limit."""
        from .language_models.configurations import find_longest_context, is_configuration

        return find_longest_context(model if is_configuration(model) else getattr(model, "config", None))

    def find_prompt_length(self, model: Any) -> int | None:
        """Return the positions of the encoder of a model of sound, such as Whisper; None for others."""
        from .language_models.configurations import is_configuration
        from .language_models.generating import find_sound_positions

        config = model if is_configuration(model) else getattr(model, "config", None)
        return find_sound_positions(config) if is_configuration(config) else None

    def language_model(self, model: Any, prompt: int, dtype: str | None = None, name: str | None = None) -> ModelFacts:
        """Return the facts of a model of transformers, from a pass over a prompt and one token after it."""
        from .language_models.facts import find_facts

        with apart():
            return find_facts(model, prompt, dtype, name)

    def find_input_encoder(
        self, model: Any, kind: InputKind, dtype: str | None = None, image_size: ImageSize | None = None
    ) -> InputEncoder:
        """Return the work of the encoder of a model of transformers for one image, or for one clip of sound."""
        from .language_models.encoders import find_input_encoder

        with apart():
            return find_input_encoder(model, kind, dtype, image_size)

    def language_model_cache(
        self, model: Any, context: int, batch: int, dtype: str | None = None
    ) -> tuple[CacheContents, CacheContents]:
        """Return the contents of the cache that a model returns after so many tokens, and after one more."""
        from .language_models.following import list_cache_contents

        with apart():
            return list_cache_contents(model, context, batch, dtype)

    def generate(self, model: Any, prompt: int, new: int, batch: int, repetitions: int) -> GeneratedTokens:
        """Generate tokens with a model of transformers, on its device, and return the time of each."""
        from .language_models.generation import generate

        return generate(model, prompt, new, batch, repetitions)

    # Calibration, profiles of real runs, meshes ----------------------------------------------------------------------

    def calibration_cases(self, device: DeviceLike, dtype: str) -> Iterable[CalibrationCase]:
        """Yield torch's operators over many shapes."""
        from .calibration.cases import make_cases

        return make_cases(resolve_device(_NO_MODEL, device), dtype)

    def calibration_networks(self, device: DeviceLike) -> Iterable[CalibrationNetwork]:
        """Yield small networks of torch's layers."""
        from .calibration.networks import make_networks

        return make_networks(resolve_device(_NO_MODEL, device))

    def host_seconds(self, device: DeviceLike, compiled: bool, seconds: float) -> HostSeconds:
        """Return the seconds that Python and torch take besides operators."""
        from .calibration.host import measure_host

        return measure_host(resolve_device(_NO_MODEL, device), compiled, seconds)

    def read_recording(
        self, profile: ProfileFile, model: torch.nn.Module, inputs: ModelInputs | None, trace: ModelTrace, skip: int = 0
    ) -> Recording:
        """Return the passes in a profile of torch.profiler, with the layer that each kernel worked for."""
        from .joining.recording import read_recording

        return read_recording(profile, trace, skip)

    def profile_script(self) -> str:
        """Return a script that makes a profile for `join` with torch alone."""
        return Path(__file__).with_name("joining").joinpath("script.py").read_text(encoding="utf-8")

    def list_rank_variables(self, ranks: int) -> Mapping[str, str]:
        """Return no variables: the process of a rank needs none."""
        return {}

    def trace_rank(self, model: RankModel, inputs: ModelInputs) -> RankTrace:
        """Return a training step of one rank of a mesh, without the other ranks; it needs a process for itself."""
        from .meshes.ranks import trace_rank

        return trace_rank(model, inputs.map(as_tensor))
