"""The part of `Profiler` that computes status keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, overload

from .arguments.checking import checked, status_names
from .arguments.keywords import ComputeOptions
from .arguments.showing import shows_options
from .backend import Backend, DeviceLike
from .piping.computation import Computation, Remembered
from .piping.in_order import compute_in_order
from .piping.registry import RESERVED, Registry, reaching_arguments, read_arguments
from .plugging.model_files import OpenedModel
from .process.locks import PerThread
from .process.progress import track
from .process.restoring import whole_call
from .protocols import kept_apart

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Literal, Unpack

    from .arguments.keywords import KeyName
    from .backend import RunOptions
    from .devices import DeviceInfoLike
    from .times.sampling import Sampling
    from .times.steps import WatchedSteps
    from .trace.ignoring import Ignored

__all__ = ["Computing"]


class Computing:
    """Computes status keys by the functions of a registry; `Profiler` says which, and of what model."""

    model: Any
    backend: Backend
    name: str
    data_splits: Mapping[str, Any]
    #: The model as it was opened, with the path that it was read from.
    _opened: OpenedModel
    _registry: Registry
    _memory: dict[str, Remembered]
    #: What values were computed with, for reports.
    _arguments: dict[str, Any]
    #: By thread: the status keys being computed, in requests that functions make of this profiler too.
    _computing: PerThread
    _once: bool

    # The arguments of Computing.compute_status for editors, written by docs/make_keywords.py: begin
    # fmt: off
    @overload
    def compute_status(
        self, name: KeyName | str, recompute: bool = ..., **options: Unpack[ComputeOptions]
    ) -> Any: ...
    @overload
    def compute_status(
        self, name: KeyName | str, recompute: bool = ..., *, attention: Literal["full", "attended"] = ...,
        autocast: Any = ..., backward: bool = ..., batch_size: int | Iterable[int] | None = ...,
        batch_sizes: Iterable[int] = ..., cache_bytes: int = ..., call: Callable[..., Any] | None = ...,
        compile: bool | str | Mapping[str, Any] | None = ..., confidence: float = ..., device: DeviceLike = ...,
        drop_first: int | None = ..., dtype: str | None = ..., export: str | os.PathLike[str] | None = ...,
        ignore: Ignored = ..., include_weights: bool = ..., max_seconds: float = ..., min_samples: int = ...,
        mode: str | None = ..., num_iters: int | None = ..., num_threads: int | None = ...,
        on: DeviceInfoLike | None = ..., optimizer: Any = ..., passes: int = ..., peaks_of: DeviceInfoLike | None = ...,
        relative_precision: float = ..., run_options: RunOptions = ..., sampling: Sampling = ...,
        split: str | None = ..., training: bool = ..., warmup: int | None = ..., watched: WatchedSteps | None = ...,
        **of_plugins: Any
    ) -> Any: ...
    # fmt: on
    # The arguments of Computing.compute_status for editors: end
    @shows_options(ComputeOptions)
    def compute_status(self, name: KeyName | str, recompute: bool = False, **kwargs: Any) -> Any:
        """Return the value of a status key, computed from ``kwargs`` or remembered from the same ones.

        Raises `UnknownStatusError` for a name no function is registered for, `MissingArgumentError` where an argument
        is missing, and whatever the function raises. A value that is not to be had here is None; ``status_get(name,
        to_value=False)`` says why.
        """
        name = self._registry[name].key.NAME  # an unknown name is said before a misspelt argument
        recompute = checked("recompute", recompute)
        arguments = read_arguments(kwargs, [self._registry])
        with whole_call(), kept_apart(self.backend):
            status = self._computation(arguments, recompute).status(name)
        if status.outcome.error is not None:
            raise status.outcome.error
        return status.value

    # The arguments of Computing.compute for editors, written by docs/make_keywords.py: begin
    # fmt: off
    @overload
    def compute(
        self, names: Iterable[KeyName | str], *, recompute: bool = ..., strict: bool = ...,
        **options: Unpack[ComputeOptions]
    ) -> None: ...
    @overload
    def compute(
        self, names: Iterable[KeyName | str], *, recompute: bool = ..., strict: bool = ...,
        attention: Literal["full", "attended"] = ..., autocast: Any = ..., backward: bool = ...,
        batch_size: int | Iterable[int] | None = ..., batch_sizes: Iterable[int] = ..., cache_bytes: int = ...,
        call: Callable[..., Any] | None = ..., compile: bool | str | Mapping[str, Any] | None = ...,
        confidence: float = ..., device: DeviceLike = ..., drop_first: int | None = ..., dtype: str | None = ...,
        export: str | os.PathLike[str] | None = ..., ignore: Ignored = ..., include_weights: bool = ...,
        max_seconds: float = ..., min_samples: int = ..., mode: str | None = ..., num_iters: int | None = ...,
        num_threads: int | None = ..., on: DeviceInfoLike | None = ..., optimizer: Any = ..., passes: int = ...,
        peaks_of: DeviceInfoLike | None = ..., relative_precision: float = ..., run_options: RunOptions = ...,
        sampling: Sampling = ..., split: str | None = ..., training: bool = ..., warmup: int | None = ...,
        watched: WatchedSteps | None = ..., **of_plugins: Any
    ) -> None: ...
    # fmt: on
    # The arguments of Computing.compute for editors: end
    @shows_options(ComputeOptions)
    def compute(
        self, names: Iterable[KeyName | str], *, recompute: bool = False, strict: bool = False, **kwargs: Any
    ) -> None:
        """Compute the named status keys, keeping failures on them unless ``strict``; arguments as in `profile`."""
        requested, arguments = self._requested(status_names("names", names) or [], kwargs, checked("strict", strict))
        self._compute_all(requested, arguments, checked("recompute", recompute), strict)

    # The arguments of Computing.compute_each for editors, written by docs/make_keywords.py: begin
    # fmt: off
    @overload
    def compute_each(
        self, names: Iterable[KeyName | str], *, recompute: bool = ..., strict: bool = ...,
        **options: Unpack[ComputeOptions]
    ) -> Iterator[str]: ...
    @overload
    def compute_each(
        self, names: Iterable[KeyName | str], *, recompute: bool = ..., strict: bool = ...,
        attention: Literal["full", "attended"] = ..., autocast: Any = ..., backward: bool = ...,
        batch_size: int | Iterable[int] | None = ..., batch_sizes: Iterable[int] = ..., cache_bytes: int = ...,
        call: Callable[..., Any] | None = ..., compile: bool | str | Mapping[str, Any] | None = ...,
        confidence: float = ..., device: DeviceLike = ..., drop_first: int | None = ..., dtype: str | None = ...,
        export: str | os.PathLike[str] | None = ..., ignore: Ignored = ..., include_weights: bool = ...,
        max_seconds: float = ..., min_samples: int = ..., mode: str | None = ..., num_iters: int | None = ...,
        num_threads: int | None = ..., on: DeviceInfoLike | None = ..., optimizer: Any = ..., passes: int = ...,
        peaks_of: DeviceInfoLike | None = ..., relative_precision: float = ..., run_options: RunOptions = ...,
        sampling: Sampling = ..., split: str | None = ..., training: bool = ..., warmup: int | None = ...,
        watched: WatchedSteps | None = ..., **of_plugins: Any
    ) -> Iterator[str]: ...
    # fmt: on
    # The arguments of Computing.compute_each for editors: end
    @shows_options(ComputeOptions)
    def compute_each(
        self, names: Iterable[KeyName | str], *, recompute: bool = False, strict: bool = False, **kwargs: Any
    ) -> Iterator[str]:
        """Compute as `compute` does, one key after the other as the iteration goes on; yield each that is done.

        Between two keys, while the caller's code runs, the process is as the caller has it.
        """
        requested, arguments = self._requested(status_names("names", names) or [], kwargs, checked("strict", strict))
        return self._each(requested, arguments, checked("recompute", recompute), strict)

    def _requested(
        self,
        names: Iterable[str] | None,
        arguments: Mapping[str, Any],
        strict: bool,
        candidates: Iterable[str] = RESERVED,
        static: bool = False,
    ) -> tuple[list[str], dict[str, Any]]:
        """Return the status keys that are requested, and the arguments that reach what computes them.

        ``static`` says that arguments of what runs the model are left out on purpose.
        """
        read = read_arguments(arguments, [self._registry], candidates, strict=strict)
        requested = self._registry.requested(names, read)
        return requested, read if static else reaching_arguments(read, [(self._registry, requested)], strict=strict)

    def _each(self, names: Iterable[str], arguments: dict[str, Any], recompute: bool, strict: bool) -> Iterator[str]:
        computing = self._computing_in_order(names, arguments, recompute, strict)
        name: str | None = ""
        while name is not None:
            with whole_call(), kept_apart(self.backend):
                name = next(computing, None)
            if name is not None:
                yield name

    def _compute_all(
        self,
        names: Iterable[str],
        arguments: dict[str, Any],
        recompute: bool = False,
        strict: bool = False,
        begun: Computation | None = None,
    ) -> None:
        """Compute keys; ``begun`` is the computation of the same request in which some of them were measured already.

        It keeps them also if the model changes what its code reads whenever it runs, such as a global counter.
        """
        computing = self._computing_in_order(names, arguments, recompute, strict, begun)
        with whole_call(), kept_apart(self.backend):
            for _ in computing:
                pass

    def _computing_in_order(
        self,
        names: Iterable[str],
        arguments: dict[str, Any],
        recompute: bool,
        strict: bool,
        begun: Computation | None = None,
    ) -> Iterator[str]:
        bindings = [self._registry[name] for name in names]  # unknown names raise before anything is computed
        if arguments.get("device") is not None:  # and so does a device that does not exist
            self.backend.resolve_device(self.model, arguments["device"])
        self._arguments |= arguments
        steps = track(bindings, f"Profiling {self.name}", lambda binding: binding.key.NAME)
        computation = self._computation(arguments, recompute) if begun is None else begun
        return compute_in_order(computation, steps, self.name, strict)

    def _take_model(self, opened: OpenedModel) -> None:
        """Profile another model from now on; a name that came from the model changes with it."""
        if self.name == self.backend.model_name(self.model):
            self.name = opened.backend.model_name(opened.model)
        self._opened, self.model, self.backend = opened, opened.model, opened.backend

    def _renew_model(self) -> None:
        """Read the model again if its file has changed, except within a request that is under way."""
        if self._computing.mine() or self.model is not self._opened.model:  # or a model that the user has assigned
            return
        renewed = self._opened.renewed()
        if renewed is not self._opened:
            self._take_model(renewed)

    def _computation(self, kwargs: Mapping[str, Any], recompute: bool = False) -> Computation:
        self._renew_model()
        provided = {"model": self.model, "data_splits": self.data_splits, "backend": self.backend, "profiler": self}
        path = self._computing.mine()
        return Computation(self._registry, provided, self._memory, kwargs, recompute, path, self._once)
