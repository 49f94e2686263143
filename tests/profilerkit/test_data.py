"""From a batch to a model call."""

import threading
from collections import ChainMap, OrderedDict, UserDict, namedtuple
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np
import pytest

from profilerkit import (
    ArgumentError,
    DataLoader,
    ForwardPass,
    InputError,
    ModelInputPattern,
    ModelInputs,
    Profiler,
    TensorSpec,
)
from profilerkit.arguments.structures import map_leaves
from profilerkit.data_splits import wrap_splits
from profilerkit.input_shapes import parse_input_shape
from profilerkit.piping.input_source import InputSource, find_batch_size
from profilerkit.piping.intrinsic import ComputeInputs
from profilerkit.testing import FakeBackend, FakeTensor

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("given", "args", "kwargs"),
    [
        (3, (3,), {}),
        ((1, 2), (1, 2), {}),
        (Point(1, 2), (Point(1, 2),), {}),
        ([1, 2], (1, 2), {}),
        ({"mask": 1}, (), {"mask": 1}),
        (UserDict({"mask": 1}), (), {"mask": 1}),
        (ModelInputs(1, mask=2), (1,), {"mask": 2}),
        (ModelInputs([1, 2]), ([1, 2],), {}),
        ({"self": 1}, (), {"self": 1}),  # a graph may have an input of this name
    ],
)
def test_reading_inputs(given: Any, args: Any, kwargs: Any) -> None:
    inputs = ModelInputs.of(given)
    assert (inputs.args, inputs.kwargs) == (args, kwargs)


def test_a_mapping_with_other_keys_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"has the keys \[0\]; to pass a mapping as one positional input, use ModelInp"
    ):
        ModelInputs.of({0: "x"})


def test_leaves_are_found_in_any_nesting() -> None:
    inputs = ModelInputs(1, [2, (3, {"a": 4})], Point(5, 6), mask=OrderedDict(b=7))
    assert list(inputs.leaves()) == [1, 2, 3, 4, 5, 6, 7]
    doubled = inputs.map(lambda leaf: 2 * leaf)
    assert doubled.args == (2, [4, (6, {"a": 8})], Point(10, 12))
    assert isinstance(doubled.kwargs["mask"], OrderedDict)


def test_a_mapping_of_the_users_own_type_keeps_it() -> None:
    class Encoding(UserDict[str, int]):
        pass

    mapped = map_leaves(Encoding(a=1), lambda leaf: leaf + 1)
    assert isinstance(mapped, Encoding)
    assert mapped["a"] == 2


class Held(MutableMapping[str, Any]):
    """A mapping with its items in an attribute, which a shallow copy shares."""

    def __init__(self, **items: Any) -> None:
        self.items_by_name = dict(items)

    def __getitem__(self, name: str) -> Any:
        return self.items_by_name[name]

    def __setitem__(self, name: str, item: Any) -> None:
        self.items_by_name[name] = item

    def __delitem__(self, name: str) -> None:
        del self.items_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.items_by_name)

    def __len__(self) -> int:
        return len(self.items_by_name)


class Slotted(Held):
    __slots__ = ("items_by_name",)


class Attributes(dict[str, Any]):
    """A dictionary whose items are its attributes too."""

    def __init__(self, **items: Any) -> None:
        super().__init__(items)
        self.__dict__ = self


@pytest.mark.parametrize("kind", [Held, Slotted, Attributes, UserDict, OrderedDict, ChainMap, dict])
def test_the_users_mapping_is_not_changed(kind: Any) -> None:
    leaf, inner = object(), object()
    given = kind()
    given.update(a=leaf, b=kind())
    given["b"]["c"] = inner
    mapped = map_leaves(given, lambda leaf: [leaf])
    assert type(mapped) is type(given)
    assert (mapped["a"], mapped["b"]["c"]) == ([leaf], [inner])
    assert given["a"] is leaf
    assert given["b"]["c"] is inner


def test_items_that_are_attributes_are_replaced_as_both() -> None:
    given = Attributes(a=1)
    mapped = map_leaves(given, lambda leaf: leaf + 1)
    assert (mapped.a, mapped["a"], vars(given)["a"], given["a"]) == (2, 2, 1, 1)


def test_a_mapping_that_cannot_be_copied_becomes_a_dictionary() -> None:
    given = Held(a=1, lock=threading.Lock())
    given.guard = threading.Lock()  # type: ignore[attr-defined]
    assert map_leaves(given, lambda leaf: 2) == {"a": 2, "lock": 2}
    assert given["a"] == 1


@pytest.mark.parametrize("shape", [lambda self: "square", 5, property(lambda self: int("wide"))])
def test_an_object_whose_shape_is_no_sequence_is_shown_by_its_class(shape: Any) -> None:
    box = type("Box", (), {"shape": shape})()
    assert repr(ModelInputs(box, [box])) == "ModelInputs(Box, [Box])"


