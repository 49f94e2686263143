"""`join`: reads a profile that was made on any machine, traces the model, and has its backend match the two.

The backend finds the layer of each kernel (`JoinsProfiles`); `JoinedProfile` makes the tables of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from profilerkit.arguments.checks import FLAG, at_least
from profilerkit.backend import Backend
from profilerkit.devices.catalog import device as device_named
from profilerkit.devices.info import DeviceInfo, dtype_name
from profilerkit.devices.products import UnknownPeakError
from profilerkit.errors import ArgumentError, DeviceNotKnownError, ProfileFileError
from profilerkit.inputs import ModelInputs
from profilerkit.job import Job
from profilerkit.protocols import require_capability
from profilerkit.trace.records import ModelTrace

from .capability import JOINS_PROFILES, JoinsProfiles
from .reading import ProfileFile, read_profile
from .records import Recording
from .result import JoinedProfile


def join(
    profile: str | PathLike[str],
    model: Any,
    inputs: Any = None,
    *,
    input_shape: Any = None,
    batch_size: int | None = None,
    training: bool | None = None,
    device: DeviceInfo | str | None = None,
    dtype: str | None = None,
    skip: int = 0,
    name: str | None = None,
    backend: Backend | str | None = None,
) -> JoinedProfile:
    """Join a profile that was made on any machine with the layers of a model and their exact counts; nothing is run.

    Args:
        profile: A file of torch.profiler (Chrome JSON), of onnxruntime, or of ``jax.profiler.trace`` (or its folder);
            compressed by gzip or not.
        model: The model that was profiled.
        inputs: Example inputs, of the sizes that were profiled; see `profilerkit.profile` for this, ``input_shape``,
            ``batch_size`` and ``backend``. A profile of the script of ``trace-script`` has its sizes itself.
        input_shape: Shapes of one sample instead.
        batch_size: Samples in one pass.
        training: Whether the passes are training steps. Default: read from the profile.
        device: The profiled device: a `DeviceInfo`, a name, or the path of a TOML file. Default: the device that the
            profile names, if it is described.
        dtype: The dtype of the products while they ran, if the model has another dtype: "bf16", "tf32".
        skip: How many passes to leave out at the start, because they warm up.
        name: The name of the model.
        backend: A backend or its name. Default: the backend of the model's framework.

    Raises:
        ProfileFileError: The file is damaged or no profile, has no operators, or is of another model.
        DeviceNotKnownError: No device of that name is described.
        UnknownPeakError: The given device's peak for a dtype of the model's products is not known.
    """
    skip = at_least(0, "a number of passes from 0")("skip", skip)
    if dtype is not None:
        dtype_name(dtype)
    target = None if device is None else device_named(device)
    file = read_profile(profile)
    if inputs is None and input_shape is None:
        input_shape, noted_batch = _read_sizes(file)
        batch_size = noted_batch if batch_size is None else batch_size
    is_training = _is_training(file) if training is None else bool(FLAG("training", training))
    profiler = Job(model, inputs, input_shape, backend=backend, name=name).make_profiler()
    arguments: dict[str, Any] = {} if batch_size is None else {"batch_size": batch_size}
    trace: ModelTrace = profiler.compute_status("training_trace" if is_training else "trace", **arguments)
    _require_operators(trace)
    made = profiler.compute_status("inputs", **arguments)
    sample = made if isinstance(made, ModelInputs) else None
    reader = require_capability(profiler.backend, JoinsProfiles, [JOINS_PROFILES])
    recording = reader.read_recording(file, profiler.model, sample, trace, skip)
    _require_layers(recording, trace)
    phase, doubts = "training" if is_training else "forward", tuple(_list_doubts(file, is_training))
    joined = JoinedProfile(profiler.name, file.profiler, phase, recording, trace, target, dtype, doubts)
    return joined if target is not None else _with_named_device(joined)


def _require_operators(trace: ModelTrace) -> None:
    """Raise the error that the model raised in its trace, and `ArgumentError` for a trace without operators."""
    if trace.failure is not None:
        raise trace.failure
    if not trace.operators:
        raise ArgumentError("the trace of the model has no operators to join the profile with")


def _read_sizes(file: ProfileFile) -> tuple[Any, int | None]:
    """Return the shapes of a sample and the samples of a pass that the script of ``trace-script`` says it ran, or None.

    The shapes are by the names of inputs, or in their order. Raises `ProfileFileError` for inputs of both kinds, and if
    their first sizes differ: what is no batch of samples cannot be made from the shape of a sample.
    """
    inputs = file.metadata.get("inputs")
    if not isinstance(inputs, list) or not inputs or not all(isinstance(entry, Mapping) for entry in inputs):
        return None, None
    try:
        names = [entry.get("name") for entry in inputs]
        if None in names and any(names):
            raise ValueError("some are given by name and others by position; give inputs")
        batch_sizes = {int(entry["shape"][0]) for entry in inputs}
        if len(batch_sizes) > 1:
            raise ValueError(f"their first sizes differ ({', '.join(map(str, sorted(batch_sizes)))}); give inputs")
        shapes = [(tuple(entry["shape"][1:]), str(entry["dtype"])) for entry in inputs]
        return shapes if None in names else dict(zip(names, shapes, strict=True)), batch_sizes.pop()
    except (KeyError, TypeError, ValueError, IndexError) as error:
        message = f"{file.path}: what its script has noted of the inputs cannot be read: {error}"
        raise ProfileFileError(message) from error


def _is_training(file: ProfileFile) -> bool:
    """Return whether the passes have gradients: the script says so, or nodes of a gradient's graph ran."""
    if "training" in file.metadata:
        return bool(file.metadata["training"])
    return any(event["name"].startswith(("autograd::engine::", "torch::autograd::")) for event in file.list_timed())


def _list_doubts(file: ProfileFile, is_training: bool) -> Iterator[str]:
    """Yield a note if the profile contradicts the caller's ``training``.

    Only profiles of torch tell gradients from other work.
    """
    if file.profiler != "torch.profiler" or is_training == _is_training(file):
        return
    if is_training:
        yield "training=True was given, but no gradient ran in the profile: its work is counted, its time is not there"
    else:
        yield "training=False was given, but gradients ran in the profile: their time is there, their work is not"


def _require_layers(recording: Recording, trace: ModelTrace) -> None:
    """Raise `ProfileFileError` for a recording with layers that the model lacks, and for one without any layer."""
    traced_paths = {layer.path for layer in trace.layers}
    unknown = {kernel.layer for kernel in recording.kernels if kernel.layer is not None} - traced_paths
    if unknown:
        raise ProfileFileError(f"the profile has layers that the model has not: {', '.join(sorted(unknown)[:5])}")
    if all(kernel.layer is None for kernel in recording.kernels):
        raise ProfileFileError(
            "none of the profile's time is that of a layer of the model: is it a profile of this model?"
        )


def _with_named_device(joined: JoinedProfile) -> JoinedProfile:
    """Return it with the device that the profile names, if that is described and has the peaks.

    A host has no description: its name, "CPU" in a profile of onnxruntime, is not looked up.
    """
    named = joined.recording.device
    if not named or not joined.recording.on_device:
        return joined
    try:
        with_device = replace(joined, device=device_named(named))
        _ = with_device.layers  # computed now: a peak that is not known raises here
        return with_device
    except (DeviceNotKnownError, UnknownPeakError) as error:
        return replace(joined, further=(*joined.further, f"without a device to compare with: {error}"))
