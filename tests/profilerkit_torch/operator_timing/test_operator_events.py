"""From a stream of profiler events made by hand to the seconds of each operator: exact arithmetic."""

from profilerkit.times.operator_times import CalledOperator, OperatorTime, OperatorTimes
from profilerkit_torch.operator_timing.events import Event, EventKind, Kernel
from profilerkit_torch.operator_timing.ledger import OperatorLedger

FREE = frozenset({"aten::view", "aten::t"})


def make_range(kind: EventKind, name: str, start: float, end: float, thread: int = 1) -> Event:
    return Event(kind, name, thread, start, end)


def op(name: str, start: float, end: float, number: int = -1, thread: int = 1, **kernels: float) -> Event:
    started = tuple(Kernel(kernel, seconds) for kernel, seconds in kernels.items())
    return Event(EventKind.OPERATOR, name, thread, start, end, number, thread, started)


def node(name: str, start: float, end: float, number: int, thread: int = 1) -> Event:
    return Event(EventKind.NODE, name, thread, start, end, number, 1)


def add_up(phase: str, *passes: list[Event], on_device: bool = False) -> OperatorTimes:
    ledger = OperatorLedger(phase, on_device, FREE.__contains__)
    for events in passes:
        ledger.add(events)
    return ledger.times()


def rows(times: OperatorTimes) -> dict[tuple[str, str], OperatorTime]:
    return {(one_op.operator, one_op.layer): one_op for one_op in times.operators}


def kernels(row: OperatorTime) -> dict[str, tuple[int, tuple[float, ...]]]:
    return {kernel.name: (kernel.calls, kernel.seconds) for kernel in row.kernels}


FORWARD = [
    make_range(EventKind.PASS, "pass", 0, 100),
    make_range(EventKind.LAYER, "", 10, 90),
    make_range(EventKind.LAYER, "fc", 20, 60),
    op("aten::linear", 22, 52, number=5),
    op("aten::t", 24, 28, number=5),
    op("aten::addmm", 30, 50, number=6),
    op("aten::relu", 65, 75, number=7),
    op("aten::to", 95, 98),  # nobody's: outside of the model
]


def test_seconds_are_those_of_an_operator_with_what_it_called() -> None:
    times = add_up("forward", FORWARD)
    found = rows(times)
    assert {key: row.seconds for key, row in found.items()} == {
        ("aten::linear", "fc"): (30,),
        ("aten::relu", ""): (10,),
    }
    linear = found["aten::linear", "fc"]
    assert kernels(linear) == {"aten::linear": (1, (6,)), "aten::t": (1, (4,)), "aten::addmm": (1, (20,))}
    inside = (CalledOperator("aten::t", is_free=True), CalledOperator("aten::addmm"))
    assert [item for _, item in linear.called or ()] == [CalledOperator("aten::linear", inside)]
    assert times.whole == {"forward": (100,)}
    assert times.layers == {"forward": frozenset({"", "fc"})}


STEP = [
    *(event._replace(end=400) if event.kind is EventKind.PASS else event for event in FORWARD),
    node("ReluBackward0", 200, 230, number=7),  # the engine's work around it
    node("ReluBackward0", 205, 225, number=7),
    op("aten::threshold_backward", 210, 220),
    node("AddmmBackward0", 240, 300, number=6),
    node("AddmmBackward0", 242, 280, number=6),
    op("aten::mm", 245, 255),
    op("aten::mm", 260, 275),
    op("aten::sum", 282, 290),  # the engine's: a gradient is brought to its shape
    node("torch::autograd::AccumulateGrad", 305, 315, number=-1),
    node("torch::autograd::AccumulateGrad", 306, 314, number=-1),
    op("aten::add_", 308, 313),
]


