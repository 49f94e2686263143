"""The arguments that go to functions by name, and the names that are known, for editors and `help`.

Written by docs/make_keywords.py from the functions of the metrics; do not change it by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from ..backend import DeviceLike, RunOptions
    from ..devices import DeviceInfoLike
    from ..times.sampling import Sampling
    from ..times.steps import WatchedSteps
    from ..trace.ignoring import Ignored

__all__ = [
    "ComputeOptions",
    "FigureKind",
    "FloatKey",
    "FormName",
    "IntKey",
    "KeyName",
    "MeasurementKey",
    "ProfileOptions",
]

#: The status keys of the metrics that profilerkit comes with; plugins may add others.
KeyName: TypeAlias = Literal[
    "attended_macs",
    "backward_time",
    "batch_sweep",
    "bits_per_param",
    "effective_macs",
    "execution_time",
    "first_call_time",
    "flops",
    "forward_time",
    "layer_times",
    "layerwise_data",
    "layerwise_summary",
    "macs",
    "macs_by_dtype",
    "mbu",
    "measured_memory",
    "memory_footprint",
    "mfu",
    "model_size",
    "operator_table",
    "optimizer_time",
    "other_time",
    "predicted_layers",
    "predicted_time",
    "predicted_training_time",
    "sparsity",
    "step_hfu",
    "step_memory",
    "step_mfu",
    "step_time",
    "throughput",
    "total_params",
    "trainable_params",
    "training_flops",
    "training_hfu",
    "training_layers",
    "training_macs",
    "training_memory",
    "training_memory_parts",
    "training_mfu",
    "training_time",
]
#: Those of them whose complete value is an `int`.
IntKey: TypeAlias = Literal[
    "attended_macs",
    "effective_macs",
    "flops",
    "macs",
    "measured_memory",
    "memory_footprint",
    "model_size",
    "total_params",
    "trainable_params",
    "training_flops",
    "training_macs",
    "training_memory",
]
#: Those of them whose complete value is a `float`.
FloatKey: TypeAlias = Literal[
    "bits_per_param",
    "first_call_time",
    "predicted_time",
    "predicted_training_time",
    "sparsity",
]
#: Those of them whose complete value is a `Measurement`.
MeasurementKey: TypeAlias = Literal[
    "backward_time",
    "execution_time",
    "forward_time",
    "mbu",
    "mfu",
    "optimizer_time",
    "other_time",
    "step_hfu",
    "step_mfu",
    "step_time",
    "throughput",
    "training_hfu",
    "training_mfu",
    "training_time",
]
#: The forms that a report is written in; plugins may add others.
FormName: TypeAlias = Literal[
    "chrome-trace",
    "console",
    "csv",
    "depths",
    "html",
    "json",
    "latex",
    "layers-csv",
    "markdown",
    "operators",
    "speedscope",
    "tree",
]
#: The kinds of figures.
FigureKind: TypeAlias = Literal[
    "batch_sweep",
    "icicle",
    "latency",
    "layer_bars",
    "memory_timeline",
    "roofline",
]


class ProfileOptions(TypedDict, total=False):
    """What `profile` and the like pass to functions by name, beside their own arguments.

    Args:
        attention: Which scores of attention count: "full" counts the whole square, "attended" only those up to the
            diagonal of causal attention.
        autocast: Automatic mixed precision: True, or a dtype.
        backward: If True, the backward pass is timed too.
        batch_sizes: The batch sizes of ``batch_sweep``. Default: 1, 2, 4, 8, 16 and 32. ``batch_size`` with several
            numbers sets them too.
        cache_bytes: The bytes of a cache that the pass reads, in addition to the weights.
        call: A function that is profiled instead of the model's call. It takes the model and the inputs: ``lambda
            model, x: model.generate(x)``.
        compile: If True, the compiled model is timed. PyTorch also takes the name of a compiler, or arguments of
            ``torch.compile``.
        confidence: The probability that the interval contains the median: 0.95 is 95 %.
        drop_first: Another name of ``warmup``.
        dtype: The dtype of matrix products. Default: the dtype in the trace.
        export: The path of a file for the framework's own trace of one pass. Default: no file.
        ignore: Layers that do not count: classes of layers, names of classes, or patterns of paths.
        include_weights: If False, the memory does not include the weights.
        max_seconds: The longest time of the measurement, warm-up included. Compared models share it.
        min_samples: The number of samples before their precision is checked for the first time.
        mode: A mode of the backend: "graph", "eager" or "xla". Default: the usual mode of the backend.
        num_iters: A fixed number of samples. Default: as many as ``relative_precision`` needs.
        num_threads: The number of threads of an operator during the measurement. Default: the current number.
        on: The device of predicted times: a `DeviceInfo`, a name, or the path of a file. Default: the device of the
            model.
        optimizer: The optimizer whose state is part of the training memory: a name such as "adam", an optimizer of
            the framework, or its class. Default: the optimizer that a Keras model was compiled with, otherwise
            none.
        passes: The number of passes that time layers and operators. The table has the medians, and the samples.
        peaks_of: The device whose peak speeds are used: a `DeviceInfo`, a name, or the path of a file. Default: the
            device of the model.
        relative_precision: The requested precision of the median: 0.02 is plus or minus 2 %.
        run_options: A `RunOptions`, instead of the single arguments ``mode``, ``device``, ``training`` and others.
        sampling: A `Sampling`, instead of the single arguments ``num_iters``, ``max_seconds`` and others.
        split: The name of the data split that the inputs come from.
        training: If True, training steps are timed: the forward pass in training mode, and the gradients of the sum
            of its outputs with respect to the trainable weights. The loss and the update of the optimizer are not
            included.
        warmup: A fixed number of calls that are not counted, at the start. Default: until the times are stable.
        watched: Measured steps of a training loop. Their times are then returned, and the model does not run.
    """

    attention: Literal["full", "attended"]
    """Which scores of attention count: "full" counts the whole square, "attended" only those up to the diagonal of
    causal attention."""
    autocast: Any
    """Automatic mixed precision: True, or a dtype."""
    backward: bool
    """If True, the backward pass is timed too."""
    batch_sizes: Iterable[int]
    """The batch sizes of ``batch_sweep``. Default: 1, 2, 4, 8, 16 and 32. ``batch_size`` with several numbers sets
    them too."""
    cache_bytes: int
    """The bytes of a cache that the pass reads, in addition to the weights."""
    call: Callable[..., Any] | None
    """A function that is profiled instead of the model's call. It takes the model and the inputs: ``lambda model,
    x: model.generate(x)``."""
    compile: bool | str | Mapping[str, Any] | None
    """If True, the compiled model is timed. PyTorch also takes the name of a compiler, or arguments of
    ``torch.compile``."""
    confidence: float
    """The probability that the interval contains the median: 0.95 is 95 %."""
    drop_first: int | None
    """Another name of ``warmup``."""
    dtype: str | None
    """The dtype of matrix products. Default: the dtype in the trace."""
    export: str | os.PathLike[str] | None
    """The path of a file for the framework's own trace of one pass. Default: no file."""
    ignore: Ignored
    """Layers that do not count: classes of layers, names of classes, or patterns of paths."""
    include_weights: bool
    """If False, the memory does not include the weights."""
    max_seconds: float
    """The longest time of the measurement, warm-up included. Compared models share it."""
    min_samples: int
    """The number of samples before their precision is checked for the first time."""
    mode: str | None
    """A mode of the backend: "graph", "eager" or "xla". Default: the usual mode of the backend."""
    num_iters: int | None
    """A fixed number of samples. Default: as many as ``relative_precision`` needs."""
    num_threads: int | None
    """The number of threads of an operator during the measurement. Default: the current number."""
    on: DeviceInfoLike | None
    """The device of predicted times: a `DeviceInfo`, a name, or the path of a file. Default: the device of the
    model."""
    optimizer: Any
    """The optimizer whose state is part of the training memory: a name such as "adam", an optimizer of the
    framework, or its class. Default: the optimizer that a Keras model was compiled with, otherwise none."""
    passes: int
    """The number of passes that time layers and operators. The table has the medians, and the samples."""
    peaks_of: DeviceInfoLike | None
    """The device whose peak speeds are used: a `DeviceInfo`, a name, or the path of a file. Default: the device of
    the model."""
    relative_precision: float
    """The requested precision of the median: 0.02 is plus or minus 2 %."""
    run_options: RunOptions
    """A `RunOptions`, instead of the single arguments ``mode``, ``device``, ``training`` and others."""
    sampling: Sampling
    """A `Sampling`, instead of the single arguments ``num_iters``, ``max_seconds`` and others."""
    split: str | None
    """The name of the data split that the inputs come from."""
    training: bool
    """If True, training steps are timed: the forward pass in training mode, and the gradients of the sum of its
    outputs with respect to the trainable weights. The loss and the update of the optimizer are not included."""
    warmup: int | None
    """A fixed number of calls that are not counted, at the start. Default: until the times are stable."""
    watched: WatchedSteps | None
    """Measured steps of a training loop. Their times are then returned, and the model does not run."""


class ComputeOptions(ProfileOptions, total=False):
    """What the methods of a `Profiler` pass to functions by name: two more than `ProfileOptions` has."""

    batch_size: int | Iterable[int] | None
    """The samples in one forward pass. Default: the batch size of the example inputs."""
    device: DeviceLike
    """The device that runs the model. Default: the current device of the model."""
