"""What TensorFlow's kernels share, take over and need for themselves; expected values by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from profilerkit.backend_kit.live_bytes import Step, live_bytes
from profilerkit_tensorflow.trace.memory import count_constant_bytes, write_steps
from profilerkit_tensorflow.trace.ownership import Owner
from profilerkit_tensorflow.trace.tensor_facts import Tensor, count_tensor_bytes
from profilerkit_tensorflow.trace.values import Executed

IMAGE = (8, 64, 64, 32)
IMAGE_BYTES = 8 * 64 * 64 * 32 * 4


def floats(value: int, *shape: int | None) -> Tensor:
    return Tensor(value, shape, "float32")


def run(
    kind: str, inputs: tuple[int, ...] = (), outputs: tuple[Tensor, ...] = (), times: int = 1, **facts: Any
) -> Executed:
    """Return an operator that ran; the inputs are the numbers of values."""
    read = [Tensor(number, None, "float32") for number in inputs]
    return Executed(kind, read, outputs, times, Owner("", 0), **facts)


def step(kind: str, inputs: list[Tensor], *outputs: Tensor, equation: str = "") -> Step:
    """Return the step of one operator."""
    return write_steps([run(kind, tuple(tensor.number for tensor in inputs), outputs, equation=equation)], inputs)[0]


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((2, 3), "float32", 24),
        ((), "int64", 8),
        ((5,), "bool", 5),
        ((4, 4), "bfloat16", 32),
        ((3,), "int4", 3),
        ((3,), "complex128", 48),
        ((2, None), "float32", 0),
        (None, "float32", 0),
        ((), "resource", 0),
        ((2,), "string", 48),
    ],
)
def test_the_bytes_of_a_tensor(shape: tuple[int | None, ...] | None, dtype: str, expected: int) -> None:
    assert count_tensor_bytes(shape, dtype) == expected


def test_every_dtype_of_tensorflow_has_bytes() -> None:
    public = [*vars(tf.dtypes).values(), *vars(tf.dtypes.experimental).values()]
    dtypes = {kind for kind in public if isinstance(kind, tf.DType)} - {tf.resource, tf.variant, tf.string}
    assert {tf.float32, tf.dtypes.experimental.float8_e5m2} <= dtypes
    sizes = {kind.name: np.dtype(kind.as_numpy_dtype).itemsize for kind in dtypes}
    assert {kind: count_tensor_bytes((3,), kind) for kind in sizes} == {kind: 3 * size for kind, size in sizes.items()}


# Views ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "ReadVariableOp"])
def test_another_name_for_the_same_bytes(kind: str) -> None:
    assert step(kind, [floats(0, *IMAGE)], floats(1, *IMAGE)).aliases == {1: 0}


def test_each_output_of_an_identity_of_many_is_its_own_input() -> None:
    found = step("IdentityN", [floats(0, 2), floats(1, 3)], floats(2, 2), floats(3, 3))
    assert found.aliases == {2: 0, 3: 1}


@pytest.mark.parametrize("kind", ["Cast", "Pad", "Tile", "BroadcastTo", "Slice", "Sum"])
def test_nothing_to_do_is_handed_on(kind: str) -> None:
    assert step(kind, [floats(0, *IMAGE)], floats(1, *IMAGE)).aliases == {1: 0}


def test_a_cast_to_another_dtype_is_a_copy() -> None:
    found = step("Cast", [floats(0, 4)], Tensor(1, (4,), "float16"))
    assert (found.aliases, found.makes, found.reuses) == ({}, ((1, 8),), ())


def test_a_reduction_of_dimensions_of_one_is_handed_on() -> None:
    assert step("Sum", [floats(0, 1, 4, 1)], floats(1, 4)).aliases == {1: 0}
    assert step("Sum", [floats(0, 2, 4)], floats(1, 4)).aliases == {}


def test_a_cut_along_the_first_dimension_is_a_view() -> None:
    axis = Tensor(9, (), "int32")
    whole = floats(0, 8, 16)
    assert step("StridedSlice", [whole], floats(1, 4, 16)).aliases == {1: 0}
    assert step("StridedSlice", [whole], floats(1, 16)).aliases == {1: 0}
    assert step("Unpack", [whole], floats(1, 16), floats(2, 16)).aliases == {1: 0, 2: 0}
    assert step("Split", [axis, whole], floats(1, 4, 16), floats(2, 4, 16)).aliases == {1: 0, 2: 0}


def test_a_cut_along_another_dimension_is_a_copy() -> None:
    axis = Tensor(9, (), "int32")
    found = step("Split", [axis, floats(0, 8, 16)], floats(1, 8, 8), floats(2, 8, 8))
    assert (found.aliases, found.makes) == ({}, ((1, 256), (2, 256)))


def test_a_cut_that_is_not_aligned_is_a_copy() -> None:
    """Rows of 15 floats begin at multiples of 60 bytes, and views at multiples of 64."""
    assert step("StridedSlice", [floats(0, 8, 15)], floats(1, 4, 15)).aliases == {}


def test_a_transposition_of_dimensions_of_one_moves_nothing() -> None:
    assert step("Transpose", [floats(0, 8, 40, 1, 32)], floats(1, 8, 1, 40, 32)).aliases == {1: 0}
    assert step("Transpose", [floats(0, 8, 8, 1)], floats(1, 8, 1, 8)).aliases == {}, "8 and 8 may have changed places"


# In place ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Relu", (0,)),
        ("BiasAdd", (0,)),
        ("Softmax", (0,)),
        ("AddV2", (0, 1)),
        ("ReluGrad", (0, 1)),
        ("AddN", (0, 1, 2)),
        ("SelectV2", (1, 2)),
        ("FusedBatchNormV3", ()),
        ("Conv2D", ()),
        ("Greater", ()),
        ("ConcatV2", ()),
    ],
)
def test_inputs_that_may_be_written_over(kind: str, expected: tuple[int, ...]) -> None:
    inputs = [floats(index, 4, 4) for index in range(3)]
    assert step(kind, inputs, floats(3, 4, 4)).reuses == expected


def test_a_batch_normalisation_fused_into_its_convolution_works_in_place() -> None:
    given = [floats(0, *IMAGE), floats(1, 1, 1, 32, 32), floats(2, 32)]
    norm = run("FusedBatchNormV3", (3, 2, 2, 2, 2), (floats(4, *IMAGE),))
    for kind, expected in (("Conv2D", (3,)), ("DepthwiseConv2dNative", ())):
        assert write_steps([run(kind, (0, 1), (floats(3, *IMAGE),)), norm], given)[1].reuses == expected


def test_a_convolution_block_has_two_images_at_once() -> None:
    """Input and output of the convolution; bias and activation work in place."""
    given = [floats(0, *IMAGE), floats(1, 3, 3, 32, 32), floats(2, 32)]
    operators = [
        run("Conv2D", (0, 1), (floats(3, *IMAGE),)),
        run("BiasAdd", (3, 2), (floats(4, *IMAGE),)),
        run("Relu", (4,), (floats(5, *IMAGE),)),
    ]
    found = live_bytes(write_steps(operators, given), {0: IMAGE_BYTES, 1: 0, 2: 0}, kept=[5])
    assert found == (2 * IMAGE_BYTES, 2 * IMAGE_BYTES, 2 * IMAGE_BYTES)


# Scratch ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Conv2D", "MaxPool", "Conv2DBackpropFilter"])
def test_what_a_kernel_allocates_for_itself_is_no_tensor_of_the_model(kind: str) -> None:
    found = step(kind, [floats(0, 1, 9, 9, 4), floats(1, 3, 3, 4, 8)], floats(2, 1, 9, 9, 8))
    assert found.scratch == 0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((2, 3, 4, 5), (1, 1, 1, 5), 0),  # batch normalisation: the leading dimensions
        ((2, 3, 4, 5), (1, 3, 1, 1), 0),  # and with the channels second: reduced, kept, reduced
        ((2, 3, 4, 5), (2, 1, 4, 1), 480),  # kept, reduced, kept, reduced: a transposed copy
        ((2, 1, 4, 5), (2, 1, 1, 5), 0),
    ],
)
def test_a_reduction_of_scattered_dimensions_transposes(
    before: tuple[int, ...], after: tuple[int, ...], expected: int
) -> None:
    assert step("Mean", [floats(0, *before)], floats(1, *after)).scratch == expected


A_BYTES, B_BYTES, OUT_BYTES = 2 * 3 * 4 * 4, 2 * 5 * 4 * 4, 2 * 3 * 5 * 4


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        ("bik,bjk->bij", 0),  # batch, free, contracted: as the matrix product wants them
        ("bik,bjk->bji", OUT_BYTES),  # the product is made as bij
        ("ibk,bjk->bij", A_BYTES),
        ("ibk,jbk->bij", A_BYTES + B_BYTES),
        ("bki,bkj->bij", 0),  # contracted before free is as good
        ("...ik,...jk->...ij", 0),  # not looked into
        ("", 0),
    ],
)
def test_an_einsum_copies_what_it_transposes(equation: str, expected: int) -> None:
    inputs = [floats(0, 2, 3, 4), floats(1, 2, 5, 4)]
    assert step("Einsum", inputs, floats(2, 2, 3, 5), equation=equation).scratch == expected


# What is held elsewhere --------------------------------------------------------------------------------------------


def test_constants_are_the_graphs() -> None:
    constant = run("Const", (), (floats(0, 10),))
    assert write_steps([constant])[0].makes == ((0, 0),)
    assert count_constant_bytes([constant, run("Fill", (), (floats(1, 10),))]) == 40


def test_what_nobody_makes_is_held_elsewhere() -> None:
    operators = [run("Identity", (7,), (floats(8, 10),)), run("Sin", (8,), (floats(9, 10),))]
    assert live_bytes(write_steps(operators), {}) == (0, 0 + 40)


# Lists of tensors --------------------------------------------------------------------------------------------------


def variant(value: int) -> Tensor:
    return Tensor(value, (), "variant")


def test_a_list_made_from_a_tensor_copies_it() -> None:
    found = step("TensorListFromTensor", [floats(0, 6, 4)], variant(1))
    assert (found.makes, found.aliases) == (((1, 96),), {})


def test_an_element_is_shared_with_its_list() -> None:
    operators = [
        run("TensorListFromTensor", (0,), (variant(1),)),
        run("TensorListGetItem", (1,), (floats(2, 4),), times=6),
    ]
    assert write_steps(operators, [floats(0, 6, 4)])[1].aliases == {2: 1}


def make_loop(*body: Executed) -> tuple[Step, ...]:
    """A list, handed into a loop of ten runs with a state; what the body does."""
    before = [
        run("TensorListReserve", (), (variant(1),)),
        run("Identity", (1,), (variant(2),), silent=True),
        run("Identity", (0,), (floats(3, 4),), silent=True),
    ]
    return write_steps([*before, *body], [floats(0, 4)])


def test_a_list_holds_an_item_of_every_run() -> None:
    found = make_loop(run("Sin", (3,), (floats(4, 4),), 10), run("TensorListSetItem", (2, 9, 4), (variant(5),), 10))
    assert found[-1].makes == ((5, 10 * 16),)


def test_a_list_of_the_states_before_holds_them_all() -> None:
    assert make_loop(run("TensorListPushBack", (2, 3), (variant(5),), 10))[-1].makes == ((5, 10 * 16),)


def test_what_two_lists_hold_is_there_once() -> None:
    found = make_loop(
        run("Sin", (3,), (floats(4, 4),), 10),
        run("TensorListPushBack", (2, 4), (variant(5),), 10),
        run("TensorListPushBack", (5, 4), (variant(6),), 10),
    )
    assert found[-1].makes == ((6, 10 * 16),)


def test_what_comes_from_outside_a_loop_is_not_copied_into_its_list() -> None:
    assert make_loop(run("TensorListPushBack", (2, 0), (variant(5),), 10))[-1].makes == ((5, 0),)