def test_a_node_belongs_where_the_operator_ran_that_made_it() -> None:
    times = add_up("backward", STEP)
    assert {key: row.seconds[0] for key, row in rows(times).items()} == {
        ("ReluBackward0", ""): 20,
        ("aten::threshold_backward", ""): 10,
        ("AddmmBackward0", "fc"): 60 - 10 - 15 - 8,
        ("aten::mm", "fc"): 25,
        ("aten::sum", "fc"): 8,
        ("torch::autograd::AccumulateGrad", "fc"): 5,
        ("aten::add_", "fc"): 5,
    }
    assert times.whole == {"backward": (115,)}  # from the first node to the last
    found = rows(times)
    assert found["aten::mm", "fc"].calls == 2
    assert found["AddmmBackward0", "fc"].calls == 1
    assert kernels(found["AddmmBackward0", "fc"]) == {"AddmmBackward0": (1, (27,))}


def test_the_way_forward_of_a_step_is_left_out_backward_and_the_other_way_round() -> None:
    assert ("aten::linear", "fc") not in rows(add_up("backward", STEP))
    assert rows(add_up("forward", STEP)).keys() == rows(add_up("forward", FORWARD)).keys()


def test_a_node_made_after_the_operator_began_is_still_its() -> None:
    """An operator can make several nodes: the second has a number under which no operator began."""
    events = [
        make_range(EventKind.PASS, "pass", 0, 100),
        make_range(EventKind.LAYER, "", 1, 50),
        make_range(EventKind.LAYER, "a", 2, 20),
        op("aten::copy_", 3, 10, number=40),
        make_range(EventKind.LAYER, "b", 21, 40),
        op("aten::relu", 22, 30, number=42),
        node("CopySlices", 60, 70, number=41),
    ]
    assert rows(add_up("backward", events)).keys() == {("CopySlices", "a")}


def test_an_operator_that_makes_no_node_does_not_take_the_next_ones() -> None:
    events = [
        make_range(EventKind.PASS, "pass", 0, 100),
        make_range(EventKind.LAYER, "", 1, 50),
        op("aten::size", 2, 3, number=40),
        make_range(EventKind.LAYER, "b", 21, 40),
        op("aten::relu", 22, 30, number=40),
        node("ReluBackward0", 60, 70, number=40),
    ]
    assert rows(add_up("backward", events)).keys() == {("ReluBackward0", "b")}


def test_layers_that_a_checkpoint_runs_again_keep_their_time_backward() -> None:
    events = [
        make_range(EventKind.PASS, "pass", 0, 200),
        make_range(EventKind.LAYER, "", 1, 50),
        op("CheckpointFunction", 2, 40, number=3),
        make_range(EventKind.LAYER, "block", 5, 30),
        op("aten::relu", 6, 20),
        node("CheckpointFunctionBackward", 100, 160, number=3),
        make_range(EventKind.LAYER, "block", 105, 130),
        op("aten::relu", 106, 120, number=9),
        node("ReluBackward0", 140, 150, number=9),
    ]
    backward = {key: row.seconds[0] for key, row in rows(add_up("backward", events)).items()}
    assert backward == {
        ("CheckpointFunctionBackward", ""): 60 - 25 - 10,
        ("aten::relu", "block"): 14,
        ("ReluBackward0", "block"): 10,
    }
    forward = {key: row.seconds[0] for key, row in rows(add_up("forward", events)).items()}
    assert forward == {("CheckpointFunction", ""): 38 - 25, ("aten::relu", "block"): 14}


def test_ranges_of_the_users_change_nothing() -> None:
    """The linear layer takes 50 - 20 = 30 seconds, 10 of them for the product that it calls, with or without ranges."""
    events = [
        make_range(EventKind.PASS, "pass", 0, 100),
        make_range(EventKind.LAYER, "", 10, 90),
        make_range(EventKind.RANGE, "mine", 12, 60),
        op("aten::linear", 20, 50),
        make_range(EventKind.RANGE, "theirs", 25, 45),
        op("aten::addmm", 30, 40),
    ]
    (row,) = add_up("forward", events).operators
    assert (row.operator, row.seconds, row.calls) == ("aten::linear", (30,), 1)
    assert kernels(row) == {"aten::linear": (1, (20,)), "aten::addmm": (1, (10,))}
    without_ranges = [event for event in events if event.kind is not EventKind.RANGE]
    assert add_up("forward", without_ranges).operators[0].seconds == row.seconds
    assert [item for _, item in row.called or ()] == [CalledOperator("aten::linear", (CalledOperator("aten::addmm"),))]