def test_a_mapping_whose_attributes_are_its_items_is_shown() -> None:
    """Such a class often raises `KeyError` for an attribute that it has not, where Python expects `AttributeError`."""
    kind = type("Items", (dict,), {"__getattr__": dict.__getitem__})
    assert repr(ModelInputs(kind(x=1))) == "ModelInputs(Items)"


def test_inputs_show_shapes_not_values() -> None:
    itself: list[Any] = [1]
    itself.append(itself)
    assert repr(ModelInputs(itself)).startswith("ModelInputs([1, [") and "..." in repr(ModelInputs(itself))
    assert repr(ModelInputs(FakeTensor((2, 3)), mask="x" * 50)) == (
        "ModelInputs(FakeTensor(2, 3), mask='xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...)"
    )


@pytest.mark.parametrize(
    ("given", "positional", "named"),
    [
        ((3, 8), (TensorSpec((3, 8)),), {}),
        ([(3, 8), (5,)], (TensorSpec((3, 8)), TensorSpec((5,))), {}),
        (((128,), "int64"), (TensorSpec((128,), "int64"),), {}),
        ([((128,), "int64"), (2,)], (TensorSpec((128,), "int64"), TensorSpec((2,))), {}),
        ({"ids": ((128,), "int64"), "x": (4,)}, (), {"ids": TensorSpec((128,), "int64"), "x": TensorSpec((4,))}),
        (TensorSpec((2,)), (TensorSpec((2,)),), {}),
        (((4,), np.dtype("int32")), (TensorSpec((4,), "int32"),), {}),
        ((np.int64(3), 8), (TensorSpec((3, 8)),), {}),
        ((), (TensorSpec(()),), {}),
    ],
)
def test_input_shapes(given: Any, positional: Any, named: Any) -> None:
    assert parse_input_shape(given) == (positional, named)


@pytest.mark.parametrize("given", [(3, -8), (0,), [(3, 0)]])
def test_sizes_must_be_positive(given: Any) -> None:
    with pytest.raises(InputError, match="give positive integers"):
        parse_input_shape(given)


@pytest.mark.parametrize("given", ["3,8", 3, [("a", "b")], [None]])
def test_invalid_shapes(given: Any) -> None:
    with pytest.raises(InputError, match="cannot be read as a shape"):
        parse_input_shape(given)


