"""Arrays, buffers and generators of random numbers get back what they held."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from time_limits import run_python

from profilerkit.process.inner_states import list_state_kinds, note_inner_state

MIB = 2**20


class FixedBytes(bytearray):
    """Refuses to be changed by its own methods."""

    def __setitem__(self, *arguments: Any) -> None:
        raise TypeError

    def __getitem__(self, *arguments: Any) -> Any:
        raise TypeError


def _scale(numbers: Any) -> None:
    numbers *= 2


def _grow(numbers: Any) -> None:
    numbers.resize(6, refcheck=False)
    numbers[:] = 7


def _fix(numbers: Any) -> None:
    numbers[0] = 7
    numbers.setflags(write=False)


def _fill(numbers: Any) -> None:
    numbers[...] = 7


@pytest.mark.parametrize("change", [_scale, _grow, _fix])
def test_an_array_gets_its_numbers_and_its_shape(change: Callable[[Any], None]) -> None:
    numbers = np.array([1.0, np.nan, 3.0])
    restore: Any = note_inner_state(numbers)
    change(numbers)
    restore()
    np.testing.assert_array_equal(numbers, [1, np.nan, 3])
    numbers[0] = 5  # it can be written to, as before


@pytest.mark.parametrize(
    "numbers",
    [
        np.array(4.0),
        np.arange(6.0)[::2],
        np.arange(6).reshape(2, 3).T,
        np.array(["a", "b"]),
        np.array([(1, 2.0)], dtype=[("x", "i4"), ("y", "f8")]).view(np.recarray),
    ],
)
def test_arrays_of_every_kind(numbers: Any) -> None:
    before = numbers.tolist()
    restore: Any = note_inner_state(numbers)
    _fill(numbers)
    assert numbers.tolist() != before
    restore()
    assert numbers.tolist() == before


def test_the_data_of_a_masked_array_come_back_under_the_mask_too() -> None:
    numbers = np.ma.masked_array([1.0, 2.0], [True, False])
    restore: Any = note_inner_state(numbers)
    numbers.data[:] = 7
    restore()
    assert numbers.data.tolist() == [1, 2]
    assert numbers.mask.tolist() == [True, False]


def test_an_array_of_objects_gets_the_same_objects() -> None:
    held = [object(), object()]
    objects = np.array(held)
    restore: Any = note_inner_state(objects)
    objects[0] = None
    restore()
    assert [*objects] == held


@pytest.mark.parametrize("kind", [bytearray, FixedBytes])
def test_a_buffer_of_bytes(kind: type[bytearray]) -> None:
    for change in (lambda text: text.extend(b"d"), bytearray.clear, bytearray.reverse):
        text = kind(b"abc")
        restore: Any = note_inner_state(text)
        change(text)
        restore()
        assert text == b"abc"


def test_an_array_of_pythons() -> None:
    numbers = array("d", [1, 2])
    restore: Any = note_inner_state(numbers)
    numbers.pop()
    numbers[0] = 5
    restore()
    assert numbers.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (random.Random(1), lambda generator: generator.gauss(0, 1)),
        (np.random.default_rng(1), lambda generator: generator.random()),
        (np.random.RandomState(1), lambda generator: generator.normal()),
        (np.random.PCG64(1), lambda generator: int(generator.random_raw())),
    ],
)
def test_a_generator_gives_the_same_numbers_again(generator: Any, draw: Callable[[Any], float]) -> None:
    restore: Any = note_inner_state(generator)
    drawn = [draw(generator) for _ in range(3)]
    restore()
    assert [draw(generator) for _ in range(3)] == drawn


@pytest.mark.parametrize("make", [np.zeros, bytearray, lambda length: array("b", bytes(length))])
@pytest.mark.parametrize(("length", "is_noted"), [(MIB // 8, True), (8 * MIB + 8, False)])
def test_nothing_larger_than_a_mebibyte_is_copied(make: Any, length: int, is_noted: bool) -> None:
    assert (note_inner_state(make(length)) is not None) is is_noted


def test_an_array_that_cannot_be_written_to_is_left_alone() -> None:
    assert note_inner_state(np.broadcast_to(np.zeros(1), (3,))) is None


@pytest.mark.parametrize("value", [1, "a", b"a", [np.zeros(1)], np.float32(1), object(), None])
def test_other_values_have_no_inner_state(value: Any) -> None:
    assert not isinstance(value, list_state_kinds())
    assert note_inner_state(value) is None


def test_numpy_is_not_imported() -> None:
    code = """
import sys
sys.modules.pop("numpy", None)
from profilerkit.process.inner_states import note_inner_state
text = bytearray(b"a")
restore = note_inner_state(text)
text += b"b"
restore()
print(text, note_inner_state([]), "numpy" in sys.modules)
"""
    assert run_python(code).stdout.strip() == "bytearray(b'a') None False"


def test_a_generator_without_a_state_is_left() -> None:
    assert note_inner_state(random.SystemRandom()) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.PCG64, np.random.Philox])
def test_the_old_generator_of_numpy_gets_its_state_whatever_its_bits_are(bits: Callable[[int], Any]) -> None:
    generator = np.random.RandomState(bits(3))
    generator.standard_normal()  # the second number of a pair is kept
    restore: Any = note_inner_state(generator)
    expected = generator.standard_normal(4)
    restore()
    np.testing.assert_array_equal(generator.standard_normal(4), expected)
