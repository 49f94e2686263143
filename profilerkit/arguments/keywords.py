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

__all__ = ["ComputeOptions", "FigureKind", "FormName", "KeyName", "ProfileOptions"]

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
        attention: How attention counts: "full" is the whole square of scores, "attended" what is up to the diagonal
            of causal attention.
        autocast: Run under automatic mixed precision: True, or a dtype.
        backward: Whether to time the backward pass too.
        batch_sizes: The batch sizes of ``batch_sweep``; 1, 2, 4, 8, 16 and 32 unless given. Several as
            ``batch_size`` come here too.
        cache_bytes: The bytes of a cache that the pass reads beside the weights.
        call: A function of the model and the inputs that is profiled in place of the model's own call: ``lambda
            model, x: model.generate(x)``.
        compile: Time the compiled model: True, or (in torch) a compiler's name or arguments for ``torch.compile``.
        confidence: How sure the interval of the median is.
        drop_first: The other name of ``warmup``.
        dtype: The dtype that the products run in, if that is not the one in the trace.
        export: Where to write the framework's own trace file of one pass; none is written unless given.
        ignore: Layers to leave out of the counts: classes of layers, names of classes, or patterns of paths.
        include_weights: Whether the weights count into the footprint.
        max_seconds: When to stop at the latest, warm-up included; models that are compared share it.
        min_samples: How many samples are taken before the first look at their precision.
        mode: How to run, as the backend calls it: "graph", "eager", "xla"; its usual way unless given.
        num_iters: A fixed number of samples; until the median is known well enough unless given.
        num_threads: How many threads an operator may use meanwhile; as many as before unless given.
        on: The device that times are predicted for: a `DeviceInfo`, a name, or the path of a file; the device where
            the model is unless given.
        optimizer: Whose state the memory of training holds: a name such as "adam", or an optimizer of the
            framework's or its class; the one that the model was compiled with unless given.
        passes: How often layers and operators are timed; the table has the medians, and the samples behind them.
        peaks_of: The device whose peaks count: a `DeviceInfo`, a name, or the path of a file; the device that the
            model runs on unless given.
        relative_precision: How well the median must be known: 0.02 is plus or minus 2 %.
        run_options: How to run it, in place of its parts: ``mode``, ``device``, ``training`` and so on.
        sampling: How often to run it, in place of its parts: ``num_iters``, ``max_seconds`` and so on.
        split: The data split that inputs are read from, by name.
        training: Time training steps: the forward pass in training mode, and the gradients of the sum of its
            outputs by the trainable weights. The loss and the optimizer's update are not part of it.
        warmup: A fixed number of calls left out first; until the times settle unless given.
        watched: Steps of a training loop that were measured; their times are returned then, and nothing is run.
    """

    attention: Literal["full", "attended"]
    """How attention counts: "full" is the whole square of scores, "attended" what is up to the diagonal of causal
    attention."""
    autocast: Any
    """Run under automatic mixed precision: True, or a dtype."""
    backward: bool
    """Whether to time the backward pass too."""
    batch_sizes: Iterable[int]
    """The batch sizes of ``batch_sweep``; 1, 2, 4, 8, 16 and 32 unless given. Several as ``batch_size`` come here
    too."""
    cache_bytes: int
    """The bytes of a cache that the pass reads beside the weights."""
    call: Callable[..., Any] | None
    """A function of the model and the inputs that is profiled in place of the model's own call: ``lambda model, x:
    model.generate(x)``."""
    compile: bool | str | Mapping[str, Any] | None
    """Time the compiled model: True, or (in torch) a compiler's name or arguments for ``torch.compile``."""
    confidence: float
    """How sure the interval of the median is."""
    drop_first: int | None
    """The other name of ``warmup``."""
    dtype: str | None
    """The dtype that the products run in, if that is not the one in the trace."""
    export: str | os.PathLike[str] | None
    """Where to write the framework's own trace file of one pass; none is written unless given."""
    ignore: Ignored
    """Layers to leave out of the counts: classes of layers, names of classes, or patterns of paths."""
    include_weights: bool
    """Whether the weights count into the footprint."""
    max_seconds: float
    """When to stop at the latest, warm-up included; models that are compared share it."""
    min_samples: int
    """How many samples are taken before the first look at their precision."""
    mode: str | None
    """How to run, as the backend calls it: "graph", "eager", "xla"; its usual way unless given."""
    num_iters: int | None
    """A fixed number of samples; until the median is known well enough unless given."""
    num_threads: int | None
    """How many threads an operator may use meanwhile; as many as before unless given."""
    on: DeviceInfoLike | None
    """The device that times are predicted for: a `DeviceInfo`, a name, or the path of a file; the device where the
    model is unless given."""
    optimizer: Any
    """Whose state the memory of training holds: a name such as "adam", or an optimizer of the framework's or its
    class; the one that the model was compiled with unless given."""
    passes: int
    """How often layers and operators are timed; the table has the medians, and the samples behind them."""
    peaks_of: DeviceInfoLike | None
    """The device whose peaks count: a `DeviceInfo`, a name, or the path of a file; the device that the model runs
    on unless given."""
    relative_precision: float
    """How well the median must be known: 0.02 is plus or minus 2 %."""
    run_options: RunOptions
    """How to run it, in place of its parts: ``mode``, ``device``, ``training`` and so on."""
    sampling: Sampling
    """How often to run it, in place of its parts: ``num_iters``, ``max_seconds`` and so on."""
    split: str | None
    """The data split that inputs are read from, by name."""
    training: bool
    """Time training steps: the forward pass in training mode, and the gradients of the sum of its outputs by the
    trainable weights. The loss and the optimizer's update are not part of it."""
    warmup: int | None
    """A fixed number of calls left out first; until the times settle unless given."""
    watched: WatchedSteps | None
    """Steps of a training loop that were measured; their times are returned then, and nothing is run."""


class ComputeOptions(ProfileOptions, total=False):
    """What the methods of a `Profiler` pass to functions by name: two more than `ProfileOptions` has."""

    batch_size: int | Iterable[int] | None
    """Samples in one forward pass; as many as the example inputs have unless given."""
    device: DeviceLike
    """Where to run; where the model is unless given."""
