"""How a model is run and how its times are sampled, each put together from arguments of the caller.

A function that times a model names ``run_options`` and ``sampling``; the caller passes ``mode``, ``device``,
``num_iters`` and the like by name, or one of the two as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..arguments.checks import Check, instance
from ..backend import RUN_CHECKS, DeviceLike, RunOptions
from ..errors import InputError
from ..times.sampling import SAMPLING_CHECKS, Sampling
from .function import ArgumentBundle, Keys
from .status import StatusKey

__all__ = ["ComputeRunOptions", "ComputeSampling", "RunOptionsKey", "SamplingKey"]


class RunOptionsKey(StatusKey):
    """The `RunOptions` the model is run with; other functions name ``run_options`` to get them."""

    NAME: str = "run_options"


class SamplingKey(StatusKey):
    """The `Sampling` that times are measured by; other functions name ``sampling`` to get it."""

    NAME: str = "sampling"


class ComputeRunOptions(ArgumentBundle):
    """Puts together how the model is run."""

    KEYS: ClassVar[Keys] = (RunOptionsKey,)
    CHECKS: ClassVar[Mapping[str, Check]] = {
        **RUN_CHECKS,
        "run_options": instance(RunOptions, "an instance of RunOptions, or its arguments by name: compile=True"),
    }

    def __call__(
        self,
        device: DeviceLike = None,
        mode: str | None = None,
        training: bool = False,
        compile: bool | str | Mapping[str, Any] | None = False,
        autocast: Any = None,
        num_threads: int | None = None,
    ) -> RunOptions:
        """Return the options.

        Args:
            device: The device that runs the model. Default: the current device of the model.
            mode: A mode of the backend: "graph", "eager" or "xla". Default: the usual mode of the backend.
            training: If True, training steps are timed: the forward pass in training mode, and the gradients of the sum
                of its outputs with respect to the trainable weights. The loss and the update of the optimizer are not
                included.
            compile: If True, the compiled model is timed. PyTorch also takes the name of a compiler, or arguments of
                ``torch.compile``.
            autocast: Automatic mixed precision: True, or a dtype.
            num_threads: The number of threads of an operator during the measurement. Default: the current number.
        """
        return RunOptions(training, compile, autocast, num_threads, device, mode)


class ComputeSampling(ArgumentBundle):
    """Puts together how times are sampled."""

    KEYS: ClassVar[Keys] = (SamplingKey,)
    CHECKS: ClassVar[Mapping[str, Check]] = {
        **SAMPLING_CHECKS,
        "drop_first": SAMPLING_CHECKS["warmup"],
        "sampling": instance(Sampling, "an instance of Sampling, or its arguments by name: num_iters=20"),
    }

    def __call__(
        self,
        num_iters: int | None = None,
        warmup: int | None = None,
        drop_first: int | None = None,
        relative_precision: float = 0.02,
        max_seconds: float = 3.0,
        min_samples: int = 12,
        confidence: float = 0.95,
    ) -> Sampling:
        """Return the plan; raises `InputError` for two different warm-ups.

        Args:
            num_iters: A fixed number of samples. Default: as many as ``relative_precision`` needs.
            warmup: A fixed number of calls that are not counted, at the start. Default: until the times are stable.
            drop_first: Another name of ``warmup``.
            relative_precision: The requested precision of the median: 0.02 is plus or minus 2 %.
            max_seconds: The longest time of the measurement, warm-up included. Compared models share it.
            min_samples: The number of samples before their precision is checked for the first time.
            confidence: The probability that the interval contains the median: 0.95 is 95 %.
        """
        if None not in (warmup, drop_first) and warmup != drop_first:
            raise InputError(
                f"warmup={warmup} and drop_first={drop_first} are two names of one number; give one of them"
            )
        calls = drop_first if warmup is None else warmup
        return Sampling(num_iters, calls, relative_precision, max_seconds, min_samples, confidence)
