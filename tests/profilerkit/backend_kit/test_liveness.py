"""Bytes alive while each step runs, worked by hand; and what holds for any program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilerkit.backend_kit.live_bytes import Step, live_bytes

X, A, B, C, D = range(5)


def chain(*sizes: int, reuse: bool = False) -> list[Step]:
    """Each step reads what the one before it made, the first one value 0."""
    return [Step((index,), ((index + 1, size),), reuses=(index,) if reuse else ()) for index, size in enumerate(sizes)]


def test_a_step_needs_the_values_that_it_reads_and_makes() -> None:
    assert live_bytes(chain(10, 20, 30), {X: 1}) == (1 + 10, 1 + 10 + 20, 1 + 20 + 30)


def test_no_steps() -> None:
    assert live_bytes([], {X: 7}) == ()


def test_a_given_value_lives_to_the_end_without_being_read() -> None:
    assert live_bytes(chain(10, 10, 10), {X: 100})[-1] == 100 + 20


def test_a_result_lives_to_the_end() -> None:
    assert live_bytes(chain(10, 20, 30), {X: 0}, kept=[A]) == (10, 30, 10 + 20 + 30)


def test_a_value_that_is_never_read_is_freed_after_its_step() -> None:
    assert live_bytes([Step((X,), ((A, 10), (B, 5))), Step((A,), ((C, 1),))], {X: 0}) == (15, 11)


def test_a_branch_is_kept_for_the_sum() -> None:
    steps = [Step((X,), ((A, 8),)), Step((A,), ((B, 8),)), Step((B,), ((C, 8),)), Step((A, C), ((D, 8),))]
    assert live_bytes(steps, {X: 8}) == (16, 24, 32, 32)


def test_a_value_read_twice_by_a_step_counts_once() -> None:
    assert live_bytes([Step((X,), ((A, 4),)), Step((A, A), ((B, 4),))], {X: 0}) == (4, 8)


def test_scratch_lives_only_during_its_step() -> None:
    assert live_bytes([Step((X,), ((A, 4),), scratch=100), Step((A,), ((B, 4),))], {X: 0}) == (104, 8)


# Views ------------------------------------------------------------------------------------------------------------


def test_a_view_needs_no_bytes_and_keeps_its_buffer() -> None:
    steps = [
        Step((X,), ((A, 10),)),
        Step((A,), ((B, 10),), aliases={B: A}),
        Step((X,), ((C, 1),)),
        Step((B,), ((D, 2),)),
        Step((D,), ()),
    ]
    assert live_bytes(steps, {X: 0}) == (10, 10, 11, 12, 2)


def test_a_view_of_a_view_keeps_the_first_buffer() -> None:
    steps = [Step((X,), ((A, 10),)), Step((A,), ((B, 10),), {B: A}), Step((B,), ((C, 10),), {C: B}), Step((C,), ())]
    assert live_bytes(steps, {X: 0}) == (10, 10, 10, 10)


def test_a_view_of_a_given_value_needs_no_bytes() -> None:
    assert live_bytes([Step((X,), ((A, 6),), {A: X}), Step((A,), ((B, 6),), reuses=(A,))], {X: 6}) == (6, 12)


def test_a_result_that_is_a_view_keeps_its_buffer_to_the_end() -> None:
    steps = [Step((X,), ((A, 10),)), Step((A,), ((B, 2),), {B: A}), Step((X,), ((C, 1),)), Step((C,), ())]
    assert live_bytes(steps, {X: 0}, kept=[B]) == (10, 10, 11, 11)


# In place ---------------------------------------------------------------------------------------------------------


def test_an_output_takes_over_an_input_of_its_size() -> None:
    assert live_bytes(chain(10, 10, 10, reuse=True), {X: 10}) == (20, 20, 20)


def test_an_input_of_another_size_is_not_taken_over() -> None:
    assert live_bytes(chain(10, 5, reuse=True), {X: 0}) == (10, 15)


def test_an_input_that_is_needed_later_is_not_taken_over() -> None:
    steps = [Step((X,), ((A, 8),)), Step((A,), ((B, 8),), reuses=(A,)), Step((A, B), ((C, 8),), reuses=(A, B))]
    assert live_bytes(steps, {X: 0}) == (8, 16, 16)


def test_a_result_is_not_taken_over() -> None:
    assert live_bytes(chain(8, 8, reuse=True), {X: 0}, kept=[A]) == (8, 16)


def test_a_buffer_is_not_taken_over_while_a_view_of_it_is_needed() -> None:
    steps = [
        Step((X,), ((A, 8),)),
        Step((A,), ((B, 8),), {B: A}),
        Step((A,), ((C, 8),), reuses=(A,)),
        Step((B, C), ((D, 8),), reuses=(B, C)),
    ]
    assert live_bytes(steps, {X: 0}) == (8, 8, 16, 16)


def test_two_outputs_do_not_share_one_buffer() -> None:
    assert live_bytes([Step((X,), ((A, 8),)), Step((A,), ((B, 8), (C, 8)), reuses=(A,))], {X: 0}) == (8, 16)


def test_two_outputs_take_over_two_buffers_of_one_size() -> None:
    """Two values of 8 bytes become two others in their places: never more than 16. A third output has 8 of its own."""
    steps = [Step((X,), ((A, 8), (B, 8))), Step((A, B), ((C, 8), (D, 8)), reuses=(A, B))]
    assert live_bytes(steps, {X: 0}) == (16, 16)
    steps[1] = Step((A, B), ((C, 8), (D, 8), (D + 1, 8)), reuses=(A, B))
    assert live_bytes(steps, {X: 0}) == (16, 24)


def test_a_value_written_into_a_slice_keeps_the_whole_buffer() -> None:
    steps = [
        Step((X,), ((A, 10),)),
        Step((A,), ((B, 4),), {B: A}),
        Step((B,), ((C, 4),), reuses=(B,)),
        Step((C,), ((D, 4),)),
        Step((D,), ()),
    ]
    assert live_bytes(steps, {X: 0}) == (10, 10, 10, 14, 4)


# Loops ------------------------------------------------------------------------------------------------------------


def test_a_value_that_a_loop_reads_lives_until_the_loop_ends() -> None:
    """Value A is read by the first step of the loop, and again when that runs again."""
    steps = [Step((X,), ((A, 100),)), Step((A,), ((B, 10),)), Step((B,), ((C, 1),)), Step((C,), ((D, 1),))]
    assert live_bytes(steps, {X: 0}) == (100, 110, 11, 2)
    assert live_bytes(steps, {X: 0}, spans=[(1, 3)]) == (100, 110, 111, 2)


def test_a_value_that_a_loop_views_lives_until_the_loop_ends() -> None:
    """The next run of the loop makes the view of A again, also where it reads nothing of A."""
    steps = [Step((X,), ((A, 100),)), Step((), ((B, 100),), {B: A}), Step((X,), ((C, 1),)), Step((X,), ())]
    assert live_bytes(steps, {X: 0}, spans=[(1, 3)]) == (100, 100, 101, 0)


def test_a_value_made_in_a_loop_is_freed_after_its_last_use() -> None:
    steps = [Step((X,), ((A, 100),)), Step((A,), ((B, 10),)), Step((B,), ((C, 1),))]
    assert live_bytes(steps, {X: 0}, spans=[(0, 3)]) == (100, 110, 11)


def test_a_loop_does_not_write_over_what_its_next_run_reads() -> None:
    steps = [Step((X,), ((A, 8),)), Step((A,), ((B, 8),), reuses=(A,))]
    assert live_bytes(steps, {X: 0}) == (8, 8)
    assert live_bytes([*steps, Step((B,), ())], {X: 0}, spans=[(1, 3)]) == (8, 16, 16)


def test_a_loop_in_a_loop() -> None:
    """A comes from outside both and lives to the end of the outer one; B from between, and lives to the inner's."""
    steps = [
        Step((X,), ((A, 1000),)),
        Step((X,), ((B, 100),)),
        Step((A, B), ((C, 10),)),
        Step((C,), ((D, 1),)),
        Step((X,), ()),
        Step((X,), ()),
    ]
    assert live_bytes(steps, {X: 0}, spans=[(2, 4), (1, 5)]) == (1000, 1100, 1110, 1111, 1000, 0)