@pytest.mark.parametrize(
    ("pattern", "batch", "inputs", "rest"),
    [
        ((0, "_"), ("x", "y"), ("x",), ("y",)),
        (("_", 0), ("y", "x"), ("x",), ("y",)),
        ((1, 0, "_"), ("b", "a", "y"), ("a", "b"), ("y",)),
        ((0, "_"), ("x",), ("x",), ()),  # a data set without targets
        ((0, "_", "_"), ("x", "y", "z"), ("x",), ("y", "z")),
    ],
)
def test_patterns(pattern: Any, batch: Any, inputs: Any, rest: Any) -> None:
    assert ModelInputPattern(pattern).rearrange(batch) == (inputs, rest)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ((0, 0), "give the inputs of the model the indices 0, 1, ..., each once"),
        ((0, 2), "give the inputs of the model the indices 0, 1, ..., each once"),
        ((1, "_"), "give the inputs of the model the indices 0, 1, ..., each once"),
        (("_",), "give the inputs of the model the indices 0, 1, ..., each once"),
        ((-1, "_"), "must be integers from zero"),
        ((True, "_"), "must be integers from zero"),
        ((0, "ids"), "use integers and '_' for tuple batches, or names for mappings"),
    ],
)
def test_impossible_patterns(pattern: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ModelInputPattern(pattern)


@pytest.mark.parametrize("by_split", [False, True])
def test_a_forward_pass_that_is_given_also_divides_batches_of_a_wrapped_loader(by_split: bool) -> None:
    loader, swapped = DataLoader([("y", "x")]), ForwardPass(("_", 0))
    given = {"test": swapped} if by_split else swapped
    wrapped = wrap_splits({"test": loader, "raw": [("y", "x")]}, given, DataLoader, ForwardPass)
    assert wrapped["test"].model_inputs().args == ("x",)
    assert loader.model_inputs().args == ("y",), "the caller's loader is as it was"
    assert wrap_splits({"test": loader}, None, DataLoader, ForwardPass)["test"] is loader


def test_a_batch_that_does_not_fit_the_pattern() -> None:
    with pytest.raises(InputError, match="a batch of the loader has 3 elements, the model input pattern .* has 2"):
        ForwardPass((0, "_")).extract_model_inputs((1, 2, 3))


def test_batches_of_every_kind() -> None:
    usual = ForwardPass(model_input_pattern=(0, "_"))
    assert usual.extract_model_inputs(("x", "y")) == ("x",)
    assert usual.extract_targets(["x", "y"]) == "y"
    assert usual.extract_model_inputs("x") == "x"
    assert usual.extract_model_inputs({"ids": 1, "labels": 2}) == {"ids": 1}
    assert usual.extract_targets({"ids": 1, "labels": 2}) == 2
    assert ForwardPass((0, "_", "_")).extract_targets((1, 2, 3)) == (2, 3)


def test_named_entries_of_a_mapping_batch() -> None:
    named = ForwardPass(model_input_pattern=("ids", "mask"))
    assert named.extract_model_inputs({"ids": 1, "mask": 2, "extra": 3}) == {"ids": 1, "mask": 2}
    with pytest.raises(InputError, match=r"the pattern names \['mask'\], but the batch has the keys \['ids'\]"):
        named.extract_model_inputs({"ids": 1})
    with pytest.raises(InputError, match="a tuple batch needs a pattern of indices"):
        named.extract_model_inputs((1, 2))


def test_missing_targets() -> None:
    for batch in ("x", {"ids": 1}, ("x",)):
        with pytest.raises(InputError, match="no targets in a batch of type .* override ForwardPass.extract_targets"):
            ForwardPass((0, "_")).extract_targets(batch)


def test_a_subclass_divides_any_batch() -> None:
    class Detection(ForwardPass):
        def extract_model_inputs(self, batch: Any) -> Any:
            return ModelInputs(batch["image"], scale=batch["scale"])

    inputs = ModelInputs.of(Detection().extract_model_inputs({"image": 1, "scale": 2}))
    assert (inputs.args, inputs.kwargs) == ((1,), {"scale": 2})


def test_what_a_forward_pass_needs() -> None:
    with pytest.raises(TypeError, match="ForwardPass needs a model_input_pattern"):
        ForwardPass()
    with pytest.raises(TypeError, match="must override create_random_model_inputs"):
        ForwardPass((0, "_"), expecting_common_inputs=False)
    with pytest.raises(NotImplementedError):
        ForwardPass((0, "_")).create_random_model_inputs(1)


def test_a_loader_is_read_again_and_again() -> None:
    loader = DataLoader([("a", 0), ("b", 1)])
    assert list(loader) == list(loader) == [("a", 0), ("b", 1)]
    assert len(loader) == 2
    assert loader.batch_size is None
    assert loader.model_inputs().args == ("a",)
    assert list(loader.track("Reading")) == list(loader)


def test_invalid_loaders() -> None:
    with pytest.raises(InputError, match="a generator can be read only once"):
        DataLoader(batch for batch in [1])
    with pytest.raises(InputError, match="the data split has no batches"):
        DataLoader([]).model_inputs()


@pytest.mark.parametrize("native", [3, "path/to/data", b"data", {"x": [1]}, list, None])
def test_what_has_no_batches_is_no_loader(native: Any) -> None:
    """Python could iterate over some of these: over the letters of a text, and over the keys of a mapping."""
    with pytest.raises(ArgumentError, match="native=.*: give a loader: an iterable of batches"):
        DataLoader(native)


@pytest.mark.parametrize("native", [[("x", "y")], DataLoader([("x", "y")])], ids=["raw", "wrapped"])
def test_only_a_forward_pass_divides_the_batches_of_a_split(native: Any) -> None:
    for given, name in ((5, "forward_pass=5"), ({"test": 5}, r"forward_pass\['test'\]=5")):
        with pytest.raises(ArgumentError, match=f"{name}: give a ForwardPass"):
            wrap_splits({"test": native}, given, DataLoader, ForwardPass)  # type: ignore[arg-type]


def build(backend: FakeBackend, source: InputSource | None, splits: Any = None, **options: Any) -> ModelInputs:
    wrapped = {name: DataLoader(batches) for name, batches in (splits or {}).items()}
    return ModelInputs.of(ComputeInputs()(backend, wrapped, input_source=source, **options))


def shapes(inputs: ModelInputs) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in inputs.leaves()]


def test_example_inputs_are_used_unchanged_or_resized(backend: FakeBackend) -> None:
    source = InputSource.of({"x": FakeTensor((4, 3)), "flag": True, "scalar": FakeTensor(())}, None)
    assert [leaf for leaf in build(backend, source).leaves() if leaf is True] == [True]
    resized = build(backend, source, batch_size=2)
    assert [leaf.shape for leaf in resized.leaves() if isinstance(leaf, FakeTensor)] == [(2, 3), ()]
    assert find_batch_size(resized, backend) == 2
    assert find_batch_size(ModelInputs(True), backend) is None


