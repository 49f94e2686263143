"""Measuring energy: the values of the hardware's own counters while a model runs, and while it does not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from profilerkit import (
    Measurement,
    ModelInputs,
    ProfilerFunction,
    Scale,
    Unavailable,
    WithoutValuesError,
)
from profilerkit.arguments.checks import Check, at_least
from profilerkit.backend import Backend, RunOptions
from profilerkit.piping.function import Keys
from profilerkit.piping.input_source import find_batch_size
from profilerkit.piping.outcome import qualify
from profilerkit.piping.quantity import scale_value
from profilerkit.times.sampling import Sampling

from .counters import Counter
from .hardware import DeviceCounters, Hardware
from .keys import KEYS, Energy, EnergyPerSample, EnergyPerToken, IdlePower, Power
from .sampling import Lap, measure_idle, sample_passes


class ComputeEnergy(ProfilerFunction):
    """Reads energy counters before and after many forward passes, over any backend. Computed only if requested by name.

    The energy is everything that the counters measure, including the energy of an idle machine and of other processes.
    Nothing is subtracted, because the energy of the machine without the model cannot be known; the power of the idle
    machine, measured just before, is shown beside it.

    Args:
        hardware: The sources of the counters.
        sleep: Waits for a number of seconds, in which the idle power is measured.
    """

    KEYS: ClassVar[Keys] = KEYS
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True
    CHECKS: ClassVar[Mapping[str, Check]] = {
        "tokens": at_least(1, "how many tokens a forward pass has, such as 128").or_none()
    }

    def __init__(self, hardware: Hardware | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        self.hardware = hardware or Hardware()
        self.sleep = sleep

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        run_options: RunOptions,
        sampling: Sampling,
        tokens: int | None = None,
    ) -> dict[str, Any]:
        """Return all values; without counters each is unavailable, with the reason.

        Args:
            model: The model; it runs in inference mode.
            backend: The model's backend.
            inputs: The inputs of the model.
            run_options: A `RunOptions`, as for ``execution_time``.
            sampling: A `Sampling`, as for ``execution_time``; one sample is as many passes as the counters need.
            tokens: How many tokens a forward pass has; by default the elements of the input ``input_ids``.
        """
        counters = self.hardware.find_counters(backend.resolve_device(model, run_options.device))
        if not counters.main.readable:
            return _refuse_all("; ".join(counters.main.missing))
        call = ModelInputs.of(inputs)
        try:
            with backend.run(model, call, run_options) as run:
                readings = self._read(run, counters, sampling)
        except WithoutValuesError as error:
            return _refuse_all(str(error))
        if readings.stands_still:
            return _refuse_all("; ".join((*readings.list_still(), *counters.main.missing)))
        sizes = {
            EnergyPerSample.NAME: find_batch_size(call, backend, model),
            EnergyPerToken.NAME: tokens or _count_tokens(call),
        }
        return readings.make_values(sizes, sampling, str(run_options))

    def _read(self, run: Callable[[], object], counters: DeviceCounters, sampling: Sampling) -> _Readings:
        """Return the readings of the counters before the passes, and during them."""
        readable = (*counters.main.readable, *counters.others.readable)
        idle = measure_idle(readable, sampling.clock, self.sleep)
        return _Readings(counters, readable, idle, sample_passes(run, readable, sampling))


@dataclass(frozen=True)
class _Readings:
    """The readings of the counters of a device; the laps have the joules of the ``readable`` counters, in order."""

    device: DeviceCounters
    readable: Sequence[Counter]
    idle: Lap
    laps: Sequence[Lap]

    @property
    def still(self) -> list[Counter]:
        """The counters that did not change while the model ran."""
        totals = [math.fsum(joules) for joules in zip(*(lap.joules for lap in self.laps), strict=True)]
        return [counter for counter, total in zip(self.readable, totals, strict=True) if not total]

    @property
    def stands_still(self) -> bool:
        """Whether none of the device's own counters changed."""
        return {counter.name for counter in self.device.main.readable} <= {counter.name for counter in self.still}

    def list_still(self) -> list[str]:
        """Return the reason for each counter that did not change."""
        return [f"the energy counter of {counter.name} stands still" for counter in self.still]

    def make_values(self, sizes: Mapping[str, int | None], sampling: Sampling, options: str) -> dict[str, Any]:
        """Return the value of each metric; ``sizes`` are the numbers of samples and tokens, by their metric."""
        energy = _measure([lap.joules_of_pass for lap in self.laps], sampling)
        power = _measure([lap.watts for lap in self.laps], sampling)
        values: dict[str, Any] = {Energy.NAME: energy, Power.NAME: power}
        for name, size in sizes.items():
            values[name] = energy / size if size else Unavailable(_NO_SIZE[name])
        still_idle = "the energy counters did not change while nothing ran"
        values[IdlePower.NAME] = self.idle.watts or Unavailable(still_idle)
        note = "; ".join(filter(None, (self._describe(power), options)))
        return {name: self._qualify(value, note) for name, value in values.items()}

    def _describe(self, power: Measurement) -> str:
        """Return the note beside an energy: the names of the counters, and the power with the model and idle."""
        names = ", ".join(counter.name for counter in self.readable)
        running, idle = (scale_value(watts, "W", Scale.TIME) for watts in (float(power), self.idle.watts))
        return f"{names}: {running} while the model ran, {idle if self.idle.watts else 'an unknown power'} idle"

    def _qualify(self, value: Any, note: str) -> Any:
        """Return a value as a lower bound if some counters are missing, with a note."""
        if isinstance(value, Unavailable):
            return value
        missing = (*self.device.main.missing, *self.device.others.missing, *self.list_still())
        return qualify(value, (*missing, *self._list_overrun()), [note])

    def _list_overrun(self) -> list[str]:
        """Return the reason for each counter that may have started again more than once, unseen, in the longest lap."""
        seconds = max(lap.seconds for lap in self.laps)
        return [
            f"the energy counter of {counter.name} may have started again at zero more than once within a sample of "
            f"{scale_value(seconds, 's', Scale.TIME)}; measure shorter passes"
            for counter in self.readable
            if counter.may_restart_twice(seconds)
        ]


#: Why an energy cannot be divided.
_NO_SIZE = {
    EnergyPerSample.NAME: "the inputs share no first dimension that could be the batch",
    EnergyPerToken.NAME: (
        "it is not known how many tokens a forward pass has: pass them as the input input_ids, or say it with tokens="
    ),
}


def _refuse_all(reason: str) -> dict[str, Any]:
    return {key.NAME: Unavailable(reason) for key in KEYS}


def _measure(samples: Sequence[float], sampling: Sampling) -> Measurement:
    is_adaptive = sampling.num_iters is None
    precision = sampling.relative_precision if is_adaptive else None
    return Measurement(tuple(samples), sampling.confidence, precision=precision, adaptive=is_adaptive)


def _count_tokens(inputs: ModelInputs) -> int | None:
    """Return the number of tokens that a language model is called with; None if there are none, or another call.

    A function of the model, such as ``generate``, makes tokens that the inputs do not show.
    """
    shape = getattr(inputs.kwargs.get("input_ids"), "shape", None)
    return None if shape is None or inputs.function is not None else math.prod(map(int, shape))
