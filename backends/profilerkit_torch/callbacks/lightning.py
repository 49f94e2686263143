"""`LightningWatch`: the times of chosen steps of ``Trainer.fit`` of Lightning.

Importing this module imports Lightning: ``lightning``, or ``pytorch_lightning`` if only this one is imported already,
or only this one is installed. The two do not take each other's callbacks.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from profilerkit import BackendNotInstalledError
from profilerkit.callbacks.loop import LoopWatch

from .called_modules import CalledModules

__all__ = ["LightningWatch"]


def _callback_class() -> Any:
    names = ["lightning.pytorch", "pytorch_lightning"]
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        names.reverse()
    for name in names:
        if find_spec(name.partition(".")[0]) is not None:
            return import_module(name).Callback
    raise BackendNotInstalledError(
        "LightningWatch needs Lightning, which is not installed; install it: pip install lightning"
    )


if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    Callback = _callback_class()


class LightningWatch(LoopWatch, Callback):
    """A callback for Lightning's ``Trainer(callbacks=[watched])`` that measures chosen steps.

    A step lasts from the end of one training batch to the end of the next, so that fetching data belongs to it;
    validation and checkpoints between epochs do not. With accumulated gradients a step is one batch.

    Args:
        at_step: The number of a step, counted from 0 when training begins, or several.
        model: The path of the module to watch in the ``LightningModule``, such as ``"net"``; "" for the
            ``LightningModule`` itself. By default it is the largest module that ``training_step`` calls in step 0; if
            step 0 is measured itself, the ``LightningModule``.
    """

    def __init__(self, at_step: Any = 5, model: str | None = None) -> None:
        super().__init__(at_step)
        self._path = model
        self._called: CalledModules | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin, or find the called module in the first step."""
        if self._path is None and 0 not in self._at_step:
            self._stop_search()
            self._called = CalledModules(pl_module)
            self._called.start()
        else:
            self._begin(attrgetter(self._path)(pl_module) if self._path else pl_module)

    def close(self) -> None:
        """Stop and remove everything; Lightning's trainer calls it."""
        self._stop_search()
        super().close()

    def _stop_search(self) -> Any:
        """End the search for the model, and return the model; None if there is no search."""
        called, self._called = self._called, None
        if called is None:
            return None
        called.stop()
        return called.find_largest()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the epoch's first step, without the time between the epochs."""
        self._pause()
        self._resume()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """End a step; at the end of the first step the model is known."""
        model = self._stop_search()
        if model is not None:
            self._begin(model, steps_before=1)
        else:
            self._step()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Leave validation out."""
        self._pause()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Go on after validation."""
        self._resume()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End."""
        self.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End, because training was interrupted."""
        self.close()