def test_disjoint_loops() -> None:
    steps = [Step((X,), ((A, 8),)), Step((A,), ()), Step((X,), ()), Step((A,), ()), Step((X,), ()), Step((X,), ())]
    assert live_bytes(steps, {X: 0}, spans=[(1, 3), (3, 5)]) == (8, 8, 8, 8, 8, 0)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_empty_loop_changes_nothing(at: int) -> None:
    assert live_bytes(chain(10, 20), {X: 0}, spans=[(at, at)]) == (10, 30)


# What cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [Step((A,)), Step((), ((B, 1),), {B: A})])
def test_a_value_that_no_step_makes(step: Step) -> None:
    with pytest.raises(ValueError, match="step 0 needs value 1, .*; add it to input_sizes, or put the step"):
        live_bytes([step], {X: 0})


@pytest.mark.parametrize("spans", [[(-1, 1)], [(0, 3)], [(2, 1)], [(99, 99)], [(-1, -1)], [(0, 2), (1, 3)]])
def test_a_span_outside_its_surroundings(spans: list[tuple[int, int]]) -> None:
    steps = chain(1, 1, 1) if len(spans) == 2 else chain(1, 1)
    with pytest.raises(ValueError, match="is not within its surroundings of .* steps; give spans within the steps"):
        live_bytes(steps, {X: 0}, spans=spans)


