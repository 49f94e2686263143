"""Predictions as a plugin: their commands, and their metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from profilerkit import CommandInfo, OptionInfo, PlacementInfo, hookimpl
from profilerkit.hooks.infos import import_later

if TYPE_CHECKING:
    from profilerkit import Backend, ProfilerFunction, StatusKey
    from profilerkit.protocols import Capability


@hookimpl
def profilerkit_profiler_functions(backend: Backend) -> list[ProfilerFunction]:
    """Return the functions that predict times; they compute only the metrics that are requested by name.

    A rank of a mesh trains: it has no time of a forward pass alone.
    """
    from .predicted_time import ComputePredictedTime, ComputePredictedTrainingTime

    if backend.name != "mesh":
        return [ComputePredictedTime(), ComputePredictedTrainingTime()]
    from .meshes.metrics import ComputeRank
    from .meshes.step_time import ComputeRankTime

    return [ComputePredictedTrainingTime(), ComputeRank(), ComputeRankTime()]


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Return the metrics of predicted times."""
    from .predicted_time import PredictedLayers, PredictedTime, PredictedTrainingTime
    from .rank_metrics import KEYS, TIMES

    return [PredictedTime, PredictedLayers, PredictedTrainingTime, *KEYS, *TIMES]


@hookimpl
def profilerkit_placements() -> list[PlacementInfo]:
    """Return the arguments by which one rank of a mesh is profiled in place of a model."""
    load = import_later("profilerkit_predict.meshes.placement:place_on_mesh")
    return [PlacementInfo("mesh", ("mesh", "parallelize", "rank", "gradient_accumulation_steps"), load)]


@hookimpl
def profilerkit_options() -> list[OptionInfo]:
    """Return these arguments, and the arguments of the links between devices, as options of ``profile``."""
    options = "profilerkit_predict.commands.mesh"
    return [
        OptionInfo(f"--{name.replace('_', '-')}", import_later(f"{options}:{name}_option"), argument=name)
        for name in ("mesh", "parallelize", "rank", "gradient_accumulation_steps", "network", "ranks_per_node")
    ]


@hookimpl
def profilerkit_protocols() -> Sequence[Capability]:
    """Return the capabilities that predictions ask of backends."""
    from .joining.capability import JOINS_PROFILES
    from .language_models.facts.capability import FOLLOWS_LANGUAGE_MODELS
    from .meshes.capability import TRACES_RANKS
    from .prediction.capability import CALIBRATES

    return [CALIBRATES, JOINS_PROFILES, FOLLOWS_LANGUAGE_MODELS, TRACES_RANKS]


#: The commands: the purpose of each, and an example of its arguments.
_COMMANDS = {
    "llm": (
        "Predict the memory and time that serving a language model needs.",
        "hf:llama --prompt 1024 --device h100,a100-80 --weights bf16,int4 --batch 1,8",
    ),
    "mesh": (
        "Find the smallest mesh that fits a device, or write what its ranks do.",
        "train.py:build --mesh dp_shard=?,tp=8 --parallelize train.py:shard --fits h100",
    ),
    "calibrate": ("Measure this machine, to predict times on it.", "here.toml --seconds 60"),
    "join": (
        "Match a profile from any machine with a model's layers.",
        "profile.json.gz --model net.py:build --device h100",
    ),
    "trace-script": ("Print a script that records such a profile with torch alone.", "--output profile_model.py"),
}


@hookimpl
def profilerkit_commands() -> list[CommandInfo]:
    """Return the commands of predictions."""
    return [
        CommandInfo(
            name,
            import_later(f"profilerkit_predict.commands.{name.replace('-', '_')}:command"),
            purpose,
            (f"profilerkit {name} {example}",),
        )
        for name, (purpose, example) in _COMMANDS.items()
    ]
