"""The formulas of a backend by operator and layer class: each backend package has one `CostRegistry`.

A formula that a backend, a plugin or a user registers is kept in the registry. A formula that is registered inside
`CostRegistry.scoped` or `CostRegistry.override` is kept in the context of the code that runs there: other threads and
tasks do not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from ..arguments.checks import FLAG
from ..errors import RegistrationConflictError
from .cost import Cost, Formula
from .evaluation import CallForm, require_formula

__all__ = ["CostRegistry", "read_formulas"]


class _Block(NamedTuple):
    """Formulas that end with a block; in a block of `CostRegistry.scoped` those that are registered inside it."""

    formulas: dict[Any, Formula]
    is_scope: bool


class CostRegistry:
    """Formulas for the operators and layers of one framework, by key.

    Args:
        framework: The framework's name, for messages.
        shipped: Returns whether the framework ships a class of layers: a formula for a shipped class needs
            ``override=True``, because it replaces the counts of the operators inside.
        called_with: How formulas are called, by kind: "operator", "layer" or "module".

    >>> registry = CostRegistry("example")
    >>> @registry.register("mul")
    ... def multiply(x, y, *, out):
    ...     return Cost(0, out.numel)
    >>> registry.get("mul") is multiply
    True
    """

    def __init__(
        self,
        framework: str,
        shipped: Callable[[Any], bool] = lambda key: False,
        called_with: Mapping[str, CallForm] | None = None,
    ) -> None:
        self.framework = framework
        self._shipped = shipped
        self._called_with = called_with or {}
        #: The formulas that the backend ships, and those that others have added to last.
        self._as_shipped, self._lasting = _Block({}, is_scope=True), _Block({}, is_scope=True)
        #: The blocks around the code, the outermost first: these two, then those of `scoped` and `override`.
        self._blocks: ContextVar[tuple[_Block, ...]] = ContextVar(
            f"{framework}_blocks", default=(self._as_shipped, self._lasting)
        )
        #: Grows with each change of a formula, and with each block that begins or ends.
        self._changes = 0

    def register(
        self, key: Any, formula: Any = None, *, override: bool = False, kind: str = "operator", name: str | None = None
    ) -> Any:
        """Add a formula for an operator or a class of layers and return it; usable as a decorator too.

        Args:
            key: The operator or layer that the formula is for: an operator's name, a class, or a class's name.
            formula: Called by the backend's rules; returns a `Cost`.
            override: Replace a formula that is there already, or the counts of a layer that the framework ships.
            kind: The kind of the key, also for messages: "operator", "layer" or "module".
            name: The key's name in messages.

        Raises `RegistrationConflictError` if ``override`` is needed and missing, and `ArgumentError` if ``formula`` is
        not a function or cannot be called with the arguments of a formula; then nothing is registered.
        """
        if formula is None:
            return lambda function: self.register(key, function, override=override, kind=kind, name=name)
        title = f"{kind} {name or key}"
        require_formula(formula, title, self._called_with.get(kind))
        scopes = [block.formulas for block in self._blocks.get() if block.is_scope]  # those of `override` take none
        if not FLAG("override", override):
            if any(key in formulas for formulas in scopes):
                raise RegistrationConflictError(f"{title} has a cost formula already; pass override=True to replace it")
            if kind != "operator" and self._shipped(key):
                raise RegistrationConflictError(
                    f"{title} comes with {self.framework}, and its operators are counted; pass override=True to count "
                    "the whole of it by this formula instead"
                )
        scopes[-1][key] = formula
        self._changes += 1
        return formula

    def register_whole(self, formulas: Mapping[Any, Formula], register: Callable[[Any, Formula], object]) -> None:
        """Register the formulas of a plugin by a function that registers one; if one is refused, none is registered.

        They stay after a block of `scoped`, because a plugin is loaded once, wherever its first profile happens to run.
        """
        outermost = self._blocks.get()[:2]
        for trial in ((_Block({}, is_scope=True),), ()):  # at first an error leaves nothing registered
            with self._within((*outermost, *trial)):
                for key, formula in formulas.items():
                    register(key, formula)

    def get(self, *keys: Any) -> Formula | None:
        """Return the formula for the first key that has one, or None; those of the innermost block come first."""
        for block in reversed(self._blocks.get()):
            for key in keys:
                formula: Formula | None = block.formulas.get(key)
                if formula is not None:
                    return formula
        return None

    def mark_as_shipped(self) -> None:
        """Take the formulas of now for those that come with the backend, which calls this after it registered its own.

        Any other comes before all of them, and reports name it among the conditions of their numbers.
        """
        self._as_shipped.formulas.update(self._lasting.formulas)
        self._lasting.formulas.clear()

    def list_added(self) -> dict[Any, Formula]:
        """Return the formulas in force that are not those of the backend for their keys: the caller's, the plugins'.

        A formula of the backend that the caller gives to another key is one of them.
        """
        in_force: dict[Any, Formula] = {}
        shipped, *others = self._blocks.get()
        for block in others:
            in_force |= block.formulas
        return {key: formula for key, formula in in_force.items() if shipped.formulas.get(key) is not formula}

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys that have a formula outside of any scope."""
        return iter(self._as_shipped.formulas | self._lasting.formulas)

    def __contains__(self, key: Any) -> bool:
        return self.get(key) is not None

    @property
    def version(self) -> object:
        """A value that is equal as long as `get` returns the same, in this context: for caches of derived results."""
        return self._changes, tuple(map(id, self._blocks.get()))

    @contextmanager
    def scoped(self) -> Iterator[None]:
        """Remove at the end all formulas that this context registered inside: for tests, and to try formulas."""
        with self._within((*self._blocks.get(), _Block({}, is_scope=True))):
            yield

    @contextmanager
    def override(
        self, formulas: Mapping[Any, Callable[..., Cost]], kind: Callable[[Any], str] = lambda key: "operator"
    ) -> Iterator[None]:
        """Count by other formulas inside a ``with`` block, in this context alone.

        They take precedence over all others; in nested blocks, the inner block's formulas do. A formula that is
        registered inside the block stays after it. Raises `ArgumentError` for a value that is not a formula; then
        nothing is changed.
        """
        for key, formula in formulas.items():
            require_formula(formula, f"{kind(key)} {key}", self._called_with.get(kind(key)))
        with self._within((*self._blocks.get(), _Block(dict(formulas), is_scope=False))):
            yield

    @contextmanager
    def _within(self, blocks: tuple[_Block, ...]) -> Iterator[None]:
        """Let these be the blocks around the code, in this context alone."""
        token = self._blocks.set(blocks)
        self._changes += 1
        try:
            yield
        finally:
            self._blocks.reset(token)
            self._changes += 1


def read_formulas(returned: Any) -> dict[Any, Formula]:
    """Return a plugin's formulas by operator; raises `TypeError` for anything else."""
    costs: Any = {} if returned is None else returned
    if not isinstance(costs, Mapping):
        raise TypeError(f"it returned {returned!r}, which is no mapping of operators to formulas")
    for op, formula in costs.items():
        if not callable(formula):
            raise TypeError(f"the formula for {op} is {formula!r}, which cannot be called")
    return dict(costs)