# What holds for any program ----------------------------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Steps that read a few of the values before them, value 0 being given."""
    steps, made = [], 1
    for _ in range(draw(st.integers(1, 12))):
        reads = tuple(draw(st.lists(st.integers(0, made - 1), min_size=1, max_size=3)))
        sizes = draw(st.lists(st.integers(0, 4), min_size=0, max_size=2))
        makes = tuple((made + index, size) for index, size in enumerate(sizes))
        aliases = {value: reads[0] for value, _ in makes[:1]} if draw(st.booleans()) else {}
        reuses = reads if draw(st.booleans()) else ()
        steps.append(Step(reads, makes, aliases, reuses, draw(st.integers(0, 2))))
        made += len(makes)
    return steps


def made_bytes(step: Step) -> int:
    """Bytes of the buffers that a step may have to allocate."""
    return sum(size for value, size in step.makes if value not in step.aliases)


@given(programs(), st.integers(0, 9))
def test_the_peak_lies_between_the_largest_step_and_everything(steps: list[Step], given_bytes: int) -> None:
    plain = [replace(step, reuses=()) for step in steps]
    totals = live_bytes(plain, {0: given_bytes})
    assert all(
        alive >= given_bytes + made_bytes(step) + step.scratch for alive, step in zip(totals, plain, strict=True)
    )
    assert max(totals) <= given_bytes + sum(map(made_bytes, plain)) + max(step.scratch for step in plain)


@given(programs())
def test_working_in_place_never_takes_more(steps: list[Step]) -> None:
    """Slices apart: what is written into one keeps the whole buffer."""
    whole = [replace(step, aliases={}) for step in steps]
    plain = live_bytes([replace(step, reuses=()) for step in whole], {0: 3})
    assert all(less <= more for less, more in zip(live_bytes(whole, {0: 3}), plain, strict=True))


@given(programs())
def test_sharing_bytes_never_takes_more_when_everything_is_kept(steps: list[Step]) -> None:
    """A view may keep a large buffer longer than a small copy would; where all is kept, that makes no difference."""
    everything = [value for step in steps for value, _ in step.makes]
    copied = live_bytes([replace(step, aliases={}) for step in steps], {0: 3}, kept=everything)
    shared = live_bytes(steps, {0: 3}, kept=everything)
    assert all(less <= more for less, more in zip(shared, copied, strict=True))


@given(programs(), st.integers(0, 11), st.integers(0, 12))
def test_a_loop_never_takes_less(steps: list[Step], start: int, length: int) -> None:
    plain = [replace(step, reuses=()) for step in steps]
    span = (min(start, len(steps)), min(start + length, len(steps)))
    once = live_bytes(plain, {0: 3})
    assert all(more >= less for more, less in zip(live_bytes(plain, {0: 3}, spans=[span]), once, strict=True))


@given(programs())
def test_keeping_results_never_takes_less(steps: list[Step]) -> None:
    plain = [replace(step, reuses=()) for step in steps]
    everything = [value for step in steps for value, _ in step.makes]
    totals = live_bytes(plain, {0: 3}, kept=everything)
    assert all(more >= less for more, less in zip(totals, live_bytes(plain, {0: 3}), strict=True))
    made = 3
    for alive, step in zip(totals, plain, strict=True):
        made += made_bytes(step)
        assert alive == made + step.scratch


@given(programs())
def test_it_equals_a_count_of_each_value_step_by_step(steps: list[Step]) -> None:
    """Against the definition, without reuse: at each step the buffers that it or a later one names, since made."""
    plain = [replace(step, reuses=()) for step in steps]
    assert live_bytes(plain, {0: 3}) == tuple(by_definition(plain, 3))


def by_definition(steps: list[Step], given_bytes: int) -> list[int]:
    buffer = {0: 0}
    sizes = {}
    named: list[set[int]] = []
    for step in steps:
        for value, size in step.makes:
            buffer[value] = buffer[step.aliases[value]] if value in step.aliases else value
            if value not in step.aliases:
                sizes[value] = size
        named.append({buffer[value] for value in (*step.reads, *(value for value, _ in step.makes))})
    totals = []
    for index, step in enumerate(steps):
        before = {buffer[value] for earlier in steps[: index + 1] for value, _ in earlier.makes}
        needed = set().union(*named[index:])
        totals.append(given_bytes + sum(sizes.get(name, 0) for name in before & needed) + step.scratch)
    return totals
