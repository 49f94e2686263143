"""`TrainerWatch`: the times of chosen steps of the ``Trainer`` of transformers.

Importing this module imports transformers.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from profilerkit import BackendNotInstalledError
from profilerkit.callbacks.loop import LoopWatch

if find_spec("transformers") is None:
    raise BackendNotInstalledError(
        "TrainerWatch needs transformers, which is not installed; install it: pip install transformers"
    )
from transformers import TrainerCallback

__all__ = ["TrainerWatch"]


class TrainerWatch(LoopWatch, TrainerCallback):
    """A callback for ``Trainer(..., callbacks=[watched])`` that measures chosen steps.

    A step is one update of the weights, with all batches whose gradients it accumulates, and with fetching them. But
    the first step after an evaluation, a checkpoint or the begin of an epoch begins with its first batch.
    If training raises, call `close`.

    Args:
        at_step: The number of a step, counted from 0 when training begins, or several.
    """

    def __init__(self, at_step: Any = 5) -> None:
        super().__init__(at_step)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin."""
        self._begin(kwargs["model"])

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave out the time between epochs."""
        self._pause()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Go on after a pause."""
        self._resume()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a step; an evaluation or a checkpoint that comes next is left out."""
        self._step()
        if control.should_evaluate or control.should_save:
            self._pause()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave out the time between epochs."""
        self._pause()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End."""
        self.close()