def test_inputs_of_several_lengths_cannot_be_resized(backend: FakeBackend) -> None:
    source = InputSource.of((FakeTensor((4, 3)), FakeTensor((5,))), None)
    with pytest.raises(InputError, match="cannot make a batch of 2 from these inputs: their first dimensions are 4, 5"):
        build(backend, source, batch_size=2)
    with pytest.raises(InputError, match="are no tensors at all"):
        build(backend, InputSource.of("text", None), batch_size=2)
    assert shapes(build(backend, source)) == [(4, 3), (5,)], "as they are they may be anything"


def test_shapes_alone(backend: FakeBackend) -> None:
    source = InputSource.of(None, {"ids": ((7,), "int64"), "x": (3,)})
    inputs = build(backend, source)
    assert inputs.kwargs["ids"] == FakeTensor((1, 7), "int64")
    assert shapes(build(backend, source, batch_size=5)) == [(5, 7), (5, 3)]


def test_a_callable_builds_inputs_from_the_batch_size(backend: FakeBackend) -> None:
    source = InputSource.of(lambda batch_size: (FakeTensor((batch_size, 2)),), None)
    assert shapes(build(backend, source)) == [(1, 2)]
    assert shapes(build(backend, source, batch_size=6)) == [(6, 2)]


def test_inputs_are_given_in_one_way() -> None:
    with pytest.raises(InputError, match="both inputs and input_shape were given"):
        InputSource.of(1, (3,))
    assert InputSource.of(None, None) is None


@pytest.mark.parametrize("batch_size", [None, 1, 5])
def test_the_steps_of_a_model_with_time_first_are_not_cut_for_samples(batch_size: int | None) -> None:
    class TimeFirst(FakeBackend):
        def count_samples(self, model: Any, inputs: ModelInputs, trace: Any = None) -> int:
            return int(next(inputs.leaves()).shape[1])

    splits = {"train": [(FakeTensor((5, 3, 4)), 0)]}
    assert shapes(build(TimeFirst(), None, splits, model="recurrent", batch_size=3)) == [(5, 3, 4)]
    with pytest.raises(InputError, match=f"a batch of {batch_size or 1} .*: the model takes them as a batch of 3, not"):
        build(TimeFirst(), None, splits, model="recurrent", batch_size=batch_size)


def test_a_data_split_feeds_one_sample_unless_told_otherwise(backend: FakeBackend) -> None:
    splits = {"test": [(FakeTensor((8, 1)), 0)], "train": [(FakeTensor((8, 3)), 0)]}
    assert shapes(build(backend, None, splits)) == [(1, 3)], "train comes first"
    assert shapes(build(backend, None, splits, split="test", batch_size=4)) == [(4, 1)]
    assert shapes(build(backend, None, {"val": [FakeTensor((8, 2))]})) == [(1, 2)]
    with pytest.raises(InputError, match="no data split 'val'; the splits are: 'test', 'train'"):
        build(backend, None, splits, split="val")


def test_no_inputs_at_all_lists_the_ways_to_give_them(backend: FakeBackend) -> None:
    with pytest.raises(InputError, match=r"nothing to run the model with; give inputs=x .*input_shape=.*data_splits="):
        build(backend, None)


def test_uncommon_inputs_are_created_by_the_forward_pass(backend: FakeBackend) -> None:
    class Graphs(ForwardPass):
        def extract_model_inputs(self, batch: Any) -> Any:
            return batch

        def create_random_model_inputs(self, batch_size: int) -> Any:
            return FakeTensor((10 * batch_size, 4))

    loader = DataLoader([object()], Graphs(expecting_common_inputs=False))
    inputs = ComputeInputs()(backend, {"train": loader}, batch_size=3)
    assert shapes(ModelInputs.of(inputs)) == [(30, 4)]


def test_splits_are_wrapped_with_a_forward_pass_each() -> None:
    by_name = Profiler.enable_forward_pass_data_splits({"train": [1], "test": [2]}, {"train": ForwardPass(("ids",))})
    assert by_name["train"].forward_pass.pattern == ("ids",)
    assert by_name["test"].forward_pass.pattern == (0, "_")
    with pytest.raises(InputError, match=r"forward_pass names the splits \['trian'\]; the data splits are: train"):
        Profiler.enable_forward_pass_data_splits({"train": [1], "test": [2]}, {"trian": ForwardPass(("ids",))})
    kept = Profiler.enable_forward_pass_data_splits(by_name)
    assert kept["train"] is by_name["train"]
    with pytest.raises(TypeError, match=r"data_splits=\[.*\]: give loaders by name"):
        Profiler.enable_forward_pass_data_splits([1])  # type: ignore[arg-type]
