"""Passes under LiteRT's profiler: the operators of each pass and the pass as a whole, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.numpy_data import bind_inputs

from ..compat import find_library
from ..model.inputs import list_declared
from ..model.reading import LiteRTModel
from ..trace.control_flow import HANDLERS
from ..trace.tracing import walk_call
from ..trace.values import Value
from ..trace.walk import Walk
from . import native_passes

__all__ = ["ProfiledPass", "RanOperator", "profile_passes"]


class RanOperator(NamedTuple):
    """An operator that ran.

    Attributes:
        name: Its name in LiteRT: ``"CONV_2D"``, or ``"Convolution (NHWC, F32) IGEMM"`` if XNNPACK ran it.
        node: The index of this operator in the file; None for an operator that XNNPACK has made.
        seconds: How long it took.
    """

    name: str
    node: int | None
    seconds: float


@dataclass(frozen=True)
class ProfiledPass:
    """The operators that ran in one pass, in order, and the seconds of the pass."""

    operators: tuple[RanOperator, ...]
    seconds: float


def profile_passes(model: LiteRTModel, inputs: ModelInputs, passes: int) -> list[ProfiledPass]:
    """Return so many passes on one thread, by XNNPACK for the operators that it supports, else by LiteRT's kernels.

    Raises `NotOfferedError` if the installed LiteRT has no profiler, `InputError` as `bind_inputs` does, and
    `ModelFailedError` for a model that LiteRT refuses.
    """
    job = _write_job(model, inputs, passes)
    command = [sys.executable, "-I", "-S", str(Path(native_passes.__file__))]
    done = subprocess.run(command, input=job, capture_output=True, check=False)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        error = RuntimeError(
            f"the process that timed its operators ended with {done.returncode}: {last or 'no message'}"
        )
        raise explain_failure(error, inputs, "litert", __package__ or "", "does LiteRT know its operators?")
    return [
        ProfiledPass(tuple(RanOperator(*operator) for operator in one_pass["operators"]), one_pass["seconds"])
        for one_pass in json.loads(done.stdout)
    ]


def _write_job(model: LiteRTModel, inputs: ModelInputs, passes: int) -> bytes:
    """Return a job as `native_passes` reads it: settings in a line of JSON, the bytes of the file and of the inputs."""
    library = find_library()
    bound = bind_inputs(list_declared(model), inputs)
    arrays = [np.ascontiguousarray(array) for array in bound.values()]
    outputs = _find_outputs(model, inputs)
    if any(array.dtype.kind in "OSU" for array in arrays) or any(value.shape is None for value in outputs):
        raise NotOfferedError("the litert backend times no operators of texts, nor of results of unknown sizes")
    signatures = list(model.signatures.values())
    settings = {
        "library": str(library),
        "length": len(model.content),
        "signature": signatures.index(model.signature) if signatures else 0,
        "graph": model.signature.graph,
        "inputs": [(np.shape(array), array.nbytes) for array in arrays],
        "outputs": [(value.shape, value.bytes) for value in outputs],
        "passes": passes,
    }
    return b"".join([json.dumps(settings).encode(), b"\n", model.content, *(array.tobytes() for array in arrays)])


def _find_outputs(model: LiteRTModel, inputs: ModelInputs) -> list[Value]:
    """Return the outputs of a model for inputs, by the static pass: the library knows some sizes only in a run."""
    walk = Walk(model, [""] * len(model.graphs[model.signature.graph].operators), HANDLERS)
    try:
        return walk_call(walk, inputs)[1]
    except Exception as error:  # whatever a damaged file leads to
        raise explain_failure(error, inputs, "litert", __package__ or "") from error
