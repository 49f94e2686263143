"""`KerasWatch`: the times of chosen steps of ``model.fit``, for Keras 3 on any framework and for ``tf_keras``.

Keras asks its callbacks for their methods, not for their class, so that nothing of Keras is imported here.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .loop import LoopWatch

__all__ = ["KerasWatch"]


class KerasWatch(LoopWatch):
    """A callback for ``model.fit(..., callbacks=[watched])`` that measures chosen steps.

    >>> from profilerkit.callbacks.keras import KerasWatch
    >>> watched = KerasWatch(at_step=(5, 6, 7))
    >>> watched.report()
    Traceback (most recent call last):
    RuntimeError: no training was watched yet: give this callback to the trainer, and train

    A step lasts from the end of one batch to the end of the next, so that fetching data belongs to it; an evaluation in
    between does not. With ``steps_per_execution`` a step is one execution. If training raises, call `close`.
    """

    def __init__(self, at_step: Any = 5, inputs: Any = None) -> None:
        super().__init__(at_step, inputs)
        self.model: Any = None
        self.params: Any = None

    def set_model(self, model: Any) -> None:
        """Remember the model that is trained."""
        self.model = model

    def set_params(self, params: Any) -> None:
        """Remember the facts of the training that Keras passes to its callbacks."""
        self.params = params

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin."""
        self._begin(self.model)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step."""
        self._step()

    def on_test_begin(self, logs: Any = None) -> None:
        """Leave the evaluation out."""
        self._pause()

    def on_test_end(self, logs: Any = None) -> None:
        """Go on behind the evaluation."""
        self._resume()

    def on_train_end(self, logs: Any = None) -> None:
        """End."""
        self.close()

    # Methods that Keras calls, too, and that need do nothing -------------------------------------------------------

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        pass

    on_epoch_begin: ClassVar[Any] = _ignore
    on_epoch_end: ClassVar[Any] = _ignore
    on_train_batch_begin: ClassVar[Any] = _ignore
    on_batch_begin: ClassVar[Any] = _ignore
    on_batch_end: ClassVar[Any] = _ignore
    on_test_batch_begin: ClassVar[Any] = _ignore
    on_test_batch_end: ClassVar[Any] = _ignore
    on_predict_begin: ClassVar[Any] = _ignore
    on_predict_end: ClassVar[Any] = _ignore
    on_predict_batch_begin: ClassVar[Any] = _ignore
    on_predict_batch_end: ClassVar[Any] = _ignore

    # tf_keras asks these, to leave out hooks that no callback has.

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False