def test_on_a_device_the_seconds_are_those_of_the_kernels() -> None:
    events = [
        make_range(EventKind.PASS, "pass", 0, 100),
        make_range(EventKind.LAYER, "", 10, 90),
        op("aten::linear", 20, 50),
        op("aten::addmm", 22, 30, gemm=7.0, bias=0.5),
        op("aten::view", 60, 65),
    ]
    found = rows(add_up("forward", events, on_device=True))
    assert found["aten::linear", ""].seconds == (7.5,)
    assert kernels(found["aten::linear", ""]) == {"gemm": (1, (7.0,)), "bias": (1, (0.5,))}
    assert (found["aten::view", ""].seconds, found["aten::view", ""].calls) == ((0.0,), 1)


def test_a_kernel_that_a_node_itself_starts_on_a_device_is_one_call_of_it() -> None:
    inner = node("FlashBackward", 52, 68, number=4)._replace(kernels=(Kernel("flash", 0.25),))
    events = [
        make_range(EventKind.PASS, "pass", 0, 100),
        make_range(EventKind.LAYER, "fc", 10, 40),
        op("FlashForward", 20, 30, number=4),
        node("FlashBackward", 50, 70, number=4),  # the engine's work around the node
        inner,
    ]
    row = rows(add_up("backward", events, on_device=True))["FlashBackward", "fc"]
    assert (row.calls, row.seconds, kernels(row)) == (1, (0.25,), {"flash": (1, (0.25,))})
    # The host takes 20 seconds, 16 of them for the node in the engine's work: one call of both together.
    on_host = rows(add_up("backward", events))["FlashBackward", "fc"]
    assert (on_host.calls, kernels(on_host)) == (1, {"FlashBackward": (1, (20.0,))})


def test_nodes_that_run_in_another_thread_find_their_layers() -> None:
    events = [
        make_range(EventKind.PASS, "pass", 0, 100),
        make_range(EventKind.LAYER, "fc", 10, 40),
        op("aten::mm", 20, 30, number=4),
        node("MmBackward0", 50, 70, number=4, thread=2),
        op("aten::mm", 52, 60, thread=2),
        node("torch::autograd::AccumulateGrad", 71, 75, number=-1, thread=2),
    ]
    assert {key: row.seconds[0] for key, row in rows(add_up("backward", events)).items()} == {
        ("MmBackward0", "fc"): 12,
        ("aten::mm", "fc"): 8,
        ("torch::autograd::AccumulateGrad", "fc"): 4,
    }


def test_passes_are_told_apart_and_what_one_lacks_is_zero_there() -> None:
    def one(start: float, *events: Event) -> list[Event]:
        return [
            make_range(EventKind.PASS, "pass", start, start + 50),
            make_range(EventKind.LAYER, "", start, start + 40),
            *events,
        ]

    both = [
        *one(0, op("aten::mm", 1, 5)),
        op("aten::mm", 60, 69),
        *one(100, op("aten::mm", 101, 103), op("aten::relu", 110, 111)),
    ]
    times = add_up("forward", both, one(200, op("aten::mm", 201, 202), op("aten::mm", 203, 204)))
    found = rows(times)
    assert found["aten::mm", ""].seconds == (4, 2, 2)
    assert found["aten::relu", ""].seconds == (0, 1, 0)
    assert (found["aten::mm", ""].calls, found["aten::relu", ""].calls) == (2, 0)  # of the last pass
    assert times.whole == {"forward": (50, 50, 50)}
