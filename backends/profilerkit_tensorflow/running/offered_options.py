"""Which options of a run TensorFlow offers: ``compile=True``; threads and precision are set elsewhere."""

from __future__ import annotations

from profilerkit import InputError, NotOfferedError
from profilerkit.backend import RunOptions

__all__ = ["require_offered"]


def require_offered(options: RunOptions) -> None:
    """Raise `NotOfferedError` for options that TensorFlow does not offer, `InputError` for another compiler."""
    if options.num_threads is not None:
        raise NotOfferedError(
            f"num_threads={options.num_threads}: TensorFlow takes its threads once, before its first operation; call "
            "tf.config.threading.set_intra_op_parallelism_threads() at the start of the program"
        )
    if "autocast" in options.requested:
        raise NotOfferedError(
            f"autocast={options.autocast!r}: TensorFlow has no autocast; build the model under a mixed policy, "
            "keras.mixed_precision.set_global_policy('mixed_bfloat16')"
        )
    if "compile" in options.requested and (options.compile is not True or options.mode not in (None, "xla")):
        requested = f"compile={options.compile!r}" + (f" and mode={options.mode!r}" if options.mode is not None else "")
        raise InputError(
            f"{requested}: TensorFlow compiles by XLA alone; give compile=True, or mode='xla', which is the same"
        )
