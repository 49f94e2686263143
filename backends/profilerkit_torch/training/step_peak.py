"""The bytes by use at the moment of a training step when most are alive."""

from __future__ import annotations

from ..trace.live_bytes import LiveBytes

__all__ = ["StepPeak"]


class StepPeak:
    """Notes the bytes of each part of memory whenever more are alive than ever before."""

    def __init__(self, live: LiveBytes) -> None:
        self._live = live
        #: The most bytes alive so far, -1 before the first operator, and their bytes by use.
        self._bytes = -1
        self._parts: dict[str, int] = {}

    def note(self, alive: int) -> None:
        """Take the bytes alive after an operator; those beyond the tensors alive then were inside it."""
        if alive > self._bytes:
            self._bytes = alive
            self._parts = dict(self._live.parts)
            self._parts["other"] = self._parts.get("other", 0) + alive - self._live.total

    def divide(self) -> dict[str, int]:
        """Return the bytes by use at the peak, without the weights; the inputs alone before the first operator.

        Weights that were replaced in the forward pass are freed: their bytes are taken off the tensors that replaced
        them.
        """
        sizes = self._parts or self._live.parts
        parts = {name: sizes.get(name, 0) for name in ("inputs", "activations", "gradients", "other")}
        freed = -sizes.get("weights", 0)
        for name in ("activations", "other", "gradients"):
            taken = min(freed, parts[name])
            parts[name] -= taken
            freed -= taken
        return parts
